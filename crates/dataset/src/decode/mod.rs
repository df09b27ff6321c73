//! Turns stored chunks into the bytes of a field.
//!
//! A field that lies in a chunked array is assembled chunk by chunk: [`Rows::place`] undoes the
//! filters of one stored chunk and copies what the field holds of it. Where chunks are absent from
//! the file ([`Rows::chunk_count`] says how many there could be), [`Rows::fill`] goes first.

mod bits;
mod bitshuffle;
mod blosc;
mod blosclz;
mod copy;
mod filters;
mod fletcher;
mod inflate;
mod lzf;
mod member;
mod nbit;
mod padding;
mod scale_offset;
mod shuffle;
mod stages;
mod szip;

use crate::DecodeError;
use crate::index::ChunkLayout;
use crate::index::check::{Grid, elements};
use copy::Overlap;
pub use filters::Scratch;
use filters::{Decoded, Pipeline};
pub use padding::spaces_to_zeros;

/// The rows of a chunked array that one field holds.
#[derive(Clone, Copy, Debug)]
pub struct Rows<'a> {
    /// How the array is stored.
    pub layout: &'a ChunkLayout,
    /// Bytes of one element.
    pub element_size: u16,
    /// First row along axis 0.
    pub first_row: u64,
    /// Rows along axis 0.
    pub rows: u64,
}

impl Rows<'_> {
    /// Bytes of the whole field.
    ///
    /// # Errors
    /// [`DecodeError::Layout`] if the rows lie outside the array or overflow.
    pub fn decoded_len(&self) -> Result<u64, DecodeError> {
        let array = &self.layout.array_shape;
        let inside = self.first_row.checked_add(self.rows);
        if inside.is_none_or(|end| array.first().is_none_or(|rows| end > *rows)) {
            return Err(DecodeError::Layout(format!(
                "rows {} + {} lie outside shape {array:?}",
                self.first_row, self.rows
            )));
        }
        let shape = std::iter::once(self.rows).chain(array.iter().skip(1).copied());
        elements(shape)
            .and_then(|count| count.checked_mul(self.element_size.into()))
            .ok_or_else(|| DecodeError::Layout(format!("shape {array:?} overflows")))
    }

    /// How many chunks of the grid hold some of these rows. If fewer are stored, the others read
    /// as the fill value.
    ///
    /// # Errors
    /// [`DecodeError::Layout`] if the layout contradicts itself.
    pub fn chunk_count(&self) -> Result<u64, DecodeError> {
        let grid = Grid::of(self.layout).map_err(DecodeError::Layout)?;
        if self.decoded_len()? == 0 {
            return Ok(0);
        }
        let chunk_rows = self.layout.chunk_shape[0];
        let along = (self.first_row + self.rows).div_ceil(chunk_rows) - self.first_row / chunk_rows;
        // No more than the whole grid, which fits.
        Ok(along * grid.chunks_per_row)
    }

    /// Writes the fill value over the whole field. Needed only where a chunk may be absent.
    ///
    /// # Errors
    /// [`DecodeError::Length`] if `out` is not the whole field, [`DecodeError::Layout`] if the
    /// fill value is not one element.
    pub fn fill(&self, out: &mut [u8]) -> Result<(), DecodeError> {
        self.check_out(out)?;
        let value = &self.layout.fill_value;
        if value.iter().all(|byte| *byte == 0) {
            out.fill(0);
            return Ok(());
        }
        if value.len() != usize::from(self.element_size) {
            return Err(DecodeError::Layout(format!(
                "fill value has {} bytes, an element {}",
                value.len(),
                self.element_size
            )));
        }
        for element in out.chunks_exact_mut(value.len()) {
            element.copy_from_slice(value);
        }
        Ok(())
    }

    /// Undoes the filters of one stored chunk and copies the part that the field holds into `out`.
    /// `out` is the whole field, row-major.
    ///
    /// # Errors
    /// [`DecodeError::Damaged`] if the stored bytes do not decode to exactly one chunk; `out` then
    /// holds nothing to rely on. [`DecodeError::Length`] and [`DecodeError::Layout`] for a caller's
    /// mistake.
    pub fn place(
        &self,
        grid_index: u64,
        filter_mask: u32,
        stored: &[u8],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        self.check_out(out)?;
        let grid = Grid::of(self.layout).map_err(DecodeError::Layout)?;
        let chunk_bytes = grid
            .chunk_bytes(self.element_size)
            .ok_or_else(|| DecodeError::Layout("one chunk is over 4 GiB".to_owned()))?;
        if grid_index >= grid.chunks {
            return Err(DecodeError::Layout(format!(
                "no chunk {grid_index}: the grid has {}",
                grid.chunks
            )));
        }
        let pipeline = Pipeline::new(self.layout, self.element_size, filter_mask, chunk_bytes)?;
        let overlap = Overlap::of(self, grid_index);
        // Decoding straight into the field saves a copy and a buffer.
        let whole = overlap.and_then(|overlap| overlap.whole_chunk(self.element_size));
        let target = whole.and_then(|range| out.get_mut(range));
        let chunk = match pipeline.undo(stored, target, scratch)? {
            Decoded::InTarget => return Ok(()),
            Decoded::At(chunk) => chunk,
        };
        if let Some(overlap) = overlap {
            overlap.copy(chunk, self.element_size.into(), out);
        }
        Ok(())
    }

    fn check_out(&self, out: &[u8]) -> Result<(), DecodeError> {
        let wanted = usize::try_from(self.decoded_len()?).unwrap_or(usize::MAX);
        if out.len() == wanted {
            Ok(())
        } else {
            Err(DecodeError::Length {
                found: out.len(),
                wanted,
            })
        }
    }
}

#[cfg(test)]
mod tests;
