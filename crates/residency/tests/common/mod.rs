//! A shard's three files with known bytes.
#![allow(dead_code, reason = "each test file uses its part")]

use std::ops::Range;

use forebay_dataset::{BlockSize, ByteRange, ShardIndex};
use forebay_residency::{
    BlockFile, EvictLock, MapIdentity, ReadOutcome, ResidencyMap, ShardPaths, SharedShard, Stamps,
    SummedBlocks,
};

pub(crate) const BLOCK: u64 = 4096;

/// As the daemon holds a shard.
pub(crate) struct Daemon {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) map: ResidencyMap,
    pub(crate) file: BlockFile,
    pub(crate) identity: MapIdentity,
    /// The whole shard, as the origin has it.
    pub(crate) content: Vec<u8>,
}

/// The byte at `offset` of every shard; never 0, so that a hole shows.
pub(crate) fn byte(offset: u64) -> u8 {
    (offset.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 | 1
}

pub(crate) fn bytes(range: ByteRange) -> Vec<u8> {
    (range.start()..range.end()).map(byte).collect()
}

pub(crate) fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap()
}

impl Daemon {
    /// A shard of whole blocks and one short one, none resident.
    pub(crate) fn new(blocks: u64) -> Self {
        Self::in_folder(tempfile::tempdir().unwrap(), blocks)
    }

    pub(crate) fn in_folder(folder: tempfile::TempDir, blocks: u64) -> Self {
        let identity = MapIdentity {
            generation: 77,
            shard: ShardIndex(3),
            block_size: BlockSize::new(BLOCK as u32).unwrap(),
            shard_len: (blocks - 1) * BLOCK + 100,
        };
        let paths = ShardPaths::new(folder.path(), identity.shard);
        let file = BlockFile::create(&paths.data, identity.shard_len, identity.block_size).unwrap();
        let map = ResidencyMap::create(&paths.map, &identity, file.file()).unwrap();
        Stamps::open(&paths.stamps, blocks, true).unwrap();
        Self {
            folder,
            map,
            file,
            identity,
            content: bytes(range(0, identity.shard_len)),
        }
    }

    pub(crate) fn paths(&self) -> ShardPaths {
        ShardPaths::new(self.folder.path(), self.identity.shard)
    }

    pub(crate) fn fill(&self, blocks: Range<u64>) {
        let end = (blocks.end * BLOCK).min(self.identity.shard_len);
        let bytes = &self.content[(blocks.start * BLOCK) as usize..end as usize];
        let blocks = SummedBlocks::new(blocks.start, bytes, self.identity.block_size);
        let landed = self.file.write(&blocks, &blocks.range()).unwrap();
        landed
            .into_iter()
            .for_each(|landed| self.map.publish(landed));
    }

    /// False if a view holds the blocks.
    pub(crate) fn evict(&self, blocks: &Range<u64>) -> bool {
        let Some(_lock) = EvictLock::try_lock(self.file.file(), blocks).unwrap() else {
            return false;
        };
        self.map.withdraw(blocks);
        self.file.punch(blocks).unwrap();
        true
    }

    pub(crate) fn client(&self) -> Option<SharedShard> {
        SharedShard::open(self.paths(), &self.identity).unwrap()
    }
}

/// What a read gives: bytes, or `None` for absent.
pub(crate) fn read(shard: &SharedShard, range: ByteRange) -> Option<Vec<u8>> {
    let mut out = vec![0xEE; range.len() as usize];
    match shard.read(range, &mut out) {
        ReadOutcome::Done => Some(out),
        ReadOutcome::Absent => None,
        ReadOutcome::Failed(error) => panic!("the device failed: {error}"),
    }
}
