//! For code that is a guest in a program that knows nothing of it, which may close its descriptors,
//! and whose own descriptors of the origin have every byte that the cache has not.

use std::fs::File;
use std::time::Instant;

use forebay_dataset::{ByteRange, IndexError, SegmentIndex, ShardIndex};

use crate::answers::Served;
use crate::dataset::Dataset;
use crate::error::ClientError;
use crate::files::FileRange;
use crate::read::stage_range;

/// What came of a read by a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestRead {
    /// All bytes were resident.
    Resident,
    /// All bytes became resident first.
    Staged,
    /// There is no daemon or no room: the output holds nothing of use.
    Absent,
}

impl Dataset {
    /// Fills `out` from byte `offset` of the file, from the cache alone. What is absent is asked of
    /// the daemon, with up to `ahead` bytes from `offset` on.
    ///
    /// # Errors
    /// The origin changed, the deadline passed, or the file ends before `out` does.
    pub fn read_as_guest(
        &self,
        file: SegmentIndex,
        offset: u64,
        out: &mut [u8],
        ahead: u64,
    ) -> Result<GuestRead, ClientError> {
        let len = out.len() as u64;
        let (shard, range) = self.place(file, offset, len)?;
        self.process().shards.forget_unless_intact(shard);
        if self.read_local(shard, range, out)? {
            self.count(shard, len, Served::Local);
            return Ok(GuestRead::Resident);
        }
        let left = self.index.segment(file)?.fingerprint.size - offset;
        let (_, ahead) = self.place(file, offset, ahead.min(left).max(len))?;
        let ranges = [stage_range(shard, ahead)];
        let complete = self.stage_ranges(&ranges, Instant::now() + self.deadline)?;
        if complete && !self.is_resident(shard, range) {
            // A map that has nothing of what the daemon just staged may have been replaced.
            self.process().shards.forget(shard);
        }
        if self.read_local(shard, range, out)? {
            self.count(shard, len, Served::Staged);
            return Ok(GuestRead::Staged);
        }
        self.count(shard, len, Served::Direct);
        Ok(GuestRead::Absent)
    }

    /// A file of the node's device that has `len` bytes from `offset` of the file in place, and where
    /// they begin in it. They stay for as long as anything has its open file description: a copy of
    /// the descriptor, or a mapping. With `stage`, what is absent is asked of the daemon. `None` where
    /// they are not to be had so.
    ///
    /// # Errors
    /// The origin changed, the deadline passed, or the file ends before.
    pub fn hold_as_guest(
        &self,
        file: SegmentIndex,
        offset: u64,
        len: u64,
        stage: bool,
    ) -> Result<Option<(File, u64)>, ClientError> {
        let (shard, range) = self.place(file, offset, len)?;
        let shards = &self.process().shards;
        for may_stage in [stage, false] {
            shards.forget_unless_intact(shard);
            if let Some(open) = shards.get(&self.index, shard)?
                && let Ok(Some(held)) = open.hold_range(range)
            {
                self.count(shard, len, Served::Local);
                return Ok(Some((held, range.start())));
            }
            let ranges = [stage_range(shard, range)];
            if !may_stage || !self.stage_ranges(&ranges, Instant::now() + self.deadline)? {
                return Ok(None);
            }
            if !self.is_resident(shard, range) {
                shards.forget(shard);
            }
        }
        Ok(None)
    }

    /// Where bytes of a file lie in its shard.
    fn place(
        &self,
        file: SegmentIndex,
        offset: u64,
        len: u64,
    ) -> Result<(ShardIndex, ByteRange), ClientError> {
        let part = self.part(FileRange { file, offset, len })?;
        let part = part.filter(|part| part.range.len() == len);
        let part = part.ok_or_else(|| IndexError::Damaged("no such bytes in the file".into()))?;
        Ok((part.shard, part.range))
    }
}
