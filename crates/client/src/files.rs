//! Reads the files of a data set as files, whatever its samples are.

use std::fs::File;
use std::time::Instant;

use forebay_dataset::{ByteRange, IndexError, SegmentIndex};

use crate::answers::Served;
use crate::dataset::Dataset;
use crate::error::ClientError;
use crate::parts::{Part, Target};
use crate::read::stage_range;

/// Bytes `[offset, offset + len)` of one origin file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileRange {
    /// The file.
    pub file: SegmentIndex,
    /// First byte.
    pub offset: u64,
    /// Bytes.
    pub len: u64,
}

impl Dataset {
    /// Reads the file from `offset` into `out`. Returns how many bytes: fewer than `out` takes
    /// where the file ends, none past its end.
    ///
    /// # Errors
    /// As every read: the origin changed, the deadline passed, nothing has the bytes.
    pub fn read_file(
        &self,
        file: SegmentIndex,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, ClientError> {
        let asked = FileRange {
            file,
            offset,
            len: out.len() as u64,
        };
        match self.part(asked)? {
            None => Ok(0),
            Some(part) => {
                let len = part.range.len() as usize;
                self.read_parts(vec![part], out)?;
                Ok(len)
            }
        }
    }

    /// The same without a message to anybody: `None` if a byte of it is not resident.
    ///
    /// # Errors
    /// The index is damaged, or a signal came.
    pub fn read_resident_file(
        &self,
        file: SegmentIndex,
        offset: u64,
        out: &mut [u8],
    ) -> Result<Option<usize>, ClientError> {
        let len = out.len() as u64;
        let Some(part) = self.part(FileRange { file, offset, len })? else {
            return Ok(Some(0));
        };
        let len = part.range.len() as usize;
        if !self.read_local(part.shard, part.range, &mut out[..len])? {
            return Ok(None);
        }
        self.count(part.shard, part.range.len(), Served::Local);
        Ok(Some(len))
    }

    /// Asks the daemon once to make resident what of the ranges is not, and waits for it. False if
    /// some of it is not to be had that way: reads of it find another. What lies past the end of a
    /// file is left out.
    ///
    /// # Errors
    /// The origin changed, or the deadline passed.
    pub fn stage_files(&self, ranges: &[FileRange]) -> Result<bool, ClientError> {
        let mut absent = Vec::new();
        for range in ranges {
            if let Some(part) = self.part(*range)?
                && !self.is_resident(part.shard, part.range)
            {
                absent.push(stage_range(part.shard, part.range));
            }
        }
        if absent.is_empty() {
            return Ok(true);
        }
        self.stage_ranges(&absent, Instant::now() + self.deadline)
    }

    /// The whole file as a file of the node's device, whose bytes stay in place for as long as
    /// anything has this descriptor or a copy of it, the kernel included. `None` if it is not resident as a whole, or shares its file in the cache with others.
    ///
    /// # Errors
    /// The index is damaged.
    pub fn hold_file(&self, file: SegmentIndex) -> Result<Option<File>, ClientError> {
        let len = self.index.segment(file)?.fingerprint.size;
        let part = self.part(FileRange {
            file,
            offset: 0,
            len,
        })?;
        let Some(part) = part.filter(|part| part.range.start() == 0) else {
            return Ok(None);
        };
        let open = self.process().shards.get(&self.index, part.shard)?;
        // What the device refuses is read in other ways.
        let held = open.and_then(|open| open.hold_range(part.range).ok().flatten());
        // What lies behind its end is nobody's, and a reader of the bare file would take it for data.
        let is_whole = |held: &File| held.metadata().is_ok_and(|found| found.len() == len);
        Ok(held.filter(is_whole))
    }

    /// The read of a range, cut off where the file ends; `None` if nothing is left.
    pub(crate) fn part(&self, asked: FileRange) -> Result<Option<Part>, ClientError> {
        let segment = self.index.segment(asked.file)?;
        let left = segment.fingerprint.size.saturating_sub(asked.offset);
        let len = asked.len.min(left);
        if len == 0 {
            return Ok(None);
        }
        let range = segment
            .shard_start
            .checked_add(asked.offset)
            .and_then(|start| ByteRange::new(start, len).ok())
            .ok_or_else(|| IndexError::Damaged("a range of a file overflows".into()))?;
        Ok(Some(Part {
            shard: segment.shard,
            segment: asked.file,
            range,
            // Not longer than the caller's buffer, whose length it began as.
            target: Target::Output(0..len as usize),
        }))
    }
}
