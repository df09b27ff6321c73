//! What daemons of one job ask each other, and the answers.
//!
//! A link begins with a [`Preamble`] from each side and a proof that both know the job's secret;
//! the first thing said after it is a [`Hello`]. Then the side that dialled sends [`Ask`]s, many at
//! a time, and the other [`Answer`]s in any order; both carry the number of the ask. The bytes of
//! blocks follow their answer and are no part of its payload, so that they can go from file to
//! socket and from socket to file.
//!
//! Where both sides have a fabric that reads the other's memory ([`Ask::Fabric`]), the side that was
//! dialled may lend blocks ([`Answer::Lent`]) instead: it holds their bytes in memory of which it
//! has told the place ([`FabricMemory`]) until the other gives them back ([`Ask::Return`]).

mod answer;
mod ask;
mod memory;

use crate::WireError;
use crate::codec::{Take, put_text};
use crate::frame::{FrameHeader, HEADER_BYTES, frame_version};

pub use answer::Answer;
pub use ask::Ask;
pub use memory::{FabricMemory, MAX_FABRIC_ADDRESS};

/// Version of the protocol between daemons. Both sides must have the same.
pub const PEER_VERSION: u16 = 2;
/// Most runs of blocks in one ask; more are asked for in parts.
pub const MAX_RUNS: usize = 32_768;
/// Most bytes of blocks behind one answer: the largest block.
pub const MAX_BODY: u32 = 16 << 20;
/// Most bytes of blocks that are lent by one answer.
pub const MAX_LENT: u32 = 1 << 20;
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

#[cfg(test)]
mod tests;
