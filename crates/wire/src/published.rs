//! Files that a producer published by name, as they are spoken of.

use crate::WireError;
use crate::codec::{Take, put_text};
use crate::frame::frame;

/// Most bytes of a published file's name.
pub const MAX_NAME: usize = 512;
/// Most files in one message; more are asked for in parts.
pub const MAX_FILES: usize = 1000;
/// Most bytes of a published file in one message.
pub const MAX_PUBLISHED_BYTES: u32 = 1 << 20;

/// Version of a file's bytes in a directory of names.
const KEPT_VERSION: u8 = 1;
/// Longest name of a node: a host of 253 bytes, and a port.
const MAX_NODE: usize = 300;

/// A file that is published, and which version of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedFile {
    /// What it was published as.
    pub name: String,
    /// The member on whose storage it lies; empty for a node alone.
    pub node: String,
    /// Later versions of a name have greater ones, whichever node published them.
    pub generation: u64,
    /// Bytes of it.
    pub size: u64,
    /// Its time of modification, in ns since 1970.
    pub mtime_ns: i64,
    /// Its inode.
    pub inode: u64,
}

/// Says why a name cannot be one.
///
/// # Errors
/// The rule that it breaks, in words.
pub fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("a name is empty");
    }
    if name.len() > MAX_NAME {
        return Err("a name is longer than 512 bytes");
    }
    if name.chars().any(char::is_control) {
        return Err("a name has a control character in it");
    }
    Ok(())
}

impl PublishedFile {
    /// Its bytes, as a directory of names keeps them.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![KEPT_VERSION];
        self.put(&mut out);
        out
    }

    /// Reads what a directory of names has kept.
    ///
    /// # Errors
    /// [`WireError`] if it is none, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let Some((&version, rest)) = bytes.split_first() else {
            return Err(WireError::Malformed("an entry of a name is empty"));
        };
        if version != KEPT_VERSION {
            return Err(WireError::Version {
                found: version.into(),
                known: KEPT_VERSION.into(),
            });
        }
        let mut take = Take(rest);
        let file = Self::take(&mut take)?;
        take.end()?;
        Ok(file)
    }

    /// True if it is a later version of its name than another: alike on all nodes.
    pub fn is_later_than(&self, other: &Self) -> bool {
        (self.generation, &self.node) > (other.generation, &other.node)
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        put_text(out, &self.name);
        put_text(out, &self.node);
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.size.to_le_bytes());
        out.extend_from_slice(&self.mtime_ns.to_le_bytes());
        out.extend_from_slice(&self.inode.to_le_bytes());
    }

    pub(crate) fn take(from: &mut Take<'_>) -> Result<Self, WireError> {
        Ok(Self {
            name: take_name(from)?,
            node: take_node(from)?,
            generation: from.u64()?,
            size: from.u64()?,
            mtime_ns: from.i64()?,
            inode: from.u64()?,
        })
    }
}

/// A part of a version of a published file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedPart {
    /// What it was published as.
    pub name: String,
    /// Which version.
    pub generation: u64,
    /// First byte.
    pub start: u64,
    /// Bytes, at most [`MAX_PUBLISHED_BYTES`].
    pub len: u32,
}

/// What a client asks its daemon about published files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameRequest {
    /// Let all nodes find a file, which is complete, under a name.
    Publish {
        /// The name.
        name: String,
        /// The file, absolute.
        path: String,
        /// Time that the client will wait.
        deadline_ms: u32,
    },
    /// Let nobody find it any more.
    Unpublish {
        /// The name.
        name: String,
        /// Time that the client will wait.
        deadline_ms: u32,
    },
    /// Find the file of a name, waiting until there is one.
    Consume {
        /// The name.
        name: String,
        /// Time that the client will wait.
        deadline_ms: u32,
    },
    /// Read a part of a published file.
    Read {
        /// The member that has it.
        node: String,
        /// What of it.
        part: PublishedPart,
        /// Time that the client will wait.
        deadline_ms: u32,
    },
    /// Which names are there?
    List {
        /// Only those after this one; empty for all.
        after: String,
    },
}

/// What one daemon asks another about published files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NameAsk {
    /// A file is published; who is asked keeps its name for others to find, and answers with the
    /// file that has the name now, and then the one that had it before.
    Announce(PublishedFile),
    /// This version of a name is no more: who has the file lets it go, who knows of it forgets.
    Withdraw {
        /// The name.
        name: String,
        /// The version.
        generation: u64,
    },
    /// Which file has this name?
    Find {
        /// The name.
        name: String,
        /// Where there is none, answer when there is one, within this time; 0 to answer at once.
        wait_ms: u32,
    },
    /// Send a part of a file that you have.
    Read(PublishedPart),
    /// Which names do you keep?
    List {
        /// Only those after this one; empty for all.
        after: String,
    },
}

impl NameRequest {
    /// Kinds of these messages.
    pub(crate) const KINDS: std::ops::RangeInclusive<u8> = 0x08..=0x0C;

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Publish {
                name,
                path,
                deadline_ms,
            } => frame(0x08, |out| {
                put_text(out, name);
                put_text(out, path);
                put_u32(out, *deadline_ms);
            }),
            Self::Unpublish { name, deadline_ms } => frame(0x09, |out| {
                put_text(out, name);
                put_u32(out, *deadline_ms);
            }),
            Self::Consume { name, deadline_ms } => frame(0x0A, |out| {
                put_text(out, name);
                put_u32(out, *deadline_ms);
            }),
            Self::Read {
                node,
                part,
                deadline_ms,
            } => frame(0x0B, |out| {
                put_text(out, node);
                part.put(out);
                put_u32(out, *deadline_ms);
            }),
            Self::List { after } => frame(0x0C, |out| put_text(out, after)),
        }
    }

    pub(crate) fn take(kind: u8, from: &mut Take<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            0x08 => Self::Publish {
                name: take_name(from)?,
                path: from.text()?,
                deadline_ms: from.u32()?,
            },
            0x09 => Self::Unpublish {
                name: take_name(from)?,
                deadline_ms: from.u32()?,
            },
            0x0A => Self::Consume {
                name: take_name(from)?,
                deadline_ms: from.u32()?,
            },
            0x0B => Self::Read {
                node: take_node(from)?,
                part: PublishedPart::take(from)?,
                deadline_ms: from.u32()?,
            },
            0x0C => Self::List {
                after: take_cursor(from)?,
            },
            _ => return Err(WireError::Kind(kind)),
        })
    }
}

impl NameAsk {
    /// Kinds of these messages.
    pub(crate) const KINDS: std::ops::RangeInclusive<u8> = 0x48..=0x4C;

    pub(crate) fn kind(&self) -> u8 {
        match self {
            Self::Announce(_) => 0x48,
            Self::Withdraw { .. } => 0x49,
            Self::Find { .. } => 0x4A,
            Self::Read(_) => 0x4B,
            Self::List { .. } => 0x4C,
        }
    }

    pub(crate) fn put(&self, out: &mut Vec<u8>) {
        match self {
            Self::Announce(file) => file.put(out),
            Self::Withdraw { name, generation } => {
                put_text(out, name);
                out.extend_from_slice(&generation.to_le_bytes());
            }
            Self::Find { name, wait_ms } => {
                put_text(out, name);
                put_u32(out, *wait_ms);
            }
            Self::Read(part) => part.put(out),
            Self::List { after } => put_text(out, after),
        }
    }

    pub(crate) fn take(kind: u8, from: &mut Take<'_>) -> Result<Self, WireError> {
        Ok(match kind {
            0x48 => Self::Announce(PublishedFile::take(from)?),
            0x49 => Self::Withdraw {
                name: take_name(from)?,
                generation: from.u64()?,
            },
            0x4A => Self::Find {
                name: take_name(from)?,
                wait_ms: from.u32()?,
            },
            0x4B => Self::Read(PublishedPart::take(from)?),
            0x4C => Self::List {
                after: take_cursor(from)?,
            },
            _ => return Err(WireError::Kind(kind)),
        })
    }
}

impl PublishedPart {
    fn put(&self, out: &mut Vec<u8>) {
        put_text(out, &self.name);
        out.extend_from_slice(&self.generation.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        put_u32(out, self.len);
    }

    fn take(from: &mut Take<'_>) -> Result<Self, WireError> {
        Ok(Self {
            name: take_name(from)?,
            generation: from.u64()?,
            start: from.u64()?,
            len: from.count("part of a file", MAX_PUBLISHED_BYTES as usize)? as u32,
        })
    }
}

fn put_u32(out: &mut Vec<u8>, value: u32) {
    out.extend_from_slice(&value.to_le_bytes());
}

pub(crate) fn put_files(out: &mut Vec<u8>, files: &[PublishedFile]) {
    put_u32(out, files.len() as u32);
    files.iter().for_each(|file| file.put(out));
}

pub(crate) fn take_files(from: &mut Take<'_>) -> Result<Vec<PublishedFile>, WireError> {
    let count = from.count("list of files", MAX_FILES)?;
    (0..count).map(|_| PublishedFile::take(from)).collect()
}

fn take_name(from: &mut Take<'_>) -> Result<String, WireError> {
    let name = from.text()?;
    check_name(&name).map_err(WireError::Malformed)?;
    Ok(name)
}

/// A name, or nothing.
fn take_cursor(from: &mut Take<'_>) -> Result<String, WireError> {
    let name = from.text()?;
    if !name.is_empty() {
        check_name(&name).map_err(WireError::Malformed)?;
    }
    Ok(name)
}

fn take_node(from: &mut Take<'_>) -> Result<String, WireError> {
    let node = from.text()?;
    if node.len() > MAX_NODE {
        return Err(WireError::TooLong {
            what: "name of a node",
            found: node.len(),
            most: MAX_NODE,
        });
    }
    Ok(node)
}

#[cfg(test)]
pub(crate) mod tests;
