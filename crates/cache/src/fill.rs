//! Bringing blocks in: one leader for each run, room first, bytes next, bits last.

use std::ops::Range;
use std::time::{Duration, Instant};

use forebay_dataset::{ByteRange, ShardIndex};
use forebay_origin::{Origin, spent};
use forebay_residency::{Counter, SummedBlocks, now_ticks};

use crate::buffer::Buffer;
use crate::cache::{Cache, CachedDataset};
use crate::error::FillError;
use crate::evict::Spare;
use crate::jobs::Job;
use crate::shard::{Piece, Shard};

/// What came of a fill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Filled {
    /// Every block was resident at some time since the call.
    Resident,
    /// Some blocks were left absent: no room, or the device failed. Read them through.
    NoRoom,
}

impl Cache {
    /// Makes the blocks of a job resident, reading from `origin` what is absent.
    ///
    /// Blocks that another thread is fetching are waited for until `deadline`. A read of the
    /// origin itself cannot be cut short: the requester's own deadline covers it.
    pub fn fill(
        &self,
        dataset: &CachedDataset,
        origin: &dyn Origin,
        job: &Job,
        deadline: Instant,
    ) -> Result<Filled, FillError> {
        let blocks = &job.blocks;
        let Some(shard) = self.shard(dataset, job.shard)? else {
            self.metrics.refused_blocks.add(blocks.end - blocks.start);
            return Ok(Filled::NoRoom);
        };
        shard.check_inside(blocks)?;
        loop {
            let (flight, others) = shard
                .flights
                .lead(blocks, |block| !shard.map.is_resident(block));
            for run in flight.runs() {
                if self.fill_run(&shard, origin, run, blocks)? == Filled::NoRoom {
                    return Ok(Filled::NoRoom);
                }
            }
            drop(flight);
            if !others {
                return Ok(Filled::Resident);
            }
            self.metrics.followed_fills.add(1);
            let absent = |block| !shard.map.is_resident(block);
            if !shard.flights.follow(blocks, absent, deadline) {
                let Range { start, end } = *blocks;
                return Err(FillError::Deadline {
                    shard: job.shard.0,
                    start,
                    end,
                });
            }
            // The leader may have failed, so look again and lead what is still absent.
        }
    }

    /// Reads blocks of a job once more, because the read that was begun for them takes too long.
    /// Whichever ends first makes them resident; the other finds that done.
    pub fn fill_again(
        &self,
        dataset: &CachedDataset,
        origin: &dyn Origin,
        job: &Job,
    ) -> Result<Filled, FillError> {
        let Some(shard) = dataset.slot(job.shard)?.get() else {
            return Ok(Filled::NoRoom);
        };
        shard.check_inside(&job.blocks)?;
        for run in shard.unstored(&job.blocks) {
            self.metrics.hedged_reads.add(1);
            if self.fetch(shard, origin, &run, &job.blocks)? == Filled::NoRoom {
                return Ok(Filled::NoRoom);
            }
        }
        let resident = job.blocks.clone().all(|block| shard.map.is_resident(block));
        Ok(if resident {
            Filled::Resident
        } else {
            Filled::NoRoom
        })
    }

    /// A reader found the device unable to give back what the map promised: the blocks are
    /// compared with their checksums and those that fail are dropped.
    pub fn distrust(
        &self,
        dataset: &CachedDataset,
        shard: ShardIndex,
        range: ByteRange,
    ) -> Result<(), FillError> {
        let Some(shard) = dataset.slot(shard)?.get() else {
            return Ok(());
        };
        let blocks = shard.map.block_size().covering(range);
        let blocks = blocks.start..blocks.end.min(shard.map.blocks());
        let (flight, _) = shard
            .flights
            .lead(&blocks, |block| shard.map.is_stored(block));
        for block in flight.runs().iter().flat_map(Clone::clone) {
            if !self.matches(shard, block)? {
                let _ = self.drop_corrupt(shard, block);
            }
        }
        Ok(())
    }

    /// Fills a run that this thread leads, for a job of the blocks `wanted`.
    fn fill_run(
        &self,
        shard: &Shard,
        origin: &dyn Origin,
        run: &Range<u64>,
        wanted: &Range<u64>,
    ) -> Result<Filled, FillError> {
        let Some(runs) = self.recover(shard, run)? else {
            return self.refuse(run);
        };
        for missing in runs {
            if self.fetch(shard, origin, &missing, wanted)? == Filled::NoRoom {
                return Ok(Filled::NoRoom);
            }
        }
        Ok(Filled::Resident)
    }

    /// Publishes the candidates of the run that match their checksums; returns what is missing, or
    /// `None` if a block can be neither used nor replaced.
    pub(crate) fn recover(
        &self,
        shard: &Shard,
        run: &Range<u64>,
    ) -> Result<Option<Vec<Range<u64>>>, FillError> {
        let mut missing: Vec<Range<u64>> = Vec::new();
        for block in run.clone() {
            if shard.map.is_stored(block) {
                if self.matches(shard, block)? {
                    self.metrics.recovered_blocks.add(1);
                    continue;
                }
                if !self.drop_corrupt(shard, block) {
                    return Ok(None);
                }
            }
            match missing.last_mut() {
                Some(last) if last.end == block => last.end += 1,
                _ => missing.push(block..block + 1),
            }
        }
        Ok(Some(missing))
    }

    /// Compares a stored block with its checksum and publishes it if they agree.
    fn matches(&self, shard: &Shard, block: u64) -> Result<bool, FillError> {
        let len: u64 = shard
            .pieces(&(block..block + 1))?
            .iter()
            .map(|piece| piece.len)
            .sum();
        let checked = shard
            .file
            .check(block, len as usize, shard.map.checksum(block));
        Ok(match checked {
            Ok(Some(landed)) => {
                shard.map.publish(landed);
                true
            }
            Ok(None) => false,
            Err(_) => {
                self.metrics.device_errors.add(1);
                false
            }
        })
    }

    /// Makes a block unreadable and gives its room back; false if it keeps the room, because a
    /// view holds it (a device that failed one read may have served the view before) or because
    /// the device fails.
    fn drop_corrupt(&self, shard: &Shard, block: u64) -> bool {
        self.metrics.corrupt_blocks.add(1);
        match shard.drop_blocks(&(block..block + 1), &self.budget) {
            Ok(Some(_)) => true,
            Ok(None) => {
                shard.map.demote(block);
                false
            }
            Err(_) => {
                self.metrics.device_errors.add(1);
                false
            }
        }
    }

    fn refuse(&self, run: &Range<u64>) -> Result<Filled, FillError> {
        self.metrics.refused_blocks.add(run.end - run.start);
        Ok(Filled::NoRoom)
    }

    /// Reads the run from the origin, piece by piece, and publishes each as it lands.
    fn fetch(
        &self,
        shard: &Shard,
        origin: &dyn Origin,
        run: &Range<u64>,
        wanted: &Range<u64>,
    ) -> Result<Filled, FillError> {
        let spare = Spare {
            shard,
            blocks: wanted,
        };
        let Some(mut room) = self.reserve(shard.cost(run)?, Some(spare)) else {
            return self.refuse(run);
        };
        let mut buffer = Buffer::take();
        for piece in shard.pieces(run)? {
            let bytes = buffer.of_len(piece.len as usize);
            self.read_piece(shard, origin, &piece, bytes)?;
            let blocks = SummedBlocks::new(piece.first_block, bytes, shard.map.block_size());
            let Ok(landed) = shard.land(&blocks, &mut room) else {
                self.metrics.device_errors.add(1);
                return self.refuse(run);
            };
            self.metrics.filled_blocks.add(landed);
        }
        // Fresh blocks are not the oldest ones.
        shard.stamps.touch(run, now_ticks());
        Ok(Filled::Resident)
    }

    fn read_piece(
        &self,
        shard: &Shard,
        origin: &dyn Origin,
        piece: &Piece,
        out: &mut [u8],
    ) -> Result<(), FillError> {
        let segment = shard.index.segment_ref(piece.segment)?;
        self.metrics.origin_reads.add(1);
        let before = spent();
        let read = origin.read_at(segment, piece.offset, out);
        let spent = spent().since(before);
        let ns = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let stamps = &shard.stamps;
        stamps.count(Counter::OriginMetadataNs, ns(spent.metadata));
        stamps.count(Counter::OriginReadNs, ns(spent.reading));
        let counter = if read.is_ok() {
            &self.metrics.origin_bytes
        } else {
            &self.metrics.origin_errors
        };
        counter.add(if read.is_ok() { piece.len } else { 1 });
        Ok(read?)
    }
}
