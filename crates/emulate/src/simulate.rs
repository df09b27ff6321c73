//! What a profile does to a training loop, without waiting for it.
//!
//! The same draws, slots, link and slow periods as a mount, on a clock of its own.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use crate::delay::{OpClass, Queue, Request};
use crate::profile::Profile;

/// How samples are shared out among the workers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loader {
    /// All workers load parts of the same batch, and the next one starts while this one is
    /// computed: an iteration waits for its slowest worker.
    SplitBatch,
    /// Each worker loads whole batches of its own, at most `batches` ahead of the one computed.
    WholeBatch {
        /// Batches each worker may be ahead.
        batches: u32,
    },
}

/// A training loop.
#[derive(Clone, Copy, Debug)]
pub struct Loop {
    /// Iterations to run.
    pub iterations: u32,
    /// Samples of an iteration.
    pub samples: u32,
    /// Reads of a sample, one after the other.
    pub reads_per_sample: u32,
    /// Bytes of a sample, evenly over its reads.
    pub sample_bytes: u64,
    /// Worker processes.
    pub workers: u32,
    /// Time the accelerator computes on a batch.
    pub window: Duration,
    /// How the samples are shared out.
    pub loader: Loader,
    /// Iterations that wait longer than this are counted.
    pub limit: Duration,
}

impl Default for Loop {
    /// The paper's: 64 samples of 286 KB in two ranges, 8 workers, a window of 176 ms, and
    /// iterations over 1 s counted.
    fn default() -> Self {
        Self {
            iterations: 5120,
            samples: 64,
            reads_per_sample: 2,
            sample_bytes: 286_000,
            workers: 8,
            window: Duration::from_millis(176),
            loader: Loader::SplitBatch,
            limit: Duration::from_secs(1),
        }
    }
}

/// Waits of the iterations for their samples, in ms.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Waits {
    /// Iterations run.
    pub iterations: u32,
    /// Mean wait.
    pub mean_ms: f64,
    /// Median wait.
    pub median_ms: f64,
    /// 95 % quantile.
    pub p95_ms: f64,
    /// Longest wait.
    pub max_ms: f64,
    /// Share of iterations over the limit.
    pub over_limit: f64,
    /// Time of the whole run, in seconds.
    pub wall_s: f64,
}

/// Run the loop on the emulated server.
pub fn simulate(profile: &Profile, training: &Loop) -> Waits {
    let mut run = Run::new(profile, training);
    let mut waits = Vec::with_capacity(training.iterations as usize);
    let mut now = Duration::ZERO;
    for batch in 0..u64::from(training.iterations) {
        run.allow(now, batch);
        let ready = run.until_loaded(batch);
        waits.push(ready.saturating_sub(now).as_secs_f64() * 1e3);
        now = now.max(ready);
        // The batch leaves the loader, so its worker may begin another; then the computation.
        run.allow(now, batch + 1);
        now += training.window;
    }
    summarise(waits, training, now)
}

fn summarise(mut waits: Vec<f64>, training: &Loop, wall: Duration) -> Waits {
    let n = waits.len().max(1) as f64;
    let mean_ms = waits.iter().sum::<f64>() / n;
    let limit_ms = training.limit.as_secs_f64() * 1e3;
    let over = waits.iter().filter(|wait| **wait > limit_ms).count();
    waits.sort_by(f64::total_cmp);
    let quantile = |q: f64| waits.get((q * (n - 1.0)) as usize).copied().unwrap_or(0.0);
    Waits {
        iterations: training.iterations,
        mean_ms,
        median_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        max_ms: quantile(1.0),
        over_limit: over as f64 / n,
        wall_s: wall.as_secs_f64(),
    }
}

/// A worker, by its number.
type Worker = usize;

/// A chain of reads that one worker does one after the other.
#[derive(Clone, Copy)]
struct Task {
    batch: u64,
    reads: u32,
}

struct Run<'a> {
    training: &'a Loop,
    queue: Queue<(Worker, Task)>,
    /// Tasks of each worker that wait until they may begin, in order.
    todo: Vec<VecDeque<Task>>,
    idle: Vec<bool>,
    /// Reads to offer at a time that lies ahead of the queue's clock.
    starts: BinaryHeap<Reverse<(Duration, Worker, u64, u32)>>,
    /// Parts of each batch that are not loaded yet.
    missing: HashMap<u64, u32>,
    loaded: HashMap<u64, Duration>,
    next_batch: u64,
}

impl<'a> Run<'a> {
    fn new(profile: &Profile, training: &'a Loop) -> Self {
        let workers = training.workers.max(1) as usize;
        Self {
            training,
            queue: Queue::new(Arc::new(profile.clone())),
            todo: vec![VecDeque::new(); workers],
            idle: vec![true; workers],
            starts: BinaryHeap::new(),
            missing: HashMap::new(),
            loaded: HashMap::new(),
            next_batch: 0,
        }
    }

    /// From `now` on, the batches that the loader may hold while `batch` is awaited.
    fn allow(&mut self, now: Duration, batch: u64) {
        let workers = self.todo.len() as u64;
        let ahead = match self.training.loader {
            Loader::SplitBatch => 1,
            Loader::WholeBatch { batches } => u64::from(batches.max(1)) * workers,
        };
        let end = (batch + ahead).min(u64::from(self.training.iterations));
        while self.next_batch < end {
            self.share_out(self.next_batch);
            self.next_batch += 1;
        }
        for worker in 0..self.todo.len() {
            self.begin(now, worker);
        }
    }

    fn share_out(&mut self, batch: u64) {
        let (samples, reads) = (
            self.training.samples.max(1),
            self.training.reads_per_sample.max(1),
        );
        let workers = self.todo.len() as u32;
        match self.training.loader {
            Loader::WholeBatch { .. } => {
                self.missing.insert(batch, 1);
                let worker = (batch % u64::from(workers)) as usize;
                self.todo[worker].push_back(Task {
                    batch,
                    reads: samples * reads,
                });
            }
            Loader::SplitBatch => {
                let parts = workers.min(samples);
                self.missing.insert(batch, parts);
                for worker in 0..parts {
                    let share = samples / parts + u32::from(worker < samples % parts);
                    self.todo[worker as usize].push_back(Task {
                        batch,
                        reads: share * reads,
                    });
                }
            }
        }
    }

    fn begin(&mut self, now: Duration, worker: Worker) {
        if self.idle[worker]
            && let Some(task) = self.todo[worker].pop_front()
        {
            self.idle[worker] = false;
            self.starts
                .push(Reverse((now, worker, task.batch, task.reads)));
        }
    }

    fn until_loaded(&mut self, batch: u64) -> Duration {
        while !self.loaded.contains_key(&batch) {
            let starts = self.starts.peek().map(|start| start.0.0);
            let now = match (starts, self.queue.next_wake()) {
                (Some(start), Some(due)) => start.min(due),
                (Some(time), None) | (None, Some(time)) => time,
                // Every batch asked for was shared out, so there is always something to do.
                (None, None) => return Duration::ZERO,
            };
            self.step(now);
        }
        self.loaded.remove(&batch).unwrap_or_default()
    }

    fn step(&mut self, now: Duration) {
        while let Some(start) = self.starts.peek().copied().filter(|start| start.0.0 <= now) {
            self.starts.pop();
            let (_, worker, batch, reads) = start.0;
            self.read(now, worker, Task { batch, reads });
        }
        while let Some(due) = self.queue.pop_due(now) {
            self.queue.finish(now, OpClass::Read);
            let (worker, mut task) = due.job;
            task.reads -= 1;
            if task.reads > 0 {
                self.read(now, worker, task);
                continue;
            }
            self.part_loaded(now, task.batch);
            self.idle[worker] = true;
            self.begin(now, worker);
        }
    }

    fn read(&mut self, now: Duration, worker: Worker, task: Task) {
        let bytes = self.training.sample_bytes / u64::from(self.training.reads_per_sample.max(1));
        let request = Request {
            class: OpClass::Read,
            bytes,
            hold: None,
        };
        self.queue.offer(now, request, (worker, task));
    }

    fn part_loaded(&mut self, now: Duration, batch: u64) {
        if let Some(parts) = self.missing.get_mut(&batch) {
            *parts -= 1;
            if *parts == 0 {
                self.missing.remove(&batch);
                self.loaded.insert(batch, now);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::ProfileSettings;

    fn profile(text: &str) -> Profile {
        ProfileSettings::parse("test", text)
            .unwrap()
            .resolve()
            .unwrap()
    }

    #[test]
    fn waits_of_a_steady_tier_are_what_arithmetic_says() {
        let profile = profile("[read]\nmedian_ms = 10\n");
        let training = Loop {
            iterations: 100,
            ..Loop::default()
        };

        // 64 samples over 8 workers, 2 reads of 10 ms each: 160 ms, hidden behind 176 ms.
        let split = simulate(&profile, &training);
        assert_eq!(
            (split.median_ms, split.max_ms),
            (0.0, 160.0),
            "only the first one waits"
        );
        // A whole batch takes one worker 1280 ms: 8 of them make one each 160 ms.
        let whole = Loop {
            loader: Loader::WholeBatch { batches: 2 },
            ..training
        };
        assert_eq!(simulate(&profile, &whole).max_ms, 1280.0);
        let few = Loop {
            workers: 2,
            ..training
        };
        assert_eq!(simulate(&profile, &few).median_ms, 640.0 - 176.0);
    }

    #[test]
    fn built_in_profiles_show_the_papers_waits() {
        // HDF5's 30 reads a sample. 500 iterations: the bounds are wide enough for most seeds,
        // not for another shape.
        let run = |name: &str, reads_per_sample| {
            let profile = ProfileSettings::load(name).unwrap().resolve().unwrap();
            let training = Loop {
                iterations: 500,
                reads_per_sample,
                ..Loop::default()
            };
            simulate(&profile, &training)
        };
        let lustre = run("lustre", 30);
        assert!((0.22..0.36).contains(&lustre.over_limit), "{lustre:?}");
        assert!((7_000.0..18_000.0).contains(&lustre.p95_ms), "{lustre:?}");
        assert!((20_000.0..60_000.0).contains(&lustre.max_ms), "{lustre:?}");
        let vast = run("vast", 30);
        assert!((0.07..0.17).contains(&vast.over_limit), "{vast:?}");
        assert!((1_000.0..3_000.0).contains(&vast.p95_ms), "{vast:?}");
        assert!((3_000.0..10_000.0).contains(&vast.max_ms), "{vast:?}");
        assert_eq!(run("nvme", 30).over_limit, 0.0);
        assert!(
            run("lustre", 2).over_limit < 0.05,
            "two reads a sample meet fewer tails"
        );
    }
}
