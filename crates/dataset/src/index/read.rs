//! Reads an index from bytes that it does not trust.

use std::fmt;

use super::check::{MAX_TEXT, text_fault};
use super::format::{Header, Section, damaged, u32_at};
use super::record::ChunkRecord;
use super::shape::Shape;
use super::view::{Head, View};
use super::{ChunkLayout, FieldSpec, tables};
use crate::decode::Rows;
use crate::{BlockSize, ByteRange, Fingerprint, IndexError, SegmentIndex, ShardIndex};

/// A view of an index file, over bytes `B` that the caller keeps (a memory map, a vector).
pub struct Index<B> {
    bytes: B,
    head: Head,
}

impl<B> fmt::Debug for Index<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Index")
            .field("generation", &self.head.header.generation)
            .field("samples", &self.head.header.samples)
            .field("segments", &self.head.header.segments)
            .field("root", &self.head.root)
            .finish_non_exhaustive()
    }
}

impl<B: AsRef<[u8]>> Index<B> {
    /// Checks the header, the section table and the small tables; reads no sample. Cost does not
    /// depend on the number of samples.
    ///
    /// # Errors
    /// [`IndexError::NotAnIndex`], [`IndexError::Version`] or [`IndexError::Damaged`].
    pub fn parse(bytes: B) -> Result<Self, IndexError> {
        let file = bytes.as_ref();
        let mut head = Head {
            header: Header::decode(file)?,
            root: String::new(),
            fields: Vec::new(),
            layouts: Vec::new(),
        };
        let view = View {
            bytes: file,
            head: &head,
        };
        for section in [
            Section::Root,
            Section::Fields,
            Section::Layouts,
            Section::Shards,
        ] {
            view.check_crc(section)?;
        }
        let root = root(view.section(Section::Root))?;
        let fields = tables::decode_fields(view.section(Section::Fields), head.header.fields)?;
        let layouts = tables::decode_layouts(view.section(Section::Layouts), head.header.layouts)?;
        (head.root, head.fields, head.layouts) = (root, fields, layouts);
        Ok(Self { bytes, head })
    }

    /// Checks every section's checksum and every record.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] with the first fault found.
    pub fn verify(&self) -> Result<(), IndexError> {
        self.view().verify()
    }

    /// Identity of the content: two indexes with one generation describe the same bytes.
    pub fn generation(&self) -> u128 {
        self.head.header.generation
    }

    /// Folder that segment paths are relative to.
    pub fn root(&self) -> &str {
        &self.head.root
    }

    /// Unit of caching.
    pub fn block_size(&self) -> BlockSize {
        self.head.header.block_size
    }

    /// Number of samples.
    pub fn len(&self) -> u64 {
        self.head.header.samples
    }

    /// True if there is no sample.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fields of every sample, in order.
    pub fn fields(&self) -> &[FieldSpec] {
        &self.head.fields
    }

    /// Number of segments.
    pub fn segment_count(&self) -> u32 {
        self.head.header.segments
    }

    /// One origin file.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if there is no such segment or its record is not sound.
    pub fn segment(&self, segment: SegmentIndex) -> Result<Segment<'_>, IndexError> {
        self.view().segment(segment)
    }

    /// Number of shards.
    pub fn shard_count(&self) -> u32 {
        self.head.header.shards
    }

    /// Length of a shard in bytes, padding between its segments included.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if there is no such shard.
    pub fn shard_len(&self, shard: ShardIndex) -> Result<u64, IndexError> {
        self.view().shard(shard).map(|record| record.len)
    }

    /// The segments of a shard are consecutive: `[first, end)`.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if there is no such shard or it names segments that do not exist.
    pub fn shard_segments(&self, shard: ShardIndex) -> Result<std::ops::Range<u32>, IndexError> {
        let record = self.view().shard(shard)?;
        record
            .first_segment
            .checked_add(record.segments)
            .filter(|end| *end <= self.segment_count())
            .map(|end| record.first_segment..end)
            .ok_or_else(|| damaged(format!("shard {} lists too many segments", shard.0)))
    }

    /// The segment that holds byte `offset` of a shard, if any does (padding belongs to none).
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if there is no such shard or its records are not sound.
    pub fn segment_at(
        &self,
        shard: ShardIndex,
        offset: u64,
    ) -> Result<Option<SegmentIndex>, IndexError> {
        let view = self.view();
        let listed = self.shard_segments(shard)?;
        let (mut low, mut high) = (listed.start, listed.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if view.segment_record(SegmentIndex(middle))?.shard_start <= offset {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        // The last segment that begins at or before `offset`. Empty ones share their start with
        // the next, so the last of them is the one that may hold the byte.
        if low == listed.start {
            return Ok(None);
        }
        let found = SegmentIndex(low - 1);
        let record = view.segment_record(found)?;
        let holds = offset >= record.shard_start && offset - record.shard_start < record.size;
        Ok(holds.then_some(found))
    }

    /// Whether samples have keys.
    pub fn has_keys(&self) -> bool {
        self.head.header.keys
    }

    /// Key of a sample, where samples have keys.
    ///
    /// # Errors
    /// [`IndexError::NoSample`], or [`IndexError::Damaged`] if it cannot be read.
    pub fn key(&self, sample: u64) -> Result<Option<&str>, IndexError> {
        self.check_sample(sample)?;
        if !self.has_keys() {
            return Ok(None);
        }
        self.view().key(sample).map(Some)
    }

    /// Position of the sample with this key; `None` if no sample has it or samples have no keys.
    ///
    /// # Errors
    /// [`IndexError::Damaged`] if the key table is not sound.
    pub fn find(&self, key: &str) -> Result<Option<u64>, IndexError> {
        if !self.has_keys() {
            return Ok(None);
        }
        self.view().find(key)
    }

    /// Where the fields of a sample lie. No allocation.
    ///
    /// # Errors
    /// [`IndexError::NoSample`].
    pub fn sample(&self, index: u64) -> Result<Sample<'_>, IndexError> {
        self.check_sample(index)?;
        Ok(Sample {
            view: self.view(),
            index,
        })
    }

    fn check_sample(&self, index: u64) -> Result<(), IndexError> {
        let len = self.len();
        if index < len {
            Ok(())
        } else {
            Err(IndexError::NoSample { index, len })
        }
    }

    fn view(&self) -> View<'_> {
        View {
            bytes: self.bytes.as_ref(),
            head: &self.head,
        }
    }
}

fn root(bytes: &[u8]) -> Result<String, IndexError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= MAX_TEXT => text,
        _ => return Err(damaged("the root is not a path")),
    };
    match text_fault(text) {
        Some(fault) => Err(damaged(format!("root `{text}`: {fault}"))),
        None => Ok(text.to_owned()),
    }
}

/// One origin file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Path relative to the root: not empty, not absolute, without `..`.
    pub path: &'a str,
    /// What it was when it was indexed.
    pub fingerprint: Fingerprint,
    /// Shard that it belongs to.
    pub shard: ShardIndex,
    /// Where it begins in the shard; a multiple of the block size.
    pub shard_start: u64,
}

/// Where the fields of one sample lie.
#[derive(Clone, Copy)]
pub struct Sample<'a> {
    view: View<'a>,
    index: u64,
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

    /// Field number `field`, in the order of [`Index::fields`]. No allocation.
    ///
    /// # Errors
    /// [`IndexError::NoField`], or [`IndexError::Damaged`] if its record is not sound.
    pub fn field(&self, field: usize) -> Result<Field<'a>, IndexError> {
        self.view.field(self.index, field)
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
}

impl<'a> Field<'a> {
    /// Shape, in elements; empty for a scalar.
    pub const fn shape(&self) -> Shape<'a> {
        match self {
            Self::Contiguous { shape, .. } | Self::Chunked { shape, .. } => *shape,
        }
    }

    /// File that holds it.
    pub const fn segment(&self) -> SegmentIndex {
        match self {
            Self::Contiguous { segment, .. } | Self::Chunked { segment, .. } => *segment,
        }
    }

    /// Shard of that file.
    pub const fn shard(&self) -> ShardIndex {
        match self {
            Self::Contiguous { shard, .. } | Self::Chunked { shard, .. } => *shard,
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
            // Checked not to overflow when the field was read.
            Self::Chunked {
                shape,
                element_size,
                ..
            } => shape.elements() * *element_size as u64,
        }
    }

    /// What decoding needs to know; `None` for a contiguous field, whose bytes are stored as is.
    pub const fn rows(&self) -> Option<Rows<'a>> {
        match self {
            Self::Contiguous { .. } => None,
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
