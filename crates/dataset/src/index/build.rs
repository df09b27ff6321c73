//! Makes an index file.

use std::io::{self, Write};

use super::{ChunkLayout, ChunksRef, FieldExtent, FieldSpec, LayoutIndex, StoredChunk};
use crate::{BlockSize, Fingerprint, IndexError, SegmentIndex};

/// Collects segments and samples and writes them as an index file.
///
/// Memory: 32 bytes for each field of each sample, 24 for each chunk, and the keys.
#[derive(Debug)]
pub struct IndexBuilder {
    // private
}

impl IndexBuilder {
    /// An empty index. `root` is the folder that segment paths are relative to, as it should be
    /// looked for by readers that are not told another.
    pub fn new(
        root: &str,
        fields: Vec<FieldSpec>,
        block_size: BlockSize,
    ) -> Result<Self, IndexError> {
        todo!()
    }

    /// Adds an origin file. Small files share shards up to [`crate::REGION_BYTES`]; a larger file
    /// is a shard of its own. `path` is relative to the root, without `..`, at most 4096 bytes.
    pub fn add_segment(
        &mut self,
        path: &str,
        fingerprint: Fingerprint,
    ) -> Result<SegmentIndex, IndexError> {
        todo!()
    }

    /// The position of `layout`, adding it if it is new.
    pub fn intern_layout(&mut self, layout: ChunkLayout) -> Result<LayoutIndex, IndexError> {
        todo!()
    }

    /// Adds a run of chunks, sorted by grid index without repeats, that fields may refer to.
    pub fn add_chunks(
        &mut self,
        segment: SegmentIndex,
        chunks: &[StoredChunk],
    ) -> Result<ChunksRef, IndexError> {
        todo!()
    }

    /// Adds a sample: one extent for each field, in the order of the fields. Either every sample
    /// has a key or none has; a repeated key is an error (found by [`Self::write`]).
    /// `crc32c` is over the decoded bytes of all fields in order (flattened data sets have it;
    /// either every sample or none).
    pub fn add_sample(
        &mut self,
        key: Option<&str>,
        fields: &[FieldExtent],
        crc32c: Option<u32>,
    ) -> Result<(), IndexError> {
        todo!()
    }

    /// Samples added so far.
    pub fn len(&self) -> u64 {
        todo!()
    }

    /// True while no sample was added.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes the file. The same content gives the same bytes and the same generation.
    pub fn write(self, out: &mut impl Write) -> io::Result<()> {
        todo!()
    }
}
