//! Counts of what was served, and the distribution of the times it took.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::{Deserialize, Serialize};

/// Steps per doubling of time, so that a quantile is at most 9 % off.
const STEPS: u64 = 8;
/// Doublings from 1 µs; the last one ends beyond two hours.
const DOUBLINGS: usize = 33;

/// A histogram of times, without a lock.
#[derive(Debug)]
pub struct Times {
    buckets: [AtomicU64; DOUBLINGS * STEPS as usize],
    total_ns: AtomicU64,
    max_ns: AtomicU64,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            buckets: std::array::from_fn(|_| AtomicU64::new(0)),
            total_ns: AtomicU64::new(0),
            max_ns: AtomicU64::new(0),
        }
    }
}

/// A summary of times, in ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TimesSummary {
    /// Arithmetic mean.
    pub mean_ms: f64,
    /// Median, at most 9 % off.
    pub p50_ms: f64,
    /// 95 % quantile, at most 9 % off.
    pub p95_ms: f64,
    /// 99 % quantile, at most 9 % off.
    pub p99_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

impl Times {
    /// Count one time.
    pub fn record(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        // Counters only: nothing else is read by their order.
        self.buckets[bucket(ns)].fetch_add(1, Ordering::Relaxed);
        self.total_ns.fetch_add(ns, Ordering::Relaxed);
        self.max_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// What was counted so far.
    pub fn summary(&self) -> TimesSummary {
        let counts: Vec<u64> = self
            .buckets
            .iter()
            .map(|b| b.load(Ordering::Relaxed))
            .collect();
        let n: u64 = counts.iter().sum();
        if n == 0 {
            return TimesSummary::default();
        }
        let max_ms = self.max_ns.load(Ordering::Relaxed) as f64 / 1e6;
        let quantile = |q: f64| {
            let rank = ((n as f64 * q).ceil() as u64).clamp(1, n);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            found.map_or(max_ms, |at| upper_ms(at).min(max_ms))
        };
        TimesSummary {
            mean_ms: self.total_ns.load(Ordering::Relaxed) as f64 / n as f64 / 1e6,
            p50_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            max_ms,
        }
    }
}

fn bucket(ns: u64) -> usize {
    let us = ns as f64 / 1e3;
    if us <= 1.0 {
        return 0;
    }
    ((us.log2() * STEPS as f64) as usize).min(DOUBLINGS * STEPS as usize - 1)
}

fn upper_ms(bucket: usize) -> f64 {
    ((bucket + 1) as f64 / STEPS as f64).exp2() / 1e3
}

/// Counters of one class of requests.
#[derive(Debug, Default)]
pub struct ClassStats {
    /// Answered without an error.
    pub ok: AtomicU64,
    /// Answered with an error.
    pub failed: AtomicU64,
    /// Bytes returned.
    pub bytes: AtomicU64,
    /// Times drawn for the service.
    pub delay: Times,
    /// Times waited or held before the service.
    pub queued: Times,
}

/// A snapshot of [`ClassStats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ClassSummary {
    /// Answered without an error.
    pub ok: u64,
    /// Answered with an error.
    pub failed: u64,
    /// Bytes returned.
    pub bytes: u64,
    /// Times drawn for the service.
    pub delay: TimesSummary,
    /// Times waited or held before the service.
    pub queued: TimesSummary,
}

impl ClassStats {
    /// The counters as they are now.
    pub fn summary(&self) -> ClassSummary {
        ClassSummary {
            ok: self.ok.load(Ordering::Relaxed),
            failed: self.failed.load(Ordering::Relaxed),
            bytes: self.bytes.load(Ordering::Relaxed),
            delay: self.delay.summary(),
            queued: self.queued.summary(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_within_a_step() {
        let times = Times::default();
        for ms in 1..=1000 {
            times.record(Duration::from_millis(ms));
        }
        let found = times.summary();
        for (found, wanted) in [
            (found.p50_ms, 500.0),
            (found.p95_ms, 950.0),
            (found.p99_ms, 990.0),
        ] {
            assert!(
                found >= wanted && found <= wanted * 1.1,
                "{found} for {wanted}"
            );
        }
        assert_eq!((found.mean_ms, found.max_ms), (500.5, 1000.0));
    }

    #[test]
    fn extremes_fit() {
        let times = Times::default();
        assert_eq!(times.summary(), TimesSummary::default());
        times.record(Duration::ZERO);
        times.record(Duration::MAX);
        assert!(times.summary().max_ms > 1e9);
    }
}
