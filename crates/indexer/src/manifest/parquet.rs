//! Tables in Parquet files: flat columns of numbers, text and bytes.

use std::fs::File;
use std::path::Path;

use parquet::basic::{ConvertedType, LogicalType, Type as Physical};
use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::DataType;
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::schema::types::ColumnDescriptor;

use super::column::{Cells, Column};
use crate::IndexerError;
use crate::error::Result;

/// Rows that are read at once.
const ROWS: usize = 1 << 16;

/// Reads all columns. What cannot be a field is kept as such, since it may be left out.
pub(super) fn columns(path: &Path) -> Result<Vec<Column>> {
    let file = File::open(path).map_err(IndexerError::io("open", path))?;
    let reader = SerializedFileReader::new(file).map_err(fault(path))?;
    let metadata = reader.metadata();
    let rows = u64::try_from(metadata.file_metadata().num_rows()).unwrap_or(0);
    let schema = metadata.file_metadata().schema_descr();
    let mut columns = Vec::with_capacity(schema.num_columns());
    for number in 0..schema.num_columns() {
        let described = schema.column(number);
        let name = described.path().string();
        let cells = match kind(&described) {
            Err(why) => Cells::Unusable { rows, why },
            Ok(kind) => {
                let mut found = Found::new(kind);
                for group in 0..reader.num_row_groups() {
                    let group = reader.get_row_group(group).map_err(fault(path))?;
                    let column = group.get_column_reader(number).map_err(fault(path))?;
                    found.read(column).map_err(fault(path))?;
                }
                found.cells(rows)
            }
        };
        columns.push(Column { name, cells });
    }
    if let Some(odd) = columns.iter().find(|column| column.len() != rows) {
        return Err(IndexerError::Damaged {
            place: format!("`{}` of `{}`", odd.name, path.display()),
            what: format!("it has {} of {rows} rows", odd.len()),
        });
    }
    Ok(columns)
}

fn fault(path: &Path) -> impl Fn(ParquetError) -> IndexerError + use<> {
    let place = format!("`{}`", path.display());
    move |error| match error {
        ParquetError::NYI(feature) => IndexerError::Unsupported {
            place: place.clone(),
            feature,
            remedy: "write the table again with `snappy`, `gzip`, `zstd` or no compression",
        },
        other => IndexerError::Damaged {
            place: place.clone(),
            what: other.to_string(),
        },
    }
}

/// What a column becomes.
#[derive(Clone, Copy)]
enum Kind {
    /// A type of numpy, and how many bytes of the stored number it has.
    Number(&'static str, usize),
    Text,
}

fn kind(column: &ColumnDescriptor) -> std::result::Result<Kind, String> {
    if column.max_rep_level() > 0 || column.path().parts().len() > 1 {
        return Err("it holds lists or structures".to_owned());
    }
    let converted = column.converted_type();
    let integer = |wide: usize| match (converted, column.logical_type_ref()) {
        (ConvertedType::INT_8, _) => Ok(Kind::Number("|i1", 1)),
        (ConvertedType::INT_16, _) => Ok(Kind::Number("<i2", 2)),
        (ConvertedType::UINT_8, _) => Ok(Kind::Number("|u1", 1)),
        (ConvertedType::UINT_16, _) => Ok(Kind::Number("<u2", 2)),
        (ConvertedType::UINT_32, _) => Ok(Kind::Number("<u4", 4)),
        (ConvertedType::UINT_64, _) => Ok(Kind::Number("<u8", 8)),
        (ConvertedType::NONE | ConvertedType::INT_32 | ConvertedType::INT_64, None)
        | (ConvertedType::INT_32 | ConvertedType::INT_64, Some(LogicalType::Integer { .. })) => {
            Ok(Kind::Number(if wide == 4 { "<i4" } else { "<i8" }, wide))
        }
        (other, logical) => Err(match logical {
            Some(logical) => format!("its type is {logical:?}"),
            None => format!("its type is {other}"),
        }),
    };
    match column.physical_type() {
        Physical::BOOLEAN => Ok(Kind::Number("|b1", 1)),
        Physical::INT32 => integer(4),
        Physical::INT64 => integer(8),
        Physical::FLOAT => Ok(Kind::Number("<f4", 4)),
        Physical::DOUBLE => Ok(Kind::Number("<f8", 8)),
        Physical::INT96 => Err("its type is INT96".to_owned()),
        Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY => match converted {
            ConvertedType::NONE
            | ConvertedType::UTF8
            | ConvertedType::ENUM
            | ConvertedType::JSON => Ok(Kind::Text),
            other => Err(format!("its type is {other}")),
        },
    }
}

/// Cells of a column, as they are read.
struct Found {
    kind: Kind,
    bytes: Vec<u8>,
    ends: Vec<u64>,
    /// First row without a value, where that cannot be said in numbers.
    missing: Option<u64>,
}

impl Found {
    const fn new(kind: Kind) -> Self {
        Self {
            kind,
            bytes: Vec::new(),
            ends: Vec::new(),
            missing: None,
        }
    }

    fn read(&mut self, column: ColumnReader) -> std::result::Result<(), ParquetError> {
        match column {
            ColumnReader::BoolColumnReader(reader) => {
                self.cells_of(reader, |value| vec![u8::from(*value)], None)
            }
            ColumnReader::Int32ColumnReader(reader) => {
                self.cells_of(reader, |value| value.to_le_bytes().to_vec(), None)
            }
            ColumnReader::Int64ColumnReader(reader) => {
                self.cells_of(reader, |value| value.to_le_bytes().to_vec(), None)
            }
            ColumnReader::FloatColumnReader(reader) => {
                let nan = f32::NAN.to_le_bytes().to_vec();
                self.cells_of(reader, |value| value.to_le_bytes().to_vec(), Some(nan))
            }
            ColumnReader::DoubleColumnReader(reader) => {
                let nan = f64::NAN.to_le_bytes().to_vec();
                self.cells_of(reader, |value| value.to_le_bytes().to_vec(), Some(nan))
            }
            ColumnReader::ByteArrayColumnReader(reader) => {
                self.cells_of(reader, |value| value.data().to_vec(), Some(Vec::new()))
            }
            ColumnReader::FixedLenByteArrayColumnReader(reader) => {
                self.cells_of(reader, |value| value.data().to_vec(), Some(Vec::new()))
            }
            ColumnReader::Int96ColumnReader(_) => Ok(()),
        }
    }

    /// Appends the cells of one row group; `absent` stands where there is none.
    fn cells_of<T: DataType>(
        &mut self,
        mut reader: ColumnReaderImpl<T>,
        encode: impl Fn(&T::T) -> Vec<u8>,
        absent: Option<Vec<u8>>,
    ) -> std::result::Result<(), ParquetError> {
        let (mut values, mut levels) = (Vec::new(), Vec::new());
        loop {
            values.clear();
            levels.clear();
            let (rows, found, _) =
                reader.read_records(ROWS, Some(&mut levels), None, &mut values)?;
            if rows == 0 {
                return Ok(());
            }
            // Without levels every row has a value.
            let optional = found < rows || !levels.is_empty();
            let mut next = values.iter();
            for row in 0..rows {
                let there = !optional || levels.get(row).is_none_or(|level| *level > 0);
                match there.then(|| next.next()).flatten() {
                    Some(value) => self.push(&encode(value)),
                    None => self.push_absent(absent.as_deref()),
                }
            }
        }
    }

    fn push(&mut self, value: &[u8]) {
        let kept = match self.kind {
            Kind::Number(_, width) => value.len().min(width),
            Kind::Text => value.len(),
        };
        self.bytes.extend(&value[..kept]);
        self.ends.push(self.bytes.len() as u64);
    }

    fn push_absent(&mut self, absent: Option<&[u8]>) {
        match absent {
            Some(value) => self.push(value),
            None => {
                let row = self.ends.len() as u64;
                self.missing.get_or_insert(row);
                self.push(&[0; 8]);
            }
        }
    }

    fn cells(self, rows: u64) -> Cells {
        let unusable = |why: String| Cells::Unusable { rows, why };
        match (self.kind, self.missing) {
            (Kind::Number(..), Some(row)) => unusable(format!("row {} has no value", row + 1)),
            (Kind::Number(name, _), None) => match name.parse() {
                Ok(dtype) => Cells::Fixed {
                    dtype,
                    bytes: self.bytes,
                },
                Err(error) => unusable(format!("{error}")),
            },
            (Kind::Text, _) => Cells::Text {
                ends: self.ends,
                bytes: self.bytes,
            },
        }
    }
}
