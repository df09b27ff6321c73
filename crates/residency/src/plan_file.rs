//! The order in which one rank will take samples, as its sampler wrote it down for the daemon.
//!
//! A plan is advice: a wrong or damaged one costs time, never data. Entries are read in windows, so
//! an epoch of any length costs a bounded amount of memory.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use thiserror::Error;

const MAGIC: [u8; 8] = *b"FBPLAN\0\0";
const VERSION: u32 = 1;
/// Bytes before the first entry.
const HEADER_BYTES: u64 = 4096;
/// Where the sampler keeps how many entries it has handed out.
const TAKEN_AT: u64 = 64;
/// Until when reads ahead of need yield: the clock that counts from the machine's start, in ns.
/// Written by the sampler's process, after the place.
const YIELDS_UNTIL_AT: u64 = 72;
/// Up to where the daemon has staged, which the daemon writes.
const STAGED_AT: u64 = 80;
/// How many of the entries handed out may not have been read yet, which the sampler's process writes.
const UNREAD_AT: u64 = 88;
/// Longest time for which reads ahead of need yield on a plan's word. A later end is a clock gone
/// wrong.
const LONGEST_YIELD: Duration = Duration::from_secs(60);
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

/// Where a sampler is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Entries that it has handed out.
    pub taken: u64,
    /// How many of them may not have been read yet.
    pub unread: u64,
    /// Whether reads ahead of need are asked to yield now, as in the phase of a training step that
    /// uses the fabric.
    pub yields: bool,
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
            .write(true)
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

    /// Where the sampler is; `None` once it has given the plan up.
    pub fn place(&self) -> io::Result<Option<Place>> {
        let mut bytes = [0; (UNREAD_AT + 8 - TAKEN_AT) as usize];
        self.file.read_exact_at(&mut bytes, TAKEN_AT)?;
        let word = |at: u64| u64_at(&bytes, (at - TAKEN_AT) as usize);
        let taken = word(TAKEN_AT);
        let until = word(YIELDS_UNTIL_AT);
        let yields = until > 0
            && until
                .checked_sub(monotonic_ns())
                .is_some_and(|left| left <= LONGEST_YIELD.as_nanos() as u64);
        Ok((taken != GIVEN_UP).then_some(Place {
            taken: taken.min(self.entries),
            unread: word(UNREAD_AT).min(taken),
            yields,
        }))
    }

    /// Tells the sampler's process that the first `entries` entries are staged.
    pub fn tell_staged(&self, entries: u64) -> io::Result<()> {
        self.file.write_all_at(&entries.to_le_bytes(), STAGED_AT)
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

fn monotonic_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
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
            assert_eq!(plan.place().unwrap(), at(2));
            let mut out = Vec::new();
            plan.read(1, 2, &mut out).unwrap();
            plan.read(3, 100, &mut out).unwrap();
            plan.read(9, 1, &mut out).unwrap();
            assert_eq!(out, [0, 70_000, 1]);
        }
    }

    fn at(taken: u64) -> Option<Place> {
        Some(Place {
            taken,
            unread: 0,
            yields: false,
        })
    }

    #[test]
    fn the_place_is_within_the_order_until_it_is_given_up() {
        let at_place = TAKEN_AT as usize..TAKEN_AT as usize + 8;
        let mut bytes = plan(4, &[1, 2], 7 << 64 | 9);
        bytes[at_place.clone()].copy_from_slice(&9u64.to_le_bytes());
        assert_eq!(open(&bytes).unwrap().place().unwrap(), at(2));
        bytes[at_place].copy_from_slice(&u64::MAX.to_le_bytes());
        assert_eq!(open(&bytes).unwrap().place().unwrap(), None);
    }

    #[test]
    fn no_more_is_unread_than_was_handed_out() {
        for (unread, believed) in [(0, 0), (1, 1), (2, 2), (3, 2), (u64::MAX, 2)] {
            let mut bytes = plan(4, &[1, 2], 7 << 64 | 9);
            bytes[88..96].copy_from_slice(&unread.to_le_bytes());
            let place = open(&bytes).unwrap().place().unwrap().unwrap();
            assert_eq!((place.taken, place.unread), (2, believed));
        }
    }

    #[test]
    fn it_yields_until_the_time_that_is_written_and_never_for_long() {
        let yields = |until: u64| {
            let mut bytes = plan(4, &[1, 2], 7 << 64 | 9);
            bytes[72..80].copy_from_slice(&until.to_le_bytes());
            open(&bytes).unwrap().place().unwrap().unwrap().yields
        };
        let now = monotonic_ns();
        assert!(yields(now + 30_000_000_000));
        for until in [0, 1, now, now + 3_600_000_000_000, u64::MAX] {
            assert!(!yields(until), "{until} at {now}");
        }
    }

    #[test]
    fn how_far_it_is_staged_is_told_in_the_header() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), plan(4, &[1, 2], 7 << 64 | 9)).unwrap();
        let open = PlanFile::open(file.path(), 7 << 64 | 9).unwrap();
        open.tell_staged(0x0102).unwrap();
        let bytes = std::fs::read(file.path()).unwrap();
        assert_eq!(
            bytes[64..96],
            [2u64, 0, 0x0102, 0].map(u64::to_le_bytes).concat()
        );
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
