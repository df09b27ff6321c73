//! Slow periods: a server that is now normal, now congested, for seeded lengths of time.

use std::time::Duration;

use crate::draw::{Slowdown, Stream, exponential};
use crate::profile::SlowPlan;

/// The two-state process. Its state is a pure function of (seed, time since the start).
#[derive(Debug)]
pub struct Periods {
    seed: u64,
    plan: Option<SlowPlan>,
    /// Number of the current period; odd ones are slow.
    index: u64,
    begins: Duration,
    ends: Duration,
}

impl Periods {
    /// Begin in a normal period.
    pub fn new(seed: u64, plan: Option<SlowPlan>) -> Self {
        let mut periods = Self {
            seed,
            plan,
            index: 0,
            begins: Duration::ZERO,
            ends: Duration::ZERO,
        };
        periods.ends = periods.length();
        periods
    }

    /// How slow the server is at `now`.
    pub fn at(&mut self, now: Duration) -> Slowdown {
        let Some(plan) = self.plan else {
            return Slowdown::NONE;
        };
        if now < self.begins {
            *self = Self::new(self.seed, Some(plan));
        }
        while now >= self.ends {
            self.index += 1;
            self.begins = self.ends;
            self.ends = self.begins.saturating_add(self.length());
        }
        if self.index % 2 == 1 {
            plan.slowdown
        } else {
            Slowdown::NONE
        }
    }

    fn length(&self) -> Duration {
        let Some(plan) = self.plan else {
            return Duration::MAX;
        };
        let mean = if self.index % 2 == 1 {
            plan.mean_slow
        } else {
            plan.mean_normal
        };
        // At least a millisecond, so that the walk to any time is short.
        exponential(mean, self.seed, Stream::Periods, self.index).max(Duration::from_millis(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: Slowdown = Slowdown {
        body: 3.0,
        tail: 10.0,
    };

    fn plan() -> SlowPlan {
        SlowPlan {
            mean_normal: Duration::from_secs(3),
            mean_slow: Duration::from_secs(1),
            slowdown: SLOW,
        }
    }

    #[test]
    fn slow_share_is_that_of_the_means() {
        let mut periods = Periods::new(9, Some(plan()));
        let n = 200_000;
        let slow = (0..n)
            .filter(|n| periods.at(Duration::from_millis(100 * n)) == SLOW)
            .count() as f64;
        assert!((slow / n as f64 - 0.25).abs() < 0.02, "{}", slow / n as f64);
    }

    #[test]
    fn state_is_a_function_of_time_alone() {
        let times = [0u64, 5_000, 60_000, 61_500, 7_000, 90_000];
        let mut walked = Periods::new(9, Some(plan()));
        for time in times.map(Duration::from_millis) {
            assert_eq!(
                walked.at(time),
                Periods::new(9, Some(plan())).at(time),
                "{time:?}"
            );
        }
    }
}
