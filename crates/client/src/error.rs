//! What can go wrong in a trainer, by what it can do about it.

use forebay_dataset::{DecodeError, ErrorKind, IndexError};
use forebay_origin::OriginError;
use thiserror::Error;

/// A read that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ClientError {
    /// The origin or the index file.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The index contradicts itself, or there is no such sample.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// Stored bytes do not decode.
    #[error("cannot decode field `{field}` of sample {sample} from `{path}`")]
    Decode {
        /// The field's name.
        field: String,
        /// The sample.
        sample: u64,
        /// The origin file.
        path: String,
        /// Why.
        source: DecodeError,
    },
    /// The daemon refused or failed; its own words.
    #[error("{message}")]
    Daemon {
        /// What the caller can do.
        kind: ErrorKind,
        /// What happened to which thing.
        message: String,
    },
    /// The daemon did not answer in time.
    #[error("{what} did not become resident within {seconds} s")]
    Deadline {
        /// The range and its file.
        what: String,
        /// The deadline.
        seconds: f64,
    },
    /// The caller's buffer has the wrong length.
    #[error("buffer holds {found} bytes, {wanted} are needed")]
    Buffer {
        /// Bytes given.
        found: usize,
        /// Bytes needed.
        wanted: usize,
    },
    /// A signal ended the wait.
    #[error("the wait for the daemon was interrupted")]
    Interrupted,
    /// There is no daemon, and none could be started.
    #[error("no daemon serves cache folder `{folder}`")]
    NoDaemon {
        /// The cache folder.
        folder: String,
        /// Why.
        source: std::io::Error,
    },
    /// A data set in a store, and no daemon.
    #[error(
        "cannot read `{root}` without a daemon, which alone reads object stores: start one with `forebay serve`"
    )]
    NeedsDaemon {
        /// The store's URL.
        root: String,
        /// Why there is none.
        source: std::io::Error,
    },
    /// A part of a store's object that the cache has no room for.
    #[error(
        "{what} finds no room in cache folder `{folder}`, through which alone object stores are read: raise `capacity`"
    )]
    NoRoom {
        /// The range and its object.
        what: String,
        /// The cache folder.
        folder: String,
    },
    /// A name or path that nothing can be published by.
    #[error("cannot use `{name}`: {why}")]
    Name {
        /// The name or path.
        name: String,
        /// The rule that it breaks.
        why: &'static str,
    },
    /// A published file of this node that cannot be read.
    #[error("cannot read published file `{name}` at `{path}`")]
    ReadPublished {
        /// What it was published as.
        name: String,
        /// Where it lies.
        path: String,
        /// Why.
        source: std::io::Error,
    },
    /// No cache folder was named and the environment names none.
    #[error("no cache folder: name one, or set FOREBAY_CACHE or HOME")]
    NoFolder,
}

impl ClientError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Origin(error) => error.kind(),
            Self::Index(error) => error.kind(),
            Self::Decode { source, .. } => source.kind(),
            Self::Daemon { kind, .. } => *kind,
            Self::Deadline { .. } => ErrorKind::Deadline,
            Self::Interrupted | Self::NoDaemon { .. } | Self::NeedsDaemon { .. } => {
                ErrorKind::Unavailable
            }
            Self::NoRoom { .. } => ErrorKind::NoSpace,
            Self::ReadPublished { .. } => ErrorKind::Unavailable,
            Self::Buffer { .. } | Self::Name { .. } | Self::NoFolder => ErrorKind::InvalidInput,
        }
    }

    /// The error and its causes on one line.
    pub fn chain(&self) -> String {
        let mut text = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            text.push_str(": ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        text
    }
}
