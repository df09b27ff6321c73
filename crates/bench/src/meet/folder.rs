//! A meeting in a folder that all ranks see.
//!
//! Each rank leaves a file when it arrives at a stage; rank 0 waits for all of them and then leaves
//! a file with what all brought. A file system is all it needs, so it also tells how well the
//! storage under test brings processes together.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use super::{MAX_BYTES, Meeting, left, named};
use crate::{BenchError, Result};

/// The longest time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The meeting place, as one rank sees it.
#[derive(Debug)]
pub struct FolderMeeting {
    folder: PathBuf,
    rank: u32,
    size: u32,
    deadline: Instant,
    stage: u64,
}

impl FolderMeeting {
    /// A meeting in `folder`, which is this run's alone.
    ///
    /// # Errors
    /// [`BenchError::Usage`] where another run has met there, [`BenchError::Io`] where the folder
    /// cannot be made.
    pub fn join(folder: &Path, rank: u32, size: u32, deadline: Instant) -> Result<Self> {
        fs::create_dir_all(folder).map_err(BenchError::io("make folder", folder))?;
        let meeting = Self {
            folder: folder.to_owned(),
            rank,
            size,
            deadline,
            stage: 0,
        };
        // Nobody is let go before this rank has come, so what says so is of another run.
        let names = fs::read_dir(folder).map_err(BenchError::io("list", folder))?;
        let is_go = |name: &std::ffi::OsStr| name.as_encoded_bytes().ends_with(b"-go");
        if names.flatten().any(|entry| is_go(&entry.file_name())) {
            return Err(BenchError::Usage(format!(
                "`{}` was met in before: name a new folder with --dist-init file:PATH",
                folder.display()
            )));
        }
        Ok(meeting)
    }

    fn go(&self, stage: u64) -> PathBuf {
        self.folder.join(format!("{stage:08}-go"))
    }

    fn arrived(&self, rank: u32) -> PathBuf {
        self.folder.join(format!("{:08}-{rank:06}", self.stage))
    }

    /// Waits for a file, and reads it.
    fn wait(&self, file: &Path) -> Result<Option<Vec<u8>>> {
        let mut pause = Duration::from_micros(100);
        loop {
            match fs::read(file) {
                Ok(bytes) => return Ok(Some(bytes)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(BenchError::io("read", file)(error)),
            }
            let left = left(self.deadline);
            if left.is_zero() {
                return Ok(None);
            }
            thread::sleep(pause.min(left));
            pause = (pause * 2).min(LOOK);
        }
    }

    fn all(&self) -> Result<Vec<Vec<u8>>> {
        let mut brought = Vec::with_capacity(self.size as usize);
        for rank in 0..self.size {
            match self.wait(&self.arrived(rank))? {
                Some(bytes) => brought.push(bytes),
                None => {
                    let missing: Vec<u32> = (rank..self.size)
                        .filter(|rank| !self.arrived(*rank).exists())
                        .collect();
                    return Err(self.missing(&named(&missing)));
                }
            }
        }
        Ok(brought)
    }

    fn missing(&self, who: &str) -> BenchError {
        BenchError::Ranks(format!(
            "{who} did not come to stage {} in `{}` in time",
            self.stage,
            self.folder.display()
        ))
    }
}

impl Meeting for FolderMeeting {
    fn gather(&mut self, bytes: &[u8]) -> Result<Vec<Vec<u8>>> {
        self.stage += 1;
        write(&self.arrived(self.rank), bytes)?;
        let go = self.go(self.stage);
        if self.rank == 0 {
            let all = self.all()?;
            write(&go, &pack(&all))?;
            // All that have come here have read what let them go before.
            let _ = fs::remove_file(self.go(self.stage - 1));
            for rank in 0..self.size {
                let _ = fs::remove_file(self.arrived(rank));
            }
            return Ok(all);
        }
        let packed = self.wait(&go)?.ok_or_else(|| self.missing("rank 0"))?;
        unpack(&packed, self.size).ok_or_else(|| {
            BenchError::Content(format!("`{}` is no file of this meeting", go.display()))
        })
    }
}

/// The file is there whole or not at all.
fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, bytes)
        .and_then(|()| fs::rename(&partial, path))
        .map_err(BenchError::io("write", path))
}

/// For each rank the length in four bytes, little-endian, and the bytes.
pub(super) fn pack(all: &[Vec<u8>]) -> Vec<u8> {
    let mut packed = Vec::new();
    for bytes in all {
        packed.extend_from_slice(&(bytes.len() as u32).to_le_bytes());
        packed.extend_from_slice(bytes);
    }
    packed
}

/// What [`pack`] made of `size` ranks, and nothing else.
pub(super) fn unpack(packed: &[u8], size: u32) -> Option<Vec<Vec<u8>>> {
    let mut rest = packed;
    let mut all = Vec::new();
    for _ in 0..size {
        let (head, after) = rest.split_first_chunk::<4>()?;
        let len = u32::from_le_bytes(*head) as usize;
        if len > MAX_BYTES {
            return None;
        }
        let (bytes, after) = after.split_at_checked(len)?;
        all.push(bytes.to_vec());
        rest = after;
    }
    rest.is_empty().then_some(all)
}
