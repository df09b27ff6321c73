//! Answers members about published files.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use forebay_residency::block_checksum;
use forebay_transport::{Ended, LinkWriter, Outcome};
use forebay_wire::{Answer, NameAsk, PublishedFile, PublishedPart};

use super::{Waiter, lock, publish, read};
use crate::daemon::Node;
use crate::peers::answer_later;

/// Longest time for which a member is kept waiting; it asks again.
const LONGEST: Duration = Duration::from_secs(5);

/// Answers one ask, now or later.
pub(crate) fn answer(
    node: &Arc<Node>,
    writer: &Arc<LinkWriter>,
    id: u64,
    ask: NameAsk,
) -> io::Result<()> {
    match ask {
        NameAsk::Announce(file) => match publish::keep(node, file) {
            Ok(files) => writer.send(&Answer::Published { id, files }.encode()),
            Err(refusal) => writer.send(&refusal.into_answer(id).encode()),
        },
        NameAsk::Withdraw { name, generation } => {
            let was_held = publish::let_go(node, &name, generation);
            let complete = lock(&node.names.table).withdraw(&name, generation) || was_held;
            writer.send(&Answer::Ended { id, complete }.encode())
        }
        NameAsk::Find { name, wait_ms } => {
            let wait = Duration::from_millis(wait_ms.into()).min(LONGEST);
            match find(node, writer, id, &name, wait) {
                Some(files) => writer.send(&Answer::Published { id, files }.encode()),
                None => Ok(()),
            }
        }
        NameAsk::Read(part) => {
            let (reader, answering) = (node.clone(), writer.clone());
            answer_later(node, writer, id, move || {
                send(&reader, &answering, id, &part)
            })
        }
        NameAsk::List { after } => {
            let files = lock(&node.names.table).list(&after);
            writer.send(&Answer::Published { id, files }.encode())
        }
    }
}

/// What has the name; `None` if the answer comes later.
fn find(
    node: &Node,
    writer: &Arc<LinkWriter>,
    id: u64,
    name: &str,
    wait: Duration,
) -> Option<Vec<PublishedFile>> {
    if let Some(held) = lock(&node.names.store).held(name) {
        return Some(vec![held.file]);
    }
    let mut table = lock(&node.names.table);
    if let Some(file) = table.find(name) {
        return Some(vec![file.clone()]);
    }
    let now = Instant::now();
    let waiter = Waiter::Member(Arc::downgrade(writer), id);
    // One too many is told that there is nothing, and asks again.
    let waits = !wait.is_zero() && table.wait(name, now, now + wait, waiter);
    if waits { None } else { Some(Vec::new()) }
}

fn send(node: &Node, writer: &LinkWriter, id: u64, part: &PublishedPart) -> io::Result<()> {
    let bytes = match read::read_here(node, part) {
        Ok(bytes) => bytes,
        Err(refusal) => return writer.send(&refusal.into_answer(id).encode()),
    };
    let mut frames = Vec::with_capacity(bytes.len() + 128);
    if !bytes.is_empty() {
        let blocks = Answer::Blocks {
            id,
            shard: 0,
            first: 0,
            body_len: part.len,
            checksums: vec![block_checksum(&bytes)],
        };
        frames.extend(blocks.encode());
        frames.extend_from_slice(&bytes);
    }
    frames.extend(Answer::Ended { id, complete: true }.encode());
    writer.send(&frames)?;
    (node.names.sent_bytes).fetch_add(bytes.len() as u64, Ordering::Relaxed);
    Ok(())
}

/// Wakes the clients and members that wait for a file.
pub(super) fn wake(node: &Node, woken: Vec<Waiter>, file: &PublishedFile) {
    let mut members = Vec::new();
    for waiter in woken {
        match waiter {
            Waiter::Client(done) => {
                let outcome = Outcome::Published(vec![file.clone()]);
                // It may have found it elsewhere.
                let _ = done.send(Ended { id: 0, outcome });
            }
            Waiter::Member(writer, id) => members.extend(writer.upgrade().map(|to| (to, id))),
        }
    }
    if members.is_empty() {
        return;
    }
    let file = file.clone();
    // On another thread: a member that does not take its answer must not hold up the others'. One
    // that is not told asks again.
    node.serving.submit(move || {
        for (writer, id) in members {
            let files = vec![file.clone()];
            let _ = writer.send(&Answer::Published { id, files }.encode());
        }
    });
}
