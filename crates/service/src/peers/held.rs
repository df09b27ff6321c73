//! Bytes that a client waits for and that are not on the device yet: handed over in memory that the
//! client shares, and written behind.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use forebay_cache::{Claim, Delivered};
use forebay_dataset::{BlockSize, ByteRange, ShardIndex};
use forebay_residency::{HandedMemory, SummedBlocks};
use forebay_transport::{Bytes, Landing};
use forebay_wire::{HandedRange, MAX_HANDED_PARTS};

use super::lock;

type Blocks = SummedBlocks<Bytes<'static>>;

/// Blocks in the memory, with the claim that they came for: others wait for them until they are
/// written.
#[derive(Debug)]
struct Waiting {
    claim: Arc<Claim>,
    blocks: Blocks,
    position: usize,
}

/// What came of a request and is not written yet.
#[derive(Debug)]
pub(crate) struct Held {
    memory: Arc<HandedMemory>,
    /// `None` once nothing is to be held any more.
    waiting: Mutex<Option<Vec<Waiting>>>,
}

impl Held {
    pub(crate) fn new(memory: Arc<HandedMemory>) -> Self {
        Self {
            memory,
            waiting: Mutex::new(Some(Vec::new())),
        }
    }

    /// Memory for what arrives. Once the request is answered there is none: the client reads it.
    pub(super) fn landing(&self, len: usize) -> Option<Box<dyn Landing>> {
        let waiting = lock(&self.waiting);
        waiting.as_ref()?;
        Some(Box::new(self.memory.take(len)?))
    }

    /// Holds the blocks, or writes them if it may not or they are elsewhere.
    pub(super) fn take(&self, claim: &Arc<Claim>, blocks: Blocks) -> Delivered {
        let mut waiting = lock(&self.waiting);
        if let Some(waiting) = &mut *waiting
            && let Some(position) = self.memory.position(blocks.bytes())
        {
            let claim = claim.clone();
            waiting.push(Waiting {
                claim,
                blocks,
                position,
            });
            return Delivered::Landed;
        }
        drop(waiting);
        claim.land(&blocks)
    }

    /// Writes what is held, and holds nothing from now on.
    pub(super) fn stop(&self) {
        let waiting = lock(&self.waiting).take();
        land(&waiting.unwrap_or_default());
    }

    /// Holds nothing from now on. Where the bytes of the ranges lie, if all of them are held; what
    /// is held is written otherwise.
    pub(crate) fn close(
        &self,
        ranges: &[(ShardIndex, ByteRange)],
        block_size: BlockSize,
    ) -> Option<Handed> {
        let waiting = lock(&self.waiting).take().unwrap_or_default();
        match places(&waiting, ranges, block_size) {
            Some(ranges) => Some(Handed { waiting, ranges }),
            None => {
                land(&waiting);
                None
            }
        }
    }
}

fn land(waiting: &[Waiting]) {
    for Waiting { claim, blocks, .. } in waiting {
        // What fails stays absent: the cache has counted it.
        let _: Delivered = claim.land(blocks);
    }
}

/// Bytes that are handed over, and written when this is dropped.
#[derive(Debug)]
pub(crate) struct Handed {
    waiting: Vec<Waiting>,
    ranges: Vec<HandedRange>,
}

impl Handed {
    /// Where they lie in the memory.
    pub(crate) fn ranges(&self) -> &[HandedRange] {
        &self.ranges
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        land(&self.waiting);
    }
}

/// Where the bytes of the ranges lie; `None` if some are not held, or in too many parts.
fn places(
    waiting: &[Waiting],
    ranges: &[(ShardIndex, ByteRange)],
    block_size: BlockSize,
) -> Option<Vec<HandedRange>> {
    let size = u64::from(block_size.bytes());
    let mut places = Vec::new();
    for (shard, range) in ranges {
        let mut at = range.start();
        while at < range.end() {
            let block = at / size;
            let mut waiting = waiting.iter();
            let here = waiting.find(|waiting| {
                waiting.claim.shard() == *shard && waiting.blocks.range().contains(&block)
            })?;
            let base = here.blocks.range().start * size;
            let end = range.end().min(base + here.blocks.bytes().len() as u64);
            let Range { start, end } = at - base..end.checked_sub(base)?;
            // A block that ends before the range does has less than the index says.
            if start >= end || places.len() >= MAX_HANDED_PARTS {
                return None;
            }
            at = base + end;
            places.push(HandedRange {
                start: u32::try_from(here.position as u64 + start).ok()?,
                len: u32::try_from(end - start).ok()?,
            });
        }
    }
    (!places.is_empty()).then_some(places)
}
