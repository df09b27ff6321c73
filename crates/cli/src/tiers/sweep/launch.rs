//! Starting the processes of a sweep on this machine, and where processes meet.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::thread;
use std::time::Duration;

use crate::Failure;

/// Variables that the processes are started with.
const RANK: &str = "FOREBAY_SWEEP_RANK";
const SIZE: &str = "FOREBAY_SWEEP_SIZE";
const MEET: &str = "FOREBAY_SWEEP_MEET";

/// Variables of launchers that name a run, so that two runs do not meet each other.
const RUNS: [&[&str]; 4] = [
    &["SLURM_JOB_ID", "SLURM_STEP_ID"],
    &["PMIX_NAMESPACE"],
    &["OMPI_MCA_ess_base_jobid"],
    &["PALS_APID"],
];

/// Whether this process was started by [`all`].
pub(super) fn is_started() -> bool {
    std::env::var_os(MEET).is_some()
}

/// A folder of this run's own; it goes when the run is over.
pub(super) struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Self, Failure> {
        let id = std::process::id();
        let place = |n: u32| std::env::temp_dir().join(format!("forebay-sweep-{id}-{n}"));
        for n in 0..1_000 {
            // It must be new: nobody else's folder is taken for ours.
            if std::fs::create_dir(place(n)).is_ok() {
                return Ok(Self(place(n)));
            }
        }
        let folder = std::env::temp_dir();
        let message = format!("cannot make a folder in `{}`", folder.display());
        Err(Failure::new(message).hint("name a folder that can be written in TMPDIR"))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // Made by this process and used by its own processes alone.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Where processes meet that a launcher started.
pub(super) fn meeting_folder(named: Option<&Path>, gfs: &Path) -> Result<PathBuf, Failure> {
    if let Some(folder) = std::env::var_os(MEET) {
        return Ok(folder.into());
    }
    if let Some(folder) = named {
        return Ok(folder.to_owned());
    }
    let run = RUNS.iter().find_map(|names| {
        let values: Option<Vec<String>> = names
            .iter()
            .map(|name| std::env::var(name).ok().filter(|value| !value.is_empty()))
            .collect();
        Some(values?.join("-"))
    });
    let run = run.ok_or_else(|| {
        Failure::usage("the launcher does not name its run, so the processes have no place to meet")
            .hint("name a new folder that all of them see with --meet")
    })?;
    let fits = |c: char| {
        if c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.') {
            c
        } else {
            '-'
        }
    };
    let run: String = run.chars().take(100).map(fits).collect();
    Ok(gfs.join(format!(".forebay-sweep-meet-{run}")))
}

/// Starts every process of the sweep, with this command's own arguments, and waits for all of
/// them. If one fails the others are ended.
pub(super) fn all(size: u32) -> Result<Folder, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::new(format!("cannot find this program: {error}")))?;
    let folder = Folder::new()?;
    let mut started = Started(Vec::new());
    for rank in 0..size {
        let mut command = Command::new(&program);
        command.args(std::env::args_os().skip(1));
        command
            .env(RANK, rank.to_string())
            .env(SIZE, size.to_string());
        command.env(MEET, folder.path());
        let child = command.spawn();
        let child =
            child.map_err(|error| Failure::new(format!("cannot start process {rank}: {error}")))?;
        started.0.push((rank, child));
    }
    started.wait()?;
    Ok(folder)
}

/// Processes that are ended when this goes.
struct Started(Vec<(u32, Child)>);

impl Started {
    fn wait(mut self) -> Result<(), Failure> {
        while !self.0.is_empty() {
            let mut place = 0;
            while let Some((rank, child)) = self.0.get_mut(place) {
                let failed = |how: String| Failure::new(format!("process {rank} failed: {how}"));
                match child.try_wait() {
                    Ok(None) => place += 1,
                    Ok(Some(status)) if status.success() => drop(self.0.swap_remove(place)),
                    Ok(Some(status)) => return Err(failed(status.to_string())),
                    Err(error) => return Err(failed(error.to_string())),
                }
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        for (_, child) in &mut self.0 {
            // They are this process's own, and not waited for yet.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
