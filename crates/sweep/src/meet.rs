//! A meeting place of processes that may be on many nodes: a folder that all of them see.
//!
//! Each process leaves a file when it arrives at a stage; the first process waits for all of them
//! and then leaves a file that lets them go. A file system is all it needs.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use crate::place::Place;
use crate::{Result, SweepError};

/// The longest time between two looks.
const LOOK: Duration = Duration::from_millis(20);

/// The meeting place, as one process sees it.
#[derive(Debug)]
pub struct Meeting {
    folder: PathBuf,
    place: Place,
    patience: Duration,
    stage: u64,
}

impl Meeting {
    /// A meeting in `folder`, which is this run's alone.
    ///
    /// # Errors
    /// [`SweepError::Io`] when the folder cannot be made, [`SweepError::Taken`] when another run
    /// has met there.
    pub fn new(folder: &Path, place: Place, patience: Duration) -> Result<Self> {
        fs::create_dir_all(folder).map_err(SweepError::io("make folder", folder))?;
        // Nobody is let go before this process has come, so what says so is of another run.
        if folder.join("000001-go").exists() || folder.join("000002-go").exists() {
            let found = "is a meeting place that was used before".into();
            return Err(SweepError::Taken {
                path: folder.to_owned(),
                found,
            });
        }
        Ok(Self {
            folder: folder.to_owned(),
            place,
            patience,
            stage: 0,
        })
    }

    /// This process.
    #[must_use]
    pub fn place(&self) -> Place {
        self.place
    }

    /// Waits for all processes, each of which brings a line; all lines, by rank.
    ///
    /// # Errors
    /// [`SweepError::Alone`] when the others do not come in time, [`SweepError::Io`] when the
    /// folder cannot be used.
    pub fn gather(&mut self, line: &str) -> Result<Vec<String>> {
        self.stage += 1;
        let stage = self.stage;
        let arrived = |rank: u32| self.folder.join(format!("{stage:06}-{rank:06}"));
        let go = self.folder.join(format!("{stage:06}-go"));
        write(&arrived(self.place.rank), line)?;
        if self.place.rank == 0 {
            let mut lines = Vec::with_capacity(self.place.size as usize);
            self.until(|| {
                while (lines.len() as u32) < self.place.size {
                    match fs::read_to_string(arrived(lines.len() as u32)) {
                        Ok(line) => lines.push(line),
                        Err(_) => return Err(self.place.size as usize - lines.len()),
                    }
                }
                Ok(())
            })?;
            write(&go, &lines.join("\n"))?;
            // All that have come here have read what let them go before.
            let _ = fs::remove_file(self.folder.join(format!("{:06}-go", stage - 1)));
            let _ = fs::remove_file(arrived(0));
            return Ok(lines);
        }
        let mut found = String::new();
        self.until(|| match fs::read_to_string(&go) {
            Ok(lines) => {
                found = lines;
                Ok(())
            }
            Err(_) => Err(1),
        })?;
        let _ = fs::remove_file(arrived(self.place.rank));
        Ok(found.lines().map(str::to_owned).collect())
    }

    /// Waits for all processes.
    ///
    /// # Errors
    /// As [`Meeting::gather`].
    pub fn barrier(&mut self) -> Result<()> {
        self.gather("").map(|_| ())
    }

    fn until(&self, mut done: impl FnMut() -> std::result::Result<(), usize>) -> Result<()> {
        let began = Instant::now();
        let mut pause = Duration::from_micros(100);
        loop {
            let Err(missing) = done() else { return Ok(()) };
            if began.elapsed() > self.patience {
                return Err(SweepError::Alone {
                    seconds: self.patience.as_secs(),
                    missing,
                    size: self.place.size,
                    stage: format!("stage {} in {}", self.stage, self.folder.display()),
                });
            }
            thread::sleep(pause);
            pause = (pause * 2).min(LOOK);
        }
    }
}

/// The file is there whole or not at all.
fn write(path: &Path, text: &str) -> Result<()> {
    let partial = path.with_extension("partial");
    fs::write(&partial, text)
        .and_then(|()| fs::rename(&partial, path))
        .map_err(SweepError::io("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_goes_on_before_all_have_come_and_all_hear_all() {
        let temp = tempfile::tempdir().expect("temp");
        let lines = thread::scope(|scope| {
            let join = |rank| {
                let folder = temp.path();
                scope.spawn(move || {
                    let place = Place { rank, size: 4 };
                    let mut meeting =
                        Meeting::new(folder, place, Duration::from_secs(60)).expect("made");
                    meeting.barrier().expect("all come");
                    meeting.gather(&format!("host {rank}")).expect("all come")
                })
            };
            let all: Vec<_> = (0..4).map(join).collect();
            all.into_iter()
                .map(|one| one.join().expect("no panic"))
                .collect::<Vec<_>>()
        });
        assert!(
            lines
                .iter()
                .all(|line| *line == ["host 0", "host 1", "host 2", "host 3"])
        );
    }

    #[test]
    fn a_process_that_stays_alone_says_so() {
        let temp = tempfile::tempdir().expect("temp");
        for rank in [0, 1] {
            let place = Place { rank, size: 2 };
            let folder = temp.path().join(rank.to_string());
            let mut meeting = Meeting::new(&folder, place, Duration::from_millis(5)).expect("made");
            assert!(matches!(
                meeting.barrier(),
                Err(SweepError::Alone { missing: 1, .. })
            ));
        }
    }
}
