//! What clients ask of their nodes, as `Readers::stage` answers it.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use forebay_cache::{Filled, Job, jobs};
use forebay_dataset::{BlockSize, ByteRange, ErrorKind, ShardIndex};
use forebay_residency::{HandedMemory, TakenMemory};
use forebay_transport::{Ended, Outcome as AskOutcome};

use super::cluster::{Cluster, GRACE};
use super::event::Event;
use super::members::AGAIN;
use super::net::{Net, Shared, lock};
use super::node::{BLOCK, BLOCKS, FILES, content, read_block};
use crate::peers::{Fetch, Handed, Held, OtherPath};
use crate::stage::OpenDataset;

/// Bytes of the memory in which a client takes bytes: less than some requests need.
const MEMORY: u64 = 6 * BLOCK;
/// How long a client waits for what it asked for.
const DEADLINE: Duration = Duration::from_secs(20);

/// A client's request, as `Readers::stage` does it.
pub(super) struct Op {
    pub(super) asked: Vec<Job>,
    jobs: Vec<Job>,
    deadline: Instant,
    /// When it must have ended, with time in which its node could do nothing added.
    pub(super) bound: Instant,
    /// `None` once the owners have given what they give.
    fetch: Option<Fetch>,
    /// Where its client takes bytes.
    taken: Option<Taken>,
    /// What was handed over and is not written yet.
    handed: Option<Handed>,
    /// A member was lost: nobody who asks another is waited for.
    at_once: bool,
    wake: Option<Instant>,
}

/// What a client takes in memory that it shares with its node.
struct Taken {
    ranges: Vec<(ShardIndex, ByteRange)>,
    memory: Arc<HandedMemory>,
    held: Arc<Held>,
}

impl Taken {
    /// Compares what is handed over, if it is, with the origin.
    fn close(self) -> Option<Handed> {
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let handed = self.held.close(&self.ranges, size)?;
        let memory = TakenMemory::map(self.memory.file(), MEMORY).unwrap();
        let mut bytes = Vec::new();
        for place in handed.ranges() {
            let start = bytes.len();
            bytes.resize(start + place.len as usize, 0);
            memory
                .copy(place.start.into(), &mut bytes[start..])
                .unwrap();
        }
        let wanted: Vec<u8> = (self.ranges.iter())
            .flat_map(|(file, range)| {
                let blocks = range.start() / BLOCK..range.end() / BLOCK;
                blocks.flat_map(|block| content(file.0, block).iter().copied())
            })
            .collect();
        assert!(bytes == wanted, "other bytes are handed over");
        Some(handed)
    }
}

/// Reads on the origin, which takes its time.
struct Hedges<'a> {
    net: &'a Shared,
    node: usize,
    run: u64,
}

impl OtherPath for Hedges<'_> {
    fn begin(&self, _: &OpenDataset, jobs: Vec<Job>, ask: u64, done: &mpsc::Sender<Ended>) {
        let mut net = lock(self.net);
        let time = origin_time(&mut net);
        let (node, run, done) = (self.node, self.run, done.clone());
        net.after(
            time,
            Event::Hedge {
                node,
                run,
                jobs,
                ask,
                done,
            },
        );
    }
}

/// How long the origin takes: it has a tail.
pub(super) fn origin_time(net: &mut Net) -> Duration {
    if net.random.one_in(40) {
        Duration::from_millis(net.random.within(100, 3000))
    } else {
        Duration::from_micros(net.random.within(200, 6000))
    }
}

impl Cluster {
    pub(super) fn hedge(
        &mut self,
        node: usize,
        jobs: &[Job],
        ask: u64,
        done: &mpsc::Sender<Ended>,
    ) {
        let daemon = self.daemon(node);
        let again = |job: &Job| daemon.open.fill_again(&daemon.cache, job);
        let is_filled = |job| matches!(again(job), Ok(Filled::Resident));
        if jobs.iter().all(is_filled) {
            let outcome = AskOutcome::Done { complete: true };
            let _ = done.send(Ended { id: ask, outcome });
        }
    }

    /// A client asks for one or two runs of blocks.
    pub(super) fn begin(&mut self, node: usize) {
        let mut net = lock(&self.net);
        let mut ranges = Vec::new();
        for _ in 0..net.random.within(1, 3) {
            let file = net.random.below(FILES.into()) as u32;
            let first = net.random.below(BLOCKS);
            let count = net.random.within(1, 4).min(BLOCKS - first);
            let range = ByteRange::new(first * BLOCK, count * BLOCK).unwrap();
            ranges.push((ShardIndex(file), range));
        }
        let takes = net.random.one_in(2);
        drop(net);
        let asked = jobs(&ranges, BlockSize::new(BLOCK as u32).unwrap());
        let deadline = self.clock.now() + DEADLINE;
        let daemon = self.daemon(node);
        let owners = daemon.open.owners.clone().expect("it can be placed");
        let memory = takes.then(|| HandedMemory::new(MEMORY).unwrap());
        let held = memory.clone().map(|memory| Arc::new(Held::new(memory)));
        let holds = held.clone();
        let fetch = owners.begin(&daemon.cache, &daemon.open, &asked, deadline, true, holds);
        self.next_op += 1;
        let op = Op {
            jobs: asked.clone(),
            asked,
            deadline,
            bound: deadline + GRACE,
            fetch: Some(fetch),
            taken: memory.zip(held).map(|(memory, held)| Taken {
                ranges,
                memory,
                held,
            }),
            handed: None,
            at_once: false,
            wake: None,
        };
        self.note(&format!("{node} wants {:?}", op.jobs));
        self.nodes[node].ops.insert(self.next_op, op);
    }

    /// Goes on with the requests of a node's clients.
    pub(super) fn drive(&mut self, node: usize) {
        let each = &mut self.nodes[node];
        if each.frozen || each.daemon.is_none() {
            return;
        }
        let (now, run) = (self.clock.now(), each.run);
        let hedges = Hedges {
            net: &self.net,
            node,
            run,
        };
        let mut fetched = Vec::new();
        for (number, op) in &mut each.ops {
            assert!(now < op.bound, "node {node} waits without end");
            let Some(fetch) = &mut op.fetch else { continue };
            while let Ok(ended) = fetch.ends.1.try_recv() {
                fetch.ended(ended);
            }
            match fetch.wake_at() {
                None => fetched.push(*number),
                Some(wake) if wake <= now => {
                    fetch.look(Some(&hedges));
                    op.wake = None;
                }
                Some(_) => {}
            }
            let wake = fetch.wake_at();
            if wake.is_some() && op.wake != wake {
                op.wake = wake;
                let time = wake.map_or(Duration::ZERO, |wake| wake.saturating_duration_since(now));
                lock(&self.net).after(time, Event::Wake { node });
            }
        }
        for op in fetched {
            self.fetched(node, op);
        }
    }

    /// The owners have given what they give; the rest is the origin's.
    pub(super) fn fetched(&mut self, node: usize, number: u64) {
        let each = &mut self.nodes[node];
        let Some(op) = each.ops.get_mut(&number) else {
            return;
        };
        if let Some(fetch) = op.fetch.take() {
            let came = fetch.came();
            op.at_once = came.has_lost;
            op.handed = op.taken.take().and_then(Taken::close);
            self.outcome.handed += u64::from(op.handed.is_some());
            self.outcome.from_members += came.reads.bytes / BLOCK;
            self.outcome.longest_asked = self.outcome.longest_asked.max(came.reads.took);
        }
        let mut net = lock(&self.net);
        let time = origin_time(&mut net);
        net.after(
            time,
            Event::Stage {
                node,
                run: each.run,
                op: number,
            },
        );
    }

    pub(super) fn stage(&mut self, node: usize, number: u64) {
        let Some(mut op) = self.nodes[node].ops.remove(&number) else {
            return;
        };
        // Written only now, some time after its client has it.
        drop(op.handed.take());
        let daemon = self.daemon(node);
        op.jobs
            .retain(|job| !daemon.readers.is_resident(&daemon.open, job));
        let jobs = op.jobs.clone();
        let staged = (daemon.readers).stage_from_origin(&daemon.open, jobs, self.start, op.at_once);
        match staged {
            Ok(complete) => {
                assert!(complete, "there is room for all");
                self.check(node, &op.asked);
            }
            Err(error) if error.kind() == ErrorKind::Deadline && self.clock.now() < op.deadline => {
                self.outcome.followed_at_once += u64::from(op.at_once);
                let run = self.nodes[node].run;
                self.nodes[node].ops.insert(number, op);
                lock(&self.net).after(
                    AGAIN,
                    Event::Stage {
                        node,
                        run,
                        op: number,
                    },
                );
            }
            Err(error) => {
                self.note(&format!("{node} fails: {error}"));
                let kind = error.kind();
                let may_try_again = [ErrorKind::Unavailable, ErrorKind::Deadline].contains(&kind);
                assert!(may_try_again, "{error}");
                self.outcome.failed_requests += 1;
            }
        }
    }

    /// What was staged is there, to the byte.
    pub(super) fn check(&mut self, node: usize, asked: &[Job]) {
        let generation = self.daemon(node).open.dataset.index().generation();
        for job in asked {
            for block in job.blocks.clone() {
                let folder = self.nodes[node].folder.path();
                assert!(
                    read_block(folder, generation, job.shard.0, block),
                    "it was staged"
                );
            }
        }
        self.note(&format!("{node} has {asked:?}"));
    }
}
