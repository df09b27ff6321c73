//! Samples that are rows along axis 0 of equally long data sets.

use forebay_dataset::index::{
    ChunkLayout, ChunksRef, FieldExtent, FieldSpec, IndexBuilder, LayoutIndex, Storage, StoredChunk,
};
use forebay_dataset::{IndexError, SegmentIndex};

use crate::IndexerError;
use crate::error::Result;
use crate::extents::add_chunks;
use crate::files::InputFile;
use crate::h5::{Array, ArrayStorage, H5File, ObjectKind, Target};
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
    let named = named(input, file, names, filter)?;
    let mut fields = Vec::new();
    let mut arrays = Vec::new();
    for (name, target, wanted) in named {
        let within = IndexerError::h5(&input.path, &name);
        let object = match file.follow(file.root(), &target) {
            Ok(object) => object.filter(|object| object.kind == ObjectKind::Dataset),
            Err(error) => return Err(within(error)),
        };
        match object {
            Some(object) => {
                let parts = file.arrays(&object, |suffix| filter.keeps_part(&name, suffix));
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
    names: &[String],
    filter: &FieldFilter,
) -> Result<Vec<(String, Target, bool)>> {
    let mut named = Vec::new();
    if names.is_empty() {
        let root = file.object(file.root());
        let links = root.and_then(|root| file.links(&root));
        for link in links.map_err(IndexerError::h5(&input.path, ""))? {
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
    segment: SegmentIndex,
    fields: Vec<RowField<'a>>,
}

enum RowField<'a> {
    Contiguous {
        offset: u64,
        row_bytes: u64,
        shape: &'a [u64],
    },
    Chunked {
        layout: LayoutIndex,
        rows_per_chunk: u64,
        /// Chunks along the other axes.
        chunks_per_row: u64,
        chunks: &'a [StoredChunk],
        /// The chunks of the row of chunks that was used last.
        last: Option<(u64, ChunksRef)>,
        shape: &'a [u64],
    },
}

impl<'a> RowEmitter<'a> {
    pub(crate) fn new(
        samples: &'a RowSamples,
        segment: SegmentIndex,
        builder: &mut IndexBuilder,
    ) -> std::result::Result<Self, IndexError> {
        let fields = samples.arrays.iter();
        Ok(Self {
            segment,
            fields: fields
                .map(|array| RowField::new(array, builder))
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
            fields.push(field.extent(self.segment, row, builder)?);
        }
        Ok(())
    }
}

impl<'a> RowField<'a> {
    fn new(array: &'a Array, builder: &mut IndexBuilder) -> std::result::Result<Self, IndexError> {
        let shape = array.dims.get(1..).unwrap_or_default();
        Ok(match &array.storage {
            ArrayStorage::Contiguous { offset } => Self::Contiguous {
                offset: *offset,
                row_bytes: shape.iter().product::<u64>() * u64::from(array.dtype.size()),
                shape,
            },
            ArrayStorage::Chunked { layout, chunks } => Self::Chunked {
                layout: builder.intern_layout(layout.clone())?,
                rows_per_chunk: layout.chunk_shape[0],
                chunks_per_row: chunks_per_row(layout),
                chunks,
                last: None,
                shape,
            },
        })
    }

    fn extent(
        &mut self,
        segment: SegmentIndex,
        row: u64,
        builder: &mut IndexBuilder,
    ) -> std::result::Result<FieldExtent, IndexError> {
        let (shape, storage) = match self {
            Self::Contiguous {
                offset,
                row_bytes,
                shape,
            } => {
                let offset = *offset + row * *row_bytes;
                (*shape, Storage::Contiguous { offset })
            }
            Self::Chunked {
                layout,
                rows_per_chunk,
                chunks_per_row,
                chunks,
                last,
                shape,
            } => {
                let chunk_row = row / *rows_per_chunk;
                let run = match last {
                    Some((held, run)) if *held == chunk_row => *run,
                    _ => {
                        let start = chunk_row * *chunks_per_row;
                        let from = chunks.partition_point(|chunk| chunk.grid_index < start);
                        let len = chunks[from..]
                            .partition_point(|chunk| chunk.grid_index < start + *chunks_per_row);
                        let run = add_chunks(builder, segment, &chunks[from..from + len])?;
                        *last = Some((chunk_row, run));
                        run
                    }
                };
                let storage = Storage::Chunked {
                    layout: *layout,
                    first_row: row,
                    rows: 1,
                    chunks: run,
                };
                (*shape, storage)
            }
        };
        Ok(FieldExtent {
            segment,
            shape: shape.to_vec(),
            storage,
        })
    }
}

/// Chunks of the grid that share their rows.
fn chunks_per_row(layout: &ChunkLayout) -> u64 {
    layout.array_shape[1..]
        .iter()
        .zip(&layout.chunk_shape[1..])
        .map(|(dim, chunk)| dim.div_ceil(*chunk))
        .product()
}
