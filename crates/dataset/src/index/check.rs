//! Rules that the builder and the reader hold alike.
//!
//! A rule answers with the fault in words; the caller says whose fault it is.

use super::{ChunkLayout, Filter};

/// Bytes of a path, a root or a name.
pub(super) const MAX_TEXT: usize = 4096;
/// Fields of a sample.
pub(super) const MAX_FIELDS: u32 = 65_536;
/// Layouts of an index: opening looks at the length of each.
pub(super) const MAX_LAYOUTS: u32 = 1 << 20;
/// Segments of a shard, so that finding one stays a short search.
pub(super) const MAX_SHARD_SEGMENTS: u32 = 65_536;
/// Keys with one 64-bit hash, so that a look-up ends. Chance does not make two.
pub(super) const MAX_EQUAL_HASHES: usize = 64;

/// What is wrong with a segment's path, if anything: a reader must never be led out of the root.
pub(super) fn path_fault(path: &str) -> Option<&'static str> {
    if path.is_empty() {
        Some("it is empty")
    } else if path.len() > MAX_TEXT {
        Some("it is longer than 4096 bytes")
    } else if path.contains('\0') {
        Some("it contains a zero byte")
    } else if path.starts_with('/') {
        Some("it is absolute: give it relative to the root")
    } else if path.split('/').any(|part| part == "..") {
        Some("it contains `..`")
    } else if path.split('/').any(|part| part.is_empty() || part == ".") {
        Some("it has an empty or `.` component")
    } else {
        None
    }
}

/// What is wrong with a key, a field's name or a root, if anything.
pub(super) fn text_fault(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        Some("it is empty")
    } else if text.len() > MAX_TEXT {
        Some("it is longer than 4096 bytes")
    } else if text.contains('\0') {
        Some("it contains a zero byte")
    } else {
        None
    }
}

/// Elements of an array, or `None` past 64 bits.
pub(crate) fn elements(mut shape: impl Iterator<Item = u64> + Clone) -> Option<u64> {
    if shape.clone().any(|dim| dim == 0) {
        return Some(0);
    }
    shape.try_fold(1u64, u64::checked_mul)
}

/// The grid of chunks of a checked layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grid {
    /// Chunks in the whole array.
    pub(crate) chunks: u64,
    /// Chunks with one position along axis 0.
    pub(crate) chunks_per_row: u64,
    /// Elements of one chunk.
    pub(crate) chunk_elements: u32,
}

impl Grid {
    /// Checks every rule of a layout.
    pub(crate) fn of(layout: &ChunkLayout) -> Result<Self, String> {
        let (array, chunk) = (&layout.array_shape, &layout.chunk_shape);
        if array.is_empty() || array.len() > ChunkLayout::MAX_RANK {
            return Err(format!("rank {} is not between 1 and 32", array.len()));
        }
        if array.len() != chunk.len() {
            return Err(format!(
                "array has rank {}, its chunks have rank {}",
                array.len(),
                chunk.len()
            ));
        }
        if chunk.contains(&0) {
            return Err(format!("chunk shape {chunk:?} has a zero"));
        }
        let chunk_elements = elements(chunk.iter().copied())
            .and_then(|n| u32::try_from(n).ok())
            .ok_or_else(|| format!("chunk shape {chunk:?} is over 4 GiB"))?;
        if layout.filters.len() > ChunkLayout::MAX_FILTERS {
            return Err(format!("{} filters, over 32", layout.filters.len()));
        }
        if let Some(fault) = layout.filters.iter().find_map(Filter::fault) {
            return Err(fault);
        }
        check_elements(layout)?;
        if layout.fill_value.len() > usize::from(u16::MAX) {
            return Err(format!("fill value has {} bytes", layout.fill_value.len()));
        }
        let mut per_axis = array.iter().zip(chunk).map(|(a, c)| a.div_ceil(*c));
        let along_rows = per_axis.next().unwrap_or(0);
        let wide = || format!("array shape {array:?} has too many chunks");
        let chunks_per_row = per_axis.try_fold(1, u64::checked_mul).ok_or_else(wide)?;
        let chunks = along_rows.checked_mul(chunks_per_row).ok_or_else(wide)?;
        Ok(Self {
            chunks,
            chunks_per_row,
            chunk_elements,
        })
    }

    /// Bytes of one decoded chunk, or `None` past what HDF5 itself allows.
    pub(crate) fn chunk_bytes(&self, element_size: u16) -> Option<u32> {
        self.chunk_elements.checked_mul(element_size.into())
    }
}

/// Padding is taken off last, and before that the member of a compound type is taken, from elements
/// that lie in a chunk as a whole.
fn check_elements(layout: &ChunkLayout) -> Result<(), String> {
    let padded = layout.filters.first() == Some(&Filter::SpacePadded);
    for (nth, filter) in layout.filters.iter().enumerate() {
        let fits = match filter {
            Filter::SpacePadded => nth == 0,
            Filter::Member(member) => {
                let inner = layout.array_shape.len().checked_sub(member.axes.into());
                let whole =
                    inner.is_some_and(|at| layout.array_shape[at..] == layout.chunk_shape[at..]);
                nth == usize::from(padded) && whole
            }
            _ => true,
        };
        if !fits {
            return Err(format!("the filter {filter:?} cannot be number {nth} here"));
        }
    }
    Ok(())
}

/// Rows of a chunked array that a field of this shape holds.
pub(super) fn rows_of(
    shape: impl ExactSizeIterator<Item = u64>,
    layout: &ChunkLayout,
) -> Result<u64, String> {
    let array = &layout.array_shape;
    let mut shape = shape;
    let whole = shape.len() == array.len();
    if !whole && shape.len() + 1 != array.len() {
        return Err(format!(
            "rank {} does not fit a chunked array of rank {}",
            shape.len(),
            array.len()
        ));
    }
    let rows = if whole { shape.next().unwrap_or(0) } else { 1 };
    if shape.ne(array.iter().skip(1).copied()) {
        return Err(format!(
            "shape differs from the chunked array's {:?} beyond axis 0",
            &array[1..]
        ));
    }
    Ok(rows)
}

/// A chunked field against its layout.
pub(super) struct ChunkedField<'a> {
    pub(super) layout: &'a ChunkLayout,
    pub(super) grid: &'a Grid,
    pub(super) element_size: u16,
    pub(super) first_row: u64,
    pub(super) rows: u64,
}

impl ChunkedField<'_> {
    pub(super) fn check(&self) -> Result<(), String> {
        let array_rows = self.layout.array_shape.first().copied().unwrap_or(0);
        if self
            .first_row
            .checked_add(self.rows)
            .is_none_or(|end| end > array_rows)
        {
            return Err(format!(
                "rows {} + {} lie outside the array's {array_rows}",
                self.first_row, self.rows
            ));
        }
        let fill = self.layout.fill_value.len();
        if fill != 0 && fill != usize::from(self.element_size) {
            return Err(format!(
                "fill value has {fill} bytes, an element {}",
                self.element_size
            ));
        }
        if self.grid.chunk_bytes(self.element_size).is_none() {
            return Err("one chunk is over 4 GiB".to_owned());
        }
        Ok(())
    }

    /// A sorted run of chunks, by its ends.
    pub(super) fn check_run(&self, first_grid: u64, last_grid: u64) -> Result<(), String> {
        let chunk_rows = self.layout.chunk_shape.first().copied().unwrap_or(1);
        let end_row = self.first_row.saturating_add(self.rows);
        let start = self.first_row / chunk_rows;
        // At most 2^64 - 1: both factors are bounded by the whole grid, which fits in 64 bits.
        let allowed = start.saturating_mul(self.grid.chunks_per_row)
            ..end_row
                .div_ceil(chunk_rows)
                .saturating_mul(self.grid.chunks_per_row);
        let inside = self.rows > 0 && allowed.contains(&first_grid) && allowed.contains(&last_grid);
        if inside {
            Ok(())
        } else {
            Err(format!(
                "chunks [{first_grid}, {last_grid}] do not lie in rows {} + {}",
                self.first_row, self.rows
            ))
        }
    }
}
