//! Data sets: type, shape, and where the bytes lie.

use forebay_dataset::DType;
use forebay_dataset::index::{ChunkLayout, StoredChunk};
use hdf5_reader::storage::Storage;

use super::chunks::Grid;
use super::dtype::byte_len;
use super::header::{Header, kind};
use super::messages::{self, Fill, Layout, Space};
use super::{H5File, H5Result, Object, Remedy, damaged, dtype, unsupported};

/// A data set, as the index needs it.
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
    /// What the data set `object` holds and where.
    pub(crate) fn array(&self, object: &Object) -> H5Result<Array> {
        let header = &object.header;
        if header.find(kind::EXTERNAL_FILES).is_some() {
            return unsupported("data in external files", Remedy::Convert);
        }
        let dtype = dtype::parse(&self.required(header, kind::DATATYPE, "data type")?)?;
        let body = self.required(header, kind::DATASPACE, "data space")?;
        let space = messages::space(&body, self.length_size)?;
        let bytes = byte_len(&space.dims, dtype.size())?;
        let Some(message) = header.find(kind::LAYOUT) else {
            return damaged("a data set has no layout");
        };
        let layout = messages::layout(header.body(message), self.offset_size, self.length_size)?;
        let run = match layout {
            Layout::Compact { at, len } => Some((header.body_address(message) + at as u64, len)),
            Layout::Contiguous { address, len } => address.map(|address| (address, len)),
            Layout::Chunked { .. } => {
                let storage = self.chunked(header, layout, dtype, &space)?;
                return Ok(array(dtype, space, storage));
            }
        };
        if header.find(kind::FILTERS).is_some() {
            return damaged("a data set without chunks has filters");
        }
        let storage = match run {
            _ if bytes == 0 => ArrayStorage::Contiguous { offset: 0 },
            Some(run) => self.contiguous(run, bytes)?,
            None => self.unwritten(header, dtype, &space)?,
        };
        Ok(array(dtype, space, storage))
    }

    fn required(&self, header: &Header, wanted: u16, name: &str) -> H5Result<Vec<u8>> {
        match header.resolved(self, wanted)? {
            Some(body) => Ok(body),
            None => damaged(format!("a data set has no {name}")),
        }
    }

    fn contiguous(&self, (address, len): (u64, u64), wanted: u64) -> H5Result<ArrayStorage> {
        if len < wanted {
            return damaged(format!("it stores {len} bytes, its shape needs {wanted}"));
        }
        let end = address.checked_add(wanted);
        if end.is_none_or(|end| end > self.storage.len()) {
            return damaged(format!(
                "its bytes lie outside the file: {wanted} bytes at {address}"
            ));
        }
        Ok(ArrayStorage::Contiguous {
            offset: self.base + address,
        })
    }

    /// A data set that nothing was written to: no chunk of it is there, so it reads as the fill
    /// value.
    fn unwritten(&self, header: &Header, dtype: DType, space: &Space) -> H5Result<ArrayStorage> {
        let shape = if space.dims.is_empty() {
            vec![1]
        } else {
            space.dims.clone()
        };
        Ok(ArrayStorage::Chunked {
            layout: ChunkLayout {
                array_shape: shape.clone(),
                chunk_shape: shape,
                filters: Vec::new(),
                fill_value: self.fill_bytes(header, dtype)?,
            },
            chunks: Vec::new(),
        })
    }

    fn chunked(
        &self,
        header: &Header,
        layout: Layout,
        dtype: DType,
        space: &Space,
    ) -> H5Result<ArrayStorage> {
        let Layout::Chunked {
            dims,
            index,
            address,
            edges_unfiltered,
        } = layout
        else {
            return damaged("its layout is not chunked");
        };
        let filters = match header.resolved(self, kind::FILTERS)? {
            Some(body) => messages::filters(&body, dtype.size())?,
            None => Vec::new(),
        };
        let grid = Grid::new(space, &dims, dtype.size(), !filters.is_empty())?;
        if edges_unfiltered && grid.filtered && grid.has_partial_chunks() {
            return unsupported("chunks left unfiltered at the edges", Remedy::Repack);
        }
        let chunks = match address {
            Some(address) if !space.dims.contains(&0) => {
                grid.stored_chunks(self, index, address, space)?
            }
            _ => Vec::new(),
        };
        let fill_value = if chunks.len() as u64 == grid.len() {
            Vec::new()
        } else {
            self.fill_bytes(header, dtype)?
        };
        if space.dims.contains(&0) {
            return Ok(ArrayStorage::Contiguous { offset: 0 });
        }
        Ok(ArrayStorage::Chunked {
            layout: ChunkLayout {
                array_shape: space.dims.clone(),
                chunk_shape: grid.chunk_shape.clone(),
                filters,
                fill_value,
            },
            chunks,
        })
    }

    /// Bytes of the element that stands where nothing was written; empty means zeros.
    fn fill_bytes(&self, header: &Header, dtype: DType) -> H5Result<Vec<u8>> {
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
            Fill::Value(bytes) if bytes.len() == usize::from(dtype.size()) => Ok(bytes),
            Fill::Value(bytes) => damaged(format!(
                "its fill value has {} bytes, its elements {}",
                bytes.len(),
                dtype.size()
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

fn array(dtype: DType, space: Space, storage: ArrayStorage) -> Array {
    Array {
        dtype,
        dims: space.dims,
        storage,
    }
}
