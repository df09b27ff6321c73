//! The future as the announced orders tell it, for eviction.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_cache::{Future, NextUse};
use forebay_dataset::ShardIndex;

use super::uses::Uses;

/// A rank's uses and where it is.
#[derive(Clone, Debug)]
struct Rank {
    uses: Arc<Uses>,
    taken: Arc<AtomicU64>,
}

/// Who announced an order: the link, the rank and the sampler, for a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Place {
    pub(super) link: u64,
    pub(super) generation: u128,
    pub(super) rank: u32,
    pub(super) sampler: u32,
}

/// All orders that are followed.
#[derive(Debug, Default)]
pub(super) struct Known(Mutex<HashMap<Place, Rank>>);

impl Known {
    /// Takes an order into account; `taken` says how far it has come.
    pub(super) fn insert(&self, place: Place, uses: Uses, taken: Arc<AtomicU64>) {
        let uses = Arc::new(uses);
        self.lock().insert(place, Rank { uses, taken });
    }

    /// Forgets what is not in `still` followed.
    pub(super) fn retain(&self, still: impl Fn(&Place) -> bool) {
        self.lock().retain(|place, _| still(place));
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Place, Rank>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Future for Known {
    fn of(&self, generation: u128) -> Option<Box<dyn NextUse>> {
        let ranks: Vec<(Arc<Uses>, u64)> = self
            .lock()
            .iter()
            .filter(|(place, _)| place.generation == generation)
            .map(|(_, rank)| (rank.uses.clone(), rank.taken.load(Ordering::Relaxed)))
            .collect();
        (!ranks.is_empty()).then(|| Box::new(Ranks(ranks)) as Box<dyn NextUse>)
    }
}

/// The ranks of a data set, each with its uses and where it is now.
struct Ranks(Vec<(Arc<Uses>, u64)>);

impl NextUse for Ranks {
    fn needed_in(&self, shard: ShardIndex, block: u64) -> Option<u64> {
        let next =
            |(uses, now): &(Arc<Uses>, u64)| uses.next(shard, block, *now)?.checked_sub(*now);
        self.0.iter().filter_map(next).min()
    }
}
