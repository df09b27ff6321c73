//! Makes an index file.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use xxhash_rust::xxh3::xxh3_128;

use super::check::{self, ChunkedField, Grid, MAX_LAYOUTS, MAX_SHARD_SEGMENTS, elements};
use super::record::{CONTIGUOUS, ChunkRecord, FieldRecord, SegmentRecord, ShardRecord, VALUE};
use super::{
    ChunkLayout, ChunksRef, FieldExtent, FieldSpec, LayoutIndex, Storage, StoredChunk, tables,
};
use crate::{BlockSize, Fingerprint, IndexError, REGION_BYTES, SegmentIndex};

/// Collects segments and samples and writes them as an index file.
///
/// Memory: 32 bytes for each field of each sample, 24 for each chunk, the keys and the values.
#[derive(Debug)]
pub struct IndexBuilder {
    pub(super) root: String,
    pub(super) fields: Vec<FieldSpec>,
    pub(super) block_size: BlockSize,
    pub(super) segments: Vec<SegmentRecord>,
    pub(super) shards: Vec<ShardRecord>,
    pub(super) paths: String,
    /// Segments by the hashes of their paths, to find one that is added twice.
    pub(super) paths_known: HashMap<u128, u32>,
    pub(super) layouts: Vec<ChunkLayout>,
    pub(super) grids: Vec<Grid>,
    pub(super) layout_numbers: HashMap<ChunkLayout, u32>,
    pub(super) shapes: Vec<u64>,
    pub(super) shape_words: HashMap<Vec<u64>, u32>,
    /// Encoded field records, chunks and checksums, as they will lie in the file.
    pub(super) records: Vec<u8>,
    pub(super) chunks: Vec<u8>,
    pub(super) checksums: Vec<u8>,
    /// Bytes of the fields that lie in the index; `None` until there is one.
    pub(super) values: Option<Vec<u8>>,
    pub(super) runs: Vec<Run>,
    pub(super) key_ends: Vec<u64>,
    pub(super) keys: String,
    pub(super) samples: u64,
    /// Files of at least so many bytes are shards of their own.
    own_shard_bytes: u64,
    /// Whether the last shard may take another file.
    is_open: bool,
}

/// One call of [`IndexBuilder::add_chunks`].
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    chunks: ChunksRef,
    segment: SegmentIndex,
}

impl IndexBuilder {
    /// An empty index. `root` is the folder that segment paths are relative to, as it should be
    /// looked for by readers that are not told another, or the URL of a store's prefix
    /// ([`crate::is_store_url`]): the segments are objects then.
    ///
    /// # Errors
    /// [`IndexError::Unindexable`] if the root or a field's name is empty, over 4096 bytes or holds
    /// a zero byte, or if fields are missing, over 65,536, or named alike.
    pub fn new(
        root: &str,
        fields: Vec<FieldSpec>,
        block_size: BlockSize,
    ) -> Result<Self, IndexError> {
        if let Some(fault) = check::text_fault(root) {
            return Err(unindexable(format!("root `{root}`"), fault));
        }
        if let Some(fault) = tables::fields_fault(&fields) {
            return Err(unindexable("these fields", fault));
        }
        Ok(Self {
            root: root.to_owned(),
            fields,
            block_size,
            segments: Vec::new(),
            shards: Vec::new(),
            paths: String::new(),
            paths_known: HashMap::new(),
            layouts: Vec::new(),
            grids: Vec::new(),
            layout_numbers: HashMap::new(),
            shapes: Vec::new(),
            shape_words: HashMap::new(),
            records: Vec::new(),
            chunks: Vec::new(),
            checksums: Vec::new(),
            values: None,
            runs: Vec::new(),
            key_ends: vec![0],
            keys: String::new(),
            samples: 0,
            own_shard_bytes: REGION_BYTES + 1,
            is_open: false,
        })
    }

    /// Makes each file of at least `bytes` bytes a shard of its own, so that its file in the cache
    /// is the file itself. By default a shard holds as many files as fit.
    #[must_use]
    pub fn own_shards_from(mut self, bytes: u64) -> Self {
        self.own_shard_bytes = bytes.min(REGION_BYTES + 1);
        self
    }

    /// Adds an origin file. Small files share shards up to [`crate::REGION_BYTES`]; a larger file
    /// is a shard of its own. `path` is relative to the root, without `..`, at most 4096 bytes.
    ///
    /// # Errors
    /// [`IndexError::Unindexable`] if the path breaks those rules or was added before.
    pub fn add_segment(
        &mut self,
        path: &str,
        fingerprint: Fingerprint,
    ) -> Result<SegmentIndex, IndexError> {
        let refuse = |why: &str| unindexable(format!("file `{path}`"), why);
        if let Some(fault) = check::path_fault(path) {
            return Err(refuse(fault));
        }
        let number = u32::try_from(self.segments.len())
            .ok()
            .filter(|number| *number < u32::MAX)
            .ok_or_else(|| refuse("an index holds at most 4294967295 files"))?;
        if fingerprint.size > i64::MAX as u64 {
            return Err(refuse("it is larger than any file can be"));
        }
        match self.paths_known.entry(xxh3_128(path.as_bytes())) {
            Entry::Occupied(_) => return Err(refuse("it was added before")),
            Entry::Vacant(free) => free.insert(number),
        };
        let (shard, shard_start) = self.place(number, fingerprint.size);
        self.segments.push(SegmentRecord {
            path_start: self.paths.len() as u64,
            path_len: path.len() as u32,
            shard,
            shard_start,
            size: fingerprint.size,
            mtime_ns: fingerprint.mtime_ns,
            inode: fingerprint.inode,
        });
        self.paths.push_str(path);
        Ok(SegmentIndex(number))
    }

    /// The shard that takes the next segment, and where the segment begins in it.
    fn place(&mut self, segment: u32, size: u64) -> (u32, u64) {
        let is_own = size >= self.own_shard_bytes;
        let open = self.shards.len().checked_sub(1);
        let open = open.filter(|_| self.is_open && !is_own);
        self.is_open = !is_own;
        if let Some((nth, shard)) = open.and_then(|nth| Some((nth, self.shards.get_mut(nth)?))) {
            let start = self.block_size.align_up(shard.len);
            let fits = |start: &u64| size <= REGION_BYTES && *start <= REGION_BYTES - size;
            if let Some(start) = start.filter(fits)
                && shard.segments < MAX_SHARD_SEGMENTS
            {
                shard.segments += 1;
                shard.len = start + size;
                return (nth as u32, start);
            }
        }
        self.shards.push(ShardRecord {
            first_segment: segment,
            segments: 1,
            len: size,
        });
        // No more shards than segments, and those are counted in 32 bits.
        ((self.shards.len() - 1) as u32, 0)
    }

    /// The position of `layout`, adding it if it is new.
    ///
    /// # Errors
    /// [`IndexError::Unindexable`] if a rank, a shape or a filter is out of bounds (see
    /// [`ChunkLayout`]), or there are over 1,048,576 layouts.
    pub fn intern_layout(&mut self, layout: ChunkLayout) -> Result<LayoutIndex, IndexError> {
        if let Some(known) = self.layout_numbers.get(&layout) {
            return Ok(LayoutIndex(*known));
        }
        let refuse = |why: String| unindexable("this chunk layout", why);
        let grid = Grid::of(&layout).map_err(refuse)?;
        let number = self.layouts.len() as u32;
        if number == MAX_LAYOUTS {
            return Err(refuse(
                "an index holds at most 1048576 chunk layouts: flatten the data set".to_owned(),
            ));
        }
        self.layout_numbers.insert(layout.clone(), number);
        self.layouts.push(layout);
        self.grids.push(grid);
        Ok(LayoutIndex(number))
    }

    /// Adds a run of chunks, sorted by grid index without repeats, that fields may refer to, in
    /// whole or in part. An empty run is allowed.
    ///
    /// # Errors
    /// [`IndexError::Unindexable`] if the run is not sorted, a chunk has no bytes, or it lies
    /// outside its segment.
    pub fn add_chunks(
        &mut self,
        segment: SegmentIndex,
        chunks: &[StoredChunk],
    ) -> Result<ChunksRef, IndexError> {
        let size = self.segment(segment)?.size;
        let refuse = |chunk: &StoredChunk, why: &str| {
            unindexable(
                format!("chunk {} of file {}", chunk.grid_index, segment.0),
                why,
            )
        };
        if let Some(pair) = chunks
            .windows(2)
            .find(|pair| pair[0].grid_index >= pair[1].grid_index)
        {
            return Err(refuse(&pair[1], "chunks must be sorted, without repeats"));
        }
        for chunk in chunks {
            if chunk.stored_len == 0 {
                return Err(refuse(chunk, "it has no bytes"));
            }
            if ends_after(chunk.offset, chunk.stored_len.into(), size) {
                return Err(refuse(chunk, "it ends after the end of the file"));
            }
        }
        let count = u32::try_from(chunks.len())
            .map_err(|_| unindexable("this run of chunks", "it holds over 4294967295"))?;
        let first = (self.chunks.len() / ChunkRecord::LEN) as u64;
        for chunk in chunks {
            self.chunks.extend(
                ChunkRecord {
                    grid_index: chunk.grid_index,
                    offset: chunk.offset,
                    stored_len: chunk.stored_len,
                    filter_mask: chunk.filter_mask,
                }
                .encode(),
            );
        }
        let chunks = ChunksRef { first, count };
        if count > 0 {
            self.runs.push(Run { chunks, segment });
        }
        Ok(chunks)
    }

    /// Adds a sample: one extent for each field, in the order of the fields. Either every sample
    /// has a key or none has; a repeated key is an error (found by [`Self::write`]). A key is 1 to
    /// 4096 bytes without a zero byte.
    /// `crc32c` is over the decoded bytes of all fields in order (flattened data sets have it;
    /// either every sample or none).
    ///
    /// # Errors
    /// [`IndexError::Unindexable`] if a rule above is broken or an extent does not fit its
    /// segment, its layout or its type. No sample is added then.
    pub fn add_sample(
        &mut self,
        key: Option<&str>,
        fields: &[FieldExtent],
        crc32c: Option<u32>,
    ) -> Result<(), IndexError> {
        let sample = self.samples;
        let name = || match key {
            Some(key) => format!("sample {sample} (`{key}`)"),
            None => format!("sample {sample}"),
        };
        self.check_sample(key, fields, crc32c)
            .map_err(|why| unindexable(name(), why))?;
        let before = (self.records.len(), self.values.as_ref().map(Vec::len));
        for (nth, extent) in fields.iter().enumerate() {
            match self.field_record(nth, extent) {
                Ok(record) => self.records.extend(record.encode()),
                Err(why) => {
                    self.forget_since(before);
                    let field = &self.fields[nth].name;
                    return Err(unindexable(format!("field `{field}` of {}", name()), why));
                }
            }
        }
        if let Some(key) = key {
            self.keys.push_str(key);
            self.key_ends.push(self.keys.len() as u64);
        }
        if let Some(crc32c) = crc32c {
            self.checksums.extend(crc32c.to_le_bytes());
        }
        self.samples += 1;
        Ok(())
    }

    fn check_sample(
        &self,
        key: Option<&str>,
        fields: &[FieldExtent],
        crc32c: Option<u32>,
    ) -> Result<(), String> {
        if fields.len() != self.fields.len() {
            return Err(format!(
                "{} extents for {} fields",
                fields.len(),
                self.fields.len()
            ));
        }
        let begun = self.samples > 0;
        if begun && key.is_some() != self.has_keys() {
            return Err("either every sample has a key or none".to_owned());
        }
        if begun && crc32c.is_some() == self.checksums.is_empty() {
            return Err("either every sample has a checksum or none".to_owned());
        }
        match key.and_then(check::text_fault) {
            Some(fault) => Err(format!("its key cannot be used: {fault}")),
            None => Ok(()),
        }
    }

    pub(super) fn has_keys(&self) -> bool {
        self.key_ends.len() > 1
    }

    fn field_record(&mut self, field: usize, extent: &FieldExtent) -> Result<FieldRecord, String> {
        let element_size = self.fields[field].dtype.size();
        if extent.shape.len() > ChunkLayout::MAX_RANK {
            return Err(format!("rank {} is over 32", extent.shape.len()));
        }
        let len = elements(extent.shape.iter().copied())
            .and_then(|count| count.checked_mul(element_size.into()))
            .ok_or_else(|| format!("shape {:?} overflows 64 bits", extent.shape))?;
        let (start, first_row, layout, chunks) = match &extent.storage {
            Storage::Contiguous { offset } => {
                let size = self.segment_size(extent.segment)?;
                if ends_after(*offset, len, size) {
                    return Err(format!(
                        "{len} bytes at {offset} end after the end of the file, which has {size}"
                    ));
                }
                (*offset, 0, CONTIGUOUS, 0)
            }
            Storage::Chunked {
                layout,
                first_row,
                rows,
                chunks,
            } => {
                self.check_chunked(extent, element_size, *layout, *first_row, *rows, *chunks)?;
                // A run of none is nowhere, so that the same content gives the same bytes.
                let first = if chunks.count == 0 { 0 } else { chunks.first };
                (first, *first_row, layout.0, chunks.count)
            }
            Storage::Value { bytes } => {
                if bytes.len() as u64 != len {
                    return Err(format!("{} bytes for a value of {len}", bytes.len()));
                }
                let values = self.values.get_or_insert_default();
                let start = values.len() as u64;
                values.extend(bytes);
                (start, 0, VALUE, 0)
            }
        };
        Ok(FieldRecord {
            start,
            first_row,
            segment: if layout == VALUE { 0 } else { extent.segment.0 },
            shape: self.intern_shape(&extent.shape)?,
            layout,
            chunks,
        })
    }

    /// Takes back what a sample that was refused has left.
    fn forget_since(&mut self, (records, values): (usize, Option<usize>)) {
        self.records.truncate(records);
        match (values, &mut self.values) {
            (Some(len), Some(values)) => values.truncate(len),
            _ => self.values = None,
        }
    }

    fn segment_size(&self, segment: SegmentIndex) -> Result<u64, String> {
        match self.segment(segment) {
            Ok(segment) => Ok(segment.size),
            Err(error) => Err(error.to_string()),
        }
    }

    fn check_chunked(
        &self,
        extent: &FieldExtent,
        element_size: u16,
        layout: LayoutIndex,
        first_row: u64,
        rows: u64,
        chunks: ChunksRef,
    ) -> Result<(), String> {
        self.segment_size(extent.segment)?;
        let nth = layout.0 as usize;
        let (Some(layout), Some(grid)) = (self.layouts.get(nth), self.grids.get(nth)) else {
            return Err(format!("there is no layout {nth}"));
        };
        let follows = check::rows_of(extent.shape.iter().copied(), layout)?;
        if follows != rows {
            return Err(format!(
                "{rows} rows, but shape {:?} says {follows}",
                extent.shape
            ));
        }
        let field = ChunkedField {
            layout,
            grid,
            element_size,
            first_row,
            rows,
        };
        field.check()?;
        if chunks.count == 0 {
            return Ok(());
        }
        let after = self
            .runs
            .partition_point(|run| run.chunks.first <= chunks.first);
        let run = after.checked_sub(1).and_then(|nth| self.runs.get(nth));
        let Some(run) = run.filter(|run| contains(run.chunks, chunks)) else {
            return Err("its chunks are not part of one run".to_owned());
        };
        if run.segment != extent.segment {
            return Err("its chunks lie in another file".to_owned());
        }
        let last = chunks.first + u64::from(chunks.count) - 1;
        field.check_run(self.grid_index(chunks.first), self.grid_index(last))
    }

    fn grid_index(&self, chunk: u64) -> u64 {
        let (records, _) = self.chunks.as_chunks();
        ChunkRecord::decode(&records[chunk as usize]).grid_index
    }

    pub(super) fn intern_shape(&mut self, shape: &[u64]) -> Result<u32, String> {
        if let Some(word) = self.shape_words.get(shape) {
            return Ok(*word);
        }
        let word = u32::try_from(self.shapes.len())
            .map_err(|_| "an index holds at most 32 GiB of distinct shapes".to_owned())?;
        self.shapes.push(shape.len() as u64);
        self.shapes.extend(shape);
        self.shape_words.insert(shape.to_vec(), word);
        Ok(word)
    }

    fn segment(&self, segment: SegmentIndex) -> Result<&SegmentRecord, IndexError> {
        self.segments
            .get(segment.0 as usize)
            .ok_or_else(|| unindexable(format!("file {}", segment.0), "it was not added"))
    }

    /// Samples added so far.
    pub fn len(&self) -> u64 {
        self.samples
    }

    /// True while no sample was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn ends_after(offset: u64, len: u64, size: u64) -> bool {
    offset.checked_add(len).is_none_or(|end| end > size)
}

fn contains(run: ChunksRef, part: ChunksRef) -> bool {
    let end = |chunks: ChunksRef| chunks.first.checked_add(chunks.count.into());
    run.first <= part.first && end(part).is_some_and(|part| end(run).is_some_and(|run| part <= run))
}

pub(super) fn unindexable(what: impl Into<String>, why: impl Into<String>) -> IndexError {
    IndexError::Unindexable {
        what: what.into(),
        why: why.into(),
    }
}
