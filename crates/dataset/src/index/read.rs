//! Reads an index from bytes that it does not trust.

use std::fmt;

use super::check::{MAX_TEXT, text_fault};
use super::format::{Header, Section, damaged};
use super::layouts::Layouts;
use super::sample::Sample;
use super::view::{Head, View};
use super::{FieldSpec, tables};
use crate::{BlockSize, Fingerprint, IndexError, SegmentIndex, ShardIndex, is_store_url};

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
            layouts: Layouts::default(),
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
        let root = root(view.section(Section::Root), head.header.objects)?;
        let fields = tables::decode_fields(view.section(Section::Fields), head.header.fields)?;
        let layouts = Layouts::open(view.section(Section::Layouts), head.header.layouts)?;
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

    /// Folder that segment paths are relative to, or the URL of a store's prefix
    /// ([`is_store_url`]).
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

    pub(super) fn view(&self) -> View<'_> {
        View {
            bytes: self.bytes.as_ref(),
            head: &self.head,
        }
    }
}

fn root(bytes: &[u8], objects: bool) -> Result<String, IndexError> {
    let text = match std::str::from_utf8(bytes) {
        Ok(text) if bytes.len() <= MAX_TEXT => text,
        _ => return Err(damaged("the root is not a path")),
    };
    if let Some(fault) = text_fault(text) {
        return Err(damaged(format!("root `{text}`: {fault}")));
    }
    if is_store_url(text) != objects {
        let what = if objects {
            "is no store of objects, as a flag says"
        } else {
            "is a store of objects, as no flag says"
        };
        return Err(damaged(format!("root `{text}` {what}")));
    }
    Ok(text.to_owned())
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
