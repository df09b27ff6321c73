//! Layout of a residency map, to the byte. Pure.

use std::io;
use std::path::{Path, PathBuf};

use forebay_dataset::{BlockSize, ShardIndex};
use thiserror::Error;

/// First bytes of a map.
pub(crate) const MAGIC: [u8; 8] = *b"FBRESMAP";
/// The only version this build reads or writes.
pub(crate) const VERSION: u32 = 1;
/// Bytes of the header; the sections follow it.
pub(crate) const HEADER_BYTES: u64 = 4096;
/// Bytes that the header's checksum covers, from the start.
const CHECKED_BYTES: usize = 64;
/// Byte offset of the header's checksum.
const CHECKSUM_AT: usize = 64;
/// Byte offset of the state word: see [`super::ResidencyMap::mark_clean`].
pub(crate) const STATE_AT: u64 = 72;
/// Byte offset of the boot id, two words.
pub(crate) const BOOT_AT: u64 = 80;

/// Blocks in one word of a bitmap, and blocks that share one eviction counter.
pub(crate) const WORD_BLOCKS: u64 = 64;
/// Largest number of blocks in a shard: a map of 2 GiB.
const MAX_BLOCKS: u64 = 1 << 29;

/// Which shard of which data set a map belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapIdentity {
    /// Generation of the index.
    pub generation: u128,
    /// Shard in the index.
    pub shard: ShardIndex,
    /// Unit of caching.
    pub block_size: BlockSize,
    /// Length of the shard in bytes.
    pub shard_len: u64,
}

impl MapIdentity {
    /// Number of blocks in the shard.
    pub fn blocks(&self) -> u64 {
        self.block_size.blocks(self.shard_len)
    }

    /// The header's bytes up to and including its checksum. `data_inode` is the inode of the
    /// block file that this map describes.
    pub(crate) fn encode(&self, data_inode: u64) -> [u8; CHECKSUM_AT + 4] {
        let mut out = [0; CHECKSUM_AT + 4];
        out[0..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.block_size.bytes().to_le_bytes());
        out[16..24].copy_from_slice(&self.shard_len.to_le_bytes());
        out[24..40].copy_from_slice(&self.generation.to_le_bytes());
        out[40..48].copy_from_slice(&data_inode.to_le_bytes());
        out[48..52].copy_from_slice(&self.shard.0.to_le_bytes());
        let sum = crc32c(&out[..CHECKED_BYTES]);
        out[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Checks a header against this identity; returns the inode of its block file.
    pub(crate) fn check(&self, header: &[u8]) -> Result<u64, LayoutError> {
        if header.len() < CHECKSUM_AT + 4 {
            return Err(LayoutError::Damaged("shorter than its header"));
        }
        if header[0..8] != MAGIC {
            return Err(LayoutError::Damaged("wrong magic"));
        }
        let version = le_u32(&header[8..12]);
        if version != VERSION {
            return Err(LayoutError::Version(version));
        }
        if le_u32(&header[CHECKSUM_AT..CHECKSUM_AT + 4]) != crc32c(&header[..CHECKED_BYTES]) {
            return Err(LayoutError::Damaged("header fails its checksum"));
        }
        let data_inode = le_u64(&header[40..48]);
        if header[..CHECKSUM_AT] != self.encode(data_inode)[..CHECKSUM_AT] {
            return Err(LayoutError::Other);
        }
        Ok(data_inode)
    }
}

fn le_u32(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u32::from(*byte))
}

fn le_u64(bytes: &[u8]) -> u64 {
    bytes
        .iter()
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

pub(crate) fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// A map that cannot be used. Absent data, never an error for a trainer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LayoutError {
    /// A version this build does not know.
    #[error("residency map version {0} is unknown: this build reads version {VERSION}")]
    Version(u32),
    /// The file contradicts itself.
    #[error("residency map is damaged: {0}")]
    Damaged(&'static str),
    /// The map of another shard, generation or geometry.
    #[error("residency map belongs to another shard or data set")]
    Other,
    /// More blocks than a map may hold.
    #[error("shard of {0} blocks is too large: use larger blocks")]
    TooLarge(u64),
}

/// Where the sections of a map begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MapLayout {
    pub(crate) blocks: u64,
    pub(crate) words: u64,
    pub(crate) resident_at: u64,
    pub(crate) stored_at: u64,
    pub(crate) evictions_at: u64,
    pub(crate) checksums_at: u64,
    /// Length of the file.
    pub file_len: u64,
}

impl MapLayout {
    /// Layout for a shard of `blocks` blocks.
    pub fn new(blocks: u64) -> Result<Self, LayoutError> {
        if blocks > MAX_BLOCKS {
            return Err(LayoutError::TooLarge(blocks));
        }
        // An empty shard still has one word, so that no section is empty.
        let words = blocks.div_ceil(WORD_BLOCKS).max(1);
        let bitmap = (words * 8).next_multiple_of(64);
        let resident_at = HEADER_BYTES;
        let stored_at = resident_at + bitmap;
        let evictions_at = stored_at + bitmap;
        let checksums_at = evictions_at + bitmap;
        let file_len = checksums_at + (blocks * 4).next_multiple_of(64);
        Ok(Self {
            blocks,
            words,
            resident_at,
            stored_at,
            evictions_at,
            checksums_at,
            file_len,
        })
    }
}

/// Where a map is made before it takes its place.
pub(crate) fn partial(map: &Path) -> PathBuf {
    map.with_extension("map-partial")
}

/// Names of the three files of a shard.
#[derive(Clone, Debug)]
pub struct ShardPaths {
    /// Block file.
    pub data: PathBuf,
    /// Residency map.
    pub map: PathBuf,
    /// Last-use stamps.
    pub stamps: PathBuf,
}

impl ShardPaths {
    /// Folder of a data set's shards inside a cache folder.
    pub fn dataset_folder(cache: &Path, generation: u128) -> PathBuf {
        cache.join("blocks").join(format!("{generation:032x}"))
    }

    /// The files of `shard` in a data set's folder.
    pub fn new(dataset_folder: &Path, shard: ShardIndex) -> Self {
        let file = |kind: &str| dataset_folder.join(format!("shard-{:08}.{kind}", shard.0));
        Self {
            data: file("blocks"),
            map: file("map"),
            stamps: file("use"),
        }
    }

    /// Removes the files, and what a map that was being made left. What is not there is no error.
    pub fn remove(&self) -> io::Result<()> {
        let files = [&self.map, &partial(&self.map), &self.data, &self.stamps];
        let remove = |path: &PathBuf| match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        };
        // All are tried, whatever the first says.
        files.map(remove).into_iter().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity() -> MapIdentity {
        MapIdentity {
            generation: 0x0F0E_0D0C_0B0A_0908_0706_0504_0302_0100,
            shard: ShardIndex(0x0102_0304),
            block_size: BlockSize::DEFAULT,
            shard_len: 0x0001_2345,
        }
    }

    #[test]
    fn header_bytes_are_frozen_at_version_1() {
        let golden = *b"FBRESMAP\x01\0\0\0\0\0\x01\0\
            \x45\x23\x01\0\0\0\0\0\
            \x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\
            \xED\xFE\0\0\0\0\0\0\x04\x03\x02\x01\
            \0\0\0\0\0\0\0\0\0\0\0\0";
        let bytes = identity().encode(0xFEED);
        assert_eq!(
            bytes[..64],
            golden,
            "layout changed: raise VERSION and say so in docs/FORMAT.md"
        );
        assert_eq!(bytes[64..], crc32c(&golden).to_le_bytes());
        assert_eq!(identity().check(&bytes), Ok(0xFEED));
    }

    #[test]
    fn every_flipped_bit_of_a_header_is_refused() {
        let bytes = identity().encode(7);
        for bit in 0..bytes.len() * 8 {
            let mut hurt = bytes;
            hurt[bit / 8] ^= 1 << (bit % 8);
            assert!(identity().check(&hurt).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn the_map_of_another_shard_is_refused() {
        let other = MapIdentity {
            shard: ShardIndex(1),
            ..identity()
        };
        assert_eq!(identity().check(&other.encode(7)), Err(LayoutError::Other));
    }

    #[test]
    fn sections_do_not_overlap() {
        for blocks in [0, 1, 63, 64, 65, 4096, 10_000_000] {
            let layout = MapLayout::new(blocks).unwrap();
            assert!(layout.words * 64 >= blocks);
            assert!(layout.resident_at + layout.words * 8 <= layout.stored_at);
            assert!(layout.stored_at + layout.words * 8 <= layout.evictions_at);
            assert!(layout.evictions_at + layout.words * 8 <= layout.checksums_at);
            assert!(layout.checksums_at + blocks * 4 <= layout.file_len);
        }
        assert_eq!(
            MapLayout::new(u64::MAX),
            Err(LayoutError::TooLarge(u64::MAX))
        );
    }
}
