//! The part of a data set that one field holds: all of each element, or a member of it.

use forebay_dataset::decode::spaces_to_zeros;
use forebay_dataset::index::{ChunkLayout, Filter, Member, StoredChunk};

use super::dataset::{Array, ArrayStorage, StackedRows};
use super::dtype::{Kind, Leaf, Type, byte_len};
use super::messages::Space;
use super::{H5Result, Remedy, damaged, unsupported};

/// Bytes of a run of compound elements that are read at once: rows are read one by one too.
const PIECE: u64 = 64 << 10;
/// Pieces of one run, each of which has an entry in the index.
const MAX_PIECES: u64 = 1 << 24;

/// Where whole elements lie, from the start of the file.
pub(super) enum Stored {
    /// There is no element.
    Nothing,
    /// In order from this byte on.
    Run { file: u32, offset: u64 },
    /// Nowhere: all read as the fill value.
    Unwritten { fill: Vec<u8> },
    /// In chunks, sorted by grid index.
    Chunked {
        file: u32,
        chunk_shape: Vec<u64>,
        filters: Vec<Filter>,
        chunks: Vec<StoredChunk>,
        fill: Vec<u8>,
    },
    /// Nowhere: these are the bytes, row-major.
    Decoded { bytes: Vec<u8> },
    /// In other data sets, rows after rows, sorted and without a gap.
    Stacked(Vec<Stack>),
}

/// Rows that lie in another data set.
pub(super) struct Stack {
    pub(super) first_row: u64,
    /// Which row of the other that is; `None`: all of it is one row.
    pub(super) from_row: Option<u64>,
    pub(super) stored: Stored,
    pub(super) space: Space,
}

impl Stored {
    /// The array of a part of each element.
    pub(super) fn part(&self, element: &Type, leaf: &Leaf, space: &Space) -> H5Result<Array> {
        let dims = [&space.dims[..], &leaf.axes].concat();
        if dims.len() > ChunkLayout::MAX_RANK || leaf.axes.len() > Member::MAX_AXES.into() {
            return unsupported(format!("an array of {} axes", dims.len()), Remedy::Convert);
        }
        let outer = if space.dims.is_empty() {
            vec![1]
        } else {
            space.dims.clone()
        };
        let part = Part {
            element,
            leaf,
            outer,
        };
        let mut in_file = 0;
        let storage = match self {
            Self::Nothing => ArrayStorage::Contiguous { offset: 0 },
            Self::Run { file, offset } => {
                in_file = *file;
                if part.filters().is_empty() {
                    ArrayStorage::Contiguous { offset: *offset }
                } else {
                    part.of_run(*offset)?
                }
            }
            Self::Unwritten { fill } => part.unwritten(fill)?,
            Self::Chunked {
                file,
                chunk_shape,
                filters,
                chunks,
                fill,
            } => {
                in_file = *file;
                part.of_chunks(chunk_shape, filters, chunks, fill)?
            }
            Self::Decoded { bytes } => part.of_bytes(bytes)?,
            Self::Stacked(stack) => {
                let rows = stack.iter().map(|part| {
                    Ok(StackedRows {
                        first_row: part.first_row,
                        from_row: part.from_row,
                        array: part.stored.part(element, leaf, &part.space)?,
                    })
                });
                ArrayStorage::Stacked(rows.collect::<H5Result<_>>()?)
            }
        };
        Ok(Array {
            dtype: leaf.of.dtype()?,
            dims,
            storage,
            file: in_file,
        })
    }

    /// The array of whole elements, as bytes without a meaning.
    pub(super) fn whole(&self, element: &Type, space: &Space) -> H5Result<Array> {
        self.part(element, &element.whole()?, space)
    }
}

struct Part<'a> {
    element: &'a Type,
    leaf: &'a Leaf,
    /// Shape of the data set; a scalar is one element.
    outer: Vec<u64>,
}

impl Part<'_> {
    /// What makes the part of whole elements, in the order of writing; nothing if they are the
    /// same.
    fn filters(&self) -> Vec<Filter> {
        let padded = self.is_padded().then_some(Filter::SpacePadded);
        padded.into_iter().chain(self.member()).collect()
    }

    /// What takes the part out of whole elements; `None` if it is all of them.
    fn member(&self) -> Option<Filter> {
        let fits = |number: u32| u16::try_from(number).ok();
        (!self.leaf.suffix.is_empty()).then_some(Filter::Member(Member {
            offset: fits(self.leaf.offset)?,
            stride: fits(self.element.size)?,
            axes: self.leaf.axes.len() as u8,
        }))
    }

    fn is_padded(&self) -> bool {
        matches!(self.leaf.of.kind, Kind::SpacePadded(_))
    }

    /// Elements as they are read, of elements as they are stored.
    fn read(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if self.is_padded() {
            // The type has a name in numpy, so its size fits.
            spaces_to_zeros(&mut bytes, self.leaf.of.size as u16);
        }
        bytes
    }

    fn with_axes(&self, outer: &[u64]) -> Vec<u64> {
        [outer, &self.leaf.axes].concat()
    }

    /// Decoded elements, or what the part is of each.
    fn of_bytes(&self, bytes: &[u8]) -> H5Result<ArrayStorage> {
        let size = byte_len(&self.leaf.axes, 1)?.saturating_mul(self.leaf.of.size.into()) as usize;
        let start = self.leaf.offset as usize;
        let elements = bytes.chunks_exact(self.element.size.max(1) as usize);
        let parts = elements.flat_map(|element| {
            let part = element.get(start..).and_then(|rest| rest.get(..size));
            part.unwrap_or_default()
        });
        Ok(ArrayStorage::Value {
            bytes: self.read(parts.copied().collect()),
        })
    }

    fn unwritten(&self, fill: &[u8]) -> H5Result<ArrayStorage> {
        let mut chunk = self.outer.clone();
        chunk[0] = self.rows_at_once()?.1;
        Ok(ArrayStorage::Chunked {
            layout: ChunkLayout {
                array_shape: self.with_axes(&self.outer),
                chunk_shape: self.with_axes(&chunk),
                filters: Vec::new(),
                fill_value: self.fill(fill)?,
            },
            chunks: Vec::new(),
        })
    }

    /// Bytes of a row, and how many rows make a piece: a divisor of their number, since only
    /// whole chunks are decoded.
    fn rows_at_once(&self) -> H5Result<(u64, u64)> {
        let row = byte_len(&self.outer[1..], 1)?.saturating_mul(self.element.size.into());
        let rows = self.outer[0];
        let most = (PIECE / row.max(1)).clamp(1, rows.max(1));
        let even = (1..=most).rev().find(|count| rows.is_multiple_of(*count));
        Ok((row, even.unwrap_or(1)))
    }

    /// A run of whole elements, as chunks of some rows.
    fn of_run(&self, offset: u64) -> H5Result<ArrayStorage> {
        let (row_bytes, rows) = self.rows_at_once()?;
        let pieces = self.outer[0] / rows;
        let (Ok(stored_len), true) = (u32::try_from(row_bytes * rows), pieces <= MAX_PIECES) else {
            return unsupported(
                format!("a compound type in {pieces} rows of {row_bytes} bytes"),
                Remedy::Convert,
            );
        };
        let mut chunk = self.outer.clone();
        chunk[0] = rows;
        let chunks = (0..pieces).map(|grid_index| StoredChunk {
            grid_index,
            offset: offset + grid_index * u64::from(stored_len),
            stored_len,
            filter_mask: 0,
        });
        Ok(ArrayStorage::Chunked {
            layout: ChunkLayout {
                array_shape: self.with_axes(&self.outer),
                chunk_shape: self.with_axes(&chunk),
                filters: self.filters(),
                fill_value: Vec::new(),
            },
            chunks: chunks.collect(),
        })
    }

    fn of_chunks(
        &self,
        chunk_shape: &[u64],
        filters: &[Filter],
        chunks: &[StoredChunk],
        fill: &[u8],
    ) -> H5Result<ArrayStorage> {
        let mut chunks = chunks.to_vec();
        let mut filters = filters.to_vec();
        let own = self.filters();
        if own.len() + filters.len() > ChunkLayout::MAX_FILTERS {
            return unsupported("elements in parts under 32 filters", Remedy::Repack);
        }
        // A mask counts the places of filters.
        for chunk in &mut chunks {
            chunk.filter_mask <<= own.len();
        }
        filters.splice(0..0, own);
        Ok(ArrayStorage::Chunked {
            layout: ChunkLayout {
                array_shape: self.with_axes(&self.outer),
                chunk_shape: self.with_axes(chunk_shape),
                filters,
                fill_value: self.fill(fill)?,
            },
            chunks,
        })
    }

    /// The part of a fill value.
    fn fill(&self, fill: &[u8]) -> H5Result<Vec<u8>> {
        if fill.is_empty() {
            return Ok(Vec::new());
        }
        let size = self.leaf.of.size as usize;
        let start = self.leaf.offset as usize;
        let all = byte_len(&self.leaf.axes, 1)?.saturating_mul(size as u64);
        let part = fill.get(start..).and_then(|rest| rest.get(..all as usize));
        let Some(part) = part.filter(|_| size > 0) else {
            return damaged("its fill value is too short");
        };
        let value = self.read(part[..size].to_vec());
        if part.chunks(size).any(|other| other != &part[..size]) {
            return unsupported("a fill value whose elements differ", Remedy::Convert);
        }
        if value.iter().all(|byte| *byte == 0) {
            return Ok(Vec::new());
        }
        Ok(value)
    }
}
