//! Record batches of Arrow's IPC format, as a file or as a stream.
//!
//! A file is a stream between two magic words, with a footer that this reader does not need: the
//! messages lie one after another, each with its length before it.

use forebay_dataset::index::FieldSpec;

use super::flatbuffer::{MAX_DEPTH, Table};
use super::reader::Reader;
use super::{add_sample, byte_field, bytes_at};
use crate::error::Result;
use crate::groups::GroupSamples;
use crate::h5::{Array, ArrayStorage};
use crate::scan::FieldFilter;
use crate::{IndexerError, Pattern};

const MAGIC: [u8; 6] = *b"ARROW1";
/// Where the stream in a file begins: the magic word is filled up to 8 bytes.
const FILE_HEAD: u64 = 8;
/// Before the length of a message since version 0.15.
const CONTINUATION: u32 = u32::MAX;
/// Longest metadata of one message that is read.
const MAX_METADATA: u64 = 256 << 20;

const SCHEMA: u8 = 1;
const DICTIONARY: u8 = 2;
const RECORD_BATCH: u8 = 3;

/// A column whose values lie one after another, each as many bytes as the others.
struct Column {
    field: FieldSpec,
    /// Shape of one value.
    shape: Vec<u64>,
    row_bytes: u64,
    /// Positions of its nodes and of its values among the buffers of a batch.
    nodes: std::ops::Range<usize>,
    values: usize,
}

/// Finds the record batches of a file, or with a pattern of rows, the rows of all.
pub(super) fn scan(
    reader: &mut Reader<'_>,
    filter: &FieldFilter,
    pattern: Option<&Pattern>,
) -> Result<GroupSamples> {
    let mut found = GroupSamples::by_position();
    let mut at = begin(reader)?;
    let head_start = at;
    let mut head_end = None;
    let mut columns: Option<Vec<Column>> = None;
    while let Some(message) = Message::read(reader, at)? {
        match message.kind {
            SCHEMA if at == head_start => {
                if let Some(Pattern::Rows(names)) = pattern {
                    columns = Some(columns_of(reader, &message.metadata, names, filter)?);
                }
            }
            DICTIONARY if head_end.is_none() => {}
            RECORD_BATCH if at > head_start => {
                let head_end = *head_end.get_or_insert(at);
                match &columns {
                    Some(columns) => rows(reader, &message, columns, &mut found)?,
                    None => batch(reader, &message, (head_start, head_end), filter, &mut found)?,
                }
            }
            DICTIONARY => {
                return Err(reader.unsupported(
                    "",
                    "a dictionary that changes between record batches",
                    "write the table again without dictionaries, or with all of them first",
                ));
            }
            other => {
                return Err(reader.damaged(format!(
                    "the message at byte {at} is of kind {other}, where a record batch is expected"
                )));
            }
        }
        at = message.end;
    }
    Ok(found)
}

/// Where the first message lies.
fn begin(reader: &mut Reader<'_>) -> Result<u64> {
    let head: [u8; 8] = reader.array(0, "its first bytes")?;
    if head.starts_with(b"FEA1") {
        return Err(reader.unsupported(
            "",
            "the first version of Feather",
            "write it again (`pyarrow.feather.write_feather`)",
        ));
    }
    if !head.starts_with(&MAGIC) {
        return Ok(0);
    }
    let tail = reader.len().saturating_sub(MAGIC.len() as u64);
    let end: [u8; 6] = reader.array(tail, "its last bytes")?;
    if end != MAGIC {
        return Err(reader.damaged("it does not end as an Arrow file does: it may be cut short"));
    }
    Ok(FILE_HEAD)
}

/// One message, without its body.
struct Message {
    kind: u8,
    start: u64,
    body: u64,
    end: u64,
    metadata: Vec<u8>,
}

impl Message {
    /// The message at `at`; `None` at the end of the stream.
    fn read(reader: &mut Reader<'_>, at: u64) -> Result<Option<Self>> {
        let word = |bytes: [u8; 4]| u32::from_le_bytes(bytes);
        let first = word(reader.array(at, "a message or the end of the stream")?);
        if first != CONTINUATION {
            return Err(match at {
                0 | FILE_HEAD if first > 0 && u64::from(first) < reader.len() => reader
                    .unsupported(
                        "",
                        "Arrow's format from before version 0.15, or no Arrow at all",
                        "write it again with a current version",
                    ),
                _ => reader.damaged(format!("there is no message at byte {at}")),
            });
        }
        let len = word(reader.array(at + 4, "the length of a message")?);
        if len == 0 {
            return Ok(None);
        }
        if u64::from(len) > MAX_METADATA {
            return Err(reader.damaged(format!("the message at byte {at} claims {len} bytes")));
        }
        let start = at + 8;
        let metadata = reader.at(start, len.into(), "a message")?.to_vec();
        let parsed = Table::root(&metadata).map(|table| (table.u8(1), table.i64(3)));
        let Some((kind, body_len)) = parsed else {
            return Err(reader.damaged(format!("the message at byte {at} makes no sense")));
        };
        let body = start + u64::from(len);
        let body_len = u64::try_from(body_len)
            .map_err(|_| reader.damaged(format!("the message at byte {at} has a body below 0")))?;
        let end = reader.check(body, body_len, "the body of a message")?;
        Ok(Some(Self {
            kind,
            start: at,
            body,
            end,
            metadata,
        }))
    }
}

/// The batch as it lies there, and what has to stand before it to read it.
fn batch(
    reader: &Reader<'_>,
    message: &Message,
    (head, head_end): (u64, u64),
    filter: &FieldFilter,
    found: &mut GroupSamples,
) -> Result<()> {
    let all = [
        (
            "batch",
            bytes_at(message.start, message.end - message.start),
        ),
        ("head", bytes_at(head, head_end - head)),
    ];
    let kept = all.into_iter().filter(|(name, _)| filter.keeps(name));
    let (fields, arrays): (Vec<FieldSpec>, Vec<Array>) =
        kept.map(|(name, array)| (byte_field(name), array)).unzip();
    add_sample(found, reader, "", &fields, arrays)
}

fn rows(
    reader: &Reader<'_>,
    message: &Message,
    columns: &[Column],
    found: &mut GroupSamples,
) -> Result<()> {
    let makes_no_sense = || {
        reader.damaged(format!(
            "the record batch at byte {} makes no sense",
            message.start
        ))
    };
    let batch = Table::root(&message.metadata).and_then(|table| table.table(2));
    let batch = batch.ok_or_else(makes_no_sense)?;
    if batch.has(3) {
        return Err(reader.unsupported(
            "",
            "rows of compressed record batches",
            "write the table without compression, or make each batch a sample: leave out `--sample`",
        ));
    }
    let rows = u64::try_from(batch.i64(0)).map_err(|_| makes_no_sense())?;
    let (Some(nodes), Some(buffers)) = (batch.pairs(1), batch.pairs(2)) else {
        return Err(makes_no_sense());
    };
    let mut starts = Vec::with_capacity(columns.len());
    for column in columns {
        let name = &column.field.name;
        for node in column.nodes.clone() {
            let (_, nulls) = nodes.get(node).ok_or_else(makes_no_sense)?;
            if *nulls != 0 {
                return Err(reader.unsupported(
                    name,
                    "values that are missing",
                    "fill them, leave the column out with `--fields`, or make each batch a sample",
                ));
            }
        }
        let (offset, len) = buffers.get(column.values).ok_or_else(makes_no_sense)?;
        let (offset, len) = (u64::try_from(*offset).ok(), u64::try_from(*len).ok());
        let needed = rows.checked_mul(column.row_bytes);
        let inside = match (offset, len, needed) {
            (Some(offset), Some(len), Some(needed)) if needed <= len => offset
                .checked_add(len)
                .filter(|end| *end <= message.end - message.body)
                .map(|_| message.body + offset),
            _ => None,
        };
        starts.push(inside.ok_or_else(makes_no_sense)?);
    }
    // No more than the bytes that were seen to be there, or a column has none.
    if columns.iter().all(|column| column.row_bytes == 0) && rows > reader.len() {
        return Err(makes_no_sense());
    }
    let fields: Vec<FieldSpec> = columns.iter().map(|column| column.field.clone()).collect();
    for row in 0..rows {
        let arrays = columns.iter().zip(&starts).map(|(column, start)| Array {
            dtype: column.field.dtype,
            dims: column.shape.clone(),
            file: 0,
            storage: ArrayStorage::Contiguous {
                offset: start + row * column.row_bytes,
            },
        });
        add_sample(found, reader, "", &fields, arrays.collect())?;
    }
    Ok(())
}

/// The columns that are wanted, in order of their names; any other may be of any type.
fn columns_of(
    reader: &Reader<'_>,
    metadata: &[u8],
    names: &[String],
    filter: &FieldFilter,
) -> Result<Vec<Column>> {
    let makes_no_sense = || reader.damaged("its schema makes no sense");
    let schema = Table::root(metadata).and_then(|table| table.table(2));
    let schema = schema.ok_or_else(makes_no_sense)?;
    if schema.i16(0) != 0 {
        return Err(reader.unsupported("", "big-endian columns", "write it on another machine"));
    }
    let (mut node, mut buffer) = (0, 0);
    let mut columns = Vec::new();
    for field in schema.tables(1).ok_or_else(makes_no_sense)? {
        let name = field.text(0).ok_or_else(makes_no_sense)?;
        let wanted =
            (names.is_empty() || names.iter().any(|known| known == name)) && filter.keeps(name);
        let (first_node, first_buffer) = (node, buffer);
        let skipped = skip(&field, &mut node, &mut buffer, 0);
        if wanted {
            let (shape, dtype, values) = fixed(reader, name, &field)?;
            let count: u64 = shape.iter().product();
            columns.push(Column {
                field: FieldSpec {
                    name: name.to_owned(),
                    dtype,
                },
                row_bytes: count * u64::from(dtype.size()),
                shape,
                nodes: first_node..node,
                values: first_buffer + values,
            });
        } else {
            skipped.ok_or_else(|| unknown(reader, name))?;
        }
    }
    columns.sort_by(|one, other| one.field.name.cmp(&other.field.name));
    if let Some(name) = names
        .iter()
        .find(|name| columns.iter().all(|column| column.field.name != **name))
    {
        return Err(IndexerError::Request(format!(
            "there is no column `{name}` in `{}`",
            reader.path().display()
        )));
    }
    match columns.is_empty() {
        true => Err(reader.damaged("it has no column that is wanted")),
        false => Ok(columns),
    }
}

fn unknown(reader: &Reader<'_>, name: &str) -> IndexerError {
    reader.unsupported(
        name,
        "rows of a table with a column of an unknown type",
        "write the table without it, or make each batch a sample: leave out `--sample`",
    )
}

/// Shape and type of one value, and which of the column's buffers holds the values.
fn fixed(
    reader: &Reader<'_>,
    name: &str,
    field: &Table<'_>,
) -> Result<(Vec<u64>, forebay_dataset::DType, usize)> {
    let refuse = || {
        reader.unsupported(
            name,
            "rows of a column whose values are no plain numbers of one length",
            "leave the column out with `--fields`, or make each batch a sample: leave out `--sample`",
        )
    };
    let (mut inner, mut shape, mut values) = (*field, Vec::new(), 1);
    for _ in 0..MAX_DEPTH {
        if inner.has(4) {
            return Err(refuse());
        }
        let kind = inner.table(3);
        let dtype = match (inner.u8(2), &kind) {
            (2, Some(int)) => match (int.i32(0), int.u8(1) != 0) {
                (8, true) => "|i1",
                (8, false) => "|u1",
                (16, true) => "<i2",
                (16, false) => "<u2",
                (32, true) => "<i4",
                (32, false) => "<u4",
                (64, true) => "<i8",
                (64, false) => "<u8",
                _ => return Err(refuse()),
            },
            (3, Some(float)) => ["<f2", "<f4", "<f8"]
                .get(float.i16(0) as usize)
                .copied()
                .ok_or_else(refuse)?,
            (15, Some(binary)) => {
                shape.push(u64::try_from(binary.i32(0)).map_err(|_| refuse())?);
                "|u1"
            }
            (16, Some(list)) => {
                shape.push(u64::try_from(list.i32(0)).map_err(|_| refuse())?);
                let children = inner.tables(5).unwrap_or_default();
                let [child] = children.as_slice() else {
                    return Err(refuse());
                };
                inner = *child;
                values += 1;
                continue;
            }
            _ => return Err(refuse()),
        };
        let small = shape
            .iter()
            .try_fold(1_u64, |len, dim| len.checked_mul(*dim));
        if small.is_none_or(|len| len > u64::from(u32::MAX)) {
            return Err(refuse());
        }
        return match dtype.parse() {
            Ok(dtype) => Ok((shape, dtype, values)),
            Err(_) => Err(refuse()),
        };
    }
    Err(refuse())
}

/// Counts the nodes and buffers of a field; `None` if its type is unknown.
fn skip(field: &Table<'_>, node: &mut usize, buffer: &mut usize, depth: usize) -> Option<()> {
    *node += 1;
    let own = match (field.has(4), field.u8(2)) {
        (true, _) => 2,
        (false, 1) => 0,
        (false, 2 | 3 | 6..=11 | 15 | 18) => 2,
        (false, 4 | 5 | 19 | 20) => 3,
        (false, 12 | 17 | 21) => 2,
        (false, 13 | 16) => 1,
        // Dense unions have a buffer more.
        (false, 14) => 1 + usize::from(field.table(3)?.i16(0) == 1),
        _ => return None,
    };
    *buffer += own;
    if field.has(4) || depth > MAX_DEPTH {
        return (depth <= MAX_DEPTH).then_some(());
    }
    for child in field.tables(5)? {
        skip(&child, node, buffer, depth + 1)?;
    }
    Some(())
}
