//! What daemons of one job ask each other, and the answers.
//!
//! A link begins with a [`Preamble`] from each side and a proof that both know the job's secret;
//! the first thing said after it is a [`Hello`]. Then the side that dialled sends [`Ask`]s, many at
//! a time, and the other [`Answer`]s in any order; both carry the number of the ask. The bytes of
//! blocks follow their answer and are no part of its payload, so that they can go from file to
//! socket and from socket to file.

use crate::WireError;
use crate::codec::{Take, put_optional_text, put_text};
use crate::frame::{FrameHeader, HEADER_BYTES, frame_version};
use crate::published::{NameAsk, PublishedFile, put_files, take_files};

/// Version of the protocol between daemons. Both sides must have the same.
pub const PEER_VERSION: u16 = 1;
/// Most runs of blocks in one ask; more are asked for in parts.
pub const MAX_RUNS: usize = 32_768;
/// Most bytes of blocks behind one answer: the largest block.
pub const MAX_BODY: u32 = 16 << 20;
/// Most blocks behind one answer.
pub const MAX_CHECKSUMS: usize = 4096;

const MAGIC: [u8; 6] = *b"FBPEER";

/// The first bytes of a link, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble;

impl Preamble {
    /// Its length.
    pub const BYTES: usize = 8;

    /// The bytes.
    pub fn encode() -> [u8; Self::BYTES] {
        let [m0, m1, m2, m3, m4, m5] = MAGIC;
        let [v0, v1] = PEER_VERSION.to_le_bytes();
        [m0, m1, m2, m3, m4, m5, v0, v1]
    }

    /// Checks what the other side sent.
    ///
    /// # Errors
    /// [`WireError`] if it is no daemon, or one of another version.
    pub fn check(bytes: [u8; Self::BYTES]) -> Result<(), WireError> {
        let [m0, m1, m2, m3, m4, m5, v0, v1] = bytes;
        if [m0, m1, m2, m3, m4, m5] != MAGIC {
            return Err(WireError::Malformed("it does not begin as a daemon's link"));
        }
        let found = u16::from_le_bytes([v0, v1]);
        if found != PEER_VERSION {
            return Err(WireError::Version {
                found,
                known: PEER_VERSION,
            });
        }
        Ok(())
    }
}

/// Who dials whom, each way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hello {
    /// Name of the member that speaks.
    pub from: String,
    /// Name of the member that it takes the other for.
    pub to: String,
    /// What the list of members hashes to: with another list, each could wait for the other to be
    /// the owner.
    pub members: u64,
}

impl Hello {
    /// Most bytes of one.
    pub const MAX_BYTES: usize = 2048;

    /// Its bytes. A name that is too long for [`Self::MAX_BYTES`] is cut, and so refused.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.extend_from_slice(&self.members.to_le_bytes());
        put_text(&mut out, &self.from);
        put_text(&mut out, &self.to);
        out.truncate(Self::MAX_BYTES);
        out
    }

    /// Reads one.
    ///
    /// # Errors
    /// [`WireError`] if it is none.
    pub fn decode(bytes: &[u8]) -> Result<Self, WireError> {
        let mut take = Take(bytes);
        let members = take.u64()?;
        let (from, to) = (take.text()?, take.text()?);
        take.end()?;
        Ok(Self { from, to, members })
    }
}

/// Consecutive blocks of a shard that lie in one origin file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRun {
    /// Shard in the index.
    pub shard: u32,
    /// First block.
    pub first: u64,
    /// Blocks, not 0.
    pub count: u32,
    /// Length of the origin file, as the asker's index has it.
    pub file_size: u64,
    /// Its time of modification, in ns since 1970.
    pub file_mtime_ns: i64,
    /// Its inode.
    pub file_inode: u64,
}

impl BlockRun {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.shard.to_le_bytes());
        out.extend_from_slice(&self.first.to_le_bytes());
        out.extend_from_slice(&self.count.to_le_bytes());
        out.extend_from_slice(&self.file_size.to_le_bytes());
        out.extend_from_slice(&self.file_mtime_ns.to_le_bytes());
        out.extend_from_slice(&self.file_inode.to_le_bytes());
    }

    fn take(from: &mut Take<'_>) -> Result<Self, WireError> {
        let run = Self {
            shard: from.u32()?,
            first: from.u64()?,
            count: from.u32()?,
            file_size: from.u64()?,
            file_mtime_ns: from.i64()?,
            file_inode: from.u64()?,
        };
        if run.count == 0 || run.first.checked_add(run.count.into()).is_none() {
            return Err(WireError::Malformed("a run is empty or overflows"));
        }
        Ok(run)
    }
}

/// From the side that dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Take a data set into use.
    Open {
        /// Number of the ask.
        id: u64,
        /// Generation of the index.
        generation: u128,
        /// Index file, absolute.
        index: String,
        /// Folder of the origin files, if not the recorded one.
        root: Option<String>,
    },
    /// Make blocks resident and send them.
    Fetch {
        /// Number of the ask.
        id: u64,
        /// Generation of the index.
        generation: u128,
        /// Time that the asker will wait.
        deadline_ms: u32,
        /// At most [`MAX_RUNS`].
        runs: Vec<BlockRun>,
    },
    /// Are you there?
    Ping {
        /// Number of the ask.
        id: u64,
    },
    /// About published files.
    Name {
        /// Number of the ask.
        id: u64,
        /// What.
        ask: NameAsk,
    },
}

/// From the side that was dialled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The data set is in use.
    Opened {
        /// Number of the ask.
        id: u64,
    },
    /// Consecutive blocks; their bytes follow the frame.
    Blocks {
        /// Number of the ask.
        id: u64,
        /// Shard in the index.
        shard: u32,
        /// First block.
        first: u64,
        /// Bytes that follow, at most [`MAX_BODY`].
        body_len: u32,
        /// CRC32C of each block, at least one and at most [`MAX_CHECKSUMS`].
        checksums: Vec<u32>,
    },
    /// Nothing more comes.
    Ended {
        /// Number of the ask.
        id: u64,
        /// False if some blocks were left out for want of room.
        complete: bool,
    },
    /// I am here.
    Pong {
        /// Number of the ask.
        id: u64,
    },
    /// Published files.
    Published {
        /// Number of the ask.
        id: u64,
        /// At most [`MAX_FILES`](crate::MAX_FILES).
        files: Vec<PublishedFile>,
    },
    /// It went wrong; nothing more comes.
    Failed {
        /// Number of the ask.
        id: u64,
        /// Position in `ErrorKind::ALL`.
        kind: u8,
        /// What happened to which thing.
        message: String,
    },
}

/// Checks a header that arrived from another daemon.
///
/// # Errors
/// [`WireError`] if it is of another version or over a limit.
pub fn peer_header(bytes: [u8; HEADER_BYTES]) -> Result<FrameHeader, WireError> {
    FrameHeader::decode_version(bytes, PEER_VERSION)
}

fn peer_frame(kind: u8, id: u64, payload: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame_version(PEER_VERSION, kind, |out| {
        out.extend_from_slice(&id.to_le_bytes());
        payload(out);
    })
}

impl Ask {
    /// The whole frame.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Open {
                id,
                generation,
                index,
                root,
            } => peer_frame(0x41, *id, |out| {
                out.extend_from_slice(&generation.to_le_bytes());
                put_text(out, index);
                put_optional_text(out, root.as_deref());
            }),
            Self::Fetch {
                id,
                generation,
                deadline_ms,
                runs,
            } => peer_frame(0x42, *id, |out| {
                out.extend_from_slice(&generation.to_le_bytes());
                out.extend_from_slice(&deadline_ms.to_le_bytes());
                out.extend_from_slice(&(runs.len() as u32).to_le_bytes());
                runs.iter().for_each(|run| run.put(out));
            }),
            Self::Ping { id } => peer_frame(0x43, *id, |_| {}),
            Self::Name { id, ask } => peer_frame(ask.kind(), *id, |out| ask.put(out)),
        }
    }

    /// Reads a payload of this kind.
    ///
    /// # Errors
    /// [`WireError`] if it is not one whole message.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        let is_of_names = NameAsk::KINDS.contains(&kind);
        if !is_of_names && !(0x41..=0x43).contains(&kind) {
            return Err(WireError::Kind(kind));
        }
        let mut from = Take(payload);
        let id = from.u64()?;
        let ask = match kind {
            0x41 => Self::Open {
                id,
                generation: from.u128()?,
                index: from.text()?,
                root: from.optional_text()?,
            },
            0x42 => {
                let (generation, deadline_ms) = (from.u128()?, from.u32()?);
                let count = from.count("list of runs", MAX_RUNS)?;
                let runs = (0..count)
                    .map(|_| BlockRun::take(&mut from))
                    .collect::<Result<_, _>>()?;
                Self::Fetch {
                    id,
                    generation,
                    deadline_ms,
                    runs,
                }
            }
            0x43 => Self::Ping { id },
            _ => Self::Name {
                id,
                ask: NameAsk::take(kind, &mut from)?,
            },
        };
        from.end()?;
        Ok(ask)
    }
}

impl Answer {
    /// Number of the ask.
    pub fn id(&self) -> u64 {
        match self {
            Self::Opened { id }
            | Self::Blocks { id, .. }
            | Self::Ended { id, .. }
            | Self::Pong { id }
            | Self::Published { id, .. }
            | Self::Failed { id, .. } => *id,
        }
    }

    /// The whole frame, without the bytes that follow it.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Opened { id } => peer_frame(0xC1, *id, |_| {}),
            Self::Blocks {
                id,
                shard,
                first,
                body_len,
                checksums,
            } => peer_frame(0xC2, *id, |out| {
                out.extend_from_slice(&shard.to_le_bytes());
                out.extend_from_slice(&first.to_le_bytes());
                out.extend_from_slice(&body_len.to_le_bytes());
                out.extend_from_slice(&(checksums.len() as u32).to_le_bytes());
                (checksums.iter()).for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
            }),
            Self::Ended { id, complete } => {
                peer_frame(0xC3, *id, |out| out.push(u8::from(*complete)))
            }
            Self::Pong { id } => peer_frame(0xC4, *id, |_| {}),
            Self::Published { id, files } => peer_frame(0xC8, *id, |out| put_files(out, files)),
            Self::Failed { id, kind, message } => peer_frame(0xCF, *id, |out| {
                out.push(*kind);
                put_text(out, message);
            }),
        }
    }

    /// Reads a payload of this kind.
    ///
    /// # Errors
    /// [`WireError`] if it is not one whole message.
    pub fn decode(kind: u8, payload: &[u8]) -> Result<Self, WireError> {
        if !matches!(kind, 0xC1..=0xC4 | 0xC8 | 0xCF) {
            return Err(WireError::Kind(kind));
        }
        let mut from = Take(payload);
        let id = from.u64()?;
        let answer = match kind {
            0xC1 => Self::Opened { id },
            0xC2 => Self::take_blocks(id, &mut from)?,
            0xC3 => Self::Ended {
                id,
                complete: from.flag()?,
            },
            0xC4 => Self::Pong { id },
            0xC8 => Self::Published {
                id,
                files: take_files(&mut from)?,
            },
            _ => Self::Failed {
                id,
                kind: from.u8()?,
                message: from.text()?,
            },
        };
        from.end()?;
        Ok(answer)
    }

    fn take_blocks(id: u64, from: &mut Take<'_>) -> Result<Self, WireError> {
        let (shard, first) = (from.u32()?, from.u64()?);
        let body_len = from.u32()?;
        if body_len > MAX_BODY {
            return Err(WireError::TooLong {
                what: "body",
                found: body_len as usize,
                most: MAX_BODY as usize,
            });
        }
        let count = from.count("list of checksums", MAX_CHECKSUMS)?;
        if count == 0 || body_len == 0 || first.checked_add(count as u64).is_none() {
            return Err(WireError::Malformed("blocks are none or overflow"));
        }
        let checksums = (0..count).map(|_| from.u32()).collect::<Result<_, _>>()?;
        Ok(Self::Blocks {
            id,
            shard,
            first,
            body_len,
            checksums,
        })
    }
}

#[cfg(test)]
mod tests;
