//! Forebay's side of a forecast: what is staged when, and when a batch can be read nearby.
//!
//! By symmetry each node stages what its own ranks need: under a global shuffle the blocks of a
//! batch belong to all owners alike, and each owner stages for all ranks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::queues::{Fluid, Shared};
use super::scenario::Scenario;
use super::service::Service;
use super::time::Time;

/// What of the data set is near when an epoch begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Residency {
    /// Nothing; what is read stays.
    Cold,
    /// This share, from 0 to 1; the rest is read anew in each epoch.
    Kept(f64),
}

/// What a batch asks of the origin, on average.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Touch {
    pub(super) reads: f64,
    pub(super) bytes_each: f64,
}

impl Touch {
    /// At `progress` (0 to 1) of an epoch: of a range of the data set that is laid out without
    /// gaps, the blocks at its two ends are shared with neighbours that may have been read before.
    pub(super) fn of(scenario: &Scenario, residency: Residency, progress: f64) -> Self {
        let staged = &scenario.staged;
        let ranges = staged.ranges_per_sample * f64::from(scenario.batch);
        let range_bytes = scenario.sample_bytes / staged.ranges_per_sample;
        let untouched = 1.0 - progress;
        let block = staged.block_bytes;
        match residency {
            Residency::Kept(share) => Self {
                reads: ranges * (1.0 - share),
                bytes_each: range_bytes,
            },
            Residency::Cold if range_bytes >= block => Self {
                reads: ranges,
                bytes_each: range_bytes - block + 2.0 * block * untouched,
            },
            Residency::Cold => {
                let absent = (1.0 + range_bytes / block) * untouched.powf(block / range_bytes);
                Self {
                    reads: ranges * absent,
                    bytes_each: block,
                }
            }
        }
    }
}

/// A batch on its way.
struct Batch {
    /// When all but the late reads have landed.
    usual_s: f64,
    /// Begin and end of each late read.
    late: Vec<(f64, f64)>,
    /// Bytes of each of its reads.
    bytes_each: f64,
}

/// The readers and the device of one node.
#[derive(Default)]
struct Node {
    free_s: f64,
    /// Ends of late reads, each of which holds one reader until then.
    held: BinaryHeap<Reverse<Time>>,
    device: Fluid,
    network: Fluid,
}

pub(super) struct Stager<'a> {
    scenario: &'a Scenario,
    nodes: Vec<Node>,
    /// Batches staged and not yet read, and the number of the first of them, for each rank.
    ranks: Vec<(u32, VecDeque<Option<Batch>>)>,
    residency: Residency,
    /// Batches of all ranks: staged until now, and in all.
    staged: u64,
    batches: u64,
    owed: f64,
    pub(super) reads: f64,
    pub(super) bytes: f64,
}

impl<'a> Stager<'a> {
    pub(super) fn new(scenario: &'a Scenario, residency: Residency, iterations: u32) -> Self {
        Self {
            scenario,
            nodes: (0..scenario.nodes).map(|_| Node::default()).collect(),
            ranks: (0..scenario.ranks())
                .map(|_| (0, VecDeque::new()))
                .collect(),
            residency,
            staged: 0,
            batches: u64::from(iterations) * scenario.ranks(),
            owed: 0.0,
            reads: 0.0,
            bytes: 0.0,
        }
    }

    /// From `at` on the batches of a rank up to `end` (exclusive) may be staged.
    pub(super) fn allow<S: Service>(
        &mut self,
        rank: usize,
        end: u32,
        at: f64,
        origin: (&mut S, &mut Shared),
    ) {
        let (service, shared) = origin;
        while self.ranks[rank].0 + (self.ranks[rank].1.len() as u32) < end {
            let batch = self.stage(rank, at, service, shared);
            self.ranks[rank].1.push_back(Some(batch));
        }
    }

    /// When a batch is resident that a worker asks for at `at`.
    pub(super) fn resident<S: Service>(
        &mut self,
        rank: usize,
        batch: u32,
        at: f64,
        origin: (&mut S, &mut Shared),
    ) -> f64 {
        let (service, shared) = origin;
        let (first, staged) = &mut self.ranks[rank];
        let place = batch.checked_sub(*first).map(|place| place as usize);
        let found = place
            .and_then(|place| staged.get_mut(place))
            .and_then(Option::take);
        while staged.front().is_some_and(Option::is_none) {
            staged.pop_front();
            *first += 1;
        }
        let batch = match found {
            Some(batch) => batch,
            None => self.stage(rank, at, service, shared),
        };
        let mut hedges = self.scenario.staged.hedged_reads;
        let late_after = self.scenario.origin.late_after_s();
        let mut resident = batch.usual_s.max(at);
        for (begun, end) in batch.late {
            let again = at.max(begun + late_after);
            let mut landed = end;
            if end > again && hedges > 0 {
                hedges -= 1;
                landed = landed.min(again + service.reads(1, batch.bytes_each).sum_s());
            }
            resident = resident.max(landed);
        }
        resident
    }

    fn stage<S: Service>(
        &mut self,
        rank: usize,
        at: f64,
        service: &mut S,
        shared: &mut Shared,
    ) -> Batch {
        let progress = (self.staged as f64 + 0.5) / self.batches.max(1) as f64;
        let touch = Touch::of(self.scenario, self.residency, progress.min(1.0));
        self.staged += 1;
        self.owed += touch.reads;
        let n = self.owed.floor();
        self.owed -= n;
        if n < 1.0 {
            return Batch {
                usual_s: at,
                late: Vec::new(),
                bytes_each: 0.0,
            };
        }
        let drawn = service.reads(n as u32, touch.bytes_each);
        let bytes = n * touch.bytes_each;
        self.reads += n;
        self.bytes += bytes;
        let node = &mut self.nodes[rank / self.scenario.ranks_per_node as usize];
        let begun = node.free_s.max(at);
        while node.held.peek().is_some_and(|end| end.0.seconds() <= begun) {
            node.held.pop();
        }
        let readers = f64::from(self.scenario.staged.in_flight) - node.held.len() as f64;
        node.free_s = begun + drawn.body_s / readers.max(1.0);
        let held_up = shared.reads(begun, drawn.sum_s(), bytes);
        let mut late = Vec::with_capacity(drawn.tails_s.len());
        for tail in &drawn.tails_s {
            let end = node.free_s + tail;
            node.held.push(Reverse(Time::of(end)));
            late.push((node.free_s, end));
        }
        Batch {
            usual_s: node.free_s.max(begun + drawn.longest_s).max(held_up),
            late,
            bytes_each: touch.bytes_each,
        }
    }

    /// When a worker that begins at `at` has read so many resident samples.
    pub(super) fn read(&mut self, rank: usize, samples: u32, at: f64) -> f64 {
        let staged = &self.scenario.staged;
        let node = &mut self.nodes[rank / self.scenario.ranks_per_node as usize];
        let samples = f64::from(samples);
        let bytes = samples * self.scenario.sample_bytes;
        let elsewhere = 1.0 - 1.0 / f64::from(self.scenario.nodes);
        let ranges = samples * staged.ranges_per_sample;
        let latency = staged.local.latency_s + elsewhere * staged.peer.latency_s;
        let device = node.device.serve(at, bytes / staged.local.bytes_per_s);
        let network = node
            .network
            .serve(at, elsewhere * bytes / staged.peer.bytes_per_s);
        device.max(network).max(at) + ranges * latency + samples * staged.cpu_s
    }
}
