//! Why a log is refused, and what one that is read may lack.

use std::fmt;

use crate::module::Module;

/// Why bytes are no log that can be read at all.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DarshanError {
    /// The magic number is not there.
    #[error("not a Darshan log: the magic number is not at byte 8")]
    NotALog,
    /// A version that this crate does not know.
    #[error(
        "Darshan log of version `{0}`: only 3.00, 3.10, 3.20, 3.21 and 3.41 can be read; convert an older one with `darshan-convert`"
    )]
    Version(String),
    /// A compression that this crate does not know.
    #[error("the log states compression {0}: only 0 (zlib), 1 (bzip2) and 2 (none) are known")]
    Compression(u8),
    /// The file ends before its header does.
    #[error("the log ends within its header: it has {found} of {wanted} bytes")]
    Header {
        /// Bytes of the file.
        found: usize,
        /// Bytes of the header.
        wanted: usize,
    },
    /// The job cannot be read, and with it everything that follows.
    #[error("cannot read the job record of the log: {0}")]
    Job(String),
}

/// A part of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Region {
    /// The job, the command line and the mounts.
    Job,
    /// The names of files.
    Names,
    /// The records of a module.
    Module(Module),
}

impl fmt::Display for Region {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Job => f.write_str("the job record"),
            Self::Names => f.write_str("the file names"),
            Self::Module(module) => write!(f, "module {module}"),
        }
    }
}

/// What a log that was read lacks, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The program that was profiled used more files than Darshan had memory for.
    #[error("{0} is partial: Darshan ran out of memory for it and dropped records")]
    Partial(Region),
    /// The file ends before the region does.
    #[error("{region} is cut short: {missing} of its {bytes} bytes lie past the end of the file")]
    Truncated {
        /// The region.
        region: Region,
        /// Bytes that are not there.
        missing: u64,
        /// Bytes that the header states.
        bytes: u64,
    },
    /// What is there cannot be decompressed or decoded to its end.
    #[error("{region} is damaged: {why}")]
    Damaged {
        /// The region.
        region: Region,
        /// What is wrong.
        why: String,
    },
    /// A limit of the reader was met.
    #[error("{region} is read in part: it holds more than the limit of {limit} {what}")]
    Limit {
        /// The region.
        region: Region,
        /// The limit.
        limit: usize,
        /// What is limited.
        what: &'static str,
    },
    /// A version of a module that is not known.
    #[error("{region} is skipped: its version {version} is not known")]
    Version {
        /// The module.
        region: Region,
        /// Its version.
        version: u32,
    },
    /// Records that could not be kept although they are whole.
    #[error("{region}: {records} records were left out: {why}")]
    LeftOut {
        /// The module.
        region: Region,
        /// How many.
        records: usize,
        /// The reason.
        why: &'static str,
    },
    /// Records of files whose names are not in the log.
    #[error("{region}: {records} records are of files whose names are not in the log")]
    Unnamed {
        /// The module.
        region: Region,
        /// How many.
        records: usize,
    },
}
