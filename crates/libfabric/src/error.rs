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

/// An end of a fabric that cannot be opened.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The provider offers nothing that will do.
    #[error(transparent)]
    Query(#[from] QueryError),
    /// The provider is there, and not at the address of this side.
    #[error("provider `{provider}` has no device with the address of `{source_host}`: {words}")]
    Source {
        /// The provider.
        provider: String,
        /// Host name or address of this side.
        source_host: String,
        /// What libfabric says.
        words: String,
    },
    /// One step of opening fails.
    #[error("provider `{provider}` cannot {step}: {words} (libfabric error {code})")]
    Step {
        /// The provider with the layers over it.
        provider: String,
        /// What was tried.
        step: &'static str,
        /// The number, positive.
        code: i32,
        /// What it means.
        words: String,
    },
    /// The provider's answer lacks a part, or one is out of bounds.
    #[error("provider `{provider}` gives no {part} that can be used")]
    Incomplete {
        /// The provider with the layers over it.
        provider: String,
        /// The part.
        part: &'static str,
    },
}

/// A read of another's memory that gave no bytes.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// It did not end in time. The reader is of no use any more: bytes may still come.
    #[error("a read over the fabric did not end in time")]
    Late,
    /// Whoever waited gave up. The same holds of the reader.
    #[error("a read over the fabric was given up")]
    GivenUp,
    /// An earlier read has left the reader of no use.
    #[error("an earlier read over the fabric has not ended")]
    Spent,
    /// Everything that reads was at work until the deadline.
    #[error("all readers of the fabric are at work")]
    Busy,
    /// A reader in place of one that was closed cannot be opened.
    #[error("cannot read over the fabric: {reason}")]
    Reopen {
        /// Why.
        reason: String,
    },
    /// The provider refuses the address.
    #[error("the provider takes no address of {len} bytes of kind {format}")]
    Address {
        /// Kind of the address.
        format: u32,
        /// Its length.
        len: usize,
    },
    /// What is asked for is longer than the reader's buffer.
    #[error("a read of {found} bytes is asked for, and the buffer has {most}")]
    TooLong {
        /// Bytes asked for.
        found: usize,
        /// Bytes of the buffer.
        most: usize,
    },
    /// libfabric says that it failed.
    #[error("a read over the fabric failed: {words} (libfabric error {code})")]
    Failed {
        /// The number, positive.
        code: i32,
        /// What it means.
        words: String,
    },
}
