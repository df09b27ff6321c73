//! Samples that are rows along axis 0 of equally long data sets.

use forebay_dataset::index::{
    ChunkLayout, ChunksRef, FieldExtent, FieldSpec, IndexBuilder, LayoutIndex, Storage, StoredChunk,
};
use forebay_dataset::{IndexError, SegmentIndex};

use crate::IndexerError;
use crate::error::Result;
use crate::extents::{Emitter, Extents, add_chunks};
use crate::files::InputFile;
use crate::h5::{Array, ArrayStorage, H5File, Object, ObjectKind, Target};
use crate::scan::{FieldFilter, Schema};

/// The rows of one file.
#[derive(Debug)]
pub(crate) struct RowSamples {
    pub(crate) rows: u64,
    pub(crate) schema: Schema,
    arrays: Vec<Array>,
}

/// Finds the data sets called `names`, or all in the root group, and checks that they are equally
/// long.
pub(crate) fn scan(
    input: &InputFile,
    file: &H5File,
    names: &[String],
    filter: &FieldFilter,
) -> Result<RowSamples> {
    let root = file.object(file.root());
    let root = root.map_err(IndexerError::h5(&input.path, ""))?;
    let named = named(input, file, &root, names, filter)?;
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (name, target, wanted) in named {
        let within = IndexerError::h5(&input.path, &name);
        let object = match file.follow(&root, &target) {
            Ok(object) => object.filter(|object| object.kind == ObjectKind::Dataset),
            Err(error) => return Err(within(error)),
        };
        match object {
            Some(object) => {
                let keeps = |suffix: &str| filter.keeps_part(&name, suffix);
                let parts = file.arrays(&object, true, keeps);
                for (suffix, array) in parts.map_err(within)? {
                    fields.push(FieldSpec {
                        name: format!("{name}{suffix}"),
                        dtype: array.dtype,
                    });
                    arrays.push(array);
                }
            }
            None if wanted => {
                return Err(IndexerError::Request(format!(
                    "there is no data set `/{name}` in `{}`",
                    input.path.display()
                )));
            }
            _ => {}
        }
    }
    RowSamples::new(input, fields, arrays)
}

impl RowSamples {
    /// The rows of arrays, which have to be equally long.
    pub(crate) fn new(
        input: &InputFile,
        fields: Vec<FieldSpec>,
        arrays: Vec<Array>,
    ) -> Result<Self> {
        let rows = common_rows(input, &fields, &arrays)?;
        Ok(Self {
            rows,
            schema: Schema {
                fields,
                samples: rows,
                example: "rows".to_owned(),
            },
            arrays,
        })
    }
}

/// The links to look at, and whether each has to lead to a data set.
fn named(
    input: &InputFile,
    file: &H5File,
    root: &Object,
    names: &[String],
    filter: &FieldFilter,
) -> Result<Vec<(String, Target, bool)>> {
    let mut named = Vec::new();
    if names.is_empty() {
        for link in file
            .links(root)
            .map_err(IndexerError::h5(&input.path, ""))?
        {
            named.push((link.name, link.target, false));
        }
    } else {
        for name in names {
            named.push((name.clone(), Target::Soft(format!("/{name}")), true));
        }
    }
    named.retain(|(name, ..)| filter.may_hold(name));
    Ok(named)
}

fn common_rows(input: &InputFile, fields: &[FieldSpec], arrays: &[Array]) -> Result<u64> {
    let lengths: Vec<Option<u64>> = arrays
        .iter()
        .map(|array| array.dims.first().copied())
        .collect();
    match lengths.first() {
        None => Err(IndexerError::Request(format!(
            "there is no data set in the root group of `{}`: name some with \
             `--sample 'rows:/path,/other'`",
            input.path.display()
        ))),
        Some(Some(rows)) if lengths.iter().all(|len| *len == Some(*rows)) => Ok(*rows),
        Some(_) => {
            let list: Vec<String> = fields
                .iter()
                .zip(&lengths)
                .map(|(field, len)| match len {
                    Some(rows) => format!("`/{}` has {rows} rows", field.name),
                    None => format!("`/{}` is a scalar", field.name),
                })
                .collect();
            Err(IndexerError::Request(format!(
                "the data sets of `{}` are not equally long: {}; name those to use with \
                 `--sample 'rows:/path,/other'`",
                input.path.display(),
                list.join(", ")
            )))
        }
    }
}

/// Gives the rows of one file to an index.
pub(crate) struct RowEmitter<'a> {
    fields: Vec<RowField<'a>>,
}

/// The rows of one field.
struct RowField<'a> {
    segment: SegmentIndex,
    /// Of a row.
    shape: &'a [u64],
    rows: Rows<'a>,
}

enum Rows<'a> {
    Contiguous {
        offset: u64,
        row_bytes: u64,
    },
    Chunked {
        layout: LayoutIndex,
        rows_per_chunk: u64,
        /// Chunks along the other axes.
        chunks_per_row: u64,
        chunks: &'a [StoredChunk],
        /// The chunks of the row of chunks that was used last.
        last: Option<(u64, ChunksRef)>,
    },
    Value {
        bytes: &'a [u8],
        row_bytes: usize,
    },
    /// Elements of variable length: how many make a row, and bytes of one of theirs.
    Ragged {
        bytes: &'a [u8],
        ends: &'a [u64],
        per_row: u64,
        size: u64,
    },
    /// First row of each part, which row of it that is, and the part.
    Stacked(Vec<(u64, Option<u64>, RowField<'a>)>),
    /// All of an array, as one row.
    Whole {
        extents: Extents,
        segments: Vec<SegmentIndex>,
    },
}

impl<'a> RowEmitter<'a> {
    /// `segments`: the file, then those that it leads to.
    pub(crate) fn new(
        samples: &'a RowSamples,
        segments: &[SegmentIndex],
        builder: &mut IndexBuilder,
    ) -> std::result::Result<Self, IndexError> {
        let fields = samples.arrays.iter();
        Ok(Self {
            fields: fields
                .map(|array| RowField::new(array, segments, builder))
                .collect::<std::result::Result<_, _>>()?,
        })
    }

    /// Appends the fields of `row` to `fields`.
    pub(crate) fn emit(
        &mut self,
        row: u64,
        builder: &mut IndexBuilder,
        fields: &mut Vec<FieldExtent>,
    ) -> std::result::Result<(), IndexError> {
        for field in &mut self.fields {
            fields.push(field.extent(row, builder)?);
        }
        Ok(())
    }
}

impl<'a> RowField<'a> {
    fn new(
        array: &'a Array,
        segments: &[SegmentIndex],
        builder: &mut IndexBuilder,
    ) -> std::result::Result<Self, IndexError> {
        let shape = array.dims.get(1..).unwrap_or_default();
        let size = u64::from(array.dtype.size());
        let row_bytes = shape.iter().product::<u64>() * size;
        let rows = match &array.storage {
            ArrayStorage::Contiguous { offset } => Rows::Contiguous {
                offset: *offset,
                row_bytes,
            },
            ArrayStorage::Chunked { layout, chunks } => Rows::Chunked {
                layout: builder.intern_layout(layout.clone())?,
                rows_per_chunk: layout.chunk_shape[0],
                chunks_per_row: chunks_per_row(layout),
                chunks,
                last: None,
            },
            ArrayStorage::Value { bytes } => Rows::Value {
                bytes,
                row_bytes: row_bytes as usize,
            },
            ArrayStorage::Ragged { bytes, ends } => Rows::Ragged {
                bytes,
                ends,
                per_row: shape.iter().product(),
                size,
            },
            ArrayStorage::Stacked(stack) => {
                let parts = stack.iter().map(|part| {
                    let field = match part.from_row {
                        Some(_) => Self::new(&part.array, segments, builder)?,
                        None => Self::whole(&part.array, segments),
                    };
                    Ok((part.first_row, part.from_row, field))
                });
                Rows::Stacked(parts.collect::<std::result::Result<_, IndexError>>()?)
            }
        };
        Ok(Self {
            segment: segments[array.file as usize],
            shape,
            rows,
        })
    }

    fn whole(array: &'a Array, segments: &[SegmentIndex]) -> Self {
        let mut extents = Extents::default();
        extents.push(array.clone());
        Self {
            segment: segments[array.file as usize],
            shape: &array.dims,
            rows: Rows::Whole {
                extents,
                segments: segments.to_vec(),
            },
        }
    }

    fn extent(
        &mut self,
        row: u64,
        builder: &mut IndexBuilder,
    ) -> std::result::Result<FieldExtent, IndexError> {
        let mut shape = self.shape.to_vec();
        let storage = match &mut self.rows {
            Rows::Contiguous { offset, row_bytes } => {
                let offset = *offset + row * *row_bytes;
                Storage::Contiguous { offset }
            }
            Rows::Chunked {
                layout,
                rows_per_chunk,
                chunks_per_row,
                chunks,
                last,
            } => {
                let chunk_row = row / *rows_per_chunk;
                let run = match last {
                    Some((held, run)) if *held == chunk_row => *run,
                    _ => {
                        let part = in_row(chunks, chunk_row * *chunks_per_row, *chunks_per_row);
                        let run = add_chunks(builder, self.segment, part)?;
                        *last = Some((chunk_row, run));
                        run
                    }
                };
                Storage::Chunked {
                    layout: *layout,
                    first_row: row,
                    rows: 1,
                    chunks: run,
                }
            }
            Rows::Value { bytes, row_bytes } => Storage::Value {
                bytes: bytes[row as usize * *row_bytes..][..*row_bytes].to_vec(),
            },
            Rows::Ragged {
                bytes,
                ends,
                per_row,
                size,
            } => {
                let part = ragged(ends, row * *per_row, *per_row);
                shape = vec![part.len() as u64 / *size];
                Storage::Value {
                    bytes: bytes[part].to_vec(),
                }
            }
            Rows::Stacked(parts) => {
                let after = parts.partition_point(|(first, ..)| *first <= row);
                // The first part begins at row 0.
                let (first, from_row, part) = &mut parts[after - 1];
                return part.extent(from_row.unwrap_or(0) + row - *first, builder);
            }
            Rows::Whole { extents, segments } => return one_row(extents, segments, builder),
        };
        Ok(FieldExtent {
            segment: self.segment,
            shape,
            storage,
        })
    }
}

/// All of an array, as one row.
fn one_row(
    extents: &Extents,
    segments: &[SegmentIndex],
    builder: &mut IndexBuilder,
) -> std::result::Result<FieldExtent, IndexError> {
    let mut fields = Vec::with_capacity(1);
    Emitter::new(extents, segments.to_vec(), builder)?.emit(0, builder, &mut fields)?;
    fields.pop().ok_or_else(|| IndexError::Unindexable {
        what: "a row".to_owned(),
        why: "it has no field".to_owned(),
    })
}

/// Where `count` elements of variable length lie, from number `first` on.
fn ragged(ends: &[u64], first: u64, count: u64) -> std::ops::Range<usize> {
    let end = |elements: u64| match elements {
        0 => 0,
        _ => ends[elements as usize - 1] as usize,
    };
    end(first)..end(first + count)
}

/// The stored ones among `count` chunks of the grid, from number `start` on.
fn in_row(chunks: &[StoredChunk], start: u64, count: u64) -> &[StoredChunk] {
    let from = chunks.partition_point(|chunk| chunk.grid_index < start);
    let len = chunks[from..].partition_point(|chunk| chunk.grid_index < start + count);
    &chunks[from..from + len]
}

/// Chunks of the grid that share their rows.
fn chunks_per_row(layout: &ChunkLayout) -> u64 {
    layout.array_shape[1..]
        .iter()
        .zip(&layout.chunk_shape[1..])
        .map(|(dim, chunk)| dim.div_ceil(*chunk))
        .product()
}
