//! What a client asks its node's daemon, and the answers.

use crate::WireError;
use crate::codec::{Take, put_optional_text, put_text};
use crate::frame::frame;
use crate::published::{NameRequest, PublishedFile, put_files, take_files};

/// Most ranges in one request; a larger one is sent in parts.
pub const MAX_RANGES: usize = 100_000;
/// Most bytes that a [`Reply::Staged`] hands over.
pub const MAX_HANDED: u32 = 1 << 20;
/// Most parts that they lie in.
pub const MAX_HANDED_PARTS: usize = 512;

/// Where bytes that are handed over lie in the memory of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HandedRange {
    /// First byte.
    pub start: u32,
    /// Bytes, not 0.
    pub len: u32,
}

/// A range of a shard to be made resident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StageRange {
    /// Shard in the index.
    pub shard: u32,
    /// First byte.
    pub start: u64,
    /// Bytes, not 0.
    pub len: u64,
}

/// From client to daemon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Take a data set into use.
    Open {
        /// Index file, absolute.
        index: String,
        /// Folder of the origin files, if not the recorded one.
        root: Option<String>,
        /// Generation that the client has open.
        generation: u128,
    },
    /// Make ranges resident.
    Stage {
        /// From [`Reply::Opened`].
        dataset: u32,
        /// Time that the client will wait.
        deadline_ms: u32,
        /// The client takes bytes too, in the memory of this connection.
        takes_bytes: bool,
        /// At most [`MAX_RANGES`].
        ranges: Vec<StageRange>,
    },
    /// The device did not give back what the map promised.
    Distrust {
        /// From [`Reply::Opened`].
        dataset: u32,
        /// What could not be read.
        range: StageRange,
    },
    /// How are things?
    Status,
    /// Stop cleanly.
    Stop,
    /// Stage along this order from now on, in place of what this connection said before for the
    /// same data set and rank. Ends with the connection.
    Follow {
        /// From [`Reply::Opened`].
        dataset: u32,
        /// Plan file of the epoch that begins.
        plan: String,
        /// Plan file of the epoch after it, where it is known.
        next: Option<String>,
    },
    /// Are you there?
    Ping,
    /// Give this connection memory in which bytes are handed over.
    Memory,
    /// About published files.
    Names(NameRequest),
}

/// From daemon to client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The data set is in use under this number, on this connection.
    Opened {
        /// Number for later requests.
        dataset: u32,
    },
    /// The ranges were made resident.
    Staged {
        /// False if some were left out for want of room: read them through.
        complete: bool,
        /// Bytes that came from other nodes for it.
        peer_bytes: u64,
        /// Where the bytes of the ranges lie, one after the other, until the client's next request;
        /// they are on their way to the block files. Empty where they are to be read from there.
        handed: Vec<HandedRange>,
    },
    /// The memory of this connection, whose descriptor comes with this frame.
    Memory {
        /// Its bytes.
        len: u64,
    },
    /// Done.
    Done,
    /// JSON text.
    Status(String),
    /// What is published: the one asked for, or a part of the list, in order.
    Published {
        /// At most [`MAX_FILES`](crate::MAX_FILES).
        files: Vec<PublishedFile>,
        /// Where the one asked for lies on this node, if it does.
        path: Option<String>,
    },
    /// Bytes of a published file.
    Bytes(Vec<u8>),
    /// It went wrong.
    Failed {
        /// Position in `ErrorKind::ALL`.
        kind: u8,
        /// What happened to which thing.
        message: String,
    },
}

impl StageRange {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.start.to_le_bytes());
        out.extend_from_slice(&self.len.to_le_bytes());
    }

    fn take(from: &mut Take<'_>) -> Result<Self, WireError> {
        let range = Self {
            shard: from.u32()?,
            start: from.u64()?,
            len: from.u64()?,
        };
        if range.len == 0 || range.start.checked_add(range.len).is_none() {
            return Err(WireError::Malformed("a range is empty or overflows"));
        }
        Ok(range)
    }
}

fn put_handed(out: &mut Vec<u8>, handed: &[HandedRange]) {
    out.extend_from_slice(&(handed.len() as u32).to_le_bytes());
    for range in handed {
        out.extend_from_slice(&range.start.to_le_bytes());
        out.extend_from_slice(&range.len.to_le_bytes());
    }
}

fn take_handed(from: &mut Take<'_>) -> Result<Vec<HandedRange>, WireError> {
    let count = from.count("list of bytes handed over", MAX_HANDED_PARTS)?;
    let mut handed = Vec::with_capacity(count);
    let mut all: u64 = 0;
    for _ in 0..count {
        let range = HandedRange {
            start: from.u32()?,
            len: from.u32()?,
        };
        all += u64::from(range.len);
        if range.len == 0 || all > MAX_HANDED.into() {
            return Err(WireError::Malformed(
                "a range that is handed over is empty or too long",
            ));
        }
        handed.push(range);
    }
    Ok(handed)
}

impl Request {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Open {
                index,
                root,
                generation,
            } => frame(0x01, |out| {
                put_text(out, index);
                put_optional_text(out, root.as_deref());
                out.extend_from_slice(&generation.to_le_bytes());
            }),
            Self::Stage {
                dataset,
                deadline_ms,
                takes_bytes,
                ranges,
            } => frame(0x02, |out| {
                out.extend_from_slice(&dataset.to_le_bytes());
                out.extend_from_slice(&deadline_ms.to_le_bytes());
                out.push(u8::from(*takes_bytes));
                out.extend_from_slice(&(ranges.len() as u32).to_le_bytes());
                ranges.iter().for_each(|range| range.put(out));
            }),
            Self::Distrust { dataset, range } => frame(0x03, |out| {
                out.extend_from_slice(&dataset.to_le_bytes());
                range.put(out);
            }),
            Self::Status => frame(0x04, |_| {}),
            Self::Stop => frame(0x05, |_| {}),
            Self::Follow {
                dataset,
                plan,
                next,
            } => frame(0x06, |out| {
                out.extend_from_slice(&dataset.to_le_bytes());
                put_text(out, plan);
                put_optional_text(out, next.as_deref());
            }),
            Self::Ping => frame(0x07, |_| {}),
            Self::Memory => frame(0x10, |_| {}),
            Self::Names(request) => request.encode(),
        }
    }

    /// Reads a payload of this kind.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let mut from = Take(payload);
        let request = match kind {
            0x01 => {
                let index = from.text()?;
                let root = from.optional_text()?;
                Self::Open {
                    index,
                    root,
                    generation: from.u128()?,
                }
            }
            0x02 => {
                let (dataset, deadline_ms) = (from.u32()?, from.u32()?);
                let takes_bytes = from.flag()?;
                let count = from.count("list of ranges", MAX_RANGES)?;
                let ranges = (0..count)
                    .map(|_| StageRange::take(&mut from))
                    .collect::<Result<_, _>>()?;
                Self::Stage {
                    dataset,
                    deadline_ms,
                    takes_bytes,
                    ranges,
                }
            }
            0x03 => Self::Distrust {
                dataset: from.u32()?,
                range: StageRange::take(&mut from)?,
            },
            0x04 => Self::Status,
            0x05 => Self::Stop,
            0x06 => {
                let (dataset, plan) = (from.u32()?, from.text()?);
                let next = from.optional_text()?;
                Self::Follow {
                    dataset,
                    plan,
                    next,
                }
            }
            0x07 => Self::Ping,
            0x10 => Self::Memory,
            _ if NameRequest::KINDS.contains(&kind) => {
                Self::Names(NameRequest::take(kind, &mut from)?)
            }
            _ => return Err(WireError::Kind(kind)),
        };
        from.end()?;
        Ok(request)
    }
}

impl Reply {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Opened { dataset } => {
                frame(0x81, |out| out.extend_from_slice(&dataset.to_le_bytes()))
            }
            Self::Staged {
                complete,
                peer_bytes,
                handed,
            } => frame(0x82, |out| {
                out.push(u8::from(*complete));
                out.extend_from_slice(&peer_bytes.to_le_bytes());
                put_handed(out, handed);
            }),
            Self::Memory { len } => frame(0x87, |out| out.extend_from_slice(&len.to_le_bytes())),
            Self::Done => frame(0x83, |_| {}),
            Self::Status(json) => frame(0x84, |out| out.extend_from_slice(json.as_bytes())),
            Self::Published { files, path } => frame(0x85, |out| {
                put_files(out, files);
                put_optional_text(out, path.as_deref());
            }),
            Self::Bytes(bytes) => frame(0x86, |out| out.extend_from_slice(bytes)),
            Self::Failed { kind, message } => frame(0xFF, |out| {
                out.push(*kind);
                put_text(out, message);
            }),
        }
    }

    /// Reads a payload of this kind.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let mut from = Take(payload);
        let reply = match kind {
            0x81 => Self::Opened {
                dataset: from.u32()?,
            },
            0x82 => Self::Staged {
                complete: from.flag()?,
                peer_bytes: from.u64()?,
                handed: take_handed(&mut from)?,
            },
            0x83 => Self::Done,
            0x84 => Self::Status(from.rest_as_text()?),
            0x85 => Self::Published {
                files: take_files(&mut from)?,
                path: from.optional_text()?,
            },
            0x86 => Self::Bytes(from.rest().to_vec()),
            0x87 => Self::Memory { len: from.u64()? },
            0xFF => Self::Failed {
                kind: from.u8()?,
                message: from.text()?,
            },
            _ => return Err(WireError::Kind(kind)),
        };
        from.end()?;
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
