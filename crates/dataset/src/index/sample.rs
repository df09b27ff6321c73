//! Where the fields of one sample lie.

use std::fmt;

use super::ChunkLayout;
use super::format::{Section, damaged, u32_at};
use super::record::ChunkRecord;
use super::shape::Shape;
use super::view::View;
use crate::decode::Rows;
use crate::{ByteRange, IndexError, SegmentIndex, ShardIndex};

/// Where the fields of one sample lie.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    pub(super) view: View<'a>,
    pub(super) index: u64,
}

impl fmt::Debug for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sample")
            .field("index", &self.index)
            .finish_non_exhaustive()
    }
}

impl<'a> Sample<'a> {
    /// Position in the index.
    pub const fn index(&self) -> u64 {
        self.index
    }

    /// Field number `field`, in the order of [`super::Index::fields`]. No allocation.
    ///
    /// # Errors
    /// [`IndexError::NoField`], or [`IndexError::Damaged`] if its record is not sound.
    pub fn field(&self, field: usize) -> Result<Field<'a>, IndexError> {
        self.view.field(self.index, field)
    }

    /// Appends where the stored bytes of all fields lie, field by field, chunk by chunk. On an error
    /// a part of them may have been appended.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a record is not sound.
    pub fn add_stored_ranges(
        &self,
        ranges: &mut Vec<(ShardIndex, ByteRange)>,
    ) -> Result<(), IndexError> {
        for number in 0..self.view.head.fields.len() {
            match self.field(number)? {
                Field::Contiguous {
                    shard, shard_range, ..
                } => ranges.extend(shard_range.map(|range| (shard, range))),
                Field::Chunked { shard, chunks, .. } => {
                    ranges.extend(chunks.map(|chunk| (shard, chunk.shard_range)));
                }
                Field::Value { .. } => {}
            }
        }
        Ok(())
    }

    /// Bytes of all fields after decoding.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if a record is not sound.
    pub fn decoded_len(&self) -> Result<u64, IndexError> {
        (0..self.view.head.fields.len()).try_fold(0u64, |sum, field| {
            sum.checked_add(self.field(field)?.decoded_len())
                .ok_or_else(|| damaged(format!("the length of sample {} overflows", self.index)))
        })
    }

    /// Checksum over the decoded bytes of all fields in order, where the index has it.
    pub fn crc32c(&self) -> Option<u32> {
        if !self.view.head.header.checksums {
            return None;
        }
        self.view
            .record::<4>(Section::Checksums, self.index)
            .ok()
            .map(|record| u32_at(record, 0))
    }
}

/// Where one field of one sample lies. All references were checked against the index.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// All bytes in order.
    Contiguous {
        /// Shape, in elements; empty for a scalar.
        shape: Shape<'a>,
        /// File that holds it.
        segment: SegmentIndex,
        /// Shard of that file.
        shard: ShardIndex,
        /// Where the bytes lie in the shard, inside the segment; `None` for an empty field.
        shard_range: Option<ByteRange>,
    },
    /// Rows of a chunked array.
    Chunked {
        /// Shape, in elements.
        shape: Shape<'a>,
        /// File that holds it.
        segment: SegmentIndex,
        /// Shard of that file.
        shard: ShardIndex,
        /// How it is stored.
        layout: &'a ChunkLayout,
        /// Bytes of one element.
        element_size: u16,
        /// First row along axis 0.
        first_row: u64,
        /// Rows along axis 0.
        rows: u64,
        /// The stored chunks that intersect those rows.
        chunks: Chunks<'a>,
    },
    /// A value that lies in the index itself and in no file.
    Value {
        /// Shape, in elements; empty for a scalar.
        shape: Shape<'a>,
        /// All bytes in order.
        bytes: &'a [u8],
    },
}

impl<'a> Field<'a> {
    /// Shape, in elements; empty for a scalar.
    pub const fn shape(&self) -> Shape<'a> {
        match self {
            Self::Contiguous { shape, .. }
            | Self::Chunked { shape, .. }
            | Self::Value { shape, .. } => *shape,
        }
    }

    /// File that holds it; none for a value.
    pub const fn segment(&self) -> Option<SegmentIndex> {
        match self {
            Self::Contiguous { segment, .. } | Self::Chunked { segment, .. } => Some(*segment),
            Self::Value { .. } => None,
        }
    }

    /// Shard of that file.
    pub const fn shard(&self) -> Option<ShardIndex> {
        match self {
            Self::Contiguous { shard, .. } | Self::Chunked { shard, .. } => Some(*shard),
            Self::Value { .. } => None,
        }
    }

    /// Bytes after decoding.
    pub const fn decoded_len(&self) -> u64 {
        match self {
            Self::Contiguous {
                shard_range: Some(range),
                ..
            } => range.len(),
            Self::Contiguous { .. } => 0,
            Self::Value { bytes, .. } => bytes.len() as u64,
            // Checked not to overflow when the field was read.
            Self::Chunked {
                shape,
                element_size,
                ..
            } => shape.elements() * *element_size as u64,
        }
    }

    /// What decoding needs to know; `None` for a field whose bytes are stored as they are.
    pub const fn rows(&self) -> Option<Rows<'a>> {
        match self {
            Self::Contiguous { .. } | Self::Value { .. } => None,
            Self::Chunked {
                layout,
                element_size,
                first_row,
                rows,
                ..
            } => Some(Rows {
                layout,
                element_size: *element_size,
                first_row: *first_row,
                rows: *rows,
            }),
        }
    }
}

/// The stored chunks of a field, in order of their grid index, without repeats.
#[derive(Clone, Copy)]
pub struct Chunks<'a> {
    pub(super) records: &'a [[u8; ChunkRecord::LEN]],
    pub(super) shard_start: u64,
}

impl fmt::Debug for Chunks<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(*self).finish()
    }
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        let (first, rest) = self.records.split_first()?;
        let record = ChunkRecord::decode(first);
        // Both were checked when the field was read: the chunk is not empty and ends inside its
        // segment, and the segment ends inside 64 bits.
        let start = self.shard_start.checked_add(record.offset)?;
        let shard_range = ByteRange::new(start, record.stored_len.into()).ok()?;
        self.records = rest;
        Some(Chunk {
            grid_index: record.grid_index,
            shard_range,
            filter_mask: record.filter_mask,
        })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.records.len(), Some(self.records.len()))
    }
}

impl ExactSizeIterator for Chunks<'_> {}

/// One stored chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk {
    /// Position in the row-major grid of chunks.
    pub grid_index: u64,
    /// Where its stored bytes lie in the shard.
    pub shard_range: ByteRange,
    /// Bit n set: filter n was not applied to this chunk.
    pub filter_mask: u32,
}
