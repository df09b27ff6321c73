//! The header: version, byte order, and where everything lies.

use std::fmt;

use serde::Serialize;

use crate::bytes::{Bytes, text};
use crate::error::DarshanError;
use crate::module::{self, Module};

/// In the middle of the first 16 bytes of every log.
const MAGIC: u64 = 6_567_223;

/// Order of the bytes of numbers: that of the machine that wrote the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ByteOrder {
    /// The lowest byte first.
    Little,
    /// The highest byte first.
    Big,
}

/// How regions are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Compression {
    /// zlib streams.
    Zlib,
    /// bzip2 streams.
    Bzip2,
    /// None.
    None,
}

/// A released version of the log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Version {
    /// 3.00
    V300,
    /// 3.10
    V310,
    /// 3.20
    V320,
    /// 3.21
    V321,
    /// 3.41
    V341,
}

impl Version {
    const ALL: [Self; 5] = [Self::V300, Self::V310, Self::V320, Self::V321, Self::V341];

    /// The version as logs state it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::V300 => "3.00",
            Self::V310 => "3.10",
            Self::V320 => "3.20",
            Self::V321 => "3.21",
            Self::V341 => "3.41",
        }
    }

    /// Modules that a header has room for.
    fn slots(self) -> usize {
        if self < Self::V341 { 16 } else { 64 }
    }

    /// Bytes of the header.
    pub(crate) fn header_bytes(self) -> usize {
        if self < Self::V341 { 360 } else { 1328 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Serialize for Version {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// Where a region lies in the file, in compressed bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) start: u64,
    pub(crate) bytes: u64,
}

/// Where the records of one module lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ModulePlace {
    pub(crate) module: Module,
    pub(crate) version: u32,
    pub(crate) is_partial: bool,
    pub(crate) place: Place,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) version: Version,
    pub(crate) order: ByteOrder,
    pub(crate) compression: Compression,
    pub(crate) names: Place,
    /// Modules that have records, in the order of their ids.
    pub(crate) modules: Vec<ModulePlace>,
}

/// The byte order, from the magic number; `None` for what is no log.
pub(crate) fn order(start: &[u8]) -> Option<ByteOrder> {
    let magic = *start.get(8..)?.first_chunk()?;
    match (u64::from_le_bytes(magic), u64::from_be_bytes(magic)) {
        (MAGIC, _) => Some(ByteOrder::Little),
        (_, MAGIC) => Some(ByteOrder::Big),
        _ => None,
    }
}

impl Header {
    pub(crate) fn read(log: &[u8]) -> Result<Self, DarshanError> {
        let order = order(log).ok_or(DarshanError::NotALog)?;
        let stated = text(&log[..8]);
        let version = Version::ALL.into_iter().find(|one| one.name() == stated);
        let version = version.ok_or_else(|| {
            let shown = stated.chars().map(|c| if c.is_control() { '?' } else { c });
            DarshanError::Version(shown.collect())
        })?;
        let wanted = version.header_bytes();
        let short = DarshanError::Header {
            found: log.len(),
            wanted,
        };
        let header = log.get(16..wanted).ok_or(short.clone())?;
        let compression = match header[0] {
            0 => Compression::Zlib,
            1 => Compression::Bzip2,
            2 => Compression::None,
            other => return Err(DarshanError::Compression(other)),
        };
        let mut bytes = Bytes::new(header, order);
        let (names, modules) = places(&mut bytes, version).ok_or(short)?;
        Ok(Self {
            version,
            order,
            compression,
            names,
            modules,
        })
    }
}

/// Everything behind the compression.
fn places(bytes: &mut Bytes<'_>, version: Version) -> Option<(Place, Vec<ModulePlace>)> {
    let partial = if version < Version::V341 {
        bytes.take(4)?;
        u64::from(bytes.u32()?)
    } else {
        bytes.take(8)?;
        bytes.u64()?
    };
    let names = place(bytes)?;
    let places: Vec<Place> = (0..version.slots())
        .map(|_| place(bytes))
        .collect::<Option<_>>()?;
    let mut modules = Vec::new();
    for (id, place) in places.into_iter().enumerate() {
        let of_module = ModulePlace {
            module: module::of_id(version, id),
            version: bytes.u32()?,
            is_partial: partial >> id & 1 == 1,
            place,
        };
        if place.bytes > 0 || of_module.is_partial {
            modules.push(of_module);
        }
    }
    Some((names, modules))
}

fn place(bytes: &mut Bytes<'_>) -> Option<Place> {
    Some(Place {
        start: bytes.u64()?,
        bytes: bytes.u64()?,
    })
}
