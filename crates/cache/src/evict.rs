//! Making room: data sets that nobody uses first; then replicas before what this node owns; and of
//! each, by policy, what the known future needs last or what was used longest ago.

use std::cmp::Reverse;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError, TryLockError};
use std::time::Duration;

use forebay_residency::{BLOCKS_PER_STAMP, now_ticks};

use crate::cache::{Cache, Policy};
use crate::future::NextUse;
use crate::owned::Owned;
use crate::shard::{Dropped, Shard, runs_of};

/// Share of the capacity that is freed at once, so that the scan is paid once for many fills, and
/// the most of it: by a fill that waits for room, and ahead of need.
const BATCH_SHARE: u64 = 64;
const BATCH_BYTES: u64 = 64 << 20;
const BATCH_BYTES_AHEAD: u64 = 4 << 30;
/// Share of the capacity that is kept free ahead of need, and the most of it.
const FREE_SHARE: u64 = 128;
const FREE_BYTES: u64 = 1 << 30;
/// How often who waits for another's eviction looks whether there is room.
const LOOK_AGAIN: Duration = Duration::from_micros(200);
/// Candidates that are looked for, at least.
const FEWEST: usize = 64;

/// Blocks that a fill needs, so that it does not evict one part of a job for another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spare<'a> {
    pub(crate) shard: &'a Shard,
    pub(crate) blocks: &'a Range<u64>,
}

impl Spare<'_> {
    fn covers(&self, candidate: &Candidate) -> bool {
        std::ptr::eq(self.shard, Arc::as_ptr(&candidate.shard))
            && self.blocks.start < candidate.blocks.end
            && candidate.blocks.start < self.blocks.end
    }
}

/// A replica that was used so recently, in tenths of a second, is not evicted before what is owned:
/// it was fetched for a reader who may not have read it yet.
const IN_USE_TICKS: u32 = 20;

/// Blocks that could go.
struct Candidate {
    /// Kept for other nodes too, or in use.
    is_kept: bool,
    /// Samples until they are needed; the most where that is not known.
    needed_in: u64,
    last_use: u32,
    shard: Arc<Shard>,
    blocks: Range<u64>,
}

impl Candidate {
    /// The least goes first.
    fn rank(&self) -> Rank {
        (self.is_kept, Reverse(self.needed_in), self.last_use)
    }
}

type Rank = (bool, Reverse<u64>, u32);

/// The first of many things in the order of their ranks, found in one pass that keeps only about
/// as many as are wanted: a large cache has tens of millions of blocks.
struct First<T> {
    rank: fn(&T) -> Rank,
    most: usize,
    found: Vec<T>,
    /// Whether there were more.
    is_cut: bool,
}

impl<T> First<T> {
    fn new(most: usize, rank: fn(&T) -> Rank) -> Self {
        Self {
            rank,
            most,
            found: Vec::new(),
            is_cut: false,
        }
    }

    fn push(&mut self, one: T) {
        self.found.push(one);
        if self.found.len() >= self.most.saturating_mul(2) {
            self.cut();
        }
    }

    fn cut(&mut self) {
        if self.found.len() > self.most {
            self.found.select_nth_unstable_by_key(self.most, self.rank);
            self.found.truncate(self.most);
            self.is_cut = true;
        }
    }

    /// In order, and whether there were more.
    fn sorted(mut self) -> (Vec<T>, bool) {
        self.cut();
        self.found.sort_unstable_by_key(self.rank);
        (self.found, self.is_cut)
    }
}

/// That room has become short, until it was heard.
#[derive(Debug, Default)]
pub(crate) struct Shortage {
    told: Mutex<bool>,
    telling: Condvar,
}

impl Shortage {
    fn tell(&self) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.telling.notify_one();
    }

    /// True if it was told within the time.
    fn wait(&self, patience: Duration) -> bool {
        let told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self
            .telling
            .wait_timeout_while(told, patience, |told| !*told);
        let (mut told, _) = waited.unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut *told)
    }
}

impl Cache {
    /// Frees at least `bytes` if it can; true if it freed anything or others did meanwhile.
    pub(crate) fn make_room(&self, bytes: u64, spare: Option<Spare<'_>>) -> bool {
        let before = self.budget.used();
        let _evicting = loop {
            match self.evicting.try_lock() {
                Ok(evicting) => break evicting,
                Err(TryLockError::Poisoned(evicting)) => break evicting.into_inner(),
                Err(TryLockError::WouldBlock) => {}
            }
            // The room that another makes counts as soon as it is there, not when it is done.
            if self.budget.used() < before {
                return true;
            }
            std::thread::sleep(LOOK_AGAIN);
        };
        if self.budget.used() < before {
            return true;
        }
        let goal = bytes.max(self.excess(bytes));
        // Who pins keeps what is its own; a replica can be had from its owner again.
        let pins = self.plan.policy == Policy::Pin;
        let may_evict = !pins || self.ownership.get().is_some();
        let batch = goal.max(self.batch(BATCH_BYTES));
        self.drop_dormant(goal) > 0 || (may_evict && self.evict_worst(batch, spare, pins) > 0)
    }

    /// Frees room before it is needed, so that no fill waits for it: for a thread of its own, in a
    /// loop. Returns when some was made, or after `patience` if there is enough. Does nothing where
    /// nothing may be evicted.
    pub fn keep_room(&self, patience: Duration) {
        if !self.short.wait(patience) || !self.is_short() {
            return;
        }
        let _evicting = self.evicting.lock().unwrap_or_else(PoisonError::into_inner);
        let goal = self.batch(BATCH_BYTES_AHEAD);
        let freed = self.drop_dormant(goal);
        self.evict_worst(goal.saturating_sub(freed), None, false);
    }

    /// Wakes whoever keeps room, if little is left.
    pub(crate) fn note_room(&self) {
        if self.is_short() {
            self.short.tell();
        }
    }

    fn is_short(&self) -> bool {
        let kept = (self.budget.capacity() / FREE_SHARE).min(FREE_BYTES);
        self.plan.policy != Policy::Pin && self.excess(kept) > 0
    }

    fn batch(&self, most: u64) -> u64 {
        (self.budget.capacity() / BATCH_SHARE).min(most)
    }

    /// Evicts what lies over the capacity, whatever the policy: it was lowered since an earlier
    /// daemon filled the folder.
    pub(crate) fn shrink_to_capacity(&self) {
        let _evicting = self.evicting.lock().unwrap_or_else(PoisonError::into_inner);
        self.drop_dormant(self.excess(0));
        self.evict_worst(self.excess(0), None, false);
    }

    /// Bytes to free before `more` fit.
    fn excess(&self, more: u64) -> u64 {
        self.budget
            .used()
            .saturating_add(more)
            .saturating_sub(self.budget.capacity())
    }

    /// Removes unused data sets, the one used longest ago first, until `bytes` are free. Returns
    /// how many were freed.
    fn drop_dormant(&self, bytes: u64) -> u64 {
        // Held while files are removed: a data set that is attached meanwhile must not lose them.
        let mut dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner);
        let mut freed = 0;
        while freed < bytes {
            let oldest = (0..dormant.len()).min_by_key(|at| dormant[*at].last_used);
            let Some(victim) = oldest.map(|at| dormant.swap_remove(at)) else {
                break;
            };
            // Readers without a daemon keep their descriptors and so their bytes.
            if std::fs::remove_dir_all(&victim.folder).is_ok() {
                self.budget.release(victim.bytes);
                self.metrics.evicted_datasets.add(1);
                freed += victim.bytes;
            } else {
                self.metrics.device_errors.add(1);
            }
        }
        freed
    }

    /// Evicts the blocks that are needed last, of those the ones used longest ago first, until `goal`
    /// bytes were freed; only replicas if `pins`. Returns how many were.
    fn evict_worst(&self, goal: u64, spare: Option<Spare<'_>>, pins: bool) -> u64 {
        if goal == 0 {
            return 0;
        }
        let datasets = self.datasets();
        let blocks = datasets.iter().map(|dataset| dataset.index.block_size());
        let block = blocks.map(|size| size.bytes()).min().unwrap_or(1);
        let mut most = (goal / u64::from(block)) as usize + FEWEST;
        // Counted here and not by the budget's fall: others take the room as it is made.
        let mut freed = 0;
        loop {
            let (candidates, is_cut) = self.candidates(most, spare, pins).sorted();
            let more = self.evict_until(goal - freed, candidates);
            freed += more;
            if freed >= goal || !is_cut {
                return freed;
            }
            // Blocks that are short, held or in flight gave less than they seemed to.
            most = if more > 0 { most * 2 } else { usize::MAX };
        }
    }

    /// Evicts one after another until `goal` bytes were freed. Returns how many were.
    fn evict_until(&self, goal: u64, candidates: Vec<Candidate>) -> u64 {
        let mut freed = 0;
        for candidate in candidates {
            if freed >= goal {
                break;
            }
            match evict_group(&candidate, self) {
                Ok(dropped) => {
                    self.metrics.evicted_blocks.add(dropped.blocks);
                    freed += dropped.bytes;
                }
                Err(_) => self.metrics.device_errors.add(1),
            }
        }
        freed
    }

    fn candidates(&self, most: usize, spare: Option<Spare<'_>>, pins: bool) -> First<Candidate> {
        let future = self
            .future
            .get()
            .filter(|_| self.plan.policy == Policy::Plan);
        let mut first = First::new(most, Candidate::rank);
        let mut found = |candidate: Candidate| {
            let is_spared = spare.is_some_and(|spare| spare.covers(&candidate));
            let is_pinned = pins && candidate.is_kept;
            if !(is_spared || is_pinned) {
                first.push(candidate);
            }
        };
        for dataset in self.datasets() {
            let generation = dataset.index.generation();
            let next_use = future.and_then(|future| future.of(generation));
            let ownership = self.ownership.get().map(AsRef::as_ref);
            let mut owned = Owned::new(ownership, generation, dataset.index.block_size());
            for shard in dataset.made_shards() {
                match &next_use {
                    Some(next_use) => {
                        add_blocks(&mut found, shard, &mut owned, next_use.as_ref());
                    }
                    None => add_groups(&mut found, shard, &mut owned),
                }
            }
        }
        first
    }
}

/// Where the future is known each block has a time of its own.
fn add_blocks(
    found: &mut impl FnMut(Candidate),
    shard: &Arc<Shard>,
    owned: &mut Owned<'_>,
    next_use: &dyn NextUse,
) {
    let now = now_ticks();
    for block in runs_of(shard.map.stored_words()).into_iter().flatten() {
        if block < shard.map.blocks() {
            let last_use = shard.stamps.last_use(block / BLOCKS_PER_STAMP, now);
            found(Candidate {
                is_kept: owned.is(shard.shard, block) || is_in_use(last_use, now),
                needed_in: next_use.needed_in(shard.shard, block).unwrap_or(u64::MAX),
                last_use,
                shard: shard.clone(),
                blocks: block..block + 1,
            });
        }
    }
}

/// Else the blocks that share a stamp go together.
fn add_groups(found: &mut impl FnMut(Candidate), shard: &Arc<Shard>, owned: &mut Owned<'_>) {
    let now = now_ticks();
    let blocks = shard.map.blocks();
    for (word, bits) in (0..).zip(shard.map.stored_words()) {
        for part in 0..64 / BLOCKS_PER_STAMP {
            let start: u64 = word * 64 + part * BLOCKS_PER_STAMP;
            let stored = bits >> (part * BLOCKS_PER_STAMP) & ((1 << BLOCKS_PER_STAMP) - 1);
            if stored == 0 || start >= blocks {
                continue;
            }
            let last_use = shard.stamps.last_use(start / BLOCKS_PER_STAMP, now);
            found(Candidate {
                is_kept: owned.is(shard.shard, start) || is_in_use(last_use, now),
                needed_in: u64::MAX,
                last_use,
                shard: shard.clone(),
                blocks: start..(start + BLOCKS_PER_STAMP).min(blocks),
            });
        }
    }
}

fn is_in_use(last_use: u32, now: u32) -> bool {
    now.saturating_sub(last_use) < IN_USE_TICKS
}

/// Evicts a group unless it is being filled or a view holds it.
fn evict_group(candidate: &Candidate, cache: &Cache) -> std::io::Result<Dropped> {
    let shard = &candidate.shard;
    let Some(_flight) = shard.flights.lead_whole(candidate.blocks.clone()) else {
        return Ok(Dropped::default());
    };
    let dropped = shard.drop_blocks(&candidate.blocks, &cache.budget)?;
    Ok(dropped.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_first_of_many_are_those_of_the_whole_order(
            ranks in proptest::collection::vec((any::<bool>(), 0u64..20, 0u32..20), 0..200),
            most in 1usize..50,
        ) {
            let rank = |(is_kept, needed_in, last_use): &(bool, u64, u32)| {
                (*is_kept, Reverse(*needed_in), *last_use)
            };
            let mut first = First::new(most, rank);
            ranks.iter().for_each(|one| {
                first.push(*one);
                assert!(first.found.len() <= 2 * most, "no more is kept");
            });
            let mut whole = ranks.clone();
            whole.sort_by_key(rank);
            whole.truncate(most);
            prop_assert_eq!(first.sorted(), (whole, ranks.len() > most));
        }
    }
}
