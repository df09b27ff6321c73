//! The simulation of one epoch: loaders, ranks in lock-step, and the way their samples take.
//!
//! # Invariants
//! - Every batch of every rank is loaded once and taken once, in order.
//! - An iteration ends when the last rank has taken its batch and computed: the all-reduce.
//! - A loader is never further ahead than its prefetch allows.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::Path;
use super::forecast::{EpochForecast, Waits};
use super::queues::Shared;
use super::scenario::{Scenario, Sharing};
use super::service::Service;
use super::staging::{Residency, Stager};
use super::time::Time;

/// Up to so many samples their reads are drawn sample by sample, beyond it batch by batch.
const FINE_SAMPLES: u64 = 4_000_000;

/// One epoch to simulate.
#[derive(Clone, Copy, Debug)]
pub(super) struct EpochPlan {
    pub(super) path: Path,
    pub(super) epoch: u32,
    pub(super) residency: Residency,
    /// Iterations to simulate, at most.
    pub(super) at_most: u64,
}

/// A part of a batch that one worker loads.
struct Task {
    batch: u32,
    samples: u32,
}

#[derive(Default)]
struct Worker {
    waiting: VecDeque<Task>,
    running: Option<Task>,
}

/// A batch that is being loaded: parts that are missing, and when the last one came.
#[derive(Clone, Copy, Default)]
struct Loading {
    missing: u32,
    ready_s: f64,
    /// When its bytes are near, once a worker has asked for them.
    resident_s: Option<f64>,
}

struct Rank {
    next: u32,
    workers: Vec<Worker>,
    /// Batch `b` is at place `b` modulo the length.
    loading: Vec<Loading>,
}

struct Engine<'a, S> {
    scenario: &'a Scenario,
    plan: EpochPlan,
    service: &'a mut S,
    shared: Shared,
    stager: Stager<'a>,
    ranks: Vec<Rank>,
    /// Ends of what workers do now: time, rank, worker.
    events: BinaryHeap<Reverse<(Time, u32, u32)>>,
    iterations: u32,
    fine: bool,
    owed_reads: f64,
    owed_metadata: f64,
    reads: f64,
}

/// Simulates one epoch.
pub(super) fn simulate<S: Service>(
    scenario: &Scenario,
    plan: EpochPlan,
    service: &mut S,
) -> EpochForecast {
    let mut engine = Engine::new(scenario, plan, service);
    let waits = engine.run();
    let direct_bytes = f64::from(engine.iterations)
        * (scenario.ranks() * u64::from(scenario.batch)) as f64
        * scenario.sample_bytes;
    let (reads, bytes) = match plan.path {
        Path::Direct => (engine.reads, direct_bytes),
        Path::Forebay => (engine.stager.reads, engine.stager.bytes),
    };
    EpochForecast::of(scenario, plan.epoch, waits, reads, bytes)
}

impl<'a, S: Service> Engine<'a, S> {
    fn new(scenario: &'a Scenario, plan: EpochPlan, service: &'a mut S) -> Self {
        let loader = &scenario.loader;
        let ahead = ahead(scenario);
        let rank = || Rank {
            next: 0,
            workers: (0..loader.workers).map(|_| Worker::default()).collect(),
            loading: vec![Loading::default(); ahead as usize],
        };
        let iterations = scenario
            .iterations()
            .min(plan.at_most)
            .min(u64::from(u32::MAX)) as u32;
        let samples = u64::from(iterations) * scenario.ranks() * u64::from(scenario.batch);
        Self {
            scenario,
            plan,
            service,
            shared: Shared::of(&scenario.origin),
            stager: Stager::new(scenario, plan.residency, iterations),
            ranks: (0..scenario.ranks()).map(|_| rank()).collect(),
            events: BinaryHeap::new(),
            iterations,
            fine: samples <= FINE_SAMPLES,
            owed_reads: 0.0,
            owed_metadata: 0.0,
            reads: 0.0,
        }
    }

    fn run(&mut self) -> Waits {
        let window = self.scenario.window_s(self.plan.epoch);
        let handover = self.scenario.loader.handover_s;
        let mut waits = Waits::new(self.iterations);
        let mut end = 0.0;
        self.stage_ahead(0, end);
        for rank in 0..self.ranks.len() {
            for _ in 0..self.ranks[rank].loading.len() {
                self.dispatch(rank, 0.0);
            }
        }
        for batch in 0..self.iterations {
            if batch > 0 {
                self.stage_ahead(batch, end);
            }
            let last = self.take_all(batch, end, window, &mut waits);
            waits.slowest_s.push(last - end + handover);
            end = last + handover + window;
        }
        waits.wall_s = end;
        waits
    }

    /// All ranks take a batch, from `end` of the iteration before on: when the last one has it.
    fn take_all(&mut self, batch: u32, end: f64, window: f64, waits: &mut Waits) -> f64 {
        while self
            .events
            .peek()
            .is_some_and(|event| event.0.0.seconds() <= end)
        {
            self.advance();
        }
        let mut missing = 0;
        for rank in 0..self.ranks.len() {
            if self.is_ready(rank, batch) {
                self.dispatch(rank, end)
            } else {
                missing += 1
            }
        }
        let mut last = end;
        let early = self.ranks.len() - missing;
        waits.add(early as u64, self.scenario.loader.handover_s, window);
        while missing > 0 {
            // Every batch up to this one was given to a worker, so there is always an event.
            let Some(rank) = self.advance() else {
                return last;
            };
            if self.ranks[rank].awaits(batch) && self.is_ready(rank, batch) {
                let ready = self.ranks[rank].slot(batch).ready_s;
                last = ready.max(last);
                waits.add(1, ready - end + self.scenario.loader.handover_s, window);
                self.dispatch(rank, ready);
                missing -= 1;
            }
        }
        last
    }

    fn is_ready(&self, rank: usize, batch: u32) -> bool {
        self.ranks[rank].slot(batch).missing == 0
    }

    /// The loader of a rank gets the next batch to load.
    fn dispatch(&mut self, rank: usize, at: f64) {
        let batch = self.ranks[rank].next;
        self.ranks[rank].next += 1;
        if batch >= self.iterations {
            return;
        }
        let (workers, samples) = (self.scenario.loader.workers, self.scenario.batch);
        let parts = match self.scenario.loader.sharing {
            Sharing::WholeBatch => vec![(batch % workers, samples)],
            Sharing::SplitBatch => {
                let parts = workers.min(samples);
                let share = |part| samples / parts + u32::from(part < samples % parts);
                (0..parts).map(|part| (part, share(part))).collect()
            }
        };
        let place = batch as usize % self.ranks[rank].loading.len();
        self.ranks[rank].loading[place] = Loading {
            missing: parts.len() as u32,
            ready_s: at,
            resident_s: None,
        };
        for (worker, samples) in parts {
            self.ranks[rank].workers[worker as usize]
                .waiting
                .push_back(Task { batch, samples });
            self.begin(rank, worker, at);
        }
    }

    /// An idle worker begins what it has to do next.
    fn begin(&mut self, rank: usize, worker: u32, at: f64) {
        let one = &mut self.ranks[rank].workers[worker as usize];
        if one.running.is_none()
            && let Some(task) = one.waiting.pop_front()
        {
            one.running = Some(task);
            self.work(rank, worker, at);
        }
    }

    /// A worker does the next piece of its task.
    fn work(&mut self, rank: usize, worker: u32, at: f64) {
        let Some(task) = &mut self.ranks[rank].workers[worker as usize].running else {
            return;
        };
        let (batch, samples) = (task.batch, task.samples);
        let end = match self.plan.path {
            Path::Direct => {
                let now = if self.fine { 1 } else { samples };
                task.samples -= now;
                self.read_origin(now, at)
            }
            Path::Forebay => {
                task.samples = 0;
                let resident = self.resident(rank, batch, at);
                self.stager.read(rank, samples, resident.max(at))
            }
        };
        self.events
            .push(Reverse((Time::of(end), rank as u32, worker)));
    }

    /// When the bytes of a batch are near that a worker asks for at `at`.
    fn resident(&mut self, rank: usize, batch: u32, at: f64) -> f64 {
        let place = batch as usize % self.ranks[rank].loading.len();
        if let Some(resident) = self.ranks[rank].loading[place].resident_s {
            return resident;
        }
        let origin = (&mut *self.service, &mut self.shared);
        let resident = self.stager.resident(rank, batch, at, origin);
        self.ranks[rank].loading[place].resident_s = Some(resident);
        resident
    }

    /// When a worker that begins at `at` has read so many samples from the origin, and has done
    /// what they cost it.
    fn read_origin(&mut self, samples: u32, at: f64) -> f64 {
        let direct = &self.scenario.direct;
        let count = f64::from(samples);
        let whole = |owed: &mut f64, more: f64| {
            *owed += more;
            let n = owed.floor();
            *owed -= n;
            n
        };
        let n = whole(&mut self.owed_reads, count * direct.reads_per_sample);
        let metadata = whole(&mut self.owed_metadata, count * direct.metadata_per_sample);
        self.reads += n;
        let bytes = count * self.scenario.sample_bytes;
        let mut end = at;
        if metadata > 0.0 {
            let drawn = self.service.metadata(metadata as u32).sum_s();
            end = self.shared.metadata(end, metadata).max(end + drawn);
        }
        if n > 0.0 {
            let drawn = self.service.reads(n as u32, bytes / n).sum_s();
            end = self.shared.reads(end, drawn, bytes).max(end + drawn);
        }
        end + count * direct.cpu_s
    }

    /// The next event: the rank whose batch it completed, or any rank.
    fn advance(&mut self) -> Option<usize> {
        let Reverse((time, rank, worker)) = self.events.pop()?;
        let (at, rank) = (time.seconds(), rank as usize);
        let one = &mut self.ranks[rank].workers[worker as usize];
        match &one.running {
            Some(task) if task.samples > 0 => self.work(rank, worker, at),
            Some(task) => {
                let batch = task.batch;
                one.running = None;
                let place = batch as usize % self.ranks[rank].loading.len();
                let loading = &mut self.ranks[rank].loading[place];
                loading.missing -= 1;
                loading.ready_s = at;
                self.begin(rank, worker, at);
            }
            None => {}
        }
        Some(rank)
    }

    /// From `at`, when `batch` is the next one to be taken, staging may be so far ahead of it.
    fn stage_ahead(&mut self, batch: u32, at: f64) {
        if self.plan.path == Path::Direct {
            return;
        }
        let look_ahead = self.scenario.staged.look_ahead_batches;
        if look_ahead == 0 {
            return;
        }
        // What the loader itself asks for is needed first.
        let end = batch
            .saturating_add(look_ahead.max(ahead(self.scenario)))
            .min(self.iterations);
        for rank in 0..self.ranks.len() {
            let origin = (&mut *self.service, &mut self.shared);
            self.stager.allow(rank, end, at, origin);
        }
    }
}

impl Rank {
    fn slot(&self, batch: u32) -> Loading {
        self.loading[batch as usize % self.loading.len()]
    }

    /// Whether `batch` has not been taken: each take makes the loader one batch longer.
    fn awaits(&self, batch: u32) -> bool {
        self.next == batch + self.loading.len() as u32
    }
}

/// Batches that the loader of a rank may hold or be loading.
fn ahead(scenario: &Scenario) -> u32 {
    match scenario.loader.sharing {
        Sharing::WholeBatch => scenario.loader.workers * scenario.loader.prefetch,
        Sharing::SplitBatch => 1,
    }
}
