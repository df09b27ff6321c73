//! Filling with bytes that come from elsewhere than the origin, and lending what is resident.

use std::fs::File;
use std::ops::{Deref, Range};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_dataset::{IndexError, ShardIndex};
use forebay_residency::{SummedBlocks, now_ticks};

use crate::budget::Reservation;
use crate::cache::{Cache, CachedDataset};
use crate::error::FillError;
use crate::evict::Spare;
use crate::jobs::Job;
use crate::shard::{Piece, Shard};

/// Absent blocks that their holder leads and has room for, until it is dropped. Others who want
/// them wait until they have landed or the claim is gone.
#[derive(Debug)]
pub struct Claim {
    cache: Arc<Cache>,
    shard: Arc<Shard>,
    led: Vec<Range<u64>>,
    pieces: Vec<Piece>,
    room: Mutex<Reservation>,
}

/// What became of blocks that came for a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Delivered {
    /// They are resident.
    Landed,
    /// Their bytes are not those of the checksums. Nothing was written.
    Corrupt,
    /// They are not the claim's, or their length is not theirs.
    Unasked,
    /// The device failed.
    Failed,
}

impl Cache {
    /// Claims those blocks of a job that are absent and that nobody else leads. `None` if there are
    /// none, or no room for them.
    ///
    /// # Errors
    /// [`FillError`] if the index contradicts itself.
    pub fn claim(
        self: &Arc<Self>,
        dataset: &CachedDataset,
        job: &Job,
    ) -> Result<Option<Claim>, FillError> {
        let Some(shard) = self.shard(dataset, job.shard)? else {
            return Ok(None);
        };
        shard.check_inside(&job.blocks)?;
        let absent = |block| !shard.map.is_resident(block);
        let (flight, _) = shard.flights.lead(&job.blocks, absent);
        let mut missing = Vec::new();
        for run in flight.runs() {
            match self.recover(&shard, run)? {
                Some(runs) => missing.extend(runs),
                None => return Ok(None),
            }
        }
        let mut pieces = Vec::with_capacity(missing.len());
        for run in &missing {
            pieces.extend(shard.pieces(run)?);
        }
        if pieces.is_empty() {
            return Ok(None);
        }
        let spare = Spare {
            shard: &shard,
            blocks: &job.blocks,
        };
        let Some(room) = self.reserve(Piece::cost(&pieces), Some(spare)) else {
            return Ok(None);
        };
        let led = flight.into_runs();
        Ok(Some(Claim {
            cache: self.clone(),
            shard,
            led,
            pieces,
            room: Mutex::new(room),
        }))
    }

    /// Resident blocks from the first of `blocks` on: as many of them as are resident, lie in one
    /// segment and have `most` bytes together, but at least one. `None` if the first is absent.
    ///
    /// What is lent may be evicted at any time. Who sends it must send the checksums too, and who
    /// receives it compare them.
    ///
    /// # Errors
    /// [`IndexError`] if there are no such blocks.
    pub fn lend(
        &self,
        dataset: &CachedDataset,
        shard: ShardIndex,
        blocks: &Range<u64>,
        most: u64,
    ) -> Result<Option<Lent>, IndexError> {
        let Some(shard) = dataset.slot(shard)?.get() else {
            return Ok(None);
        };
        shard.check_inside(blocks)?;
        let size = u64::from(shard.map.block_size().bytes());
        let end = blocks.end.min(blocks.start + (most / size).max(1));
        let mut wanted = blocks.start..end;
        let is_resident = |block: &u64| shard.map.is_resident(*block);
        wanted.end = wanted.start + wanted.clone().take_while(is_resident).count() as u64;
        let first = shard.pieces(&wanted)?.into_iter().next();
        let Some(piece) = first.filter(|piece| piece.first_block == wanted.start) else {
            return Ok(None);
        };
        wanted.end = wanted.start + piece.len.div_ceil(size);
        shard.stamps.touch(&wanted, now_ticks());
        let checksums: Vec<u32> = wanted.map(|block| shard.map.checksum(block)).collect();
        self.metrics.lent_blocks.add(checksums.len() as u64);
        Ok(Some(Lent {
            shard: shard.clone(),
            offset: blocks.start * size,
            len: piece.len,
            checksums,
        }))
    }
}

impl Claim {
    /// The blocks that are wanted, in pieces that each lie in one segment.
    pub fn pieces(&self) -> &[Piece] {
        &self.pieces
    }

    /// The shard that they are of.
    pub fn shard(&self) -> ShardIndex {
        self.shard.shard
    }

    /// Takes the bytes of consecutive blocks of one piece, and publishes them if each block has its
    /// checksum.
    pub fn deliver(&self, first: u64, checksums: &[u32], bytes: &[u8]) -> Delivered {
        match self.check(first, checksums, bytes) {
            Ok(blocks) => self.land(&blocks),
            Err(delivered) => delivered,
        }
    }

    /// Checks the bytes of consecutive blocks of one piece, for [`land`](Self::land).
    ///
    /// # Errors
    /// [`Delivered::Unasked`] and [`Delivered::Corrupt`].
    pub fn check<B: Deref<Target = [u8]>>(
        &self,
        first: u64,
        checksums: &[u32],
        bytes: B,
    ) -> Result<SummedBlocks<B>, Delivered> {
        if !self.expects(first, checksums.len() as u64, bytes.len() as u64) {
            return Err(Delivered::Unasked);
        }
        let blocks = SummedBlocks::new(first, bytes, self.shard.map.block_size());
        if blocks.checksums() != checksums {
            self.cache.metrics.peer_corrupt_blocks.add(1);
            return Err(Delivered::Corrupt);
        }
        Ok(blocks)
    }

    /// Publishes blocks that were checked.
    pub fn land<B: Deref<Target = [u8]>>(&self, blocks: &SummedBlocks<B>) -> Delivered {
        let mut room = self.room.lock().unwrap_or_else(PoisonError::into_inner);
        match self.shard.land(blocks, &mut room) {
            Ok(landed) => {
                self.shard.stamps.touch(&blocks.range(), now_ticks());
                self.cache.metrics.peer_blocks.add(landed);
                Delivered::Landed
            }
            Err(_) => {
                self.cache.metrics.device_errors.add(1);
                Delivered::Failed
            }
        }
    }

    /// True if such blocks are some of a piece of this claim.
    pub fn expects(&self, first: u64, count: u64, len: u64) -> bool {
        let size = u64::from(self.shard.map.block_size().bytes());
        let Some(end) = first.checked_add(count).filter(|_| count > 0) else {
            return false;
        };
        self.pieces.iter().any(|piece| {
            let piece_end = piece.first_block + piece.len.div_ceil(size);
            if first < piece.first_block || piece_end < end {
                return false;
            }
            let whole = count * size;
            let short = (piece_end * size) - (piece.first_block * size + piece.len);
            len == if end == piece_end {
                whole - short
            } else {
                whole
            }
        })
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.shard.flights.end(&self.led);
    }
}

/// Consecutive resident blocks, to be sent as they lie.
#[derive(Debug)]
pub struct Lent {
    shard: Arc<Shard>,
    offset: u64,
    len: u64,
    checksums: Vec<u32>,
}

impl Lent {
    /// The file that they are in.
    pub fn file(&self) -> &File {
        self.shard.file.file()
    }

    /// Where in it the first begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Their valid bytes; only the last block may be short.
    #[expect(clippy::len_without_is_empty, reason = "there is at least one")]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// CRC32C of the valid bytes of each.
    pub fn checksums(&self) -> &[u32] {
        &self.checksums
    }
}
