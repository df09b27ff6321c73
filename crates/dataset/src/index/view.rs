//! Typed access to the records of a mapped index. Nothing here trusts a byte of it.

use super::check::{self, ChunkedField};
use super::format::{Header, Section, damaged};
use super::layouts::{Layouts, ParsedLayout};
use super::read::Segment;
use super::record::{CONTIGUOUS, ChunkRecord, FieldRecord, SegmentRecord, ShardRecord, VALUE};
use super::sample::{Chunks, Field};
use super::shape::Shape;
use super::{ChunkLayout, FieldSpec};
use crate::{ByteRange, IndexError, SegmentIndex, ShardIndex};

/// What was parsed when the index was opened.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) header: Header,
    pub(super) root: String,
    pub(super) fields: Vec<FieldSpec>,
    pub(super) layouts: Layouts,
}

/// The mapped bytes with what is known about them.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) head: &'a Head,
}

impl<'a> View<'a> {
    /// A section's bytes; empty if the file no longer has them.
    pub(super) fn section(&self, section: Section) -> &'a [u8] {
        let place = &self.head.header.places[section as usize];
        let range = place.offset as usize..(place.offset + place.len) as usize;
        self.bytes.get(range).unwrap_or_default()
    }

    /// Record number `n` of a section of `N`-byte records.
    pub(super) fn record<const N: usize>(
        &self,
        section: Section,
        n: u64,
    ) -> Result<&'a [u8; N], IndexError> {
        let (records, _) = self.section(section).as_chunks::<N>();
        usize::try_from(n)
            .ok()
            .and_then(|n| records.get(n))
            .ok_or_else(|| damaged(format!("no entry {n} in section `{}`", section.name())))
    }

    pub(super) fn shard(&self, shard: ShardIndex) -> Result<ShardRecord, IndexError> {
        self.record(Section::Shards, shard.0.into())
            .map(ShardRecord::decode)
    }

    /// A segment that lies, block-aligned, inside the shard it names.
    pub(super) fn segment_record(&self, n: SegmentIndex) -> Result<SegmentRecord, IndexError> {
        let segment = SegmentRecord::decode(self.record(Section::Segments, n.0.into())?);
        let shard = self.shard(ShardIndex(segment.shard))?;
        let block = u64::from(self.head.header.block_size.bytes());
        let listed =
            n.0.checked_sub(shard.first_segment)
                .is_some_and(|nth| nth < shard.segments);
        let inside = segment
            .shard_start
            .checked_add(segment.size)
            .is_some_and(|end| end <= shard.len);
        if listed && inside && segment.shard_start & (block - 1) == 0 {
            Ok(segment)
        } else {
            Err(damaged(format!(
                "segment {} does not lie in shard {}",
                n.0, segment.shard
            )))
        }
    }

    pub(super) fn segment(&self, n: SegmentIndex) -> Result<Segment<'a>, IndexError> {
        let record = self.segment_record(n)?;
        let path = slice(
            self.section(Section::Paths),
            record.path_start,
            record.path_len.into(),
        )
        .and_then(|bytes| std::str::from_utf8(bytes).ok())
        .ok_or_else(|| damaged(format!("the path of segment {} is not text", n.0)))?;
        if let Some(fault) = check::path_fault(path) {
            return Err(damaged(format!(
                "path `{path}` of segment {}: {fault}",
                n.0
            )));
        }
        Ok(Segment {
            path,
            fingerprint: record.fingerprint(),
            shard: ShardIndex(record.shard),
            shard_start: record.shard_start,
        })
    }

    /// The shape at this word of the shapes section.
    pub(super) fn shape(&self, word: u32) -> Result<Shape<'a>, IndexError> {
        let (words, _) = self.section(Section::Shapes).as_chunks::<8>();
        let shape = || {
            let (rank, rest) = words.get(word as usize..)?.split_first()?;
            let rank = usize::try_from(u64::from_le_bytes(*rank)).ok()?;
            if rank > ChunkLayout::MAX_RANK {
                return None;
            }
            Shape::new(rest.get(..rank)?)
        };
        shape().ok_or_else(|| damaged(format!("no usable shape at word {word}")))
    }

    pub(super) fn field(&self, sample: u64, field: usize) -> Result<Field<'a>, IndexError> {
        let Some(spec) = self.head.fields.get(field) else {
            return Err(IndexError::NoField {
                index: field,
                len: self.head.fields.len(),
            });
        };
        // Fits: the records section holds samples × fields records, and so does 64 bits.
        let n = sample * u64::from(self.head.header.fields) + field as u64;
        let record = FieldRecord::decode(self.record(Section::Records, n)?);
        let shape = self.shape(record.shape)?;
        let decoded_len = shape
            .elements()
            .checked_mul(spec.dtype.size().into())
            .ok_or_else(|| self.bad_field(sample, field, "its length overflows"))?;
        if record.layout == VALUE {
            return self
                .value(&record, shape, decoded_len)
                .ok_or_else(|| self.bad_field(sample, field, "its value is not there"));
        }
        let segment = self.segment_record(SegmentIndex(record.segment))?;
        if record.layout == CONTIGUOUS {
            self.contiguous(&record, &segment, shape, decoded_len)
                .ok_or_else(|| self.bad_field(sample, field, "it lies outside its segment"))
        } else {
            self.chunked(&record, &segment, shape, spec.dtype.size())
                .map_err(|fault| self.bad_field(sample, field, &fault))
        }
    }

    fn value(&self, record: &FieldRecord, shape: Shape<'a>, len: u64) -> Option<Field<'a>> {
        let known = self.head.header.section_count() == Section::COUNT;
        if !known || record.chunks != 0 || record.first_row != 0 || record.segment != 0 {
            return None;
        }
        let bytes = slice(self.section(Section::Values), record.start, len)?;
        Some(Field::Value { shape, bytes })
    }

    fn contiguous(
        &self,
        record: &FieldRecord,
        segment: &SegmentRecord,
        shape: Shape<'a>,
        len: u64,
    ) -> Option<Field<'a>> {
        let end = record.start.checked_add(len)?;
        if end > segment.size || record.chunks != 0 || record.first_row != 0 {
            return None;
        }
        let shard_range = match len {
            0 => None,
            _ => Some(ByteRange::new(segment.shard_start.checked_add(record.start)?, len).ok()?),
        };
        Some(Field::Contiguous {
            shape,
            segment: SegmentIndex(record.segment),
            shard: ShardIndex(segment.shard),
            shard_range,
        })
    }

    fn chunked(
        &self,
        record: &FieldRecord,
        segment: &SegmentRecord,
        shape: Shape<'a>,
        element_size: u16,
    ) -> Result<Field<'a>, String> {
        let ParsedLayout { layout, grid } = self
            .head
            .layouts
            .get(self.section(Section::Layouts), record.layout)
            .map_err(|error| error.to_string())?;
        let rows = check::rows_of(shape.iter(), layout)?;
        let chunked = ChunkedField {
            layout,
            grid,
            element_size,
            first_row: record.first_row,
            rows,
        };
        chunked.check()?;
        let chunks = self.chunk_run(record, segment)?;
        if let (Some(first), Some(last)) = (chunks.records.first(), chunks.records.last()) {
            chunked.check_run(
                ChunkRecord::decode(first).grid_index,
                ChunkRecord::decode(last).grid_index,
            )?;
        }
        Ok(Field::Chunked {
            shape,
            segment: SegmentIndex(record.segment),
            shard: ShardIndex(segment.shard),
            layout,
            element_size,
            first_row: record.first_row,
            rows,
            chunks,
        })
    }

    /// Chunks in order of their grid index, each inside the segment.
    fn chunk_run(
        &self,
        record: &FieldRecord,
        segment: &SegmentRecord,
    ) -> Result<Chunks<'a>, String> {
        let (records, _) = self.section(Section::Chunks).as_chunks();
        let first = usize::try_from(record.start).ok();
        let records = first
            .and_then(|first| records.get(first..first.checked_add(record.chunks as usize)?))
            .ok_or("its chunks lie outside the table")?;
        let mut next = Some(0);
        for chunk in records {
            let chunk = ChunkRecord::decode(chunk);
            let inside = chunk
                .offset
                .checked_add(chunk.stored_len.into())
                .is_some_and(|end| end <= segment.size);
            if !inside || chunk.stored_len == 0 || next.is_none_or(|least| chunk.grid_index < least)
            {
                return Err(format!(
                    "chunk {} is out of order or outside its segment",
                    chunk.grid_index
                ));
            }
            next = chunk.grid_index.checked_add(1);
        }
        Ok(Chunks {
            records,
            shard_start: segment.shard_start,
        })
    }

    #[cold]
    fn bad_field(&self, sample: u64, field: usize, fault: &str) -> IndexError {
        let name = self.head.fields.get(field).map_or("", |spec| &spec.name);
        damaged(format!("field `{name}` of sample {sample}: {fault}"))
    }
}

/// `len` bytes at `start`, if they are there.
pub(super) fn slice(bytes: &[u8], start: u64, len: u64) -> Option<&[u8]> {
    let start_at = usize::try_from(start).ok()?;
    let end = usize::try_from(start.checked_add(len)?).ok()?;
    bytes.get(start_at..end)
}
