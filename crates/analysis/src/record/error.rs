//! What can be wrong with a record file.

use std::fmt;
use std::io;

/// Why a record file was refused. Every variant that concerns one line has its number, from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// The reader failed.
    #[error("cannot read line {line} of the records")]
    Read {
        /// The line that was being read.
        line: u64,
        /// The reader's error.
        source: io::Error,
    },
    /// A line is longer than the limit.
    #[error("line {line} is longer than {limit_bytes} bytes: these are not forebay records")]
    LineTooLong {
        /// The line.
        line: u64,
        /// The limit, in bytes.
        limit_bytes: usize,
    },
    /// A line is not a record, or a field breaks a rule.
    #[error("line {line} is not a record: {why}")]
    Malformed {
        /// The line.
        line: u64,
        /// The rule that it breaks.
        why: String,
    },
    /// The first record is not the manifest.
    #[error("line {line} must be the `manifest` record, the first of every record file")]
    NoManifest {
        /// The first line that holds a record.
        line: u64,
    },
    /// There is nothing in the file.
    #[error("the records are empty: the run wrote nothing, not even its `manifest`")]
    Empty,
    /// There is no iteration to report on.
    #[error(
        "the records hold no iteration, only {lines} other lines: the run ended before its first step"
    )]
    NoIterations {
        /// Lines that were read.
        lines: u64,
    },
    /// There is no I/O of a process to analyse.
    #[error(
        "the records hold no `io` record in {lines} lines: they say nothing about the I/O of processes"
    )]
    NoIo {
        /// Lines that were read.
        lines: u64,
    },
    /// A number does not fit the table of its point.
    #[error("line {line} cannot be added to the others")]
    Table {
        /// The line.
        line: u64,
        /// The rule that it breaks.
        source: crate::tiers::TableError,
    },
    /// One thing was recorded twice.
    #[error("line {line} records {what} a second time")]
    Duplicate {
        /// The second line.
        line: u64,
        /// The thing.
        what: String,
    },
    /// An epoch ended without a single iteration.
    #[error("line {line} ends epoch {epoch} of path `{path}`, which has no iteration")]
    EpochWithoutIterations {
        /// The line of the `epoch` record.
        line: u64,
        /// Its path.
        path: String,
        /// Its epoch.
        epoch: u32,
    },
    /// There is more of something than this crate holds in memory.
    #[error("line {line} goes over the limit of {limit} {what}: split the records")]
    TooMany {
        /// The line.
        line: u64,
        /// The limit.
        limit: usize,
        /// What is counted.
        what: &'static str,
    },
}

impl RecordError {
    /// The line that is at fault, from 1, if it is one line.
    #[must_use]
    pub fn line(&self) -> Option<u64> {
        match self {
            Self::Read { line, .. }
            | Self::LineTooLong { line, .. }
            | Self::Malformed { line, .. }
            | Self::NoManifest { line }
            | Self::Duplicate { line, .. }
            | Self::EpochWithoutIterations { line, .. }
            | Self::Table { line, .. }
            | Self::TooMany { line, .. } => Some(*line),
            Self::Empty | Self::NoIterations { .. } | Self::NoIo { .. } => None,
        }
    }
}

/// What is wrong with one line, before its number is known.
#[derive(Debug)]
pub(crate) struct Fault(String);

impl Fault {
    pub(crate) fn of(why: String) -> Self {
        Self(why)
    }

    pub(crate) fn json(source: &serde_json::Error) -> Self {
        // The line number in serde's own words is always 1, since it is given one line.
        let words = source.to_string();
        let words = words.split(" at line ").next().unwrap_or_default();
        let hint = if source.is_eof() {
            "; the writer may have been stopped in the middle of it"
        } else {
            ""
        };
        Self(format!(
            "not valid JSON at column {}: {words}{hint}",
            source.column()
        ))
    }

    pub(crate) fn at(self, line: u64) -> RecordError {
        RecordError::Malformed { line, why: self.0 }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
