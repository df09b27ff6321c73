//! What can go wrong with a library that may be absent.

use thiserror::Error;

use crate::Version;

/// Why there is no libfabric.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum LoadError {
    /// It is not installed, or not where the loader looks.
    #[error("there is no `{name}` where the loader looks")]
    NotFound {
        /// The file that was asked for.
        name: String,
    },
    /// The file is there and cannot be loaded.
    #[error("cannot load `{name}`: {detail}")]
    Unloadable {
        /// The file that was asked for.
        name: String,
        /// What the loader says.
        detail: String,
    },
    /// A library of another kind.
    #[error("`{name}` is no libfabric: it lacks `{symbol}`")]
    Foreign {
        /// The file that was asked for.
        name: String,
        /// The function that it lacks.
        symbol: String,
    },
    /// Its structures are not those that this build knows.
    #[error("`{name}` is libfabric {found}, and {wanted} or later is needed")]
    TooOld {
        /// The file that was asked for.
        name: String,
        /// Its version.
        found: Version,
        /// The first that will do.
        wanted: Version,
    },
}

/// Why a provider offers nothing that will do.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum QueryError {
    /// libfabric refuses, with a number and words of its own.
    #[error("provider `{provider}` refuses: {words} (libfabric error {code})")]
    Refused {
        /// Whom we asked.
        provider: String,
        /// The number, positive.
        code: i32,
        /// What it means.
        words: String,
    },
    /// A name that no provider can have.
    #[error("`{}` is no name of a provider: it has a zero byte", .0.escape_default())]
    Name(String),
    /// libfabric could not make the structure of the question.
    #[error("libfabric has no memory for a question")]
    NoMemory,
}

impl QueryError {
    /// True if the provider has just nothing of the kind, which is libfabric's way to say that
    /// there is no device.
    pub fn is_nothing_there(&self) -> bool {
        // The number is Linux's ENODATA.
        matches!(self, Self::Refused { code: 61, .. })
    }
}
