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
    /// The object is not the one that was indexed.
    #[error(
        "object `{url}` changed since it was indexed: index has size {} version {:032x}, the store has size {} version {:032x}; index it again",
        indexed.size, indexed.object_version(), found.size, found.object_version()
    )]
    StaleObject {
        /// The object.
        url: String,
        /// What the index recorded.
        indexed: Fingerprint,
        /// What the object is now.
        found: Fingerprint,
    },
    /// A store does not do what it is asked.
    #[error("cannot {act} `{url}`")]
    Store {
        /// What was tried, with its range.
        act: String,
        /// The object, prefix or store.
        url: String,
        /// Why.
        source: StoreFault,
    },
    /// A URL that names no object.
    #[error("cannot use URL `{url}`: {why}")]
    Url {
        /// The URL, without what may be secret.
        url: String,
        /// Why.
        why: String,
    },
    /// An object is to be read by a process that has no stores.
    #[error(
        "cannot read `{url}` here: an object store is read by the node's daemon alone, and none answers; start it with `forebay serve`"
    )]
    NoStores {
        /// The object.
        url: String,
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

/// What a store did instead of what it was asked.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StoreFault {
    /// It has no such object, bucket or container.
    #[error("the store has no such object: {detail}")]
    NotFound {
        /// The store's own words.
        detail: String,
    },
    /// It does not let this caller in.
    #[error("access denied, {way_out}: {detail}")]
    Denied {
        /// What to set in the environment.
        way_out: &'static str,
        /// The store's own words.
        detail: String,
    },
    /// It asks for fewer requests, or fails itself, and goes on doing so.
    #[error("the store is busy or failing, status {status}, also when asked again: {detail}")]
    Busy {
        /// HTTP status.
        status: u16,
        /// The store's own words.
        detail: String,
    },
    /// Another status that no request should have.
    #[error("the store answers with status {status}: {detail}")]
    Status {
        /// HTTP status.
        status: u16,
        /// The store's own words.
        detail: String,
    },
    /// No whole answer in time, however often it was asked.
    #[error("no whole answer within {seconds} s; `FOREBAY_STORE_SECONDS` sets the time")]
    Deadline {
        /// Time that it had, in seconds.
        seconds: f64,
    },
    /// It cannot be reached, or breaks off.
    #[error("the store cannot be reached or breaks off: {detail}")]
    Unreachable {
        /// What the network said.
        detail: String,
    },
    /// It sends whole objects where a part is asked for.
    #[error(
        "the server ignores ranges and sends whole files: copy them to a server that does not, or to this machine"
    )]
    NoRanges,
    /// Its answer does not fit the request.
    #[error("the store's answer does not fit the request: {detail}")]
    Malformed {
        /// The difference.
        detail: String,
    },
    /// Nothing would show that an object changed.
    #[error(
        "the store gives neither `ETag` nor `Last-Modified`, so that a change could not be seen"
    )]
    NoVersion,
    /// It cannot be opened as the environment says.
    #[error("{detail}")]
    Settings {
        /// What is wrong with it.
        detail: String,
    },
}

impl StoreFault {
    /// What the caller can do.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotFound { .. } => ErrorKind::NotFound,
            Self::Deadline { .. } => ErrorKind::Deadline,
            Self::NoRanges | Self::NoVersion => ErrorKind::Unsupported,
            Self::Settings { .. } => ErrorKind::InvalidInput,
            Self::Denied { .. }
            | Self::Busy { .. }
            | Self::Status { .. }
            | Self::Unreachable { .. }
            | Self::Malformed { .. } => ErrorKind::Unavailable,
        }
    }
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
            Self::Stale { .. } | Self::StaleObject { .. } => ErrorKind::Stale,
            Self::Store { source, .. } => source.kind(),
            Self::NoStores { .. } => ErrorKind::Unavailable,
            Self::OutOfRange { .. } | Self::IndexFolder { .. } | Self::Url { .. } => {
                ErrorKind::InvalidInput
            }
        }
    }
}
