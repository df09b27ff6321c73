//! What has to be read for some samples, as ranges of shards and places in the output.

use std::ops::Range;

use forebay_dataset::index::{Field, Sample};
use forebay_dataset::{ByteRange, SegmentIndex, ShardIndex};

use crate::error::ClientError;
use crate::layout::{FIELD_ALIGN, places};

/// One read.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    pub(crate) shard: ShardIndex,
    pub(crate) segment: SegmentIndex,
    pub(crate) range: ByteRange,
    pub(crate) target: Target,
}

/// Where the bytes of a part go.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Straight into the output.
    Output(Range<usize>),
    /// Through the decoder, into the field's part of the output.
    Chunk {
        sample: u64,
        field: usize,
        output: Range<usize>,
        grid_index: u64,
        filter_mask: u32,
    },
}

/// Adds the parts of a sample whose output begins at `base`; absent chunks are filled in `out`.
pub(crate) fn add_parts(
    parts: &mut Vec<Part>,
    sample: &Sample<'_>,
    fields: usize,
    base: usize,
    out: &mut [u8],
) -> Result<(), ClientError> {
    for (number, place) in places(sample, fields).enumerate() {
        let place = place?;
        let start = base + place.offset as usize;
        let output = start..start + place.len as usize;
        let field = sample.field(number)?;
        match field {
            Field::Contiguous {
                shard_range: None, ..
            } => {}
            Field::Value { bytes, .. } => out[output].copy_from_slice(bytes),
            Field::Contiguous {
                segment,
                shard,
                shard_range: Some(range),
                ..
            } => {
                push_contiguous(
                    parts,
                    Part {
                        shard,
                        segment,
                        range,
                        target: Target::Output(output),
                    },
                );
            }
            Field::Chunked {
                segment,
                shard,
                chunks,
                ..
            } => {
                fill_absent(&field, chunks.len() as u64, &mut out[output.clone()])
                    .map_err(|source| decode_error(sample.index(), number, source))?;
                parts.extend(chunks.map(|chunk| Part {
                    shard,
                    segment,
                    range: chunk.shard_range,
                    target: Target::Chunk {
                        sample: sample.index(),
                        field: number,
                        output: output.clone(),
                        grid_index: chunk.grid_index,
                        filter_mask: chunk.filter_mask,
                    },
                }));
            }
        }
    }
    Ok(())
}

fn fill_absent(
    field: &Field<'_>,
    stored: u64,
    out: &mut [u8],
) -> Result<(), forebay_dataset::DecodeError> {
    match field.rows() {
        Some(rows) if rows.chunk_count()? > stored => rows.fill(out),
        _ => Ok(()),
    }
}

pub(crate) fn decode_error(
    sample: u64,
    field: usize,
    source: forebay_dataset::DecodeError,
) -> ClientError {
    // The names are filled in where the index is at hand.
    ClientError::Decode {
        field: field.to_string(),
        sample,
        path: String::new(),
        source,
    }
}

/// Adds a part, or lengthens the last one where the same distance lies between them at the origin
/// and in the output: the fields of a flattened sample make one read.
fn push_contiguous(parts: &mut Vec<Part>, part: Part) {
    if let (Some(last), Target::Output(output)) = (parts.last_mut(), &part.target)
        && last.segment == part.segment
        && let Target::Output(before) = &mut last.target
        && let Some(gap) = part.range.start().checked_sub(last.range.end())
        && gap < FIELD_ALIGN
        && before.end as u64 + gap == output.start as u64
        && let Ok(joined) =
            ByteRange::new(last.range.start(), part.range.end() - last.range.start())
    {
        last.range = joined;
        before.end = output.end;
        return;
    }
    parts.push(part);
}
