//! Archives of numpy: a zip archive of npy arrays, stored or deflated one by one.

use forebay_dataset::index::{ChunkLayout, Filter, StoredChunk};

use crate::error::Result;
use crate::h5::{Array, ArrayStorage};
use crate::scan::FieldFilter;

use super::arrays::Arrays;
use super::npy::{self, Npy, PREAMBLE};
use super::reader::Reader;
use super::zip::{self, Entry, Method};

/// The arrays of an archive that are wanted, by their names without `.npy`.
pub(super) fn arrays(
    reader: &mut Reader<'_>,
    filter: &FieldFilter,
    verify: bool,
) -> Result<Arrays> {
    let mut arrays = Arrays::new();
    for entry in zip::entries(reader)? {
        let name = entry.name.strip_suffix(".npy").unwrap_or(&entry.name);
        if !filter.keeps(name) {
            continue;
        }
        if name == entry.name {
            return Err(reader.unsupported(
                name,
                "a member that is not an npy array",
                "leave it out with `--fields`, or index the extracted files",
            ));
        }
        let name = name.to_owned();
        arrays.push((name, array(reader, &entry, verify)?));
    }
    arrays.sort_by(|one, other| one.0.cmp(&other.0));
    Ok(arrays)
}

fn array(reader: &mut Reader<'_>, entry: &Entry, verify: bool) -> Result<Array> {
    let method = entry.method(reader)?;
    let data = entry.data(reader)?;
    let (npy, skipped) = match method {
        Method::Stored => {
            let (npy, start) = npy::at(reader, data, &entry.name)?;
            (npy, start - data)
        }
        Method::Deflated => deflated_header(reader, entry, data)?,
    };
    if skipped.checked_add(npy.bytes) != Some(entry.size) {
        let (found, wanted) = (entry.size, npy.bytes);
        return Err(reader.damaged_in(
            &entry.name,
            format!("it has {found} bytes: a header of {skipped} and an array of {wanted} belong"),
        ));
    }
    if verify {
        entry.verify(reader, data, method)?;
    }
    match method {
        Method::Deflated if npy.bytes > 0 => compressed(reader, entry, npy, data, skipped),
        // An empty array has no bytes, wherever it lies.
        Method::Deflated => Ok(npy.contiguous(data)),
        Method::Stored => Ok(npy.contiguous(data + skipped)),
    }
}

/// What the header of a deflated array says, and its bytes before the array.
fn deflated_header(reader: &mut Reader<'_>, entry: &Entry, data: u64) -> Result<(Npy, u64)> {
    let cut = "its npy header is cut short";
    let first = entry.inflated(reader, data, PREAMBLE)?;
    let Some(first) = first.first_chunk() else {
        return Err(reader.damaged_in(&entry.name, cut));
    };
    let within = |fault: npy::Fault, reader: &Reader<'_>| fault.within(reader, &entry.name);
    let (skipped, len) = npy::lengths(first).map_err(|fault| within(fault, reader))?;
    // Bounded by the longest header.
    let head = entry.inflated(reader, data, (skipped + len) as usize)?;
    let Some(text) = head
        .get(skipped as usize..)
        .filter(|text| text.len() as u64 == len)
    else {
        return Err(reader.damaged_in(&entry.name, cut));
    };
    let npy = npy::parse(text).map_err(|fault| within(fault, reader))?;
    Ok((npy, skipped + len))
}

/// An array whose bytes lie, behind its header, in a deflate stream: one chunk.
fn compressed(
    reader: &Reader<'_>,
    entry: &Entry,
    npy: Npy,
    data: u64,
    skipped: u64,
) -> Result<Array> {
    let short = |len: u64| u32::try_from(len).ok();
    let (Some(stored_len), Some(_), Some(skipped)) =
        (short(entry.stored), short(npy.bytes), short(skipped))
    else {
        return Err(reader.unsupported(
            &entry.name,
            "a compressed array of over 4 GiB",
            "save it uncompressed (`np.savez`, `np.save`)",
        ));
    };
    let shape = match npy.dims.is_empty() {
        true => vec![1],
        false => npy.dims.clone(),
    };
    let chunk = StoredChunk {
        grid_index: 0,
        offset: data,
        stored_len,
        filter_mask: 0,
    };
    Ok(Array {
        file: 0,
        dtype: npy.dtype,
        dims: npy.dims,
        storage: ArrayStorage::Chunked {
            layout: ChunkLayout {
                array_shape: shape.clone(),
                chunk_shape: shape,
                filters: vec![Filter::RawDeflate { skipped }],
                fill_value: Vec::new(),
            },
            chunks: vec![chunk],
        },
    })
}
