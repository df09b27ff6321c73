//! What a caller is told, and what it tells.

use std::sync::Arc;
use std::time::Duration;

use forebay_wire::{Hello, PublishedFile};

use super::{Bytes, Landing};
use crate::{Fabric, Secret, SocketPlan};

/// Whom to call, and how.
#[derive(Clone, Debug)]
pub struct CallerPlan {
    /// `HOST:PORT` of the peer, looked up at each dial.
    pub address: String,
    /// This member, and the one that the peer should be.
    pub hello: Hello,
    /// The job's secret.
    pub secret: Secret,
    /// How sockets are set.
    pub socket: SocketPlan,
    /// A peer that says nothing for so long while something is asked of it is given up.
    pub silence: Duration,
    /// What reads the memory of peers that have such a fabric too.
    pub fabric: Option<Arc<Fabric>>,
}

/// Blocks that have arrived.
#[derive(Debug)]
pub struct Arrived<'a> {
    /// Shard in the index.
    pub shard: u32,
    /// First block.
    pub first: u64,
    /// CRC32C of each block.
    pub checksums: &'a [u32],
    /// Their bytes; not compared with the checksums.
    pub bytes: Bytes<'a>,
}

/// Takes the blocks of one ask, on the link's own thread.
pub trait Arrivals: Send + Sync {
    /// Takes blocks. False if they were not asked for, which ends the link.
    fn arrived(&self, blocks: Arrived<'_>) -> bool;

    /// Memory in which so many bytes of blocks are to land, if it is not the link's own. What does
    /// not arrive whole is given back by a drop.
    fn landing(&self, _len: usize) -> Option<Box<dyn Landing>> {
        None
    }
}

/// How an ask ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Everything that the peer has to say was said; `complete` if it gave all that was asked for.
    Done {
        /// False if blocks were left out.
        complete: bool,
    },
    /// What the peer knows of published files.
    Published(Vec<PublishedFile>),
    /// The peer refused: position in `ErrorKind::ALL`, and why.
    Failed {
        /// Position in `ErrorKind::ALL`.
        kind: u8,
        /// What happened to which thing.
        message: String,
    },
    /// What was lent could not be read over the fabric. Asked once more, the peer sends it over the
    /// link.
    Again,
    /// The link is no more.
    Lost,
}

/// An ask that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// What [`Call::id`](crate::Call::id) said.
    pub id: u64,
    /// How.
    pub outcome: Outcome,
}

/// How it stands with a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LinkState {
    /// It was not reached yet, nor found out of reach.
    Connecting,
    /// Asks go through.
    Up,
    /// It is left alone for a while.
    Down {
        /// Why.
        reason: String,
    },
}
