//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, SweepError>;

/// Why a sweep did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SweepError {
    /// Settings that cannot be run, each rule by itself.
    #[error("the sweep's settings break {} rule(s):{}", .0.len(), .0.iter().map(|rule| format!("\n  {rule}")).collect::<String>())]
    Settings(Vec<String>),
    /// A configuration of another benchmark that cannot be read.
    #[error("cannot read the configuration: {0}")]
    Config(String),
    /// A file or folder that cannot be used.
    #[error("cannot {act} `{}`", path.display())]
    Io {
        /// What was tried.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A tier has too little room.
    #[error("`{}` has {free} bytes free and the data sets need {needed} more: name fewer or smaller files, or make room", path.display())]
    NoSpace {
        /// The folder.
        path: PathBuf,
        /// Free bytes.
        free: u64,
        /// Bytes that are missing.
        needed: u64,
    },
    /// A folder holds something else under the name that a data set would take.
    #[error("`{}` {found}: name another folder, or remove it yourself", path.display())]
    Taken {
        /// The folder.
        path: PathBuf,
        /// What it is instead.
        found: String,
    },
    /// A file of a data set is not what was made.
    #[error("`{}` is not the file that was made: {found}", path.display())]
    Content {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        found: String,
    },
    /// Other processes did not come.
    #[error(
        "waited {seconds} s for {missing} of {size} processes at `{stage}`: see what those wrote, or give more time with `--patience`"
    )]
    Alone {
        /// Seconds waited.
        seconds: u64,
        /// Processes that are missing.
        missing: usize,
        /// All processes.
        size: u32,
        /// Where.
        stage: String,
    },
    /// What a scheduler says of this process makes no sense.
    #[error("{0}")]
    Place(String),
}

impl SweepError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            act,
            path: path.to_owned(),
            source,
        }
    }
}
