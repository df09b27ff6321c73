//! The shared bandwidth cap: one link that all reads pass through, in order.

use std::time::Duration;

/// A token bucket over bytes. Times are measured from any fixed start.
#[derive(Clone, Copy, Debug)]
pub struct Bucket {
    bytes_per_s: Option<f64>,
    burst_bytes: u64,
    /// When the link has carried everything that was reserved.
    free_at: Duration,
}

impl Bucket {
    /// A link of that rate, or one without a cap, that lets `burst_bytes` pass at once when rested.
    pub fn new(bytes_per_s: Option<f64>, burst_bytes: u64) -> Self {
        Self {
            bytes_per_s,
            burst_bytes,
            free_at: Duration::ZERO,
        }
    }

    /// Reserve the link for `bytes` and return when they have passed.
    pub fn reserve(&mut self, now: Duration, bytes: u64) -> Duration {
        let Some(rate) = self.bytes_per_s else {
            return now;
        };
        let seconds =
            |bytes: u64| Duration::try_from_secs_f64(bytes as f64 / rate).unwrap_or(Duration::MAX);
        // A rested link may run ahead of the clock by its burst.
        let rested = now.saturating_sub(seconds(self.burst_bytes));
        self.free_at = self.free_at.max(rested).saturating_add(seconds(bytes));
        self.free_at.max(now)
    }

    /// Change the cap. What is already reserved keeps its bytes, at the new rate.
    pub fn retune(&mut self, now: Duration, bytes_per_s: Option<f64>, burst_bytes: u64) {
        let backlog = self.free_at.saturating_sub(now).as_secs_f64();
        self.free_at = match (self.bytes_per_s, bytes_per_s) {
            (Some(old), Some(new)) => now.saturating_add(
                Duration::try_from_secs_f64(backlog * old / new).unwrap_or(Duration::MAX),
            ),
            _ => now,
        };
        self.bytes_per_s = bytes_per_s;
        self.burst_bytes = burst_bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn readers_share_one_rate() {
        let mut bucket = Bucket::new(Some(1000.0), 0);
        let ready: Vec<f64> = (0..4)
            .map(|_| bucket.reserve(SECOND, 500).as_secs_f64())
            .collect();
        assert_eq!(
            ready,
            [1.5, 2.0, 2.5, 3.0],
            "four reads at once take as long as their sum"
        );
    }

    #[test]
    fn an_idle_link_saves_up_no_more_than_its_burst() {
        let mut bucket = Bucket::new(Some(1000.0), 2000);
        let late = 100 * SECOND;
        assert_eq!(bucket.reserve(late, 2000), late, "the burst passes at once");
        assert_eq!(
            bucket.reserve(late, 1000),
            late + SECOND,
            "then the rate holds"
        );
        let mut none = Bucket::new(Some(1000.0), 0);
        assert_eq!(none.reserve(late, 1000), late + SECOND);
    }

    #[test]
    fn over_any_long_time_the_rate_is_never_exceeded() {
        let mut bucket = Bucket::new(Some(10_000.0), 500);
        let (mut now, mut bytes) = (Duration::ZERO, 0u64);
        for n in 0..1000u64 {
            let asked = 1 + (n * 7919) % 400;
            bytes += asked;
            let ready = bucket.reserve(now, asked);
            assert!(ready.as_secs_f64() + 1e-6 >= (bytes as f64 - 500.0) / 10_000.0);
            now += Duration::from_millis(n % 3);
        }
    }

    #[test]
    fn a_new_rate_applies_to_what_is_reserved() {
        let mut bucket = Bucket::new(Some(1000.0), 0);
        bucket.reserve(Duration::ZERO, 4000);
        bucket.retune(SECOND, Some(3000.0), 0);
        assert_eq!(
            bucket.reserve(SECOND, 0),
            2 * SECOND,
            "3000 bytes left at 3000 per second"
        );
        bucket.retune(SECOND, None, 0);
        assert_eq!(bucket.reserve(SECOND, 1 << 40), SECOND, "no cap");
    }
}
