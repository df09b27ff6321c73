//! The sample index: one file that says, for every sample, where its fields lie.
//!
//! An [`Index`] is a view of bytes, usually of a memory map that all processes of a node share.
//! An [`IndexBuilder`] makes one. The layout is in `docs/FORMAT.md`.

mod build;
pub(crate) mod check;
mod compose;
mod filter;
pub(crate) mod format;
mod keys;
mod layouts;
mod read;
mod record;
mod sample;
mod sections;
mod shape;
mod tables;
mod verify;
mod view;
mod write;

pub use build::IndexBuilder;
pub use compose::{Part, Pick, Picks, compose};
pub use filter::{Bitshuffle, BitshuffleCodec, Filter, Member, NBit, ScaleOffset, Szip};
pub use read::{Index, Segment};
pub use sample::{Chunk, Chunks, Field, Sample};
pub use shape::Shape;

use crate::DType;

/// Name and element type of one field of every sample.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSpec {
    /// Unique in the data set; `coord`, `edges/edge_index`.
    pub name: String,
    /// Type of its elements.
    pub dtype: DType,
}

/// How the chunks of a chunked array are stored.
///
/// One chunk has at most 2^32 - 1 decoded bytes, HDF5's own bound. A chunk at the edge of the array
/// is stored in its full shape.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ChunkLayout {
    /// Shape of the whole stored array, in elements. Same rank as `chunk_shape`.
    pub array_shape: Vec<u64>,
    /// Shape of one chunk, in elements, none 0.
    pub chunk_shape: Vec<u64>,
    /// Filters in the order in which they were applied when the chunk was written.
    pub filters: Vec<Filter>,
    /// Bytes of the element that stands where a chunk is absent; empty means zeros.
    pub fill_value: Vec<u8>,
}

impl ChunkLayout {
    /// Most axes of an array or a field: HDF5's own bound.
    pub const MAX_RANK: usize = 32;
    /// Most filters: as many as a mask has bits.
    pub const MAX_FILTERS: usize = 32;
}

/// Where one field of one sample lies, as given to the builder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldExtent {
    /// File that holds it; of no account for a value.
    pub segment: crate::SegmentIndex,
    /// Shape of the field as the user sees it, in elements.
    pub shape: Vec<u64>,
    /// Its bytes.
    pub storage: Storage,
}

/// Where the bytes of a field lie inside its segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Storage {
    /// All bytes in order, at this offset; the length follows from shape and type.
    Contiguous {
        /// First byte in the segment.
        offset: u64,
    },
    /// Rows `[first_row, first_row + rows)` along axis 0 of a chunked array.
    ///
    /// The field's shape is either `[rows, array_shape[1..]]`, or `array_shape[1..]` with
    /// `rows == 1` (a row sample). A scalar (rank 0) array is stored contiguously.
    Chunked {
        /// Which layout, from [`IndexBuilder::intern_layout`].
        layout: LayoutIndex,
        /// First row along axis 0.
        first_row: u64,
        /// Rows along axis 0.
        rows: u64,
        /// All chunks that intersect those rows and exist in the file, and no others; an absent one
        /// reads as the fill value.
        chunks: ChunksRef,
    },
    /// In the index itself, so that reading it touches no file: a label, a name.
    Value {
        /// All bytes in order, as many as shape and type say.
        bytes: Vec<u8>,
    },
}

/// Position of a [`ChunkLayout`] in the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LayoutIndex(pub u32);

/// A run of chunks in the index, from [`IndexBuilder::add_chunks`]. Row samples that lie in the
/// same chunks share one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunksRef {
    /// First chunk.
    pub first: u64,
    /// How many.
    pub count: u32,
}

/// One stored chunk, as given to the builder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredChunk {
    /// Position in the row-major grid of chunks.
    pub grid_index: u64,
    /// First byte in the segment.
    pub offset: u64,
    /// Bytes stored, after filters.
    pub stored_len: u32,
    /// Bit n set: filter n was not applied to this chunk.
    pub filter_mask: u32,
}

#[cfg(test)]
mod tests;
