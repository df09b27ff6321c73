//! What happens in a cluster, and to whom.

use std::sync::mpsc;
use std::time::Instant;

use forebay_cache::Job;
use forebay_transport::Ended;

use crate::peers::Wanted;

/// What happens next.
pub(super) enum Event {
    /// `from` dials `to`.
    Dial { from: usize, to: usize },
    /// The dial came to an end.
    Dialled { from: usize, to: usize },
    /// An ask arrives at `to`.
    Ask {
        from: usize,
        to: usize,
        link: u64,
        frame: Vec<u8>,
    },
    /// An answer of `from` arrives at `to`, which had asked.
    Answer {
        from: usize,
        to: usize,
        link: u64,
        frame: Vec<u8>,
        body: Vec<u8>,
    },
    /// A sign of life of `from` arrives at `to`.
    Pong { from: usize, to: usize, link: u64 },
    /// `from` looks at its link to `to`.
    Look { from: usize, to: usize, link: u64 },
    /// The other end of the link is gone.
    Gone { from: usize, to: usize, link: u64 },
    /// The origin has given what a member asked `node` for.
    Fill {
        node: usize,
        run: u64,
        to: usize,
        link: u64,
        id: u64,
        wanted: Box<Wanted>,
        until: Instant,
    },
    /// A read that was begun once more has ended.
    Hedge {
        node: usize,
        run: u64,
        jobs: Vec<Job>,
        ask: u64,
        done: mpsc::Sender<Ended>,
    },
    /// A client of the node asks for something.
    Begin { node: usize },
    /// The node looks which others are there.
    Roll { node: usize },
    /// A client's request is looked at.
    Wake { node: usize },
    /// The origin has given what a client's request lacked.
    Stage { node: usize, run: u64, op: u64 },
    /// Something fails, or comes back.
    Fault(super::faults::Fault),
}

impl Event {
    /// Requests that begin with it.
    pub(super) fn begins(&self) -> u64 {
        u64::from(matches!(self, Self::Begin { .. }))
    }

    /// The run of a daemon that had begun something.
    pub(super) fn run(&self) -> Option<u64> {
        match self {
            Self::Fill { run, .. } | Self::Hedge { run, .. } | Self::Stage { run, .. } => {
                Some(*run)
            }
            _ => None,
        }
    }

    /// The node that something happens to.
    pub(super) fn subject(&self) -> usize {
        match self {
            Self::Dial { from, .. }
            | Self::Dialled { from, .. }
            | Self::Look { from, .. }
            | Self::Gone { from, .. } => *from,
            Self::Ask { to, .. } | Self::Answer { to, .. } | Self::Pong { to, .. } => *to,
            Self::Fill { node, .. }
            | Self::Hedge { node, .. }
            | Self::Begin { node }
            | Self::Roll { node }
            | Self::Wake { node, .. }
            | Self::Stage { node, .. } => *node,
            Self::Fault(_) => 0,
        }
    }
}
