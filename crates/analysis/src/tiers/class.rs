//! Names of the classes of I/O.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// Longest name of a class, in bytes.
const MAX_NAME_BYTES: usize = 64;

/// A kind of operation on a tier: `GFS-READ`, `origin-meta`.
///
/// Known names are read whatever their case and written as below. They are ordered as here, and
/// other names follow them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Class(Cow<'static, str>);

/// Why a text is not the name of a class.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{0}` is no name of an I/O class: it must have 1 to 64 letters, digits, `-`, `_` or `.`, and not be `other`"
)]
pub struct ClassError(String);

impl Class {
    /// Reads of the global file system.
    pub const GFS_READ: Self = Self(Cow::Borrowed("GFS-READ"));
    /// Metadata operations on the global file system: open, close, seek, stat.
    pub const GFS_META: Self = Self(Cow::Borrowed("GFS-META"));
    /// Reads of the local file system.
    pub const LFS_READ: Self = Self(Cow::Borrowed("LFS-READ"));
    /// Metadata operations on the local file system.
    pub const LFS_META: Self = Self(Cow::Borrowed("LFS-META"));
    /// Reads that the origin answered.
    pub const ORIGIN_READ: Self = Self(Cow::Borrowed("origin-read"));
    /// Metadata operations on the origin.
    pub const ORIGIN_META: Self = Self(Cow::Borrowed("origin-meta"));
    /// Reads that another owner answered.
    pub const PEER_READ: Self = Self(Cow::Borrowed("peer-read"));
    /// Reads that this node's own cache answered.
    pub const LOCAL_READ: Self = Self(Cow::Borrowed("local-read"));
    /// Metadata operations on this node's own cache.
    pub const LOCAL_META: Self = Self(Cow::Borrowed("local-meta"));

    /// Every known class, in the order in which they are shown and stacked.
    pub const KNOWN: [Self; 9] = [
        Self::GFS_READ,
        Self::GFS_META,
        Self::LFS_READ,
        Self::LFS_META,
        Self::ORIGIN_READ,
        Self::ORIGIN_META,
        Self::PEER_READ,
        Self::LOCAL_READ,
        Self::LOCAL_META,
    ];

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }

    /// Place among the known classes; all others share the place behind them.
    fn place(&self) -> usize {
        let found = Self::KNOWN.iter().position(|known| known == self);
        found.unwrap_or(Self::KNOWN.len())
    }
}

impl FromStr for Class {
    type Err = ClassError;

    fn from_str(name: &str) -> Result<Self, ClassError> {
        let same = |known: &&Self| known.name().eq_ignore_ascii_case(name);
        if let Some(known) = Self::KNOWN.iter().find(same) {
            return Ok(known.clone());
        }
        let fits = |c: u8| c.is_ascii_alphanumeric() || matches!(c, b'-' | b'_' | b'.');
        let sized = (1..=MAX_NAME_BYTES).contains(&name.len());
        if !sized || !name.bytes().all(fits) || name.eq_ignore_ascii_case("other") {
            let shown = crate::text::clip(&crate::text::printable(name), MAX_NAME_BYTES);
            return Err(ClassError(shown));
        }
        Ok(Self(Cow::Owned(name.to_owned())))
    }
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Ord for Class {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.place(), &self.0).cmp(&(other.place(), &other.0))
    }
}

impl PartialOrd for Class {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Serialize for Class {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}
