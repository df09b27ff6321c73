//! What can go wrong, by what the reader can do about it.

use std::io;

use forebay_dataset::{ErrorKind, IndexError};
use forebay_origin::OriginError;
use thiserror::Error;

/// A fill that failed. The blocks it was for stay absent.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum FillError {
    /// The origin did not give the bytes.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// The index contradicts itself.
    #[error(transparent)]
    Index(#[from] IndexError),
    /// The time was up first.
    #[error(
        "blocks [{start}, {end}) of shard {shard} did not become resident within the deadline: \
         another reader is still fetching them"
    )]
    Deadline {
        /// Shard in the index.
        shard: u32,
        /// First block.
        start: u64,
        /// One past the last block.
        end: u64,
    },
}

impl FillError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Origin(error) => error.kind(),
            Self::Index(error) => error.kind(),
            Self::Deadline { .. } => ErrorKind::Deadline,
        }
    }
}

/// A cache folder or a data set that cannot be taken into use.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AttachError {
    /// The system refused.
    #[error("cannot use cache folder `{path}`")]
    Folder {
        /// The folder or a file in it.
        path: String,
        /// Why.
        source: io::Error,
    },
    /// The index contradicts itself.
    #[error(transparent)]
    Index(#[from] IndexError),
}

impl AttachError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Folder { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
                io::ErrorKind::PermissionDenied => ErrorKind::InvalidInput,
                _ => ErrorKind::Unavailable,
            },
            Self::Index(error) => error.kind(),
        }
    }
}
