//! Data space, layout, filter and fill value messages of data sets.

use super::cursor::{Fields, address};
use super::{H5Result, Remedy, damaged, unsupported};

/// HDF5 allows no more dimensions.
const MAX_RANK: usize = 32;

/// Shape of a data set.
pub(super) struct Space {
    pub(super) dims: Vec<u64>,
    pub(super) max_dims: Option<Vec<u64>>,
}

pub(super) fn space(body: &[u8], length_size: u8) -> H5Result<Space> {
    let mut fields = Fields::new(body, "data space");
    let version = fields.u8()?;
    let rank = usize::from(fields.u8()?);
    let flags = fields.u8()?;
    let class = match version {
        1 => {
            fields.skip(5)?;
            u8::from(rank > 0)
        }
        2 => fields.u8()?,
        _ => {
            return unsupported(format!("version {version} of data spaces"), Remedy::Repack);
        }
    };
    if class == 2 {
        return unsupported("an empty (null) data space", Remedy::Convert);
    }
    if rank > MAX_RANK || class > 2 || (class == 0) != (rank == 0) {
        return damaged(format!(
            "its data space has class {class} and {rank} dimensions"
        ));
    }
    let mut read =
        || -> H5Result<Vec<u64>> { (0..rank).map(|_| fields.uint(length_size)).collect() };
    let dims = read()?;
    let max_dims = (flags & 1 != 0).then(read).transpose()?;
    Ok(Space { dims, max_dims })
}

/// How the bytes of a data set are stored.
pub(super) enum Layout {
    /// In the header, at this offset of the message.
    Compact { at: usize, len: u64 },
    /// In one run of at least so many bytes; `None`: nothing was written yet.
    Contiguous { address: Option<u64>, len: u64 },
    /// In other data sets, which an object of the global heap lists.
    Virtual { address: u64, number: u32 },
    /// In chunks, found by an index.
    Chunked {
        /// Elements along each axis, then bytes of one element.
        dims: Vec<u32>,
        index: ChunkIndex,
        /// Where the index lies; `None`: no chunk was written yet.
        address: Option<u64>,
        /// Chunks that reach over the edge are stored without the filters.
        edges_unfiltered: bool,
    },
}

/// Kind of a chunk index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChunkIndex {
    BTreeV1,
    /// One chunk; with filters, its stored length and its filter mask.
    Single(Option<(u64, u32)>),
    Implicit,
    FixedArray,
    ExtensibleArray,
    BTreeV2,
}

pub(super) fn layout(body: &[u8], offset_size: u8, length_size: u8) -> H5Result<Layout> {
    let mut fields = Fields::new(body, "data layout");
    let version = fields.u8()?;
    if version == 1 || version == 2 {
        return layout_old(&mut fields, body.len(), offset_size);
    }
    if !(3..=5).contains(&version) {
        return unsupported(format!("version {version} of data layouts"), Remedy::Repack);
    }
    match fields.u8()? {
        0 => {
            let len = usize::from(fields.u16()?);
            let at = body.len() - fields.remaining();
            fields.skip(len)?;
            Ok(Layout::Compact {
                at,
                len: len as u64,
            })
        }
        1 => Ok(Layout::Contiguous {
            address: address(fields.uint(offset_size)?, offset_size),
            len: fields.uint(length_size)?,
        }),
        2 if version == 3 => chunked_v3(&mut fields, offset_size),
        2 => chunked_v4(&mut fields, version, offset_size, length_size),
        3 => Ok(Layout::Virtual {
            address: fields.uint(offset_size)?,
            number: fields.u32()?,
        }),
        class => unsupported(format!("data layout class {class}"), Remedy::Convert),
    }
}

/// What HDF5 wrote before version 1.6.3: a contiguous data set has no length of its own.
fn layout_old(fields: &mut Fields<'_>, message_len: usize, offset_size: u8) -> H5Result<Layout> {
    let rank = usize::from(fields.u8()?);
    let class = fields.u8()?;
    fields.skip(5)?;
    if rank > MAX_RANK + 1 {
        return damaged(format!("its layout has {rank} dimensions"));
    }
    let stored = match class {
        0 => None,
        _ => address(fields.uint(offset_size)?, offset_size),
    };
    let dims = (0..rank)
        .map(|_| fields.u32())
        .collect::<H5Result<Vec<_>>>()?;
    Ok(match class {
        0 => {
            let len = fields.u32()?;
            let at = message_len - fields.remaining();
            fields.skip(len as usize)?;
            Layout::Compact {
                at,
                len: len.into(),
            }
        }
        1 => Layout::Contiguous {
            address: stored,
            len: u64::MAX,
        },
        2 => Layout::Chunked {
            dims,
            index: ChunkIndex::BTreeV1,
            address: stored,
            edges_unfiltered: false,
        },
        class => return unsupported(format!("data layout class {class}"), Remedy::Convert),
    })
}

fn chunked_v3(fields: &mut Fields<'_>, offset_size: u8) -> H5Result<Layout> {
    let rank = usize::from(fields.u8()?);
    let address = address(fields.uint(offset_size)?, offset_size);
    if rank > MAX_RANK + 1 {
        return damaged(format!("its chunks have {rank} dimensions"));
    }
    Ok(Layout::Chunked {
        dims: (0..rank).map(|_| fields.u32()).collect::<H5Result<_>>()?,
        index: ChunkIndex::BTreeV1,
        address,
        edges_unfiltered: false,
    })
}

fn chunked_v4(
    fields: &mut Fields<'_>,
    version: u8,
    offset_size: u8,
    length_size: u8,
) -> H5Result<Layout> {
    const EDGES_UNFILTERED: u8 = 1;
    const SINGLE_FILTERED: u8 = 2;
    let flags = fields.u8()?;
    let rank = usize::from(fields.u8()?);
    let width = fields.u8()?;
    if rank > MAX_RANK + 1 {
        return damaged(format!("its chunks have {rank} dimensions"));
    }
    if flags & !(EDGES_UNFILTERED | SINGLE_FILTERED) != 0 {
        return unsupported(format!("chunk flags {flags:#04x}"), Remedy::Repack);
    }
    let mut dims = Vec::with_capacity(rank);
    for _ in 0..rank {
        let dim = fields.uint(width)?;
        let Ok(dim) = u32::try_from(dim) else {
            return unsupported(format!("a chunk of {dim} elements"), Remedy::Convert);
        };
        dims.push(dim);
    }
    let single_width = if flags & SINGLE_FILTERED == 0 {
        None
    } else if version >= 5 {
        Some(offset_size)
    } else {
        Some(length_size)
    };
    let index = chunk_index(fields, single_width)?;
    Ok(Layout::Chunked {
        dims,
        index,
        address: address(fields.uint(offset_size)?, offset_size),
        edges_unfiltered: flags & EDGES_UNFILTERED != 0,
    })
}

/// `single_width`: bytes in which a filtered single chunk's length is stored.
fn chunk_index(fields: &mut Fields<'_>, single_width: Option<u8>) -> H5Result<ChunkIndex> {
    Ok(match fields.u8()? {
        1 => match single_width {
            Some(width) => ChunkIndex::Single(Some((fields.uint(width)?, fields.u32()?))),
            None => ChunkIndex::Single(None),
        },
        2 => ChunkIndex::Implicit,
        3 => {
            fields.skip(1)?;
            ChunkIndex::FixedArray
        }
        4 => {
            fields.skip(5)?;
            ChunkIndex::ExtensibleArray
        }
        5 => {
            fields.skip(6)?;
            ChunkIndex::BTreeV2
        }
        other => return unsupported(format!("chunk index type {other}"), Remedy::Repack),
    })
}

/// What stands where nothing was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fill {
    /// Zeros.
    Default,
    /// The bytes of one element.
    Value(Vec<u8>),
    /// The file does not say.
    Undefined,
}

pub(super) fn fill(body: &[u8]) -> H5Result<Fill> {
    // Written on allocation (0), never (1), if the user set one (2).
    const NEVER: u8 = 1;
    let mut fields = Fields::new(body, "fill value");
    let version = fields.u8()?;
    let (written, undefined, has_value) = match version {
        1 | 2 => {
            let _allocated = fields.u8()?;
            let written = fields.u8()?;
            let defined = fields.u8()? != 0;
            (written, !defined, version == 1 || defined)
        }
        3 => {
            let flags = fields.u8()?;
            (flags >> 2 & 3, flags & 0x10 != 0, flags & 0x20 != 0)
        }
        _ => {
            return unsupported(format!("version {version} of fill values"), Remedy::Repack);
        }
    };
    let len = if has_value { fields.u32()? as usize } else { 0 };
    let value = fields.bytes(len)?;
    Ok(if undefined || written == NEVER {
        Fill::Undefined
    } else if value.is_empty() {
        Fill::Default
    } else {
        Fill::Value(value.to_vec())
    })
}

/// The message that HDF5 wrote before version 1.6.
pub(super) fn fill_old(body: &[u8]) -> H5Result<Fill> {
    let mut fields = Fields::new(body, "fill value");
    let len = fields.u32()? as usize;
    let value = fields.bytes(len)?;
    Ok(if value.is_empty() {
        Fill::Default
    } else {
        Fill::Value(value.to_vec())
    })
}
