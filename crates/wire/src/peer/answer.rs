//! What the side answers that was dialled.

use super::{FabricMemory, MAX_BODY, MAX_CHECKSUMS, MAX_LENT, peer_frame};
use crate::WireError;
use crate::codec::{Take, put_text};
use crate::published::{PublishedFile, put_files, take_files};

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
    /// Consecutive blocks, lent until they are given back.
    Lent {
        /// Number of the ask.
        id: u64,
        /// Number of the loan.
        loan: u64,
        /// Where their bytes begin in the [`FabricMemory`] of this side.
        offset: u64,
        /// Shard in the index.
        shard: u32,
        /// First block.
        first: u64,
        /// Bytes, at most [`MAX_LENT`].
        body_len: u32,
        /// CRC32C of each block, at least one and at most [`MAX_CHECKSUMS`].
        checksums: Vec<u32>,
    },
    /// Where memory of this side can be read over the fabric.
    Fabric {
        /// Number of the ask.
        id: u64,
        /// Where.
        memory: FabricMemory,
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

impl Answer {
    /// Number of the ask.
    pub fn id(&self) -> u64 {
        match self {
            Self::Opened { id }
            | Self::Blocks { id, .. }
            | Self::Lent { id, .. }
            | Self::Fabric { id, .. }
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
                put_blocks(out, *shard, *first, *body_len, checksums);
            }),
            Self::Lent {
                id,
                loan,
                offset,
                shard,
                first,
                body_len,
                checksums,
            } => peer_frame(0xC6, *id, |out| {
                out.extend_from_slice(&loan.to_le_bytes());
                out.extend_from_slice(&offset.to_le_bytes());
                put_blocks(out, *shard, *first, *body_len, checksums);
            }),
            Self::Fabric { id, memory } => peer_frame(0xC5, *id, |out| memory.put(out)),
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
        if !matches!(kind, 0xC1..=0xC6 | 0xC8 | 0xCF) {
            return Err(WireError::Kind(kind));
        }
        let mut from = Take(payload);
        let id = from.u64()?;
        let answer = match kind {
            0xC1 => Self::Opened { id },
            0xC2 => {
                let (shard, first, body_len, checksums) = take_blocks(&mut from, MAX_BODY)?;
                Self::Blocks {
                    id,
                    shard,
                    first,
                    body_len,
                    checksums,
                }
            }
            0xC3 => Self::Ended {
                id,
                complete: from.flag()?,
            },
            0xC4 => Self::Pong { id },
            0xC5 => Self::Fabric {
                id,
                memory: FabricMemory::take(&mut from)?,
            },
            0xC6 => Self::take_lent(id, &mut from)?,
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

    fn take_lent(id: u64, from: &mut Take<'_>) -> Result<Self, WireError> {
        let (loan, offset) = (from.u64()?, from.u64()?);
        let (shard, first, body_len, checksums) = take_blocks(from, MAX_LENT)?;
        if offset.checked_add(body_len.into()).is_none() {
            return Err(WireError::Malformed("what is lent overflows"));
        }
        Ok(Self::Lent {
            id,
            loan,
            offset,
            shard,
            first,
            body_len,
            checksums,
        })
    }
}

fn put_blocks(out: &mut Vec<u8>, shard: u32, first: u64, body_len: u32, checksums: &[u32]) {
    out.extend_from_slice(&shard.to_le_bytes());
    out.extend_from_slice(&first.to_le_bytes());
    out.extend_from_slice(&body_len.to_le_bytes());
    out.extend_from_slice(&(checksums.len() as u32).to_le_bytes());
    (checksums.iter()).for_each(|sum| out.extend_from_slice(&sum.to_le_bytes()));
}

/// Shard, first block, bytes (at most `most`) and checksums.
fn take_blocks(from: &mut Take<'_>, most: u32) -> Result<(u32, u64, u32, Vec<u32>), WireError> {
    let (shard, first) = (from.u32()?, from.u64()?);
    let body_len = from.u32()?;
    if body_len > most {
        return Err(WireError::TooLong {
            what: "body",
            found: body_len as usize,
            most: most as usize,
        });
    }
    let count = from.count("list of checksums", MAX_CHECKSUMS)?;
    if count == 0 || body_len == 0 || first.checked_add(count as u64).is_none() {
        return Err(WireError::Malformed("blocks are none or overflow"));
    }
    let checksums = (0..count).map(|_| from.u32()).collect::<Result<_, _>>()?;
    Ok((shard, first, body_len, checksums))
}
