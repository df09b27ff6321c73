//! What is known of the accesses to come, as far as eviction needs it.

use std::fmt::Debug;

use forebay_dataset::ShardIndex;

/// When blocks of one data set are needed, as of now.
pub trait NextUse {
    /// How far from now the block is needed next, in samples; `None` if, as far as is known, never.
    fn needed_in(&self, shard: ShardIndex, block: u64) -> Option<u64>;
}

/// Knows orders before they are used.
pub trait Future: Send + Sync + Debug {
    /// What is known of a data set; `None` if nothing is.
    fn of(&self, generation: u128) -> Option<Box<dyn NextUse>>;
}

/// Nothing is known: what was used longest ago goes first.
#[derive(Debug)]
pub struct Unknown;

impl Future for Unknown {
    fn of(&self, _generation: u128) -> Option<Box<dyn NextUse>> {
        None
    }
}
