//! What nodes say to each other.

use std::cell::RefCell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use forebay_dataset::ErrorKind;
use forebay_transport::{Arrived, Outcome as AskOutcome};
use forebay_wire::{Answer, Ask, FrameHeader, HEADER_BYTES, peer_header};

use super::cluster::Cluster;
use super::event::Event;
use super::net::lock;
use super::node::name;
use super::requests::origin_time;
use crate::peers::{AnswerTo, Wanted};

/// After so long what another reads on the same node is looked at again.
pub(super) const AGAIN: Duration = Duration::from_millis(5);

/// Keeps what is answered.
#[derive(Default)]
pub(super) struct Frames(RefCell<Vec<(Vec<u8>, Vec<u8>)>>);

impl AnswerTo for Frames {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        self.0.borrow_mut().push((frame.to_vec(), Vec::new()));
        Ok(())
    }

    fn send_file(&self, frame: &[u8], file: &File, offset: u64, len: u64) -> io::Result<()> {
        let mut body = vec![0; len as usize];
        file.read_exact_at(&mut body, offset)?;
        self.0.borrow_mut().push((frame.to_vec(), body));
        Ok(())
    }
}

/// The kind and payload of a frame.
fn split(frame: &[u8]) -> (u8, &[u8]) {
    let (header, payload) = frame.split_at(HEADER_BYTES);
    let header: FrameHeader = peer_header(header.try_into().unwrap()).unwrap();
    assert_eq!(header.payload_len, payload.len());
    (header.kind, payload)
}

impl Cluster {
    pub(super) fn dial(&mut self, from: usize, to: usize) {
        // Another daemon of this node may have dialled before its predecessor's turn came.
        let node = self.nodes.get(to);
        let is_there = node.is_some_and(|node| !node.frozen);
        let mut net = lock(&self.net);
        if net.up(from, to).is_none() {
            let answers = is_there && !net.is_cut(from, to);
            net.dial(from, to, answers);
        }
    }

    pub(super) fn dialled(&mut self, from: usize, to: usize) {
        if lock(&self.net).up(from, to).is_some() {
            return;
        }
        let hello = self.daemon(from).roster.now().hello(&name(to));
        let other = self.nodes.get(to).filter(|node| !node.frozen);
        let other = other.and_then(|node| node.daemon.as_ref());
        let mut net = lock(&self.net);
        let refusal = match other {
            Some(other) if !net.is_cut(from, to) => other.roster.now().admits(&hello).err(),
            _ => Some("nobody answers".to_owned()),
        };
        self.outcome.refused_links += u64::from(other.is_some() && refusal.is_some());
        net.dialled(from, to, refusal.as_deref());
    }

    /// A member asks a node.
    pub(super) fn asked(&mut self, from: usize, to: usize, link: u64, frame: &[u8]) {
        let (kind, payload) = split(frame);
        let daemon = self.daemon(to);
        let answers = Frames::default();
        match Ask::decode(kind, payload).expect("a whole ask") {
            Ask::Ping { .. } => {
                let pong = Event::Pong {
                    from: to,
                    to: from,
                    link,
                };
                lock(&self.net).send(to, from, pong);
            }
            Ask::Open { id, .. } => {
                daemon.roster.now().offer(&daemon.open);
                answers.send(&Answer::Opened { id }.encode()).unwrap();
            }
            Ask::Fetch {
                id,
                generation,
                deadline_ms,
                runs,
                ..
            } => match Wanted::check(&daemon.roster.now(), generation, runs) {
                Err(refusal) => answers.send(&refusal.into_answer(id).encode()).unwrap(),
                Ok(wanted) if wanted.is_resident(&daemon.cache) => {
                    wanted.send(&daemon.cache, &answers, None, id).unwrap();
                }
                Ok(wanted) => {
                    let mut net = lock(&self.net);
                    let slow = self.plan.slow == Some(to);
                    let time = origin_time(&mut net) * if slow { 200 } else { 1 };
                    let until = net.now() + Duration::from_millis(deadline_ms.into());
                    let (run, wanted) = (self.nodes[to].run, Box::new(wanted));
                    let fill = Event::Fill {
                        node: to,
                        run,
                        to: from,
                        link,
                        id,
                        wanted,
                        until,
                    };
                    net.after(time, fill);
                }
            },
            Ask::Fabric { .. } | Ask::Return { .. } | Ask::Name { .. } => {
                panic!("nobody asks for names or a fabric")
            }
        }
        self.answer(to, from, link, answers);
    }

    pub(super) fn answer(&mut self, from: usize, to: usize, link: u64, answers: Frames) {
        let mut net = lock(&self.net);
        for (frame, mut body) in answers.0.into_inner() {
            if self.corrupts && !body.is_empty() && net.random.one_in(100) {
                body[100] ^= 1;
            }
            net.send(
                from,
                to,
                Event::Answer {
                    from,
                    to,
                    link,
                    frame,
                    body,
                },
            );
        }
    }

    /// The origin has given what a member asked for.
    pub(super) fn fill(
        &mut self,
        node: usize,
        to: usize,
        link: u64,
        id: u64,
        wanted: Box<Wanted>,
        until: Instant,
    ) {
        let daemon = self.daemon(node);
        let answers = Frames::default();
        // What another reads on this node is not waited for in here.
        match wanted.fill(&daemon.readers, self.start) {
            Ok(()) => wanted.send(&daemon.cache, &answers, None, id).unwrap(),
            Err(refusal) if refusal.kind() == ErrorKind::Deadline && self.clock.now() < until => {
                let run = self.nodes[node].run;
                let fill = Event::Fill {
                    node,
                    run,
                    to,
                    link,
                    id,
                    wanted,
                    until,
                };
                return lock(&self.net).after(AGAIN, fill);
            }
            Err(refusal) => answers.send(&refusal.into_answer(id).encode()).unwrap(),
        }
        self.answer(node, to, link, answers);
    }

    /// An answer of `from` arrives at `to`.
    pub(super) fn answered(
        &mut self,
        from: usize,
        to: usize,
        link: u64,
        frame: &[u8],
        body: Vec<u8>,
    ) {
        if !lock(&self.net).hears(to, from, link) {
            return;
        }
        let (kind, payload) = split(frame);
        let (id, outcome) = match Answer::decode(kind, payload).expect("a whole answer") {
            Answer::Blocks {
                id,
                shard,
                first,
                body_len,
                checksums,
            } => {
                assert_eq!(body_len as usize, body.len());
                let arrivals = lock(&self.net).arrivals(to, from, id);
                let (checksums, bytes) = (&checksums[..], (&body[..]).into());
                let blocks = Arrived {
                    shard,
                    first,
                    checksums,
                    bytes,
                };
                let asked = arrivals.is_none_or(|arrivals| arrivals.arrived(blocks));
                assert!(asked, "blocks that nobody asked for");
                return;
            }
            Answer::Opened { id } => (id, AskOutcome::Done { complete: true }),
            Answer::Ended { id, complete } => (id, AskOutcome::Done { complete }),
            Answer::Failed { id, kind, message } => (id, AskOutcome::Failed { kind, message }),
            Answer::Lent { .. }
            | Answer::Fabric { .. }
            | Answer::Pong { .. }
            | Answer::Published { .. } => return,
        };
        self.note(&format!("{to} hears {from}: {outcome:?}"));
        lock(&self.net).end(to, from, id, outcome);
    }
}
