//! A ceiling on the bytes staged ahead of need in a second. Pure.

use std::time::{Duration, Instant};

/// What may be spent at once after a pause: a tenth of a second's worth.
const BURST: Duration = Duration::from_millis(100);

/// Admits reads so that over time no more than so many bytes a second are read. A read is let
/// begin while anything is left and may overdraw it: a large read is not held up for ever.
#[derive(Debug)]
pub(super) struct RateLimit {
    bytes_a_second: Option<u64>,
    left: f64,
    then: Instant,
}

impl RateLimit {
    /// No limit if `bytes_a_second` is `None`.
    pub(super) fn new(bytes_a_second: Option<u64>, now: Instant) -> Self {
        Self {
            bytes_a_second,
            left: 1.0,
            then: now,
        }
    }

    /// True if a read may begin now.
    pub(super) fn admits(&mut self, now: Instant) -> bool {
        let Some(rate) = self.bytes_a_second.map(|rate| rate as f64) else {
            return true;
        };
        let earned = rate * now.saturating_duration_since(self.then).as_secs_f64();
        self.left = (self.left + earned).min((rate * BURST.as_secs_f64()).max(1.0));
        self.then = now;
        self.left > 0.0
    }

    /// A read of so many bytes begins.
    pub(super) fn spend(&mut self, bytes: u64) {
        if self.bytes_a_second.is_some() {
            self.left -= bytes as f64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_more_than_the_ceiling_a_burst_and_one_read_are_admitted(
            rate in 1u64..10_000_000,
            steps in proptest::collection::vec((0u64..50_000, 1u64..5_000_000), 1..300),
        ) {
            let start = Instant::now();
            let mut limit = RateLimit::new(Some(rate), start);
            let (mut now, mut admitted, mut largest) = (start, 0u64, 0u64);
            for (micros, bytes) in steps {
                now += Duration::from_micros(micros);
                largest = largest.max(bytes);
                if limit.admits(now) {
                    limit.spend(bytes);
                    admitted += bytes;
                }
            }
            let seconds = (now - start).as_secs_f64() + BURST.as_secs_f64();
            prop_assert!(admitted as f64 <= rate as f64 * seconds + largest as f64 + 2.0);
        }
    }

    #[test]
    fn a_read_larger_than_the_burst_begins_when_its_time_has_come() {
        let start = Instant::now();
        let mut limit = RateLimit::new(Some(1000), start);
        assert!(limit.admits(start));
        limit.spend(4000);
        assert!(!limit.admits(start + Duration::from_millis(3900)));
        assert!(limit.admits(start + Duration::from_millis(4100)));
    }

    #[test]
    fn without_a_ceiling_all_is_admitted() {
        let start = Instant::now();
        let mut limit = RateLimit::new(None, start);
        limit.spend(u64::MAX);
        assert!(limit.admits(start));
    }
}
