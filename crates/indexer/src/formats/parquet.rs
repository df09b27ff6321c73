//! Row groups of Parquet files, as they lie there.

use forebay_dataset::index::{ChunkLayout, FieldSpec};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::reader::Reader;
use super::{add_sample, byte_field, bytes_at};
use crate::error::Result;
use crate::groups::GroupSamples;
use crate::h5::{Array, ArrayStorage};
use crate::scan::FieldFilter;

/// Longest metadata that is read.
const MAX_METADATA: u64 = 1 << 30;
/// Length of the metadata, and the magic word.
const TAIL: u64 = 8;

/// Finds the row groups of a file: the bytes of all columns, the metadata at the end of the file,
/// and the number of the group in it.
pub(super) fn scan(reader: &mut Reader<'_>, filter: &FieldFilter) -> Result<GroupSamples> {
    let (start, metadata) = metadata(reader)?;
    let mut found = GroupSamples::by_position();
    let mut fields = Vec::new();
    for (name, field) in [
        ("data", byte_field("data")),
        ("footer", byte_field("footer")),
        ("row_group", number_field(reader)?),
    ] {
        if filter.keeps(name) {
            fields.push(field);
        }
    }
    for (number, group) in metadata.row_groups().iter().enumerate() {
        let (mut from, mut end) = (start, 0);
        for column in group.columns() {
            if column.file_path().is_some() {
                return Err(reader.unsupported(
                    "",
                    "columns that lie in other files",
                    "write the table into one file",
                ));
            }
            let (offset, len) = column.byte_range();
            from = from.min(offset);
            end = end.max(offset.saturating_add(len));
        }
        if from < 4 || end > start || end < from {
            return Err(reader.damaged(format!("row group {number} lies at [{from}, {end})")));
        }
        let arrays = fields.iter().map(|field| match field.name.as_str() {
            "data" => bytes_at(from, end - from),
            "footer" => bytes_at(start, reader.len() - start),
            _ => constant(field, number as i64),
        });
        let arrays = arrays.collect();
        add_sample(&mut found, reader, "", &fields, arrays)?;
    }
    Ok(found)
}

/// Where the metadata begins, and what it says.
fn metadata(reader: &mut Reader<'_>) -> Result<(u64, ParquetMetaData)> {
    let tail_at = reader.len().saturating_sub(TAIL);
    let tail: [u8; TAIL as usize] = reader.array(tail_at, "its last bytes")?;
    match &tail[4..] {
        b"PAR1" => {}
        b"PARE" => {
            return Err(reader.unsupported(
                "",
                "encrypted metadata",
                "write it without encryption",
            ));
        }
        _ => {
            return Err(
                reader.damaged("it does not end as a Parquet file does: it may be cut short")
            );
        }
    }
    let len = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    let start = tail_at.checked_sub(len).filter(|_| len <= MAX_METADATA);
    let start =
        start.ok_or_else(|| reader.damaged(format!("its metadata would have {len} bytes")))?;
    let bytes = reader.at(start, len, "the metadata")?;
    let parsed = ParquetMetaDataReader::decode_metadata(bytes);
    let parsed =
        parsed.map_err(|error| reader.damaged(format!("its metadata makes no sense: {error}")))?;
    Ok((start, parsed))
}

fn number_field(reader: &Reader<'_>) -> Result<FieldSpec> {
    let dtype = "<i8".parse();
    Ok(FieldSpec {
        name: "row_group".to_owned(),
        dtype: dtype.map_err(|error: forebay_dataset::DTypeError| {
            reader.damaged_in("row_group", error.to_string())
        })?,
    })
}

/// A number that lies in no file: an array of which nothing is stored, so that its fill value is
/// read. All files share those of one number.
fn constant(field: &FieldSpec, value: i64) -> Array {
    Array {
        dtype: field.dtype,
        dims: Vec::new(),
        file: 0,
        storage: ArrayStorage::Chunked {
            layout: ChunkLayout {
                array_shape: vec![1],
                chunk_shape: vec![1],
                filters: Vec::new(),
                fill_value: value.to_le_bytes().to_vec(),
            },
            chunks: Vec::new(),
        },
    }
}
