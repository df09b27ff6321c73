//! Reads an index from bytes that it does not trust.

use super::{ChunkLayout, FieldSpec};
use crate::{BlockSize, ByteRange, Fingerprint, IndexError, SegmentIndex, ShardIndex};

/// A view of an index file, over bytes `B` that the caller keeps (a memory map, a vector).
#[derive(Debug)]
pub struct Index<B> {
    bytes: B,
    // private
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Checks the header and the section table; reads no sample. Cost does not depend on the
    /// number of samples.
    pub fn parse(bytes: B) -> Result<Self, IndexError> {
        todo!()
    }

    /// Checks every section's checksum and every record.
    pub fn verify(&self) -> Result<(), IndexError> {
        todo!()
    }

    /// Identity of the content: two indexes with one generation describe the same bytes.
    pub fn generation(&self) -> u128 {
        todo!()
    }

    /// Folder that segment paths are relative to.
    pub fn root(&self) -> &str {
        todo!()
    }

    /// Unit of caching.
    pub fn block_size(&self) -> BlockSize {
        todo!()
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        todo!()
    }

    /// True if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fields of every sample, in order.
    pub fn fields(&self) -> &[FieldSpec] {
        todo!()
    }

    /// Number of segments.
    pub fn segment_count(&self) -> u32 {
        todo!()
    }

    /// One origin file.
    pub fn segment(&self, segment: SegmentIndex) -> Result<Segment<'_>, IndexError> {
        todo!()
    }

    /// Number of shards.
    pub fn shard_count(&self) -> u32 {
        todo!()
    }

    /// Length of a shard in bytes, padding between its segments included.
    pub fn shard_len(&self, shard: ShardIndex) -> Result<u64, IndexError> {
        todo!()
    }

    /// The segments of a shard are consecutive: `[first, end)`.
    pub fn shard_segments(&self, shard: ShardIndex) -> Result<std::ops::Range<u32>, IndexError> {
        todo!()
    }

    /// The segment that holds byte `offset` of a shard, if any does (padding belongs to none).
    pub fn segment_at(
        &self,
        shard: ShardIndex,
        offset: u64,
    ) -> Result<Option<SegmentIndex>, IndexError> {
        todo!()
    }

    /// Whether samples have keys.
    pub fn has_keys(&self) -> bool {
        todo!()
    }

    /// Key of a sample, where samples have keys.
    pub fn key(&self, sample: u64) -> Result<Option<&str>, IndexError> {
        todo!()
    }

    /// Position of the sample with this key.
    pub fn find(&self, key: &str) -> Result<Option<u64>, IndexError> {
        todo!()
    }

    /// Where the fields of a sample lie. No allocation.
    pub fn sample(&self, index: u64) -> Result<Sample<'_>, IndexError> {
        todo!()
    }
}

/// One origin file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Path relative to the root.
    pub path: &'a str,
    /// What it was when it was indexed.
    pub fingerprint: Fingerprint,
    /// Shard that it belongs to.
    pub shard: ShardIndex,
    /// Where it begins in the shard; a multiple of the block size.
    pub shard_start: u64,
}

/// Where the fields of one sample lie.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    // private
    marker: std::marker::PhantomData<&'a ()>,
}

impl<'a> Sample<'a> {
    /// Field number `field`, in the order of [`Index::fields`].
    pub fn field(&self, field: usize) -> Result<Field<'a>, IndexError> {
        todo!()
    }

    /// Bytes of all fields after decoding.
    pub fn decoded_len(&self) -> Result<u64, IndexError> {
        todo!()
    }

    /// Checksum over the decoded bytes of all fields in order, where the index has it.
    pub fn crc32c(&self) -> Option<u32> {
        todo!()
    }
}

/// Where one field of one sample lies. All references were checked against the index.
#[derive(Clone, Copy, Debug)]
pub enum Field<'a> {
    /// All bytes in order.
    Contiguous {
        /// Shape, in elements; empty for a scalar.
        shape: &'a [u64],
        /// File that holds it.
        segment: SegmentIndex,
        /// Shard of that file.
        shard: ShardIndex,
        /// Where the bytes lie in the shard; `None` for an empty field.
        shard_range: Option<ByteRange>,
    },
    /// Rows of a chunked array.
    Chunked {
        /// Shape, in elements.
        shape: &'a [u64],
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
}

/// The stored chunks of a field.
#[derive(Clone, Copy, Debug)]
pub struct Chunks<'a> {
    // private
    marker: std::marker::PhantomData<&'a ()>,
}

impl Iterator for Chunks<'_> {
    type Item = Chunk;

    fn next(&mut self) -> Option<Chunk> {
        todo!()
    }
}

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
