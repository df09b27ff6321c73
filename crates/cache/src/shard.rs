//! One shard on this node's device, as the daemon holds it.

use std::io;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_dataset::{IndexError, SegmentIndex, ShardIndex};
use forebay_origin::IndexFile;
use forebay_residency::{
    BlockFile, EvictLock, MapIdentity, ResidencyMap, ShardPaths, Stamps, SummedBlocks,
};

use crate::budget::{Budget, Reservation, allocated};
use crate::flights::Flights;

/// Files of one shard, open for writing.
#[derive(Debug)]
pub(crate) struct Shard {
    pub(crate) index: Arc<IndexFile>,
    pub(crate) shard: ShardIndex,
    pub(crate) map: ResidencyMap,
    pub(crate) file: BlockFile,
    pub(crate) stamps: Stamps,
    pub(crate) flights: Flights,
    /// Held while blocks are written and published, and while they are dropped: two reads of one
    /// block may be in progress, but its bytes and its room are counted once. True once the shard
    /// is closed: nothing lands or leaves any more.
    landing: Mutex<bool>,
}

/// What left the device.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Dropped {
    pub(crate) blocks: u64,
    pub(crate) bytes: u64,
}

/// Consecutive whole blocks that lie in one segment; the last may be short.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Segment in the index.
    pub segment: SegmentIndex,
    /// Where it begins in the segment.
    pub offset: u64,
    /// Valid bytes.
    pub len: u64,
    /// First block in the shard.
    pub first_block: u64,
}

impl Piece {
    /// Bytes that they take on the device.
    pub(crate) fn cost(pieces: &[Self]) -> u64 {
        pieces.iter().map(|piece| allocated(piece.len)).sum()
    }
}

impl Shard {
    /// Makes the shard's files in place of any others.
    pub(crate) fn create(
        index: Arc<IndexFile>,
        identity: &MapIdentity,
        paths: &ShardPaths,
    ) -> io::Result<Self> {
        let make = || {
            let file = BlockFile::create(&paths.data, identity.shard_len, identity.block_size)?;
            let map = ResidencyMap::create(&paths.map, identity, file.file())
                .map_err(io::Error::other)?;
            Self::with_stamps(index, identity, paths, map, file)
        };
        make().inspect_err(|_| {
            // A full device may have given a part of the room, which nobody would count.
            let _ = paths.remove();
        })
    }

    /// Takes over what an earlier daemon left; `None` if it cannot be used.
    pub(crate) fn adopt(
        index: Arc<IndexFile>,
        identity: &MapIdentity,
        paths: &ShardPaths,
    ) -> Option<Self> {
        let (map, file) = Self::open_existing(identity, paths)?;
        Self::with_stamps(index, identity, paths, map, file).ok()
    }

    fn with_stamps(
        index: Arc<IndexFile>,
        identity: &MapIdentity,
        paths: &ShardPaths,
        map: ResidencyMap,
        file: BlockFile,
    ) -> io::Result<Self> {
        let stamps = Stamps::open(&paths.stamps, identity.blocks(), true).or_else(|_| {
            std::fs::remove_file(&paths.stamps)?;
            Stamps::open(&paths.stamps, identity.blocks(), true)
        })?;
        let shard = identity.shard;
        Ok(Self {
            index,
            shard,
            map,
            file,
            stamps,
            flights: Flights::default(),
            landing: Mutex::default(),
        })
    }

    /// A pair that belongs together, taken into use. Whatever is wrong with it, it is only a
    /// cache: the answer is then to make a new one.
    fn open_existing(
        identity: &MapIdentity,
        paths: &ShardPaths,
    ) -> Option<(ResidencyMap, BlockFile)> {
        let map = ResidencyMap::open(&paths.map, identity, true).ok()?;
        let file = BlockFile::open(&paths.data, identity.block_size, true).ok()?;
        let len = file.file().metadata().ok()?.len();
        // Earlier versions made the last block whole.
        let whole = identity.blocks() * u64::from(identity.block_size.bytes());
        let fits = len == identity.shard_len || len == whole;
        if file.inode().ok()? != map.data_inode() || !fits {
            return None;
        }
        if !map.was_clean() {
            map.demote_all();
            punch_unstored(&map, &file).ok()?;
        }
        map.mark_live().ok()?;
        Some((map, file))
    }

    /// Refuses blocks that the shard does not have.
    pub(crate) fn check_inside(&self, blocks: &Range<u64>) -> Result<(), IndexError> {
        if blocks.end <= self.map.blocks() {
            return Ok(());
        }
        Err(IndexError::Damaged(format!(
            "blocks [{}, {}) are outside shard {}",
            blocks.start, blocks.end, self.shard.0
        )))
    }

    /// The pieces that hold `blocks`.
    pub(crate) fn pieces(&self, blocks: &Range<u64>) -> Result<Vec<Piece>, IndexError> {
        let size = u64::from(self.map.block_size().bytes());
        let mut pieces = Vec::with_capacity(1);
        let mut block = blocks.start;
        while block < blocks.end {
            let start = block * size;
            let Some(segment) = self.index.segment_at(self.shard, start)? else {
                // Only past the last segment: segments begin on block boundaries.
                block += 1;
                continue;
            };
            let whole = self.index.segment(segment)?;
            let segment_end = whole.shard_start + whole.fingerprint.size;
            let end = segment_end.min(blocks.end * size);
            pieces.push(Piece {
                segment,
                offset: start - whole.shard_start,
                len: end - start,
                first_block: block,
            });
            block = end.div_ceil(size).max(block + 1);
        }
        Ok(pieces)
    }

    /// Bytes that `blocks` take on the device once they are stored.
    pub(crate) fn cost(&self, blocks: &Range<u64>) -> Result<u64, IndexError> {
        Ok(Piece::cost(&self.pieces(blocks)?))
    }

    /// Bytes that the stored blocks take on the device.
    pub(crate) fn stored_cost(&self) -> Result<u64, IndexError> {
        let runs = runs_of(self.map.stored_words());
        runs.iter().map(|run| self.cost(run)).sum()
    }

    /// Runs of `blocks` that are not stored.
    pub(crate) fn unstored(&self, blocks: &Range<u64>) -> Vec<Range<u64>> {
        let mut runs: Vec<Range<u64>> = Vec::new();
        for block in blocks.clone().filter(|block| !self.map.is_stored(*block)) {
            match runs.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => runs.push(block..block + 1),
            }
        }
        runs
    }

    /// Writes and publishes blocks, as far as no other read has landed them meanwhile. Returns how
    /// many were new. On an error those of the run that failed stay absent.
    pub(crate) fn land<B: Deref<Target = [u8]>>(
        &self,
        blocks: &SummedBlocks<B>,
        room: &mut Reservation,
    ) -> io::Result<u64> {
        let closed = self.landing.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Err(io::Error::other("the shard is closed"));
        }
        let landed = self.write_unstored(blocks, room);
        drop(closed);
        // After an error too: some may have landed before it.
        self.flights.wake();
        landed
    }

    fn write_unstored<B: Deref<Target = [u8]>>(
        &self,
        blocks: &SummedBlocks<B>,
        room: &mut Reservation,
    ) -> io::Result<u64> {
        let mut landed = 0;
        for run in self.unstored(&blocks.range()) {
            let len = blocks.part(&run)?.0.len() as u64;
            let written = self.file.write(blocks, &run).inspect_err(|_| {
                let _ = self.file.punch(&run);
            })?;
            room.spend(allocated(len));
            landed += written.len() as u64;
            written
                .into_iter()
                .for_each(|block| self.map.publish(block));
        }
        Ok(landed)
    }

    /// Lets nothing land or leave any more, and says so on the device once everything has reached
    /// it. A block that changed after that would belie the mark.
    pub(crate) fn close(&self) -> io::Result<()> {
        *self.landing.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.file.sync()?;
        self.map.mark_clean()
    }

    /// Makes `blocks` absent and gives their room back, unless a view holds them or the shard is
    /// closed. The caller leads them all.
    pub(crate) fn drop_blocks(
        &self,
        blocks: &Range<u64>,
        budget: &Budget,
    ) -> io::Result<Option<Dropped>> {
        let Some(_lock) = EvictLock::try_lock(self.file.file(), blocks)? else {
            return Ok(None);
        };
        let closed = self.landing.lock().unwrap_or_else(PoisonError::into_inner);
        if *closed {
            return Ok(None);
        }
        let withdrawn = self.map.withdraw(blocks);
        let mut dropped = Dropped::default();
        for (word, bits) in withdrawn {
            for run in runs_of_word(word, bits) {
                self.file.punch(&run)?;
                let bytes = self.cost(&run).unwrap_or(0);
                budget.release(bytes);
                dropped.bytes += bytes;
                dropped.blocks += run.end - run.start;
            }
        }
        Ok(Some(dropped))
    }
}

/// What an unclean stop left half done is not counted, so it must not take room either.
fn punch_unstored(map: &ResidencyMap, file: &BlockFile) -> io::Result<()> {
    let absent = runs_of(map.stored_words().map(|bits| !bits));
    for run in absent {
        let end = run.end.min(map.blocks());
        if run.start < end {
            file.punch(&(run.start..end))?;
        }
    }
    Ok(())
}

/// Runs of set bits in consecutive words.
pub(crate) fn runs_of(words: impl Iterator<Item = u64>) -> Vec<Range<u64>> {
    let mut runs: Vec<Range<u64>> = Vec::new();
    for run in (0..)
        .zip(words)
        .flat_map(|(word, bits)| runs_of_word(word, bits))
    {
        match runs.last_mut() {
            Some(last) if last.end == run.start => last.end = run.end,
            _ => runs.push(run),
        }
    }
    runs
}

fn runs_of_word(word: u64, mut bits: u64) -> impl Iterator<Item = Range<u64>> {
    std::iter::from_fn(move || {
        if bits == 0 {
            return None;
        }
        let start = bits.trailing_zeros();
        let len = (bits >> start).trailing_ones();
        let mask = if len == 64 {
            u64::MAX
        } else {
            ((1 << len) - 1) << start
        };
        bits &= !mask;
        let first = word * 64 + u64::from(start);
        Some(first..first + u64::from(len))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn runs_are_the_set_bits(words in proptest::collection::vec(any::<u64>(), 0..4)) {
            let named: Vec<u64> = runs_of(words.iter().copied()).into_iter().flatten().collect();
            let set: Vec<u64> = (0..words.len() as u64 * 64)
                .filter(|bit| words[*bit as usize / 64] >> (bit % 64) & 1 == 1)
                .collect();
            prop_assert_eq!(named, set);
        }
    }

    #[test]
    fn full_words_make_one_run() {
        let runs = runs_of([u64::MAX, u64::MAX, 1].into_iter());
        assert_eq!(runs, std::slice::from_ref(&(0..129)));
    }
}
