//! The part of a chunk that lies in a field, as a box of elements.

use std::ops::Range;

use super::Rows;
use crate::index::ChunkLayout;

const MAX_RANK: usize = ChunkLayout::MAX_RANK;

/// Where a chunk and a field overlap. Never empty.
#[derive(Clone, Copy, Debug)]
pub(super) struct Overlap<'a> {
    rows: Rows<'a>,
    /// First element of the overlap along axis 0, counted from the start of the chunk.
    skipped_rows: u64,
    /// First element of the overlap along each axis, counted from the start of the field.
    start: [u64; MAX_RANK],
    /// Elements of the overlap along each axis.
    count: [u64; MAX_RANK],
}

impl<'a> Overlap<'a> {
    /// `grid_index` lies in the grid of a checked layout, and the rows lie in its array.
    pub(super) fn of(rows: &Rows<'a>, grid_index: u64) -> Option<Self> {
        let (array, chunk) = (&rows.layout.array_shape, &rows.layout.chunk_shape);
        let mut overlap = Self {
            rows: *rows,
            skipped_rows: 0,
            start: [0; MAX_RANK],
            count: [0; MAX_RANK],
        };
        let mut index = grid_index;
        for axis in (0..array.len()).rev() {
            let along = array[axis].div_ceil(chunk[axis]);
            let start = index % along * chunk[axis];
            index /= along;
            overlap.start[axis] = start;
            // A chunk at the edge is stored in full; what lies beyond the array is not data.
            overlap.count[axis] = chunk[axis].min(array[axis] - start);
        }
        let chunk_rows = overlap.start[0]..overlap.start[0] + overlap.count[0];
        let first = chunk_rows.start.max(rows.first_row);
        let end = chunk_rows.end.min(rows.first_row + rows.rows);
        overlap.skipped_rows = first - chunk_rows.start;
        overlap.count[0] = end.checked_sub(first).filter(|count| *count > 0)?;
        overlap.start[0] = first - rows.first_row;
        Some(overlap)
    }

    /// The bytes of the field that are this chunk and nothing else, if there are such bytes.
    pub(super) fn whole_chunk(&self, element_size: u16) -> Option<Range<usize>> {
        let layout = self.rows.layout;
        let full_rows = layout.array_shape[1..] == layout.chunk_shape[1..];
        if !full_rows || self.count[0] != layout.chunk_shape[0] {
            return None;
        }
        let row_elements: u64 = layout.chunk_shape[1..].iter().product();
        let row_bytes = usize::try_from(row_elements).ok()? * usize::from(element_size);
        let start = usize::try_from(self.start[0]).ok()? * row_bytes;
        Some(start..start + usize::try_from(self.count[0]).ok()? * row_bytes)
    }

    /// Copies the overlap from the decoded chunk into the field.
    ///
    /// `chunk` is a whole chunk and `out` a whole field, so every product below is at most the
    /// length of one of them.
    pub(super) fn copy(&self, chunk: &[u8], element_size: usize, out: &mut [u8]) {
        let (array_dims, chunk_dims) =
            (&self.rows.layout.array_shape, &self.rows.layout.chunk_shape);
        let rank = array_dims.len();
        let (mut from_stride, mut to_stride) = ([0usize; MAX_RANK], [0usize; MAX_RANK]);
        let (mut from_step, mut to_step) = (element_size, element_size);
        for axis in (0..rank).rev() {
            (from_stride[axis], to_stride[axis]) = (from_step, to_step);
            from_step = from_step.saturating_mul(chunk_dims[axis] as usize);
            to_step = to_step.saturating_mul(array_dims[axis] as usize);
        }
        let mut from = self.skipped_rows as usize * from_stride[0];
        let mut to = (0..rank)
            .map(|axis| self.start[axis] as usize * to_stride[axis])
            .sum::<usize>();

        // Trailing axes that both sides hold in full join into one run of bytes.
        let mut outer = rank - 1;
        while outer > 0
            && self.count[outer] == chunk_dims[outer]
            && self.count[outer] == array_dims[outer]
        {
            outer -= 1;
        }
        let run = self.count[outer] as usize * from_stride[outer];
        let mut position = [0u64; MAX_RANK];
        loop {
            out[to..to + run].copy_from_slice(&chunk[from..from + run]);
            let mut axis = outer;
            loop {
                if axis == 0 {
                    return;
                }
                axis -= 1;
                position[axis] += 1;
                from += from_stride[axis];
                to += to_stride[axis];
                if position[axis] < self.count[axis] {
                    break;
                }
                position[axis] = 0;
                from -= self.count[axis] as usize * from_stride[axis];
                to -= self.count[axis] as usize * to_stride[axis];
            }
        }
    }
}
