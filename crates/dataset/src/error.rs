//! What can go wrong, by what the reader can do about it.

use thiserror::Error;

/// What the caller can do about a failure. A new kind needs a design record.
///
/// The codes are stable: Python's `forebay.ErrorKind` and the local protocol carry them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is wrong and will stay wrong. Fix the caller.
    InvalidInput,
    /// The named thing does not exist.
    NotFound,
    /// The origin changed since it was indexed. Index it again.
    Stale,
    /// Storage or the daemon did not answer properly. Trying again may help.
    Unavailable,
    /// Stored bytes contradict their checksum or their format.
    Corrupt,
    /// No room on the device.
    NoSpace,
    /// The deadline passed first.
    Deadline,
    /// A format or feature that is not supported.
    Unsupported,
}

impl ErrorKind {
    /// Every kind, in the order of the codes.
    pub const ALL: [Self; 8] = [
        Self::InvalidInput,
        Self::NotFound,
        Self::Stale,
        Self::Unavailable,
        Self::Corrupt,
        Self::NoSpace,
        Self::Deadline,
        Self::Unsupported,
    ];

    /// The stable code, as Python and JSON show it.
    pub const fn code(self) -> &'static str {
        match self {
            Self::InvalidInput => "invalid-input",
            Self::NotFound => "not-found",
            Self::Stale => "stale",
            Self::Unavailable => "unavailable",
            Self::Corrupt => "corrupt",
            Self::NoSpace => "no-space",
            Self::Deadline => "deadline",
            Self::Unsupported => "unsupported",
        }
    }
}

/// A byte range that cannot exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RangeError {
    /// A range holds at least one byte.
    #[error("a byte range cannot be empty")]
    Empty,
    /// The end does not fit in 64 bits.
    #[error("byte range overflows: start {start}, length {len}")]
    Overflow {
        /// First byte.
        start: u64,
        /// Bytes asked for.
        len: u64,
    },
    /// Not a usable block size.
    #[error("block size must be a power of two between 4096 and 16777216: {0}")]
    BlockSize(u32),
}

/// An index that cannot be read or written.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IndexError {
    /// The file does not start with the magic.
    #[error("not a Forebay index; `forebay index` makes one")]
    NotAnIndex {
        /// Its first eight bytes, or fewer.
        found: Vec<u8>,
    },
    /// A version this build does not know.
    #[error("index version {found} is unknown: this build reads version {known}")]
    Version {
        /// Version in the file.
        found: u32,
        /// Version this build reads.
        known: u32,
    },
    /// The file contradicts itself.
    #[error("index is damaged: {0}")]
    Damaged(String),
    /// No such sample.
    #[error("no sample {index}: the index has {len}")]
    NoSample {
        /// Position asked for.
        index: u64,
        /// Samples in the index.
        len: u64,
    },
    /// No such field.
    #[error("no field {index}: samples have {len}")]
    NoField {
        /// Position asked for.
        index: usize,
        /// Fields of a sample.
        len: usize,
    },
    /// What the builder was given cannot be indexed.
    #[error("cannot index {what}: {why}")]
    Unindexable {
        /// The sample, field or file.
        what: String,
        /// What is wrong with it and what to do.
        why: String,
    },
}

impl IndexError {
    /// What the caller can do.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::NotAnIndex { .. } | Self::Unindexable { .. } => ErrorKind::InvalidInput,
            Self::Version { .. } => ErrorKind::Unsupported,
            Self::Damaged(_) => ErrorKind::Corrupt,
            Self::NoSample { .. } | Self::NoField { .. } => ErrorKind::NotFound,
        }
    }
}

/// Stored bytes that do not decode.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// A filter this build cannot undo.
    #[error("filter {0} is not supported")]
    Filter(String),
    /// The bytes contradict the filter's format or the expected length.
    #[error("{filter} data is damaged: {why}")]
    Damaged {
        /// The filter that found it.
        filter: &'static str,
        /// What is wrong.
        why: String,
    },
    /// The layout that was given contradicts itself.
    #[error("chunk layout cannot be used: {0}")]
    Layout(String),
    /// The destination has the wrong length.
    #[error("buffer holds {found} bytes, the field needs {wanted}")]
    Length {
        /// Length given.
        found: usize,
        /// Length needed.
        wanted: usize,
    },
}

impl DecodeError {
    /// What the caller can do.
    pub const fn kind(&self) -> ErrorKind {
        match self {
            Self::Filter(_) => ErrorKind::Unsupported,
            Self::Damaged { .. } => ErrorKind::Corrupt,
            Self::Layout(_) | Self::Length { .. } => ErrorKind::InvalidInput,
        }
    }
}

/// A type name that is not understood.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("data type `{0}` is not supported: numpy strings such as `<f4`, `|u1`, `>i8` are")]
pub struct DTypeError(pub String);
