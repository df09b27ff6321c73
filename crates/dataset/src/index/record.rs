//! Fixed-width records, little-endian.

use super::format::{u32_at, u64_at};
use crate::Fingerprint;

/// `layout` of a field that is stored contiguously.
pub(super) const CONTIGUOUS: u32 = u32::MAX;
/// `layout` of a field whose bytes lie in the index itself.
pub(super) const VALUE: u32 = u32::MAX - 1;

/// One origin file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SegmentRecord {
    pub(super) path_start: u64,
    pub(super) path_len: u32,
    pub(super) shard: u32,
    pub(super) shard_start: u64,
    pub(super) size: u64,
    pub(super) mtime_ns: i64,
    pub(super) inode: u64,
}

impl SegmentRecord {
    pub(super) const LEN: usize = 48;

    pub(super) const fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            size: self.size,
            mtime_ns: self.mtime_ns,
            inode: self.inode,
        }
    }

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..8].copy_from_slice(&self.path_start.to_le_bytes());
        out[8..12].copy_from_slice(&self.path_len.to_le_bytes());
        out[12..16].copy_from_slice(&self.shard.to_le_bytes());
        out[16..24].copy_from_slice(&self.shard_start.to_le_bytes());
        out[24..32].copy_from_slice(&self.size.to_le_bytes());
        out[32..40].copy_from_slice(&self.mtime_ns.to_le_bytes());
        out[40..48].copy_from_slice(&self.inode.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            path_start: u64_at(bytes, 0),
            path_len: u32_at(bytes, 8),
            shard: u32_at(bytes, 12),
            shard_start: u64_at(bytes, 16),
            size: u64_at(bytes, 24),
            mtime_ns: u64_at(bytes, 32).cast_signed(),
            inode: u64_at(bytes, 40),
        }
    }
}

/// A run of segments that is owned and cached as one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ShardRecord {
    pub(super) first_segment: u32,
    pub(super) segments: u32,
    pub(super) len: u64,
}

impl ShardRecord {
    pub(super) const LEN: usize = 16;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..4].copy_from_slice(&self.first_segment.to_le_bytes());
        out[4..8].copy_from_slice(&self.segments.to_le_bytes());
        out[8..16].copy_from_slice(&self.len.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            first_segment: u32_at(bytes, 0),
            segments: u32_at(bytes, 4),
            len: u64_at(bytes, 8),
        }
    }
}

/// One field of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FieldRecord {
    /// First byte in the segment or among the values, or number of the first chunk.
    pub(super) start: u64,
    /// First row along axis 0; 0 if contiguous.
    pub(super) first_row: u64,
    pub(super) segment: u32,
    /// Word of the shapes section at which the shape begins.
    pub(super) shape: u32,
    pub(super) layout: u32,
    /// Chunks in the run; 0 if contiguous.
    pub(super) chunks: u32,
}

impl FieldRecord {
    pub(super) const LEN: usize = 32;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..8].copy_from_slice(&self.start.to_le_bytes());
        out[8..16].copy_from_slice(&self.first_row.to_le_bytes());
        out[16..20].copy_from_slice(&self.segment.to_le_bytes());
        out[20..24].copy_from_slice(&self.shape.to_le_bytes());
        out[24..28].copy_from_slice(&self.layout.to_le_bytes());
        out[28..32].copy_from_slice(&self.chunks.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            start: u64_at(bytes, 0),
            first_row: u64_at(bytes, 8),
            segment: u32_at(bytes, 16),
            shape: u32_at(bytes, 20),
            layout: u32_at(bytes, 24),
            chunks: u32_at(bytes, 28),
        }
    }
}

/// One stored chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ChunkRecord {
    pub(super) grid_index: u64,
    pub(super) offset: u64,
    pub(super) stored_len: u32,
    pub(super) filter_mask: u32,
}

impl ChunkRecord {
    pub(super) const LEN: usize = 24;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..8].copy_from_slice(&self.grid_index.to_le_bytes());
        out[8..16].copy_from_slice(&self.offset.to_le_bytes());
        out[16..20].copy_from_slice(&self.stored_len.to_le_bytes());
        out[20..24].copy_from_slice(&self.filter_mask.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            grid_index: u64_at(bytes, 0),
            offset: u64_at(bytes, 8),
            stored_len: u32_at(bytes, 16),
            filter_mask: u32_at(bytes, 20),
        }
    }
}

/// One entry of the sorted key table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct HashRecord {
    pub(super) hash: u64,
    pub(super) sample: u64,
}

impl HashRecord {
    pub(super) const LEN: usize = 16;

    pub(super) fn encode(&self) -> [u8; Self::LEN] {
        let mut out = [0; Self::LEN];
        out[0..8].copy_from_slice(&self.hash.to_le_bytes());
        out[8..16].copy_from_slice(&self.sample.to_le_bytes());
        out
    }

    pub(super) fn decode(bytes: &[u8; Self::LEN]) -> Self {
        Self {
            hash: u64_at(bytes, 0),
            sample: u64_at(bytes, 8),
        }
    }
}
