//! Shards and the origin files in them.

/// A shard of this size or less has one owner, and small files are gathered into shards up to it.
pub const REGION_BYTES: u64 = 256 << 20;

/// Position of a shard in its data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardIndex(pub u32);

/// Position of a segment (one origin file) in its data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentIndex(pub u32);

/// Version of an origin file: while these three are unchanged, so are its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// Length in bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Inode number.
    pub inode: u64,
}
