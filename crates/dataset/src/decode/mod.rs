//! Turns stored chunks into the bytes of a field.

use crate::DecodeError;
use crate::index::ChunkLayout;

/// Memory that decoding reuses from chunk to chunk.
#[derive(Debug, Default)]
pub struct Scratch {
    // private
}

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
    /// Writes the fill value over the whole field. Needed only where a chunk may be absent.
    pub fn fill(&self, out: &mut [u8]) -> Result<(), DecodeError> {
        todo!()
    }

    /// Undoes the filters of one stored chunk and copies the part that the field holds into `out`.
    /// `out` is the whole field, row-major.
    pub fn place(
        &self,
        grid_index: u64,
        filter_mask: u32,
        stored: &[u8],
        scratch: &mut Scratch,
        out: &mut [u8],
    ) -> Result<(), DecodeError> {
        todo!()
    }
}
