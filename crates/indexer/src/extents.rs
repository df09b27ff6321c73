//! Where the fields of the samples of one file lie, packed: tens of bytes for each.

use std::collections::HashMap;

use forebay_dataset::index::{
    ChunkLayout, ChunksRef, FieldExtent, IndexBuilder, LayoutIndex, Storage, StoredChunk,
};
use forebay_dataset::{IndexError, SegmentIndex};

use crate::h5::{Array, ArrayStorage};

/// One field of one sample.
#[derive(Clone, Copy, Debug)]
struct Packed {
    /// First byte, or first chunk.
    at: u64,
    /// First of its dimensions.
    dims_at: u64,
    /// Chunks.
    count: u32,
    /// Position of the layout; `CONTIGUOUS` or `VALUE` for none.
    layout: u32,
    /// Number of the file.
    file: u32,
    rank: u8,
    /// Bytes of a value.
    value_len: u64,
}

const CONTIGUOUS: u32 = u32::MAX;
const VALUE: u32 = u32::MAX - 1;

/// The extents of one file, in order.
#[derive(Debug, Default)]
pub(crate) struct Extents {
    packed: Vec<Packed>,
    dims: Vec<u64>,
    chunks: Vec<StoredChunk>,
    /// Bytes of fields that lie nowhere.
    values: Vec<u8>,
    layouts: Vec<ChunkLayout>,
    known: HashMap<ChunkLayout, u32>,
}

impl Extents {
    pub(crate) fn len(&self) -> usize {
        self.packed.len()
    }

    /// Adds a data set as a whole.
    pub(crate) fn push(&mut self, array: Array) {
        let dims_at = self.dims.len() as u64;
        let mut dims = array.dims;
        let (at, count, layout) = match array.storage {
            ArrayStorage::Contiguous { offset } => (offset, 0, CONTIGUOUS),
            ArrayStorage::Chunked { layout, chunks } => {
                let at = self.chunks.len() as u64;
                self.chunks.extend(&chunks);
                (at, chunks.len() as u32, self.layout(layout))
            }
            ArrayStorage::Value { bytes } => (self.value(&bytes), 0, VALUE),
            ArrayStorage::Ragged { bytes, .. } => {
                dims = vec![bytes.len() as u64 / u64::from(array.dtype.size())];
                (self.value(&bytes), 0, VALUE)
            }
            // Only asked for where each row is a sample.
            ArrayStorage::Stacked(_) => (0, 0, CONTIGUOUS),
        };
        self.dims.extend(&dims);
        let size = u64::from(array.dtype.size());
        self.packed.push(Packed {
            at,
            dims_at,
            count,
            layout,
            file: array.file,
            rank: dims.len() as u8,
            value_len: dims.iter().product::<u64>().saturating_mul(size),
        });
    }

    /// Keeps the bytes of a field; where they begin.
    fn value(&mut self, bytes: &[u8]) -> u64 {
        let at = self.values.len() as u64;
        self.values.extend(bytes);
        at
    }

    fn layout(&mut self, layout: ChunkLayout) -> u32 {
        let next = self.layouts.len() as u32;
        *self.known.entry(layout).or_insert_with_key(|layout| {
            self.layouts.push(layout.clone());
            next
        })
    }
}

/// Gives the extents of one file to an index.
pub(crate) struct Emitter<'a> {
    extents: &'a Extents,
    /// The file, then those that it leads to.
    segments: Vec<SegmentIndex>,
    layouts: Vec<LayoutIndex>,
}

impl<'a> Emitter<'a> {
    pub(crate) fn new(
        extents: &'a Extents,
        segments: Vec<SegmentIndex>,
        builder: &mut IndexBuilder,
    ) -> Result<Self, IndexError> {
        let layouts = extents.layouts.iter();
        Ok(Self {
            extents,
            segments,
            layouts: layouts
                .map(|layout| builder.intern_layout(layout.clone()))
                .collect::<Result<_, _>>()?,
        })
    }

    /// Appends extent number `number` of the file to `fields`.
    pub(crate) fn emit(
        &self,
        number: usize,
        builder: &mut IndexBuilder,
        fields: &mut Vec<FieldExtent>,
    ) -> Result<(), IndexError> {
        let packed = self.extents.packed[number];
        let dims_at = packed.dims_at as usize;
        let shape = self.extents.dims[dims_at..dims_at + usize::from(packed.rank)].to_vec();
        let segment = self.segments[packed.file as usize];
        let storage = if packed.layout == CONTIGUOUS {
            Storage::Contiguous { offset: packed.at }
        } else if packed.layout == VALUE {
            let at = packed.at as usize;
            Storage::Value {
                bytes: self.extents.values[at..at + packed.value_len as usize].to_vec(),
            }
        } else {
            let at = packed.at as usize;
            let chunks = &self.extents.chunks[at..at + packed.count as usize];
            Storage::Chunked {
                layout: self.layouts[packed.layout as usize],
                first_row: 0,
                rows: rows_of(&shape, &self.extents.layouts[packed.layout as usize]),
                chunks: add_chunks(builder, segment, chunks)?,
            }
        };
        fields.push(FieldExtent {
            segment,
            shape,
            storage,
        });
        Ok(())
    }
}

/// Rows of a whole data set. A scalar is stored as an array of one row.
fn rows_of(shape: &[u64], layout: &ChunkLayout) -> u64 {
    match shape.first() {
        Some(rows) if shape.len() == layout.array_shape.len() => *rows,
        _ => 1,
    }
}

/// Adds a run of chunks; none at all is a run too.
pub(crate) fn add_chunks(
    builder: &mut IndexBuilder,
    segment: SegmentIndex,
    chunks: &[StoredChunk],
) -> Result<ChunksRef, IndexError> {
    if chunks.is_empty() {
        return Ok(ChunksRef { first: 0, count: 0 });
    }
    builder.add_chunks(segment, chunks)
}
