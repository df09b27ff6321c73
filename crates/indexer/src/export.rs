//! An index as a table in a Parquet file, for tools that know nothing of indexes.

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;

use forebay_dataset::IndexError;
use forebay_dataset::index::Field;
use forebay_origin::IndexFile;
use parquet::basic::Compression;
use parquet::data_type::{ByteArray, ByteArrayType, DataType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;

use crate::error::Result;
use crate::output::write_whole;
use crate::{IndexerError, Progress, Stage};

/// Rows of a row group: what is held in memory.
const GROUP: usize = 1 << 20;

const SCHEMA: &str = "message index {
    required int64 sample;
    optional binary key (UTF8);
    required binary field (UTF8);
    optional binary file (UTF8);
    optional int64 offset;
    required int64 length;
    required binary dtype (UTF8);
    repeated int64 shape;
    optional int64 chunks;
}";

/// What to export.
#[derive(Clone, Debug)]
pub struct ExportRequest {
    /// The index.
    pub index: PathBuf,
    /// The Parquet file to write. It is replaced in one step.
    pub output: PathBuf,
}

/// Writes a row for each field of each sample, in order: `sample`, `key`, `field`, `file` (below
/// the root), `offset` in the file of a field that is stored as it is, `length` in bytes when
/// decoded, `dtype`, `shape`, and the number of `chunks` of one that is not. Returns the rows.
///
/// # Errors
/// The index cannot be read or is damaged; the output cannot be written.
pub fn export(request: &ExportRequest, progress: &dyn Progress) -> Result<u64> {
    let index = IndexFile::open(&request.index)?;
    progress.begin(Stage::Write, index.len());
    write_whole(&request.output, |out| {
        let failed = |error: ParquetError| {
            IndexerError::io("write", &request.output)(std::io::Error::other(error))
        };
        let schema = Arc::new(parse_message_type(SCHEMA).map_err(failed)?);
        let properties = WriterProperties::builder()
            .set_compression(Compression::SNAPPY)
            .build();
        let mut writer =
            SerializedFileWriter::new(out, schema, Arc::new(properties)).map_err(failed)?;
        let mut rows = Rows::default();
        let mut written = 0;
        for sample in 0..index.len() {
            rows.add(&index, sample)
                .map_err(|source| IndexerError::Index {
                    path: request.index.clone(),
                    source,
                })?;
            let last = sample + 1 == index.len();
            if last || rows.sample.values.len() >= GROUP {
                written += rows.sample.values.len() as u64;
                let mut group = writer.next_row_group().map_err(failed)?;
                rows.write(&mut group).map_err(failed)?;
                group.close().map_err(failed)?;
            }
            progress.advance(1);
        }
        writer.close().map_err(failed)?;
        Ok(written)
    })
}

/// One column, with what its levels say of values that are missing or repeat.
struct Column<T> {
    values: Vec<T>,
    definition: Vec<i16>,
    repetition: Vec<i16>,
}

impl<T> Default for Column<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            definition: Vec::new(),
            repetition: Vec::new(),
        }
    }
}

impl<T> Column<T> {
    fn push(&mut self, value: Option<T>) {
        self.definition.push(value.is_some().into());
        self.values.extend(value);
    }

    fn push_list(&mut self, list: impl Iterator<Item = T>) {
        let before = self.values.len();
        for value in list {
            self.repetition.push((self.values.len() > before).into());
            self.definition.push(1);
            self.values.push(value);
        }
        if self.values.len() == before {
            self.repetition.push(0);
            self.definition.push(0);
        }
    }

    /// Writes it as the next column, and forgets it.
    fn write<D: DataType<T = T>>(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
        (optional, repeated): (bool, bool),
    ) -> std::result::Result<(), ParquetError> {
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("a column too many".to_owned()));
        };
        let definition = (optional || repeated).then_some(&self.definition[..]);
        let repetition = repeated.then_some(&self.repetition[..]);
        column
            .typed::<D>()
            .write_batch(&self.values, definition, repetition)?;
        column.close()?;
        *self = Self::default();
        Ok(())
    }
}

#[derive(Default)]
struct Rows {
    sample: Column<i64>,
    key: Column<ByteArray>,
    field: Column<ByteArray>,
    file: Column<ByteArray>,
    offset: Column<i64>,
    length: Column<i64>,
    dtype: Column<ByteArray>,
    shape: Column<i64>,
    chunks: Column<i64>,
}

impl Rows {
    fn add(&mut self, index: &IndexFile, sample: u64) -> std::result::Result<(), IndexError> {
        let found = index.sample(sample)?;
        let key = index.key(sample)?;
        for (number, spec) in index.fields().iter().enumerate() {
            let field = found.field(number)?;
            let segment = field.segment().map(|segment| index.segment(segment));
            let segment = segment.transpose()?;
            let (offset, chunks) = match field {
                Field::Contiguous { shard_range, .. } => {
                    let start = segment.map_or(0, |segment| segment.shard_start);
                    (shard_range.map(|range| range.start() - start), None)
                }
                Field::Chunked { chunks, .. } => (None, Some(chunks.len() as i64)),
                Field::Value { .. } => (None, None),
            };
            self.sample.push(Some(sample as i64));
            self.key.push(key.map(ByteArray::from));
            self.field.push(Some(ByteArray::from(spec.name.as_str())));
            self.file
                .push(segment.map(|segment| ByteArray::from(segment.path)));
            self.offset.push(offset.map(|offset| offset as i64));
            self.length.push(Some(field.decoded_len() as i64));
            self.dtype
                .push(Some(ByteArray::from(spec.dtype.to_string().as_str())));
            self.shape
                .push_list(field.shape().iter().map(|dim| dim as i64));
            self.chunks.push(chunks);
        }
        Ok(())
    }

    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, impl Write + Send>,
    ) -> std::result::Result<(), ParquetError> {
        const REQUIRED: (bool, bool) = (false, false);
        const OPTIONAL: (bool, bool) = (true, false);
        const REPEATED: (bool, bool) = (true, true);
        self.sample.write::<Int64Type>(group, REQUIRED)?;
        self.key.write::<ByteArrayType>(group, OPTIONAL)?;
        self.field.write::<ByteArrayType>(group, REQUIRED)?;
        self.file.write::<ByteArrayType>(group, OPTIONAL)?;
        self.offset.write::<Int64Type>(group, OPTIONAL)?;
        self.length.write::<Int64Type>(group, REQUIRED)?;
        self.dtype.write::<ByteArrayType>(group, REQUIRED)?;
        self.shape.write::<Int64Type>(group, REPEATED)?;
        self.chunks.write::<Int64Type>(group, OPTIONAL)
    }
}
