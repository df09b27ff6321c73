//! How many reads ahead of need the origin bears at one time. Pure.

use std::time::Duration;

/// Times that one judgement is made from.
const SAMPLE: usize = 16;
/// Reads in progress at first: few enough that their latency is the origin's own and no queue's.
const FIRST: usize = 16;
/// Fewest reads in progress.
const LEAST: usize = 4;
/// A median this much over the best one seen means that requests queue at the origin.
const TOLERANCE: f64 = 2.0;
/// How slowly a best median that was seen before is forgotten, for each judgement.
const FORGET: f64 = 1.05;

/// A limit that follows the gradient of latency: it rises while more reads at one time do not make
/// each slower, and falls when they do. Medians, since one slow read in a hundred is the tail of the
/// origin and not a queue.
#[derive(Debug)]
pub(super) struct FlightLimit {
    limit: f64,
    most: usize,
    best: f64,
    times: Vec<f64>,
    /// Whether the limit was reached since the last judgement: an idle limit says nothing.
    reached: bool,
}

impl FlightLimit {
    pub(super) fn new(most: usize) -> Self {
        Self {
            limit: FIRST.min(most) as f64,
            most,
            best: f64::INFINITY,
            times: Vec::new(),
            reached: false,
        }
    }

    /// The limit now.
    pub(super) fn now(&self) -> usize {
        (self.limit as usize).clamp(1, self.most)
    }

    /// A read took so long; `in_flight` others are in progress.
    pub(super) fn heard(&mut self, took: Duration, in_flight: usize) {
        self.reached |= in_flight + 1 >= self.now();
        self.times.push(took.as_secs_f64());
        if self.times.len() < SAMPLE {
            return;
        }
        self.times.sort_unstable_by(f64::total_cmp);
        // A read of almost no time is noise to a ratio.
        let median = self.times[SAMPLE / 2].max(50e-6);
        self.times.clear();
        if self.limit <= FIRST as f64 {
            // Only while few are in progress is a longer time the origin's own. To forget among
            // many would take their queue for the origin, and the limit would rise for ever.
            self.best *= FORGET;
        }
        self.best = self.best.min(median);
        let gradient = (TOLERANCE * self.best / median).clamp(0.5, 1.0);
        let room_to_probe = self.limit.sqrt();
        let next = self.limit * gradient + room_to_probe;
        if next < self.limit || self.reached {
            let least = LEAST.min(self.most) as f64;
            self.limit = next.clamp(least, self.most as f64);
        }
        self.reached = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An origin that serves `parallel` reads at one time, each in a millisecond.
    fn settle(parallel: usize, rounds: usize) -> usize {
        let mut limit = FlightLimit::new(256);
        for _ in 0..rounds {
            let in_flight = limit.now();
            let queued = (in_flight as f64 / parallel as f64).max(1.0);
            limit.heard(Duration::from_secs_f64(0.001 * queued), in_flight);
        }
        limit.now()
    }

    #[test]
    fn it_rises_to_the_most_where_the_origin_bears_it() {
        assert_eq!(settle(10_000, 2000), 256);
    }

    #[test]
    fn it_stays_near_what_the_origin_serves_at_one_time() {
        let settled = settle(16, 4000);
        assert!((16..=80).contains(&settled), "{settled}");
    }

    #[test]
    fn a_long_run_does_not_wear_it_out() {
        let settled = settle(16, 400_000);
        assert!((16..=80).contains(&settled), "{settled}");
    }

    #[test]
    fn reads_that_were_fast_once_do_not_hold_it_down() {
        let mut limit = FlightLimit::new(64);
        let mut hear = |micros, reads| {
            (0..reads).for_each(|_| limit.heard(Duration::from_micros(micros), limit.now()));
            limit.now()
        };
        hear(50, 100);
        assert_eq!(
            hear(8000, 6000),
            64,
            "what a cache gave is no measure of the origin"
        );
    }

    #[test]
    fn the_tail_of_the_origin_does_not_lower_it() {
        let mut limit = FlightLimit::new(64);
        for read in 0..2000 {
            let took = if read % 20 == 0 { 5.0 } else { 0.001 };
            limit.heard(Duration::from_secs_f64(took), limit.now());
        }
        assert_eq!(limit.now(), 64);
    }

    #[test]
    fn an_idle_limit_does_not_rise() {
        let mut limit = FlightLimit::new(64);
        let before = limit.now();
        (0..1000).for_each(|_| limit.heard(Duration::from_millis(1), 0));
        assert_eq!(limit.now(), before);
    }
}
