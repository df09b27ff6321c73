//! What the commands of this group read: Darshan logs, or records of runs and sweeps.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use forebay_analysis::tiers::darshan::{
    self, Classifier, ClassifyError, OtherFile, Prefixes, Window,
};
use forebay_analysis::tiers::{Rate, Study};

use super::logs;
use crate::{Failure, records};

/// Where the I/O of processes is taken from.
#[derive(Args)]
pub(crate) struct Input {
    /// Darshan logs, or records of runs and sweeps (docs/RECORDS.md)
    #[arg(required = true, value_name = "FILE")]
    pub(crate) files: Vec<PathBuf>,
    /// Folder of the global file system, for logs; may be repeated [default: by the logs' mounts]
    #[arg(long, value_name = "PREFIX")]
    gfs: Vec<String>,
    /// Folder of the local file system, for logs; may be repeated
    #[arg(long, value_name = "PREFIX")]
    lfs: Vec<String>,
    /// What counts as one process, for logs [default: log]
    #[arg(long, value_enum)]
    group_by: Option<GroupBy>,
    /// How the logs of one group are brought together [default: max]
    #[arg(long, value_enum, requires = "group_by")]
    combine: Option<Combine>,
    /// What becomes of records that sum over all ranks, for logs [default: warn]
    #[arg(long, value_enum)]
    shared: Option<Shared>,
    /// An epoch as START:END in Unix seconds, or as +START:+END from the start of the job, for
    /// logs; once for each epoch, in order
    #[arg(long, value_name = "START:END", value_parser = window, allow_hyphen_values = true)]
    epoch_at: Vec<Window>,
    /// Share of the data that lay on the local tier, in percent, for logs
    #[arg(long, value_name = "PERCENT", value_parser = rate)]
    cache_rate: Option<Rate>,
    /// Name of what the logs measure: data set and state of the tiers
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum GroupBy {
    /// Each rank of each log
    Log,
    /// All logs of a job
    Job,
    /// The logs of processes that one process forked
    Parent,
}

#[derive(Clone, Copy, ValueEnum)]
enum Combine {
    /// The slowest stands for all: workers run side by side
    Max,
    /// Times add up
    Sum,
}

#[derive(Clone, Copy, ValueEnum)]
enum Shared {
    /// Leave them out and say so
    Warn,
    /// Give the slowest rank the time that Darshan noted for it
    Slowest,
}

/// What the files say, and what a reader must know besides.
pub(crate) struct Found {
    pub(crate) study: Study,
    /// Files of no tier.
    pub(crate) other: Vec<OtherFile>,
    /// Sentences about what is missing or doubtful.
    pub(crate) warnings: Vec<String>,
}

fn rate(text: &str) -> Result<Rate, String> {
    let percent = text.trim_end_matches('%').trim().parse().ok();
    let rate = percent.and_then(Rate::new);
    rate.ok_or_else(|| "it must be a number from 0 to 100".into())
}

fn window(text: &str) -> Result<Window, String> {
    let (start, end) = text.split_once(':').ok_or("write it as START:END")?;
    let is_unix = !start.starts_with('+');
    if is_unix == end.starts_with('+') {
        return Err("both ends must be from the start of the job (`+`), or none".into());
    }
    let seconds = |text: &str| {
        let number = text.trim_start_matches('+').parse::<f64>();
        number.map_err(|_| format!("`{text}` is no number of seconds"))
    };
    Ok(Window {
        start_s: seconds(start)?,
        end_s: seconds(end)?,
        is_unix,
    })
}

impl Input {
    /// All that the files say. Warnings go to stderr too.
    pub(crate) fn read(&self) -> Result<Found, Failure> {
        // Clap has seen to it that there is one.
        let Some((first, others)) = self.files.split_first() else {
            return Err(Failure::usage("no file is named"));
        };
        let found = if logs::is_log(first)? {
            self.logs()?
        } else {
            self.records(first, others)?
        };
        for sentence in &found.warnings {
            eprintln!("warning: {sentence}");
        }
        Ok(found)
    }

    fn logs(&self) -> Result<Found, Failure> {
        let options = self.options()?;
        let prefixes = options.prefixes.clone();
        let mut classifier = Classifier::new(options).map_err(refused)?;
        logs::each(&self.files, |path, log| {
            let log = log?.ok_or_else(|| mixed(path))?;
            classifier
                .add(&path.display().to_string(), &log)
                .map_err(refused)
        })?;
        // A log that is cut short may be why there is nothing to show.
        let missing = classifier.warnings().to_vec();
        let found = classifier.finish().map_err(|error| {
            missing
                .iter()
                .for_each(|sentence| eprintln!("warning: {sentence}"));
            refused(error)
        })?;
        let setup = self.name.as_deref().unwrap_or_default();
        Ok(Found {
            study: Study::of_darshan(&found, &prefixes, setup, self.cache_rate),
            other: found.other,
            warnings: found.warnings,
        })
    }

    fn options(&self) -> Result<darshan::Options, Failure> {
        let prefixes = Prefixes::new(&self.gfs, &self.lfs)
            .map_err(|error| Failure::usage(error.to_string()))?;
        Ok(darshan::Options {
            prefixes,
            group_by: match self.group_by {
                None | Some(GroupBy::Log) => darshan::GroupBy::Log,
                Some(GroupBy::Job) => darshan::GroupBy::Job,
                Some(GroupBy::Parent) => darshan::GroupBy::Parent,
            },
            combine: match self.combine {
                None | Some(Combine::Max) => darshan::Combine::Max,
                Some(Combine::Sum) => darshan::Combine::Sum,
            },
            shared: match self.shared {
                None | Some(Shared::Warn) => darshan::Shared::Warn,
                Some(Shared::Slowest) => darshan::Shared::Slowest,
            },
            windows: self.epoch_at.clone(),
        })
    }

    fn records(&self, first: &Path, others: &[PathBuf]) -> Result<Found, Failure> {
        let of_logs = [
            ("--gfs", !self.gfs.is_empty()),
            ("--lfs", !self.lfs.is_empty()),
            ("--group-by", self.group_by.is_some()),
            ("--shared", self.shared.is_some()),
            ("--epoch-at", !self.epoch_at.is_empty()),
            ("--cache-rate", self.cache_rate.is_some()),
            ("--name", self.name.is_some()),
        ];
        if let Some((option, _)) = of_logs.into_iter().find(|(_, is_given)| *is_given) {
            let message = format!("{option} is for Darshan logs, and the files are no logs");
            return Err(Failure::usage(message));
        }
        let mut study = study_in(first)?;
        for path in others {
            study = study.join(study_in(path)?)?;
        }
        Ok(Found {
            warnings: study.unread.sentences(),
            study,
            other: Vec::new(),
        })
    }
}

fn mixed(path: &Path) -> Failure {
    let message = format!(
        "`{}` is no Darshan log, and the files before it are",
        path.display()
    );
    let hint = "name logs or records; `forebay tiers classes --records` makes records of logs";
    Failure::usage(message).hint(hint)
}

fn study_in(path: &Path) -> Result<Study, Failure> {
    let named = |error| records::unfit(&records::quoted(path), error);
    Study::read(records::open(path)?).map_err(named)
}

/// The failure, with a way out.
fn refused(error: ClassifyError) -> Failure {
    let hint = match &error {
        ClassifyError::NothingOnTiers { folders, .. } if folders.is_empty() => None,
        ClassifyError::NothingOnTiers { folders, .. } => {
            let of = |(name, seconds): &(String, f64)| format!("{name} ({seconds:.3} s)");
            let shown: Vec<String> = folders.iter().map(of).collect();
            Some(format!(
                "name --gfs and --lfs; most I/O is below {}",
                shown.join(", ")
            ))
        }
        ClassifyError::OnlyShared { .. } => {
            Some("use --shared slowest, or run with DARSHAN_DISABLE_SHARED_REDUCTION=1".into())
        }
        ClassifyError::NoParents => Some("use --group-by job, or log".into()),
        ClassifyError::NothingInEpochs => {
            Some("see when the job ran with `forebay tiers darshan`".into())
        }
        _ => None,
    };
    let failure = match error {
        ClassifyError::Options(_) | ClassifyError::Twice(_) => Failure::usage(error.to_string()),
        error => Failure::from(error),
    };
    match hint {
        Some(hint) => failure.hint(hint),
        None => failure,
    }
}
