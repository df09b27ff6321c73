//! Data sets: type, shape, and where the bytes lie.

use forebay_dataset::DType;
use forebay_dataset::index::{ChunkLayout, StoredChunk};
use hdf5_reader::storage::Storage;

use super::chunks::Grid;
use super::dtype::{Kind, Type, byte_len};
use super::filters;
use super::header::{Header, kind};
use super::messages::{self, Fill, Layout, Space};
use super::part::Stored;
use super::{H5File, H5Result, Object, Remedy, damaged, unsupported};

/// A field of a sample, as the index needs it: a data set, or a member of one.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    /// Elements along each axis; empty for a scalar.
    pub(crate) dims: Vec<u64>,
    pub(crate) storage: ArrayStorage,
}

/// Where the bytes of a data set lie, from the start of the file.
#[derive(Clone, Debug)]
pub(crate) enum ArrayStorage {
    /// In order from this byte on.
    Contiguous { offset: u64 },
    /// In chunks, sorted by grid index. A scalar is given as an array of one element.
    Chunked {
        layout: ChunkLayout,
        chunks: Vec<StoredChunk>,
    },
}

impl H5File {
    /// What the data set `object` holds and where: one array, or one for each member of its
    /// compound type. Each comes with what its name has behind that of the data set (nothing, or
    /// `/member`); those that are not `wanted` by that are left out.
    pub(crate) fn arrays(
        &self,
        object: &Object,
        wanted: impl Fn(&str) -> bool,
    ) -> H5Result<Vec<(String, Array)>> {
        let header = &object.header;
        let element = Type::parse(&self.required(header, kind::DATATYPE, "data type")?)?;
        let mut leaves = element.leaves();
        leaves.retain(|leaf| wanted(&leaf.suffix));
        // Before anything else: a type that is refused is what a user can do something about.
        for leaf in &leaves {
            leaf.of.dtype()?;
        }
        if leaves.is_empty() {
            return Ok(Vec::new());
        }
        let body = self.required(header, kind::DATASPACE, "data space")?;
        let space = messages::space(&body, self.length_size)?;
        let stored = self.stored(header, &element, &space)?;
        let part = |leaf: super::dtype::Leaf| {
            let array = stored.part(&element, &leaf, &space)?;
            Ok((leaf.suffix, array))
        };
        leaves.into_iter().map(part).collect()
    }

    fn stored(&self, header: &Header, element: &Type, space: &Space) -> H5Result<Stored> {
        if header.find(kind::EXTERNAL_FILES).is_some() {
            return unsupported("data in external files", Remedy::Convert);
        }
        let Ok(size) = u16::try_from(element.size) else {
            return unsupported(
                format!("elements of {} bytes", element.size),
                Remedy::Convert,
            );
        };
        let bytes = byte_len(&space.dims, size)?;
        let Some(message) = header.find(kind::LAYOUT) else {
            return damaged("a data set has no layout");
        };
        let layout = messages::layout(header.body(message), self.offset_size, self.length_size)?;
        let run = match layout {
            Layout::Compact { at, len } => Some((header.body_address(message) + at as u64, len)),
            Layout::Contiguous { address, len } => address.map(|address| (address, len)),
            Layout::Chunked { .. } => return self.chunked(header, layout, element, size, space),
        };
        if header.find(kind::FILTERS).is_some() {
            return damaged("a data set without chunks has filters");
        }
        if let Kind::Narrow(_, narrow) = &element.kind {
            filters::check(&[], Some(*narrow), &[])?;
        }
        match run {
            _ if bytes == 0 => Ok(Stored::Nothing),
            Some(run) => self.run(run, bytes),
            None => Ok(Stored::Unwritten {
                fill: self.fill_bytes(header, size)?,
            }),
        }
    }

    fn required(&self, header: &Header, wanted: u16, name: &str) -> H5Result<Vec<u8>> {
        match header.resolved(self, wanted)? {
            Some(body) => Ok(body),
            None => damaged(format!("a data set has no {name}")),
        }
    }

    fn run(&self, (address, len): (u64, u64), wanted: u64) -> H5Result<Stored> {
        if len < wanted {
            return damaged(format!("it stores {len} bytes, its shape needs {wanted}"));
        }
        let end = address.checked_add(wanted);
        if end.is_none_or(|end| end > self.storage.len()) {
            return damaged(format!(
                "its bytes lie outside the file: {wanted} bytes at {address}"
            ));
        }
        Ok(Stored::Run {
            offset: self.base + address,
        })
    }

    fn chunked(
        &self,
        header: &Header,
        layout: Layout,
        element: &Type,
        size: u16,
        space: &Space,
    ) -> H5Result<Stored> {
        let Layout::Chunked {
            dims,
            index,
            address,
            edges_unfiltered,
        } = layout
        else {
            return damaged("its layout is not chunked");
        };
        let narrow = match &element.kind {
            Kind::Narrow(_, narrow) => Some(*narrow),
            _ => None,
        };
        let filters = match header.resolved(self, kind::FILTERS)? {
            Some(body) => filters::filters(&body, size, narrow)?,
            None => Vec::new(),
        };
        let grid = Grid::new(space, &dims, size, !filters.is_empty())?;
        if edges_unfiltered && grid.filtered && grid.has_partial_chunks() {
            return unsupported("chunks left unfiltered at the edges", Remedy::Repack);
        }
        if space.dims.contains(&0) {
            return Ok(Stored::Nothing);
        }
        let chunks = match address {
            Some(address) => grid.stored_chunks(self, index, address, space)?,
            None => Vec::new(),
        };
        filters::check(&filters, narrow, &chunks)?;
        let uses_fill =
            |filter: &_| matches!(filter, forebay_dataset::index::Filter::ScaleOffset(_));
        let fill = if chunks.len() as u64 == grid.len() && !filters.iter().any(uses_fill) {
            Vec::new()
        } else {
            self.fill_bytes(header, size)?
        };
        if narrow.is_some() && !fill.is_empty() {
            return unsupported("a fill value of a part of the bits", Remedy::Convert);
        }
        Ok(Stored::Chunked {
            chunk_shape: grid.chunk_shape,
            filters,
            chunks,
            fill,
        })
    }

    /// Bytes of the element that stands where nothing was written; empty means zeros.
    fn fill_bytes(&self, header: &Header, size: u16) -> H5Result<Vec<u8>> {
        let fill = match header.resolved(self, kind::FILL_VALUE)? {
            Some(body) => messages::fill(&body)?,
            None => match header.resolved(self, kind::FILL_VALUE_OLD)? {
                Some(body) => messages::fill_old(&body)?,
                None => Fill::Default,
            },
        };
        match fill {
            Fill::Default => Ok(Vec::new()),
            Fill::Value(bytes) if bytes.iter().all(|byte| *byte == 0) => Ok(Vec::new()),
            Fill::Value(bytes) if bytes.len() == usize::from(size) => Ok(bytes),
            Fill::Value(bytes) => damaged(format!(
                "its fill value has {} bytes, its elements {size}",
                bytes.len(),
            )),
            Fill::Undefined => unsupported(
                "a part that was never written, with no fill value",
                Remedy::Convert,
            ),
        }
    }

    /// Bytes of the file that lie behind its superblock.
    pub(super) fn stored_len(&self) -> u64 {
        self.storage.len()
    }
}
