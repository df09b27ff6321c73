//! Bytes that a client waits for and that are not on the device yet: handed over as they came, and
//! written behind.

use std::cell::Cell;
use std::io::IoSlice;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use forebay_cache::{Cache, CachedDataset, Claim, Delivered};
use forebay_dataset::{ByteRange, ShardIndex};
use forebay_residency::SummedBlocks;
use forebay_transport::Bytes;
use forebay_wire::MAX_HANDED;

use super::lock;

type Blocks = SummedBlocks<Bytes<'static>>;

/// Blocks with the claim that they came for: others wait for them until they are written.
type Waiting = (Arc<Claim>, Blocks);

/// Bytes that are held for one request, at most: a request that takes bytes asks for less, whose
/// blocks may have as much beside it.
const MOST: usize = 4 * MAX_HANDED as usize;
/// Parts that they are handed over in, at most: the system takes 1,024 at one time.
const MOST_PIECES: usize = 512;

/// What came of a request and is not written yet; `None` once nothing is to be held any more.
#[derive(Debug)]
pub(crate) struct Held(Mutex<Option<Vec<Waiting>>>);

impl Held {
    pub(crate) fn new() -> Self {
        Self(Mutex::new(Some(Vec::new())))
    }

    /// Holds the blocks, or writes them if it may not.
    pub(super) fn take(&self, claim: &Arc<Claim>, blocks: Blocks) -> Delivered {
        let mut held = lock(&self.0);
        if let Some(held) = &mut *held
            && held
                .iter()
                .map(|(_, held)| held.bytes().len())
                .sum::<usize>()
                < MOST
        {
            held.push((claim.clone(), blocks));
            return Delivered::Landed;
        }
        drop(held);
        claim.land(&blocks)
    }

    /// Writes what is held.
    pub(super) fn land(&self) {
        let held = lock(&self.0).as_mut().map(std::mem::take);
        land(&held.unwrap_or_default());
    }

    /// Holds nothing from now on. The bytes of the ranges, one after the other, if all of them are
    /// held or resident and some are held; what is held is written otherwise.
    pub(crate) fn close(
        &self,
        cache: &Cache,
        dataset: &CachedDataset,
        ranges: &[(ShardIndex, ByteRange)],
    ) -> Option<Handed> {
        let held = lock(&self.0).take().unwrap_or_default();
        let pieces = (!held.is_empty()).then(|| pieces(&held, cache, dataset, ranges));
        match pieces.flatten() {
            Some(pieces) => Some(Handed {
                held,
                pieces,
                is_landed: Cell::new(false),
            }),
            None => {
                land(&held);
                None
            }
        }
    }
}

fn land(held: &[Waiting]) {
    for (claim, blocks) in held {
        // What fails stays absent: the cache has counted it.
        let _: Delivered = claim.land(blocks);
    }
}

/// Bytes to hand over, which are written once they are.
#[derive(Debug)]
pub(crate) struct Handed {
    held: Vec<Waiting>,
    pieces: Vec<Piece>,
    is_landed: Cell<bool>,
}

impl Handed {
    /// All of it, in order.
    pub(crate) fn slices(&self) -> Vec<IoSlice<'_>> {
        let pieces = self.pieces.iter();
        pieces
            .map(|piece| {
                let bytes = match &piece.source {
                    Source::Held(at) => self.held[*at].1.bytes(),
                    Source::Read(bytes) => bytes,
                };
                IoSlice::new(&bytes[piece.range.clone()])
            })
            .collect()
    }

    /// How many bytes.
    pub(crate) fn len(&self) -> usize {
        self.pieces.iter().map(|piece| piece.range.len()).sum()
    }

    /// Writes what was held, once.
    pub(crate) fn land(&self) {
        if !self.is_landed.replace(true) {
            land(&self.held);
        }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.land();
    }
}

/// A part of the bytes that are handed over.
#[derive(Debug)]
struct Piece {
    source: Source,
    range: Range<usize>,
}

#[derive(Debug)]
enum Source {
    /// Position among what is held.
    Held(usize),
    /// Read from the block file, and sound.
    Read(Vec<u8>),
}

/// Where the bytes of the ranges are; `None` if some are not to be had, or lie too far apart.
fn pieces(
    held: &[Waiting],
    cache: &Cache,
    dataset: &CachedDataset,
    ranges: &[(ShardIndex, ByteRange)],
) -> Option<Vec<Piece>> {
    let size = u64::from(dataset.index().block_size().bytes());
    let mut pieces = Vec::new();
    let mut read = 0;
    for (shard, range) in ranges {
        let mut at = range.start();
        while at < range.end() {
            let block = at / size;
            let has = |(claim, blocks): &Waiting| {
                claim.shard() == *shard && blocks.range().contains(&block)
            };
            let (source, first, len) = match held.iter().position(has) {
                Some(at) => {
                    let blocks = &held[at].1;
                    (Source::Held(at), blocks.range().start, blocks.bytes().len())
                }
                None => {
                    let bytes = cache.block_bytes(dataset, *shard, block).ok()??;
                    let len = bytes.len();
                    read += len;
                    (Source::Read(bytes), block, len)
                }
            };
            let base = first * size;
            let end = range.end().min(base + len as u64);
            // A block that ends before the range does has less than the index says.
            let range = (at - base) as usize..end.checked_sub(base)? as usize;
            if range.is_empty() || read > MOST || pieces.len() >= MOST_PIECES {
                return None;
            }
            at = end;
            pieces.push(Piece { source, range });
        }
    }
    Some(pieces)
}
