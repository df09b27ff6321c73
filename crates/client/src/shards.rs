//! The shards that this process has open.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use forebay_dataset::{IndexError, ShardIndex};
use forebay_origin::IndexFile;
use forebay_residency::{MapIdentity, ShardPaths, SharedShard};

use crate::answers;

/// Shards open at one time, at most: each keeps a descriptor.
const MOST_OPEN: usize = 384;

/// Slots for the shards of one data set.
#[derive(Debug)]
pub(crate) struct Shards {
    folder: PathBuf,
    slots: Vec<RwLock<Option<Arc<SharedShard>>>>,
    open: AtomicUsize,
    hand: AtomicUsize,
}

impl Shards {
    pub(crate) fn new(folder: PathBuf, count: u32) -> Self {
        let slots = (0..count).map(|_| RwLock::new(None)).collect();
        Self {
            folder,
            slots,
            open: AtomicUsize::new(0),
            hand: AtomicUsize::new(0),
        }
    }

    /// The shard, opened if it exists; `None` while the daemon has not made it.
    pub(crate) fn get(
        &self,
        index: &IndexFile,
        shard: ShardIndex,
    ) -> Result<Option<Arc<SharedShard>>, IndexError> {
        let Some(slot) = self.slots.get(shard.0 as usize) else {
            return Err(IndexError::Damaged(format!("no shard {}", shard.0)));
        };
        if let Some(open) = &*slot.read().unwrap_or_else(PoisonError::into_inner) {
            return Ok(Some(open.clone()));
        }
        let identity = MapIdentity {
            generation: index.generation(),
            shard,
            block_size: index.block_size(),
            shard_len: index.shard_len(shard)?,
        };
        // Whatever is wrong with the files, they are only a cache: absent until replaced.
        let paths = ShardPaths::new(&self.folder, shard);
        let opened = answers::opening(|| SharedShard::open(paths, &identity));
        let Ok(Some(opened)) = opened else {
            return Ok(None);
        };
        let opened = Arc::new(opened);
        let mut held = slot.write().unwrap_or_else(PoisonError::into_inner);
        if held.replace(opened.clone()).is_none() {
            self.open.fetch_add(1, Ordering::Relaxed);
        }
        drop(held);
        self.close_one_over(shard);
        Ok(Some(opened))
    }

    /// Forgets a shard whose files may have been replaced.
    pub(crate) fn forget(&self, shard: ShardIndex) {
        let Some(slot) = self.slots.get(shard.0 as usize) else {
            return;
        };
        let open = slot.write().unwrap_or_else(PoisonError::into_inner).take();
        let Some(open) = open else { return };
        self.open.fetch_sub(1, Ordering::Relaxed);
        if !open.is_intact() {
            // Closing it would close what the program has under that number now.
            std::mem::forget(open);
        }
    }

    /// Forgets a shard whose descriptors were closed by the program that this is a guest of.
    pub(crate) fn forget_unless_intact(&self, shard: ShardIndex) {
        let slot = self.slots.get(shard.0 as usize);
        let lost = slot.is_some_and(|slot| {
            let open = slot.read().unwrap_or_else(PoisonError::into_inner);
            open.as_ref().is_some_and(|open| !open.is_intact())
        });
        if lost {
            self.forget(shard);
        }
    }

    /// Keeps the number of descriptors bounded; any shard but the newest will do, since a random
    /// order has no favourites.
    fn close_one_over(&self, newest: ShardIndex) {
        for _ in 0..self.slots.len() {
            if self.open.load(Ordering::Relaxed) <= MOST_OPEN {
                return;
            }
            let at = self.hand.fetch_add(1, Ordering::Relaxed) % self.slots.len();
            if at != newest.0 as usize {
                self.forget(ShardIndex(at as u32));
            }
        }
    }
}
