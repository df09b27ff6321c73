//! Clocks and samples. Nothing is summarised while a benchmark runs.

use std::collections::BTreeMap;
use std::time::Duration;

use forebay_analysis::suite::Timing;
use quanta::Clock;

/// A kind of operation that is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Op(usize);

/// Samples of all operations of one rank.
#[derive(Debug)]
pub struct Recorder {
    series: Vec<Series>,
    /// Whether single operations are timed at all.
    timing: bool,
    /// The processor's counter where it runs at one rate, else the system's clock.
    clock: Clock,
}

#[derive(Debug)]
struct Series {
    name: String,
    samples: Vec<u64>,
    /// Samples of each measured iteration that is over.
    iterations: Vec<u64>,
    /// Samples there were when the present iteration began.
    began: usize,
}

impl Recorder {
    /// Nothing recorded yet. Without `timing` no operation is timed and no clock is read.
    #[must_use]
    pub fn new(timing: bool) -> Self {
        Self {
            series: Vec::new(),
            timing,
            clock: Clock::new(),
        }
    }

    /// The operation of this name; a new one, or the one there is.
    pub fn op(&mut self, name: &str) -> Op {
        if let Some(at) = self.series.iter().position(|series| series.name == name) {
            return Op(at);
        }
        let iterations = self
            .series
            .first()
            .map_or(0, |first| first.iterations.len());
        self.series.push(Series {
            name: name.to_owned(),
            samples: Vec::new(),
            // It did not happen in those before.
            iterations: vec![0; iterations],
            began: 0,
        });
        Op(self.series.len() - 1)
    }

    /// Makes room, so that none is made while the clock runs.
    pub fn reserve(&mut self, op: Op, samples: usize) {
        let room = &mut self.series[op.0].samples;
        room.reserve(samples);
        // The system gives a page when it is first written to.
        let held = room.len();
        room.resize(room.capacity(), 0);
        room.truncate(held);
    }

    /// One sample.
    pub fn add(&mut self, op: Op, nanoseconds: u64) {
        if self.timing {
            self.series[op.0].samples.push(nanoseconds);
        }
    }

    /// A clock that runs from now on.
    #[must_use]
    #[inline]
    pub fn lap(&self) -> Lap {
        let now = self.timing.then(|| self.clock.raw());
        Lap {
            began: now,
            last: now,
        }
    }

    /// Ends a part: from the end of the part before, or the start, to now.
    #[inline]
    pub fn part(&mut self, lap: &mut Lap, op: Op) {
        if let Some(last) = lap.last {
            let now = self.clock.raw();
            let took = self.clock.delta_as_nanos(last, now);
            self.series[op.0].samples.push(took);
            lap.last = Some(now);
        }
    }

    /// Ends the whole at the end of its last part, without a look at the clock.
    #[inline]
    pub fn whole(&mut self, lap: &Lap, op: Op) {
        if let (Some(began), Some(last)) = (lap.began, lap.last) {
            let took = self.clock.delta_as_nanos(began, last);
            self.series[op.0].samples.push(took);
        }
    }

    /// The same operation, whose next part begins now: what was between is timed otherwise, and
    /// counts in the whole.
    #[must_use]
    pub fn restarted(&self, lap: Lap) -> Lap {
        Lap {
            last: lap.last.map(|_| self.clock.raw()),
            ..lap
        }
    }

    pub(crate) fn begin(&mut self) {
        for series in &mut self.series {
            series.began = series.samples.len();
        }
    }

    /// Ends an iteration. What a warm-up measured is forgotten.
    pub(crate) fn end(&mut self, warmup: bool) {
        for series in &mut self.series {
            if warmup {
                series.samples.truncate(series.began);
            } else {
                let count = series.samples.len() - series.began;
                series.iterations.push(count as u64);
            }
        }
    }

    /// Statistics and raw samples of every operation that happened in iterations that are over.
    #[must_use]
    pub fn timings(&self) -> BTreeMap<String, Timing> {
        let of = |series: &Series| {
            let ended: u64 = series.iterations.iter().sum();
            let timing = Timing {
                iteration: series.iterations.clone(),
                ..Timing::from_samples(&series.samples[..ended as usize])
            };
            (timing.count > 0).then(|| (series.name.clone(), timing))
        };
        self.series.iter().filter_map(of).collect()
    }
}

/// One operation in progress: where the counter stood when it began, and at the end of its last
/// part.
#[derive(Clone, Copy, Debug)]
pub struct Lap {
    began: Option<u64>,
    last: Option<u64>,
}

/// A duration as samples have it; some 584 years at most.
#[must_use]
pub(crate) fn nanoseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warm_up_leaves_no_sample_and_each_iteration_knows_its_own() {
        let mut recorder = Recorder::new(true);
        let open = recorder.op("open");
        for (warmup, count) in [(true, 5), (false, 2), (false, 0), (false, 3)] {
            recorder.begin();
            (0..count).for_each(|sample| recorder.add(open, sample));
            recorder.end(warmup);
        }
        let timings = recorder.timings();
        assert_eq!(timings["open"].samples, [0, 1, 0, 1, 2]);
        assert_eq!(timings["open"].iteration, [2, 0, 3]);
    }

    #[test]
    fn an_operation_that_comes_late_is_absent_from_the_iterations_before() {
        let mut recorder = Recorder::new(true);
        let open = recorder.op("open");
        recorder.begin();
        recorder.add(open, 1);
        recorder.end(false);
        recorder.begin();
        let fsync = recorder.op("fsync");
        recorder.add(fsync, 9);
        recorder.end(false);
        assert_eq!(recorder.timings()["fsync"].iteration, [0, 1]);
        assert_eq!(recorder.op("open"), open);
    }

    #[test]
    fn parts_add_up_to_the_whole() {
        let mut recorder = Recorder::new(true);
        let (open, read, total) = (
            recorder.op("open"),
            recorder.op("read"),
            recorder.op("total"),
        );
        recorder.begin();
        let mut lap = recorder.lap();
        recorder.part(&mut lap, open);
        recorder.part(&mut lap, read);
        recorder.whole(&lap, total);
        recorder.end(false);
        let timings = recorder.timings();
        let sample = |op: &str| timings[op].samples[0];
        // Each is rounded to nanoseconds by itself.
        assert!((sample("open") + sample("read")).abs_diff(sample("total")) <= 2);
    }

    #[test]
    fn what_is_measured_is_what_the_clock_of_the_system_says() {
        let mut recorder = Recorder::new(true);
        let sleep = recorder.op("sleep");
        recorder.begin();
        let around = std::time::Instant::now();
        let mut lap = recorder.lap();
        let within = std::time::Instant::now();
        std::thread::sleep(Duration::from_millis(30));
        let within = within.elapsed();
        recorder.part(&mut lap, sleep);
        let around = around.elapsed();
        recorder.end(false);
        let took = Duration::from_nanos(recorder.timings()["sleep"].samples[0]);
        // The counter's rate is known to some millionths.
        let off = Duration::from_micros(3);
        assert!(within <= took + off && took <= around + off);
    }

    #[test]
    fn room_is_made_without_a_sample() {
        let mut recorder = Recorder::new(true);
        let open = recorder.op("open");
        recorder.begin();
        recorder.reserve(open, 1000);
        recorder.add(open, 5);
        recorder.reserve(open, 1000);
        recorder.end(false);
        assert_eq!(recorder.timings()["open"].samples, [5]);
    }

    #[test]
    fn without_timing_no_operation_leaves_a_sample() {
        let mut recorder = Recorder::new(false);
        let open = recorder.op("open");
        recorder.begin();
        let mut lap = recorder.lap();
        recorder.part(&mut lap, open);
        recorder.whole(&lap, open);
        recorder.add(open, 3);
        recorder.end(false);
        assert!(recorder.timings().is_empty());
    }
}
