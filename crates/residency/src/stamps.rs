//! When groups of blocks were last used, and how much was read: written by clients without a lock.
//!
//! A stray write here spoils the order of eviction or a statistic, and nothing else.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;

use rustix::time::{ClockId, clock_gettime};

use crate::sys::Mapping;

/// Blocks that share one stamp, and that are evicted together.
pub const BLOCKS_PER_STAMP: u64 = 16;

const MAGIC: [u8; 8] = *b"FBSTAMP\x01";
const HEADER_BYTES: u64 = 4096;
const COUNTERS_AT: u64 = 64;

/// What the clients of a shard count, and its daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Bytes that readers asked for.
    AskedBytes = 0,
    /// Bytes that were resident when first looked at.
    LocalBytes = 1,
    /// Bytes that clients read from the origin themselves.
    DirectBytes = 2,
    /// Nanoseconds that the daemon has spent on opening files of the origin and on asking which
    /// version they are.
    OriginMetadataNs = 3,
    /// Nanoseconds that the daemon has spent on reading them.
    OriginReadNs = 4,
}

/// Tenths of a second since the machine started: the unit of stamps.
pub fn now_ticks() -> u32 {
    let now = clock_gettime(ClockId::MonotonicCoarse);
    (now.tv_sec as u64 * 10 + now.tv_nsec as u64 / 100_000_000) as u32
}

/// The mapped stamps of one shard.
#[derive(Debug)]
pub struct Stamps {
    mapping: Mapping,
    groups: u64,
}

impl Stamps {
    /// Opens the stamps of a shard of `blocks` blocks, making the file if `create`.
    pub fn open(path: &Path, blocks: u64, create: bool) -> io::Result<Self> {
        let groups = blocks.div_ceil(BLOCKS_PER_STAMP);
        let len = Self::file_len(blocks);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(create)
            .truncate(false)
            .mode(0o600)
            .open(path)?;
        if create {
            Self::initialise(&file, len)?;
        }
        let mut magic = [0; 8];
        file.read_exact_at(&mut magic, 0)?;
        if magic != MAGIC || file.metadata()?.len() != len {
            return Err(io::Error::new(
                io::ErrorKind::InvalidData,
                "not the stamps of this shard",
            ));
        }
        Ok(Self {
            mapping: Mapping::new(&file, len, true)?,
            groups,
        })
    }

    /// Bytes of the file for a shard of `blocks` blocks.
    pub fn file_len(blocks: u64) -> u64 {
        HEADER_BYTES + (blocks.div_ceil(BLOCKS_PER_STAMP) * 4).next_multiple_of(64)
    }

    fn initialise(file: &File, len: u64) -> io::Result<()> {
        if file.metadata()?.len() != len {
            file.set_len(0)?;
            rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, len)?;
        }
        file.write_all_at(&MAGIC, 0)
    }

    /// Notes that `blocks` were used now.
    pub fn touch(&self, blocks: &Range<u64>, now: u32) {
        let groups = blocks.start / BLOCKS_PER_STAMP..blocks.end.div_ceil(BLOCKS_PER_STAMP);
        for group in groups.start..groups.end.min(self.groups) {
            let stamp = self.mapping.half_word(HEADER_BYTES + group * 4);
            // Stored only when it changes, so that readers of one group do not share a cache line
            // in anger.
            if stamp.load(Ordering::Relaxed) != now {
                stamp.store(now, Ordering::Relaxed);
            }
        }
    }

    /// When the group of blocks was last used, in ticks; a stamp from the future (left from
    /// before a reboot) counts as never.
    pub fn last_use(&self, group: u64, now: u32) -> u32 {
        let stamp = self
            .mapping
            .half_word(HEADER_BYTES + group * 4)
            .load(Ordering::Relaxed);
        if stamp > now { 0 } else { stamp }
    }

    /// Number of groups.
    pub fn groups(&self) -> u64 {
        self.groups
    }

    /// Adds to a counter.
    pub fn count(&self, counter: Counter, amount: u64) {
        self.counter(counter).fetch_add(amount, Ordering::Relaxed);
    }

    /// Reads a counter.
    pub fn read(&self, counter: Counter) -> u64 {
        self.counter(counter).load(Ordering::Relaxed)
    }

    fn counter(&self, counter: Counter) -> &std::sync::atomic::AtomicU64 {
        self.mapping.word(COUNTERS_AT + counter as u64 * 8)
    }
}
