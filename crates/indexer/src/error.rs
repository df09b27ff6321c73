//! What can go wrong, with the file, the object in it and the way out.

use std::io;
use std::path::{Path, PathBuf};

use forebay_dataset::{DecodeError, ErrorKind, IndexError};
use forebay_origin::OriginError;
use thiserror::Error;

use crate::h5::H5Error;

/// A request that could not be carried out. No output was written.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum IndexerError {
    /// The request contradicts itself or the files that it names.
    #[error("{0}")]
    Request(String),
    /// An index has all files already that were to be added to it.
    #[error("the index has all of these files already")]
    NothingNew,
    /// A file or folder cannot be read or written.
    #[error("cannot {act} `{path}`")]
    Io {
        /// What was tried.
        act: &'static str,
        /// On what.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A feature of a file that this version does not read.
    #[error("cannot index {place}: {feature} is not supported; {remedy}")]
    Unsupported {
        /// File and object.
        place: String,
        /// The feature.
        feature: String,
        /// What to do.
        remedy: &'static str,
    },
    /// A file that contradicts its format.
    #[error("cannot index {place}: the file is damaged: {what}")]
    Damaged {
        /// File and object.
        place: String,
        /// What is wrong.
        what: String,
    },
    /// A file that another one leads to cannot be read.
    #[error(
        "cannot index {place}: it leads to `{path}`, which cannot be read; put it there, or leave \
         the data set out with `--fields`"
    )]
    Missing {
        /// File and object.
        place: String,
        /// The other file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that is not what it was when its index was made, or that changes while it is read.
    #[error("`{path}` changed: {what}; index it again once it is complete")]
    Stale {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// Samples that do not have the same fields.
    #[error("{0}")]
    Uneven(String),
    /// The index cannot be made or read.
    #[error("cannot use index `{path}`")]
    Index {
        /// The index.
        path: PathBuf,
        /// Why.
        source: IndexError,
    },
    /// An origin file or an index that cannot be read.
    #[error(transparent)]
    Origin(#[from] OriginError),
    /// Stored bytes that do not decode.
    #[error("cannot decode field `{field}` of sample {sample} in `{path}`")]
    Decode {
        /// The file.
        path: PathBuf,
        /// Position of the sample.
        sample: u64,
        /// Name of the field.
        field: String,
        /// Why.
        source: DecodeError,
    },
}

impl IndexerError {
    /// What the caller can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Request(_) | Self::Uneven(_) | Self::NothingNew => ErrorKind::InvalidInput,
            Self::Io { source, .. } | Self::Missing { source, .. } => match source.kind() {
                io::ErrorKind::NotFound => ErrorKind::NotFound,
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::NoSpace,
                _ => ErrorKind::Unavailable,
            },
            Self::Unsupported { .. } => ErrorKind::Unsupported,
            Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::Stale { .. } => ErrorKind::Stale,
            Self::Index { source, .. } => source.kind(),
            Self::Origin(source) => source.kind(),
            Self::Decode { source, .. } => source.kind(),
        }
    }

    /// An I/O error with what was tried on which file.
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { act, path, source }
    }

    /// A path that no index can hold.
    pub(crate) fn not_utf8(path: &Path) -> Self {
        Self::Request(format!(
            "the name of `{}` is not UTF-8, and an index holds no other names: rename it",
            path.display()
        ))
    }

    /// An error inside an HDF5 file. `object` is a path in the file, empty for the file itself.
    pub(crate) fn h5(path: &Path, object: &str) -> impl FnOnce(H5Error) -> Self {
        let path = path.to_path_buf();
        let place = if object.is_empty() {
            format!("`{}`", path.display())
        } else {
            format!("`{object}` of `{}`", path.display())
        };
        move |error| match error {
            H5Error::Io(source) => Self::Io {
                act: "read",
                path,
                source,
            },
            H5Error::Damaged(what) => Self::Damaged { place, what },
            H5Error::Missing { path, source } => Self::Missing {
                place,
                path,
                source,
            },
            H5Error::Unsupported { feature, remedy } => Self::Unsupported {
                place,
                feature,
                remedy: remedy.words(),
            },
        }
    }
}

/// Result of this crate.
pub(crate) type Result<T, E = IndexerError> = std::result::Result<T, E>;
