//! What can go wrong at the origin.

use std::io;

use forebay_dataset::{ErrorKind, Fingerprint, IndexError};
use thiserror::Error;

/// A failure at the origin. Names the file and the range; the cause is its source.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OriginError {
    /// The index file cannot be opened.
    #[error("cannot open index `{path}`")]
    OpenIndex {
        /// The index file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A folder stands where an index file was named.
    #[error(
        "`{path}` is a folder: name the index file in it, `{path}/index.forebay` for a flattened data set, or make one with `forebay index`"
    )]
    IndexFolder {
        /// The folder.
        path: String,
    },
    /// The index file is not one this build can read.
    #[error("cannot use index `{path}`")]
    Index {
        /// The index file.
        path: String,
        /// Why.
        source: IndexError,
    },
    /// A segment cannot be opened.
    #[error("cannot open origin file `{path}`")]
    Open {
        /// The segment's file.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// A segment cannot be read.
    #[error("cannot read bytes [{offset}, {end}) of origin file `{path}`")]
    Read {
        /// The segment's file.
        path: String,
        /// First byte asked for.
        offset: u64,
        /// One past the last.
        end: u64,
        /// Why.
        source: io::Error,
    },
    /// The file is not the one that was indexed.
    #[error(
        "origin file `{path}` changed since it was indexed: index has {}, file has {}; index it again",
        describe(.indexed), describe(.found)
    )]
    Stale {
        /// The segment's file.
        path: String,
        /// What the index recorded.
        indexed: Fingerprint,
        /// What the file is now.
        found: Fingerprint,
    },
    /// A range outside the segment.
    #[error("bytes [{offset}, {end}) are outside origin file `{path}` of {size} bytes")]
    OutOfRange {
        /// The segment's file.
        path: String,
        /// First byte asked for.
        offset: u64,
        /// One past the last.
        end: u64,
        /// Recorded size.
        size: u64,
    },
}

fn describe(fingerprint: &Fingerprint) -> String {
    format!(
        "size {} mtime_ns {} inode {}",
        fingerprint.size, fingerprint.mtime_ns, fingerprint.inode
    )
}

impl OriginError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        let of_io = |source: &io::Error| match source.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        match self {
            Self::OpenIndex { source, .. } | Self::Open { source, .. } => of_io(source),
            Self::Index { source, .. } => source.kind(),
            Self::Read { .. } => ErrorKind::Unavailable,
            Self::Stale { .. } => ErrorKind::Stale,
            Self::OutOfRange { .. } | Self::IndexFolder { .. } => ErrorKind::InvalidInput,
        }
    }
}
