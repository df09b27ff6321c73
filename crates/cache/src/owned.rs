//! Which blocks this node is to keep for others, as far as eviction needs it.

use std::fmt::Debug;

use forebay_dataset::{BlockSize, REGION_BYTES, Region, ShardIndex};

/// Knows what this node owns.
pub trait Ownership: Send + Sync + Debug {
    /// True if this node owns the region of the data set `generation`; what it does not own are
    /// replicas.
    fn owns(&self, generation: u128, region: Region) -> bool;
}

/// Asks once for each region in a row.
pub(crate) struct Owned<'a> {
    ownership: Option<&'a dyn Ownership>,
    generation: u128,
    region_blocks: u64,
    last: Option<(Region, bool)>,
}

impl<'a> Owned<'a> {
    pub(crate) fn new(
        ownership: Option<&'a dyn Ownership>,
        generation: u128,
        size: BlockSize,
    ) -> Self {
        Self {
            ownership,
            generation,
            region_blocks: REGION_BYTES / u64::from(size.bytes()),
            last: None,
        }
    }

    /// True if this node owns the block; of a node alone, every block.
    pub(crate) fn is(&mut self, shard: ShardIndex, block: u64) -> bool {
        let Some(ownership) = self.ownership else {
            return true;
        };
        let number = u32::try_from(block / self.region_blocks).unwrap_or(u32::MAX);
        let region = Region { shard, number };
        if let Some((last, owned)) = self.last
            && last == region
        {
            return owned;
        }
        let owned = ownership.owns(self.generation, region);
        self.last = Some((region, owned));
        owned
    }
}
