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
use super::read;
use super::virtual_data::Use;
use super::{H5File, H5Result, Object, Remedy, damaged, unsupported};

/// A field of a sample, as the index needs it: a data set, or a member of one.
#[derive(Clone, Debug)]
pub(crate) struct Array {
    pub(crate) dtype: DType,
    /// Elements along each axis; empty for a scalar.
    pub(crate) dims: Vec<u64>,
    pub(crate) storage: ArrayStorage,
    /// Number of its file among those of the family: 0 is the one that was to be indexed.
    pub(crate) file: u32,
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
    /// Nowhere: these are the bytes, row-major.
    Value { bytes: Vec<u8> },
    /// Nowhere: elements of variable length, end to end, and where each ends. The shape is that of
    /// the elements.
    Ragged { bytes: Vec<u8>, ends: Vec<u64> },
    /// Rows of several arrays.
    Stacked(Vec<StackedRows>),
}

/// Rows of an array of which others hold the rest.
#[derive(Clone, Debug)]
pub(crate) struct StackedRows {
    /// Number of the first among all rows.
    pub(crate) first_row: u64,
    /// Which row of `array` that is; `None`: all of `array` is one row.
    pub(crate) from_row: Option<u64>,
    pub(crate) array: Array,
}

impl H5File {
    /// What the data set `object` holds and where: one array, or one for each member of its
    /// compound type. Each comes with what its name has behind that of the data set (nothing, or
    /// `/member`); those that are not `wanted` by that are left out. `by_rows`: each row is a
    /// sample of its own.
    pub(crate) fn arrays(
        &self,
        object: &Object,
        by_rows: bool,
        wanted: impl Fn(&str) -> bool,
    ) -> H5Result<Vec<(String, Array)>> {
        self.of(object).own_arrays(object, by_rows, wanted)
    }

    fn own_arrays(
        &self,
        object: &Object,
        by_rows: bool,
        wanted: impl Fn(&str) -> bool,
    ) -> H5Result<Vec<(String, Array)>> {
        let body = self.required(&object.header, kind::DATATYPE, "data type")?;
        let element = Type::parse(&body)?;
        let mut leaves = element.leaves();
        leaves.retain(|leaf| wanted(&leaf.suffix));
        // Before anything else: a type that is refused is what a user can do something about.
        for leaf in &leaves {
            match &leaf.of.kind {
                Kind::Variable { of, text } => {
                    self.must_decode("a variable-length type")?;
                    if !text {
                        of.dtype()?;
                    }
                }
                Kind::Reference => self.must_decode("a type of object references")?,
                _ => drop(leaf.of.dtype()?),
            }
        }
        if leaves.is_empty() {
            return Ok(Vec::new());
        }
        let (_, space) = self.shape(object)?;
        let use_of = Use { by_rows, depth: 0 };
        let stored = self.stored(object, &element, &space, use_of)?;
        let mut arrays = Vec::new();
        for leaf in leaves {
            if matches!(leaf.of.kind, Kind::Variable { .. } | Kind::Reference) {
                let raw = stored.part(&element, &leaf.raw()?, &space)?;
                arrays.extend(read::variable(self, &leaf, raw)?);
            } else {
                let array = stored.part(&element, &leaf, &space)?;
                arrays.push((leaf.suffix, array));
            }
        }
        Ok(arrays)
    }

    pub(super) fn stored(
        &self,
        object: &Object,
        element: &Type,
        space: &Space,
        use_of: Use,
    ) -> H5Result<Stored> {
        let header = &object.header;
        let Ok(size) = u16::try_from(element.size) else {
            let feature = format!("elements of {} bytes", element.size);
            return unsupported(feature, Remedy::Convert);
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
            Layout::Virtual { address, number } => {
                let fill = self.fill_bytes(header, size)?;
                let list = (address, number);
                return self.virtual_data(list, element, space, &fill, use_of);
            }
        };
        if header.find(kind::FILTERS).is_some() {
            return damaged("a data set without chunks has filters");
        }
        if let Kind::Narrow(_, narrow) = &element.kind {
            filters::check(&[], Some(*narrow), &[])?;
        }
        if let Some(message) = header.find(kind::EXTERNAL_FILES) {
            return self.external(header.body(message), bytes);
        }
        match run {
            _ if bytes == 0 => Ok(Stored::Nothing),
            Some(run) => self.run(run, bytes),
            None => Ok(Stored::Unwritten {
                fill: self.fill_bytes(header, size)?,
            }),
        }
    }

    pub(super) fn required(&self, header: &Header, wanted: u16, name: &str) -> H5Result<Vec<u8>> {
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
            file: self.place.number,
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
            file: self.place.number,
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
