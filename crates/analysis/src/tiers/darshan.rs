//! Darshan logs to a [`ClassTable`]: the method of the hierarchical-I/O study.
//!
//! A file belongs to the tier of the longest prefix of its name. READ is `POSIX_F_READ_TIME`,
//! META is `POSIX_F_META_TIME`: open, close, seek, stat and rename. Files that no prefix holds are
//! `other`: listed, and no part of a process's I/O time.

mod epochs;
mod group;
mod place;
mod profile;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};

use forebay_darshan::Log;
use serde::Serialize;

pub use epochs::Window;
pub use place::{Prefixes, Tier};
use profile::{Findings, Profile};

use super::{Class, ClassTable, TableError};
use crate::record::MAX_SECONDS;

/// What a process is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GroupBy {
    /// Each rank of each log.
    #[default]
    Log,
    /// All logs of a job together.
    Job,
    /// The logs of processes that one process forked, and its own.
    Parent,
}

/// What becomes of the logs of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Combine {
    /// The slowest of them stands for all, as workers run side by side.
    #[default]
    Max,
    /// Their times add up.
    Sum,
}

/// What becomes of records that sum over all ranks of an MPI job.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Shared {
    /// They belong to no rank: left out, with a warning.
    #[default]
    Warn,
    /// The slowest rank gets the time that Darshan noted for it.
    Slowest,
}

/// How logs are read.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Options {
    /// Tiers by prefix.
    pub prefixes: Prefixes,
    /// What a process is.
    pub group_by: GroupBy,
    /// What becomes of the logs of one group.
    pub combine: Combine,
    /// What becomes of shared records.
    pub shared: Shared,
    /// The times of epochs, in their order; none for the whole run as one.
    pub windows: Vec<Window>,
}

/// What is wrong with the options.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionsError {
    /// A prefix without a character.
    #[error("a prefix is empty: name the folder that the tier is mounted on")]
    EmptyPrefix,
    /// One prefix for both tiers.
    #[error("the prefix `{0}` is named for both tiers")]
    PrefixOfBoth(String),
    /// An epoch that is empty or absurd.
    #[error(
        "an epoch must start at 0 s or later, and end after that and within 10000000 s: {0} to {1} s"
    )]
    Window(f64, f64),
    /// Epochs that overlap or are measured by two clocks.
    #[error("epochs must follow each other, all on one clock")]
    WindowOrder,
}

/// Why logs give no table.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClassifyError {
    /// The options are wrong.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// One log was given twice.
    #[error("the log `{0}` is named twice")]
    Twice(String),
    /// There is no log.
    #[error("there is no log to analyse")]
    NoLogs,
    /// No record lies on a tier.
    #[error("{reason}: no I/O of the logs can be told to a tier")]
    NothingOnTiers {
        /// What was looked for.
        reason: String,
        /// Folders that have the most I/O time, with their seconds.
        folders: Vec<(String, f64)>,
    },
    /// Everything on the tiers is in records that sum over all ranks.
    #[error(
        "all I/O on the tiers is in {records} records that sum over all ranks ({seconds:.3} s): it cannot be told to processes"
    )]
    OnlyShared {
        /// How many.
        records: u64,
        /// Their seconds.
        seconds: f64,
    },
    /// Grouping by parent, and no log states one.
    #[error("no log states the process that forked it, so there is nothing to group by")]
    NoParents,
    /// No record lies in an epoch.
    #[error("no I/O of the logs lies within the epochs that were given")]
    NothingInEpochs,
    /// A time in a log is absurd.
    #[error("the log `{log}` cannot be used")]
    Log {
        /// The log.
        log: String,
        /// What is wrong.
        source: TableError,
    },
}

/// The I/O of the processes of some logs, and what a reader must know about it.
#[derive(Clone, Debug, PartialEq)]
pub struct Classified {
    /// Seconds by process, epoch and class.
    pub table: ClassTable,
    /// Wall time by epoch in seconds: from the first log's start to the last one's end, or the
    /// length of the epoch that was given.
    pub execution_s: BTreeMap<Option<u32>, f64>,
    /// When the first log starts, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Versions of Darshan that wrote the logs.
    pub versions: Vec<String>,
    /// Files of no tier and their seconds of reads and metadata operations, the most first.
    pub other: Vec<OtherFile>,
    /// Records that were shared evenly among several epochs.
    pub ambiguous: u64,
    /// Sentences about what is missing or doubtful.
    pub warnings: Vec<String>,
}

/// A file of no tier.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OtherFile {
    /// Its name.
    pub file: String,
    /// Seconds of reads and metadata operations, over all logs.
    pub seconds: f64,
}

/// Takes one log after the other.
#[derive(Debug)]
pub struct Classifier {
    options: Options,
    files: BTreeSet<String>,
    profiles: Vec<Profile>,
    found: Findings,
}

impl Classifier {
    /// Nothing read yet.
    ///
    /// # Errors
    /// Options that contradict themselves.
    pub fn new(options: Options) -> Result<Self, ClassifyError> {
        epochs::check(&options.windows)?;
        Ok(Self {
            options,
            files: BTreeSet::new(),
            profiles: Vec::new(),
            found: Findings::default(),
        })
    }

    /// Adds a log; `file` is its path, which names the process.
    ///
    /// # Errors
    /// A log that was added before.
    pub fn add(&mut self, file: &str, log: &Log) -> Result<(), ClassifyError> {
        if !self.files.insert(file.to_owned()) {
            return Err(ClassifyError::Twice(file.to_owned()));
        }
        for fault in &log.faults {
            self.found.warnings.push(format!("`{file}`: {fault}"));
        }
        if log.posix.is_empty() {
            let words = format!("`{file}` has no POSIX records: its process counts with 0 s");
            self.found.warnings.push(words);
        }
        let profile = Profile::new(file, log, &self.options, &mut self.found);
        self.profiles.push(profile);
        Ok(())
    }

    /// What was found missing in the logs so far, in sentences.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.found.warnings
    }

    /// The table of all logs.
    ///
    /// # Errors
    /// [`ClassifyError`] where there is nothing to show: no log, no file on a tier, no I/O in an
    /// epoch.
    pub fn finish(self) -> Result<Classified, ClassifyError> {
        if self.profiles.is_empty() {
            return Err(ClassifyError::NoLogs);
        }
        self.check_tiers()?;
        let starts = first_starts(&self.profiles);
        let grouped = group::table(&self.profiles, &self.options, &starts)?;
        if grouped.placed == 0 && !self.options.windows.is_empty() {
            return Err(ClassifyError::NothingInEpochs);
        }
        let warnings = self.all_warnings(&grouped);
        let versions: BTreeSet<String> = self
            .profiles
            .iter()
            .map(|one| one.version.clone())
            .collect();
        let mut other: Vec<OtherFile> = self
            .found
            .other
            .into_iter()
            .map(|(file, seconds)| OtherFile { file, seconds })
            .collect();
        other.sort_by(|a, b| b.seconds.total_cmp(&a.seconds).then(a.file.cmp(&b.file)));
        let first = starts.values().copied().min().unwrap_or(0);
        Ok(Classified {
            table: grouped.table,
            execution_s: execution(&self.profiles, &self.options.windows),
            started_unix_ns: u64::try_from(first).unwrap_or(0),
            versions: versions.into_iter().collect(),
            other,
            ambiguous: grouped.ambiguous,
            warnings,
        })
    }

    fn check_tiers(&self) -> Result<(), ClassifyError> {
        let mut entries = self.profiles.iter().flat_map(|profile| &profile.entries);
        if entries.any(|entry| entry.tier.is_some()) {
            return Ok(());
        }
        let (records, seconds) = self.found.shared;
        if records > 0 {
            return Err(ClassifyError::OnlyShared { records, seconds });
        }
        let reason = if self.options.prefixes.all().is_empty() {
            "no file lies on a mount whose type is known as global or local"
        } else {
            "no file of the logs lies under a prefix that was given"
        };
        Err(ClassifyError::NothingOnTiers {
            reason: reason.into(),
            folders: folders(&self.found.other),
        })
    }

    fn all_warnings(&self, grouped: &group::Grouped) -> Vec<String> {
        let mut warnings = self.found.warnings.clone();
        let met = self.options.prefixes.all().iter().zip(&self.found.met);
        for ((prefix, _), _) in met.filter(|(_, met)| **met == 0) {
            warnings.push(format!(
                "no file of the logs lies under the prefix `{prefix}`"
            ));
        }
        let jobs: BTreeSet<i64> = self.profiles.iter().map(|one| one.jobid).collect();
        if jobs.len() > 1 && self.options.group_by != GroupBy::Job {
            let shown: Vec<String> = jobs.iter().take(5).map(i64::to_string).collect();
            let words = format!("the logs are of {} jobs: {}", jobs.len(), shown.join(", "));
            warnings.push(words + ": the slowest process of one is compared with those of others");
        }
        if self.found.absurd > 0 {
            warnings.push(format!(
                "{} times of files on no tier are negative or absurd and count as 0 s",
                self.found.absurd
            ));
        }
        let (shared, seconds) = self.found.shared;
        if shared > 0 {
            let fate = match self.options.shared {
                Shared::Warn => "were left out",
                Shared::Slowest => "count for their slowest rank alone",
            };
            warnings.push(format!(
                "{shared} records sum over all ranks ({seconds:.3} s) and {fate}: run with DARSHAN_DISABLE_SHARED_REDUCTION=1 to have each rank's own"
            ));
        }
        if self.found.stdio_s > 0.0 {
            warnings.push(format!(
                "{:.3} s of STDIO on the tiers are no part of the classes, which are of POSIX calls",
                self.found.stdio_s
            ));
        }
        if self.options.prefixes.all().is_empty() {
            warnings
                .push("no prefix was given: tiers are told by the mount table of each log".into());
        }
        grouped.warn(&mut warnings);
        warnings
    }
}

/// When the first log of each job starts.
fn first_starts(profiles: &[Profile]) -> BTreeMap<i64, i64> {
    let mut starts = BTreeMap::new();
    for profile in profiles {
        let start = starts.entry(profile.jobid).or_insert(profile.start_unix_ns);
        *start = profile.start_unix_ns.min(*start);
    }
    starts
}

fn execution(profiles: &[Profile], windows: &[Window]) -> BTreeMap<Option<u32>, f64> {
    if windows.is_empty() {
        let jobs: BTreeSet<i64> = profiles.iter().map(|one| one.jobid).collect();
        let start = profiles.iter().map(|one| one.start_unix_ns).min();
        let end = profiles.iter().map(|one| one.end_unix_ns).max();
        let ns = end.unwrap_or(0).saturating_sub(start.unwrap_or(0));
        let wall = ns as f64 / 1e9;
        // Several jobs have no wall time together, and a clock may have been set meanwhile.
        let is_sound = jobs.len() == 1 && wall > 0.0 && wall <= MAX_SECONDS;
        return is_sound.then_some((None, wall)).into_iter().collect();
    }
    let numbered = windows.iter().zip(1..);
    numbered
        .map(|(window, epoch)| (Some(epoch), window.end_s - window.start_s))
        .collect()
}

/// The folders that lie two parts deep and have the most seconds.
fn folders(files: &BTreeMap<String, f64>) -> Vec<(String, f64)> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for (file, seconds) in files {
        let slashes = file.match_indices('/').map(|(place, _)| place);
        let end = slashes
            .filter(|place| *place > 0)
            .nth(1)
            .unwrap_or(file.len());
        *sums.entry(&file[..end]).or_default() += seconds;
    }
    let mut sums: Vec<(String, f64)> = sums
        .into_iter()
        .map(|(name, s)| (name.to_owned(), s))
        .collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1));
    sums.truncate(5);
    sums
}

/// The classes of a tier: of reads and of metadata operations.
fn classes(tier: Tier) -> (Class, Class) {
    match tier {
        Tier::Gfs => (Class::GFS_READ, Class::GFS_META),
        Tier::Lfs => (Class::LFS_READ, Class::LFS_META),
    }
}
