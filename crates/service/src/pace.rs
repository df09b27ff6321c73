//! How long an origin's reads take, so that a slow one can be told from a fast one and a slow read
//! from the others.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Reads that a judgement is made from.
const KEPT: usize = 512;
/// Reads before there is a judgement: as few as will do, since the first batch of a run needs it.
const ENOUGH: usize = 24;
/// Reads between two judgements.
const EVERY: usize = 32;
/// An origin whose median read takes longer is worth a hand-over to another thread; so is one of
/// whose reads one in a hundred is so slow that a second one would pay.
const SLOW: Duration = Duration::from_micros(300);
/// No read is called late before this: below it a second read costs more than it saves.
const LATE_FLOOR: Duration = Duration::from_millis(10);
/// A read is late once it has taken so many times as long as 95 in 100 do.
const LATE_FACTOR: u32 = 3;

#[derive(Debug, Default)]
struct Recent {
    times: Vec<Duration>,
    next: usize,
    since: usize,
    slow: bool,
    late_after: Option<Duration>,
}

/// The recent reads of one origin.
#[derive(Debug, Default)]
pub(crate) struct Pace(Mutex<Recent>);

impl Pace {
    /// A read took so long.
    pub(crate) fn note(&self, took: Duration) {
        let mut recent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if recent.times.len() < KEPT {
            recent.times.push(took);
        } else {
            let next = recent.next;
            recent.times[next] = took;
        }
        recent.next = (recent.next + 1) % KEPT;
        recent.since += 1;
        if recent.since >= EVERY || recent.times.len() == ENOUGH {
            recent.judge();
        }
    }

    /// True if reads take long enough that handing them to other threads costs nothing by
    /// comparison.
    pub(crate) fn is_slow(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).slow
    }

    /// How long a read may take before it is begun once more; `None` while too few are known.
    pub(crate) fn late_after(&self) -> Option<Duration> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .late_after
    }
}

impl Recent {
    fn judge(&mut self) {
        self.since = 0;
        let mut sorted = self.times.clone();
        sorted.sort_unstable();
        let quantile = |share: f64| sorted[((sorted.len() - 1) as f64 * share) as usize];
        self.slow = quantile(0.5) > SLOW || quantile(0.99) > LATE_FLOOR;
        // A quantile of what is kept, and a multiple of it: a tenth of all reads being slow is the
        // origin's way, and to read those twice would only add to its load.
        self.late_after =
            (sorted.len() >= ENOUGH).then(|| (quantile(0.95) * LATE_FACTOR).max(LATE_FLOOR));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noted(times: impl Iterator<Item = u64>) -> Pace {
        let pace = Pace::default();
        times.for_each(|micros| pace.note(Duration::from_micros(micros)));
        pace
    }

    #[test]
    fn a_cached_origin_is_fast_and_its_hiccups_are_not_late() {
        let pace = noted((0..1000).map(|read| if read % 50 == 0 { 5000 } else { 100 }));
        assert!(!pace.is_slow());
        assert_eq!(pace.late_after(), Some(LATE_FLOOR));
    }

    #[test]
    fn the_tail_of_a_slow_origin_is_late() {
        let pace = noted((0..1000).map(|read| if read % 100 == 0 { 9_000_000 } else { 8000 }));
        assert!(pace.is_slow());
        assert_eq!(pace.late_after(), Some(Duration::from_millis(24)));
    }

    #[test]
    fn an_origin_that_is_often_slow_has_no_late_reads() {
        let pace = noted((0..1000).map(|read| if read % 10 == 0 { 900_000 } else { 8000 }));
        assert!(pace.late_after() > Some(Duration::from_secs(1)));
    }

    #[test]
    fn a_fast_origin_with_a_tail_is_handed_over() {
        let pace = noted((0..1000).map(|read| if read % 50 == 0 { 80_000 } else { 100 }));
        assert!(pace.is_slow());
        assert_eq!(pace.late_after(), Some(LATE_FLOOR));
    }

    #[test]
    fn few_reads_are_no_judgement() {
        assert_eq!(noted((0..23).map(|_| 8000)).late_after(), None);
        assert!(noted((0..24).map(|_| 8000)).late_after().is_some());
    }
}
