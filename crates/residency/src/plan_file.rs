//! The order in which one rank will take samples, as its sampler wrote it down for the daemon.
//!
//! A plan is advice: a wrong or damaged one costs time, never data. Entries are read in windows, so
//! an epoch of any length costs a bounded amount of memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use thiserror::Error;

const MAGIC: [u8; 8] = *b"FBPLAN\0\0";
const VERSION: u32 = 1;
/// Bytes before the first entry.
const HEADER_BYTES: u64 = 4096;
/// Where the sampler keeps how many entries it has handed out.
const TAKEN_AT: u64 = 64;
/// What it writes there when nobody follows the order any more.
const GIVEN_UP: u64 = u64::MAX;
/// Most entries in a plan: 64 GiB of them.
const MAX_ENTRIES: u64 = 1 << 33;

/// A plan that cannot be followed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PlanFileError {
    /// The system refused.
    #[error("cannot read plan")]
    Io(#[from] io::Error),
    /// The file is not a plan of this version for this data set.
    #[error("not a plan for this data set: {0}")]
    Unusable(&'static str),
}

/// An open plan.
#[derive(Debug)]
pub struct PlanFile {
    file: File,
    entry_bytes: u64,
    entries: u64,
    /// Epoch that it is of.
    pub epoch: u64,
    /// Rank that it is of.
    pub rank: u32,
    /// Samples in one iteration of the rank; 0 if unknown.
    pub batch: u32,
    /// Which of its process's samplers wrote it.
    pub sampler: u32,
}

impl PlanFile {
    /// Opens a plan for the data set of this generation.
    pub fn open(path: &Path, generation: u128) -> Result<Self, PlanFileError> {
        // A pipe of that name must not hold up whoever opens it.
        let file = OpenOptions::new()
            .read(true)
            .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
            .open(path)?;
        if !file.metadata()?.is_file() {
            return Err(PlanFileError::Unusable("it is no regular file"));
        }
        let mut header = [0; 64];
        file.read_exact_at(&mut header, 0)?;
        if header[..8] != MAGIC || u32_at(&header, 8) != VERSION {
            return Err(PlanFileError::Unusable("another format or version"));
        }
        let entry_bytes = u64::from(u32_at(&header, 12));
        let of = u128::from(u64_at(&header, 16)) | u128::from(u64_at(&header, 24)) << 64;
        let entries = u64_at(&header, 32);
        if of != generation {
            return Err(PlanFileError::Unusable("it is of another generation"));
        }
        let long_enough = matches!(entry_bytes, 4 | 8)
            && entries <= MAX_ENTRIES
            && file.metadata()?.len() >= HEADER_BYTES + entries * entry_bytes;
        if !long_enough {
            return Err(PlanFileError::Unusable("its length contradicts its header"));
        }
        Ok(Self {
            file,
            entry_bytes,
            entries,
            epoch: u64_at(&header, 40),
            rank: u32_at(&header, 48),
            batch: u32_at(&header, 56),
            sampler: u32_at(&header, 60),
        })
    }

    /// Number of entries.
    pub fn len(&self) -> u64 {
        self.entries
    }

    /// True if there is no entry.
    pub fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// How many entries the sampler has handed out; `None` once it has given the plan up.
    pub fn taken(&self) -> io::Result<Option<u64>> {
        let mut bytes = [0; 8];
        self.file.read_exact_at(&mut bytes, TAKEN_AT)?;
        let taken = u64::from_le_bytes(bytes);
        Ok((taken != GIVEN_UP).then_some(taken.min(self.entries)))
    }

    /// Appends entries `[first, first + count)`, as far as there are any, to `out`.
    pub fn read(&self, first: u64, count: u64, out: &mut Vec<u64>) -> io::Result<()> {
        let count = count.min(self.entries.saturating_sub(first));
        let mut bytes = vec![0; (count * self.entry_bytes) as usize];
        self.file
            .read_exact_at(&mut bytes, HEADER_BYTES + first * self.entry_bytes)?;
        out.extend(bytes.chunks_exact(self.entry_bytes as usize).map(|entry| {
            entry
                .iter()
                .rev()
                .fold(0, |value, byte| value << 8 | u64::from(*byte))
        }));
        Ok(())
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u64_at(bytes, at) as u32
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    bytes[at..]
        .iter()
        .take(8)
        .rev()
        .fold(0, |value, byte| value << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(entry_bytes: u32, entries: &[u64], generation: u128) -> Vec<u8> {
        let mut bytes = [
            &MAGIC[..],
            &VERSION.to_le_bytes(),
            &entry_bytes.to_le_bytes(),
        ]
        .concat();
        bytes.extend(generation.to_le_bytes());
        bytes.extend((entries.len() as u64).to_le_bytes());
        bytes.extend(5u64.to_le_bytes());
        bytes.extend(
            [3u32, 8, 16, 21]
                .iter()
                .flat_map(|value| value.to_le_bytes()),
        );
        bytes.extend(2u64.to_le_bytes());
        bytes.resize(HEADER_BYTES as usize, 0);
        for entry in entries {
            bytes.extend(&entry.to_le_bytes()[..entry_bytes as usize]);
        }
        bytes
    }

    fn open(bytes: &[u8]) -> Result<PlanFile, PlanFileError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytes).unwrap();
        PlanFile::open(file.path(), 7 << 64 | 9)
    }

    #[test]
    fn entries_of_either_width_are_read_in_windows() {
        for width in [4, 8] {
            let plan = open(&plan(width, &[4, 0, 70_000, 1], 7 << 64 | 9)).unwrap();
            assert_eq!(
                (plan.len(), plan.epoch, plan.rank, plan.batch, plan.sampler),
                (4, 5, 3, 16, 21)
            );
            assert_eq!(plan.taken().unwrap(), Some(2));
            let mut out = Vec::new();
            plan.read(1, 2, &mut out).unwrap();
            plan.read(3, 100, &mut out).unwrap();
            plan.read(9, 1, &mut out).unwrap();
            assert_eq!(out, [0, 70_000, 1]);
        }
    }

    #[test]
    fn the_place_is_within_the_order_until_it_is_given_up() {
        let at = TAKEN_AT as usize..TAKEN_AT as usize + 8;
        let mut bytes = plan(4, &[1, 2], 7 << 64 | 9);
        bytes[at.clone()].copy_from_slice(&9u64.to_le_bytes());
        assert_eq!(open(&bytes).unwrap().taken().unwrap(), Some(2));
        bytes[at].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(open(&bytes).unwrap().taken().unwrap(), None);
    }

    #[test]
    fn what_is_not_a_plan_is_refused() {
        let whole = plan(4, &[1, 2], 7 << 64 | 9);
        assert!(open(&whole[..whole.len() - 1]).is_err(), "cut short");
        assert!(open(&whole[..30]).is_err(), "header cut short");
        assert!(open(&plan(3, &[1], 7 << 64 | 9)).is_err(), "odd width");
        assert!(open(&plan(4, &[1], 8)).is_err(), "another data set");
        let mut huge = whole.clone();
        huge[32..40].copy_from_slice(&u64::MAX.to_le_bytes());
        assert!(open(&huge).is_err(), "a count beyond the file");
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("plan");
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        assert!(
            PlanFile::open(&pipe, 8).is_err(),
            "a pipe that nobody writes"
        );
        let mut later = whole;
        later[8] = 2;
        assert!(open(&later).is_err(), "another version");
    }
}
