//! Reads parts of published files, of this node and of others.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};

use forebay_dataset::ErrorKind;
use forebay_residency::block_checksum;
use forebay_transport::{Arrivals, Arrived, Outcome};
use forebay_wire::{Ask, NameAsk, PublishedPart};

use super::{MOST_READS, leaving, lock};
use crate::daemon::Node;
use crate::link::Refusal;
use crate::peers::Peers;

/// After so long the client is looked at.
const LOOK: Duration = Duration::from_millis(500);

/// A part on its way from another node.
#[derive(Default)]
struct Arriving(Mutex<Option<Vec<u8>>>);

impl Arrivals for Arriving {
    fn arrived(&self, blocks: Arrived<'_>) -> bool {
        // Bytes that fail their checksum are as good as none: they are asked for again.
        if blocks.checksums == [block_checksum(&blocks.bytes)] {
            *lock(&self.0) = Some(blocks.bytes.to_vec());
        }
        true
    }
}

/// A place among the parts that are on their way, given back on drop.
struct Place<'a>(&'a Node);

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let (reads, given_back) = &self.0.names.reads;
        *lock(reads) -= 1;
        given_back.notify_one();
    }
}

/// Reads a part of a file from the node that has it, waiting until that is in reach.
pub(super) fn read(
    node: &Node,
    member: &str,
    part: PublishedPart,
    deadline: Instant,
    is_gone: &dyn Fn() -> bool,
) -> Result<Vec<u8>, Refusal> {
    let peers = node.peers();
    if peers.is_none_or(|peers| peers.name() == member) {
        return read_here(node, &part);
    }
    let gone = || {
        let message = format!(
            "node `{member}`, which published `{}`, is no member",
            part.name
        );
        Refusal::new(ErrorKind::Unavailable, message)
    };
    let _place = place(node, deadline).ok_or_else(|| late(member, &part))?;
    loop {
        let peers = node.peers().ok_or_else(gone)?;
        let read = match peers.member(member) {
            Some(number) => fetch(&peers, number, &part, deadline),
            // It may come back.
            None if peers.follows() => {
                let left = deadline.saturating_duration_since(Instant::now());
                std::thread::sleep(left.min(LOOK));
                None
            }
            None => return Err(gone()),
        };
        if let Some(read) = read {
            let bytes = read?;
            (node.names.read_bytes).fetch_add(bytes.len() as u64, Ordering::Relaxed);
            return Ok(bytes);
        }
        if node.is_stopping() || is_gone() {
            return Err(leaving());
        }
        if Instant::now() >= deadline {
            return Err(late(member, &part));
        }
    }
}

fn late(member: &str, part: &PublishedPart) -> Refusal {
    let message = format!(
        "cannot read published file `{}`: node `{member}`, which has it, could not be reached in \
         time",
        part.name
    );
    Refusal::new(ErrorKind::Unavailable, message)
}

fn place(node: &Node, deadline: Instant) -> Option<Place<'_>> {
    let (reads, given_back) = &node.names.reads;
    let mut count = lock(reads);
    while *count >= MOST_READS {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return None;
        }
        let waited = given_back.wait_timeout(count, left);
        count = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    *count += 1;
    Some(Place(node))
}

/// Asks for it once. `None` if there was no answer.
fn fetch(
    peers: &Peers,
    member: usize,
    part: &PublishedPart,
    deadline: Instant,
) -> Option<Result<Vec<u8>, Refusal>> {
    let until = deadline.min(Instant::now() + LOOK);
    if !peers.wait_until_up(member, until) {
        return None;
    }
    let (done, ends) = mpsc::channel();
    let arriving = Arc::new(Arriving::default());
    let ask = NameAsk::Read(part.clone());
    let arrivals: Arc<dyn Arrivals> = arriving.clone();
    let _call = peers.call(member, |id| Ask::Name { id, ask }, Some(arrivals), &done)?;
    // A member that says nothing loses its link before long, and the ask ends with it.
    let left = deadline.saturating_duration_since(Instant::now());
    match ends.recv_timeout(left).ok()?.outcome {
        Outcome::Failed { kind, message } => {
            let kind = ErrorKind::ALL.get(usize::from(kind)).copied();
            Some(Err(Refusal::new(
                kind.unwrap_or(ErrorKind::Unavailable),
                message,
            )))
        }
        Outcome::Done { .. } if part.len == 0 => Some(Ok(Vec::new())),
        Outcome::Done { .. } => {
            let bytes = lock(&arriving.0).take();
            bytes
                .filter(|bytes| bytes.len() == part.len as usize)
                .map(Ok)
        }
        Outcome::Published(_) | Outcome::Again | Outcome::Lost => None,
    }
}

/// Reads a part of a file of this node.
pub(super) fn read_here(node: &Node, part: &PublishedPart) -> Result<Vec<u8>, Refusal> {
    let held = lock(&node.names.store).held(&part.name);
    let of_version = held.filter(|held| held.file.generation == part.generation);
    let Some(held) = of_version else {
        let message = format!(
            "published file `{}` was replaced or unpublished since it was found: consume it again",
            part.name
        );
        return Err(Refusal::new(ErrorKind::Stale, message));
    };
    held.read(part.start, part.len)
}
