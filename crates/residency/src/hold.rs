//! Holding blocks in place while a zero-copy view of them lives.
//!
//! A hold is a shared open-file-description lock on the block file; the evictor takes an exclusive
//! one on what it wants to evict and leaves alone what it cannot get. The kernel drops a dead
//! process's locks, so a crashed trainer holds nothing.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use crate::fork::fork_generation;
use crate::stamps::BLOCKS_PER_STAMP;
use crate::sys::{LockKind, range_lock};

/// The holds of one process on one block file.
///
/// Locks of one descriptor do not count, so this counts them: the first hold on a group of blocks
/// takes its lock and the last gives it back.
#[derive(Debug)]
pub(crate) struct Holds {
    file: File,
    made_in: u64,
    counts: Mutex<HashMap<u64, u32>>,
}

impl Holds {
    /// `file` must be an open file description that nothing else in this process locks.
    pub(crate) fn new(file: File) -> Self {
        Self {
            file,
            made_in: fork_generation(),
            counts: Mutex::default(),
        }
    }

    /// Holds the groups of `blocks`; `None` while one of them is being evicted, and in a child of
    /// the process that made this.
    pub(crate) fn acquire(self: &Arc<Self>, blocks: &Range<u64>) -> io::Result<Option<Hold>> {
        if self.made_in != fork_generation() {
            // A child of fork shares the parent's descriptor, so neither could tell whose a lock is.
            return Ok(None);
        }
        let groups = groups_of(blocks);
        let mut hold = Hold {
            holds: self.clone(),
            groups: groups.start..groups.start,
        };
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        for group in groups {
            let count = counts.entry(group).or_insert(0);
            if *count == 0 && !range_lock(&self.file, LockKind::Shared, group, 1)? {
                counts.remove(&group);
                drop(counts);
                return Ok(None);
            }
            *count += 1;
            hold.groups.end = group + 1;
        }
        Ok(Some(hold))
    }
}

/// Blocks that stay in place until this is dropped.
#[derive(Debug)]
pub struct Hold {
    holds: Arc<Holds>,
    groups: Range<u64>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        if self.holds.made_in != fork_generation() {
            // A child of fork shares the parent's locks: giving them back is the parent's to do.
            return;
        }
        let mut counts = self
            .holds
            .counts
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        for group in self.groups.clone() {
            match counts.get_mut(&group) {
                Some(count) if *count > 1 => *count -= 1,
                _ => {
                    counts.remove(&group);
                    let _ = range_lock(&self.holds.file, LockKind::Unlock, group, 1);
                }
            }
        }
    }
}

/// The evictor's exclusive lock on a group of blocks.
#[derive(Debug)]
pub struct EvictLock<'a> {
    file: &'a File,
    groups: Range<u64>,
}

impl<'a> EvictLock<'a> {
    /// Locks the groups of `blocks` if no view holds any of them.
    pub fn try_lock(file: &'a File, blocks: &Range<u64>) -> io::Result<Option<Self>> {
        let groups = groups_of(blocks);
        let len = groups.end - groups.start;
        let locked = range_lock(file, LockKind::Exclusive, groups.start, len)?;
        Ok(locked.then_some(Self { file, groups }))
    }
}

impl Drop for EvictLock<'_> {
    fn drop(&mut self) {
        let len = self.groups.end - self.groups.start;
        let _ = range_lock(self.file, LockKind::Unlock, self.groups.start, len);
    }
}

/// Byte n of the file stands for group n in these locks; their contents do not matter.
pub(crate) fn groups_of(blocks: &Range<u64>) -> Range<u64> {
    blocks.start / BLOCKS_PER_STAMP..blocks.end.div_ceil(BLOCKS_PER_STAMP)
}
