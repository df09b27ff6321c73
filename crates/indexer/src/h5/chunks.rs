//! Chunk indexes, all kinds, as sorted runs of stored chunks.

use forebay_dataset::index::StoredChunk;
use hdf5_reader::btree_v1::{BTreeV1Key, collect_btree_v1_leaves_storage};
use hdf5_reader::chunk_index::{
    ChunkEntry, collect_implicit_chunk_entries, collect_v2_chunk_entries_storage,
};
use hdf5_reader::extensible_array::collect_extensible_array_chunk_entries_storage;
use hdf5_reader::fixed_array::collect_fixed_array_chunk_entries_storage;

use super::cursor::address;
use super::dtype::byte_len;
use super::messages::{ChunkIndex, Space};
use super::{H5Error, H5File, H5Result, Remedy, damaged, unsupported};

/// The grid of chunks that covers a data set.
pub(super) struct Grid {
    pub(super) chunk_shape: Vec<u64>,
    pub(super) filtered: bool,
    dims: Vec<u64>,
    chunk_dims: Vec<u32>,
    /// Chunks along each axis.
    counts: Vec<u64>,
    chunk_bytes: u32,
    element: u16,
}

impl Grid {
    /// `stored` is the chunk shape with the element size behind it.
    pub(super) fn new(
        space: &Space,
        stored: &[u32],
        element: u16,
        filtered: bool,
    ) -> H5Result<Self> {
        let rank = space.dims.len();
        let Some((size, chunk_dims)) = stored.split_last() else {
            return damaged("its chunks have no shape");
        };
        if chunk_dims.len() != rank || rank == 0 || chunk_dims.contains(&0) {
            return damaged(format!(
                "its chunks have the shape {chunk_dims:?}, it has {rank} dimensions"
            ));
        }
        if *size != u32::from(element) {
            return damaged(format!(
                "its chunks hold elements of {size} bytes, its type has {element}"
            ));
        }
        let chunk_shape: Vec<u64> = chunk_dims.iter().map(|dim| u64::from(*dim)).collect();
        let Ok(chunk_bytes) = u32::try_from(byte_len(&chunk_shape, element)?) else {
            return unsupported("chunks of 4 GiB or more", Remedy::Repack);
        };
        let counts: Vec<u64> = space
            .dims
            .iter()
            .zip(&chunk_shape)
            .map(|(dim, chunk)| dim.div_ceil(*chunk))
            .collect();
        byte_len(&counts, 1)?;
        Ok(Self {
            chunk_shape,
            filtered,
            dims: space.dims.clone(),
            chunk_dims: chunk_dims.to_vec(),
            counts,
            chunk_bytes,
            element,
        })
    }

    /// Chunks in the grid.
    pub(super) fn len(&self) -> u64 {
        self.counts.iter().product()
    }

    pub(super) fn has_partial_chunks(&self) -> bool {
        self.dims
            .iter()
            .zip(&self.chunk_shape)
            .any(|(dim, chunk)| dim % chunk != 0)
    }

    /// The chunks that exist in the file, sorted by grid index.
    pub(super) fn stored_chunks(
        &self,
        file: &H5File,
        index: ChunkIndex,
        at: u64,
        space: &Space,
    ) -> H5Result<Vec<StoredChunk>> {
        let entries = self
            .entries(file, index, at, space)
            .map_err(|error| error.within("its chunk index"))?;
        let mut chunks = Vec::with_capacity(entries.len());
        for entry in entries {
            if address(entry.address, file.offset_size).is_some()
                && let Some(chunk) = self.stored_chunk(file, &entry)?
            {
                chunks.push(chunk);
            }
        }
        chunks.sort_unstable_by_key(|chunk| chunk.grid_index);
        if chunks
            .windows(2)
            .any(|pair| pair[0].grid_index == pair[1].grid_index)
        {
            return damaged("its chunk index holds a chunk twice");
        }
        Ok(chunks)
    }

    fn entries(
        &self,
        file: &H5File,
        index: ChunkIndex,
        at: u64,
        space: &Space,
    ) -> H5Result<Vec<ChunkEntry>> {
        let (storage, offset, length) = (&file.storage, file.offset_size, file.length_size);
        let (dims, chunk_dims) = (&self.dims, &self.chunk_dims);
        let rank = dims.len() as u32;
        Ok(match index {
            ChunkIndex::BTreeV1 => return self.tree_entries(file, at),
            ChunkIndex::Single(stored) => vec![self.single_entry(at, stored)],
            ChunkIndex::Implicit => collect_implicit_chunk_entries(
                at,
                dims,
                chunk_dims,
                usize::from(self.element),
                None,
                file.stored_len(),
            )?,
            ChunkIndex::FixedArray => collect_fixed_array_chunk_entries_storage(
                storage, at, offset, length, dims, chunk_dims, None,
            )?,
            ChunkIndex::ExtensibleArray => {
                let max_dims = space.max_dims.as_deref();
                collect_extensible_array_chunk_entries_storage(
                    storage, at, offset, length, dims, max_dims, chunk_dims, None,
                )?
            }
            ChunkIndex::BTreeV2 => collect_v2_chunk_entries_storage(
                storage, at, offset, length, rank, chunk_dims, None,
            )?,
        })
    }

    fn tree_entries(&self, file: &H5File, at: u64) -> H5Result<Vec<ChunkEntry>> {
        let leaves = collect_btree_v1_leaves_storage(
            &file.storage,
            at,
            file.offset_size,
            file.length_size,
            Some(self.dims.len() as u32),
            &self.chunk_dims,
            None,
        )?;
        leaves
            .into_iter()
            .map(|leaf| from_leaf(leaf, self.dims.len()))
            .collect()
    }

    fn single_entry(&self, at: u64, stored: Option<(u64, u32)>) -> ChunkEntry {
        let (size, filter_mask) = stored.unwrap_or((u64::from(self.chunk_bytes), 0));
        ChunkEntry {
            address: at,
            size,
            filter_mask,
            offsets: vec![0; self.dims.len()],
        }
    }

    /// `None` for a chunk outside the data set: HDF5 keeps some when a data set shrinks.
    fn stored_chunk(&self, file: &H5File, entry: &ChunkEntry) -> H5Result<Option<StoredChunk>> {
        if entry.offsets.len() != self.counts.len() {
            return damaged("its chunk index has another number of dimensions");
        }
        let mut grid_index = 0_u64;
        let mut outside = false;
        for (axis, offset) in entry.offsets.iter().enumerate() {
            if offset % self.chunk_shape[axis] != 0 {
                return damaged(format!("a chunk lies at {:?}, off the grid", entry.offsets));
            }
            let position = offset / self.chunk_shape[axis];
            outside |= position >= self.counts[axis];
            grid_index = grid_index
                .wrapping_mul(self.counts[axis])
                .wrapping_add(position);
        }
        if outside {
            return Ok(None);
        }
        let (stored_len, filter_mask) = if self.filtered {
            (entry.size, entry.filter_mask)
        } else if entry.size == 0 || entry.size == u64::from(self.chunk_bytes) {
            (u64::from(self.chunk_bytes), 0)
        } else {
            return damaged(format!(
                "a chunk of {} bytes is stored in {}",
                self.chunk_bytes, entry.size
            ));
        };
        let end = entry.address.checked_add(stored_len);
        if stored_len == 0 || end.is_none_or(|end| end > file.stored_len()) {
            return damaged(format!(
                "a chunk lies outside the file: {stored_len} bytes at {}",
                entry.address
            ));
        }
        let Ok(stored_len) = u32::try_from(stored_len) else {
            return unsupported("chunks of 4 GiB or more", Remedy::Repack);
        };
        Ok(Some(StoredChunk {
            grid_index,
            offset: file.base + entry.address,
            stored_len,
            filter_mask,
        }))
    }
}

fn from_leaf((key, address): (BTreeV1Key, u64), rank: usize) -> H5Result<ChunkEntry> {
    match key {
        BTreeV1Key::RawData {
            chunk_size,
            filter_mask,
            mut offsets,
        } => {
            offsets.truncate(rank);
            Ok(ChunkEntry {
                address,
                size: u64::from(chunk_size),
                filter_mask,
                offsets,
            })
        }
        BTreeV1Key::Group { .. } => {
            Err(H5Error::Damaged("its chunk index is a group's".to_owned()))
        }
    }
}
