//! Which blocks of a shard are being filled or evicted: at most one flight for each block.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The flights of one shard.
#[derive(Debug, Default)]
pub(crate) struct Flights {
    /// First block → one past the last, disjoint.
    runs: Mutex<BTreeMap<u64, u64>>,
    landed: Condvar,
}

/// Runs of blocks that this thread fills or evicts. Dropping it ends the flight, on success, on
/// error and on unwind alike; a follower learns only that it ended and looks again.
#[derive(Debug)]
pub(crate) struct Flight<'a> {
    flights: &'a Flights,
    runs: Vec<Range<u64>>,
}

impl Flight<'_> {
    /// The runs, disjoint and in order.
    pub(crate) fn runs(&self) -> &[Range<u64>] {
        &self.runs
    }

    /// The runs, for one who ends them by [`Flights::end`].
    pub(crate) fn into_runs(mut self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.runs)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.flights.end(&self.runs);
    }
}

impl Flights {
    /// Leads the blocks of `wanted` that `needs` says yes to and nobody leads. Also tells whether
    /// any that it says yes to is led by another.
    pub(crate) fn lead(
        &self,
        wanted: &Range<u64>,
        needs: impl Fn(u64) -> bool,
    ) -> (Flight<'_>, bool) {
        let mut table = self.lock();
        let mut runs: Vec<Range<u64>> = Vec::new();
        let mut others = false;
        for block in wanted.clone() {
            // Asked under the lock: whoever led the block before has published it by now.
            if !needs(block) {
                continue;
            }
            if any_led(&table, &(block..block + 1)) {
                others = true;
            } else if let Some(run) = runs.last_mut().filter(|run| run.end == block) {
                run.end += 1;
            } else {
                runs.push(block..block + 1);
            }
        }
        table.extend(runs.iter().map(|run| (run.start, run.end)));
        (
            Flight {
                flights: self,
                runs,
            },
            others,
        )
    }

    /// Ends flights, so that others may lead their blocks.
    pub(crate) fn end(&self, runs: &[Range<u64>]) {
        let mut table = self.lock();
        for run in runs {
            table.remove(&run.start);
        }
        drop(table);
        self.landed.notify_all();
    }

    /// Leads all of `wanted`, or nothing if any of it is led by another.
    pub(crate) fn lead_whole(&self, wanted: Range<u64>) -> Option<Flight<'_>> {
        let mut table = self.lock();
        if any_led(&table, &wanted) {
            return None;
        }
        table.insert(wanted.start, wanted.end);
        Some(Flight {
            flights: self,
            runs: vec![wanted],
        })
    }

    /// Waits until no block of `wanted` that `needs` says yes to is led by another; false if the
    /// deadline came first.
    pub(crate) fn follow(
        &self,
        wanted: &Range<u64>,
        needs: impl Fn(u64) -> bool,
        deadline: Instant,
    ) -> bool {
        let mut table = self.lock();
        while (wanted.clone()).any(|block| needs(block) && any_led(&table, &(block..block + 1))) {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            table = self
                .landed
                .wait_timeout(table, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
        true
    }

    /// Lets followers look again: blocks have landed, though their flight may not have ended.
    pub(crate) fn wake(&self) {
        // Under the lock, so that no follower is between its look and its wait.
        let _table = self.lock();
        self.landed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, u64>> {
        // The table is consistent after every statement, so a panic elsewhere spoils nothing.
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs are disjoint, so of those that begin before the end of `wanted`, the last ends last.
fn any_led(table: &BTreeMap<u64, u64>, wanted: &Range<u64>) -> bool {
    table
        .range(..wanted.end)
        .next_back()
        .is_some_and(|(_, end)| wanted.start < *end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn what_another_leads_is_left_out() {
        let flights = Flights::default();
        let (first, others) = flights.lead(&(2..4), |_| true);
        assert_eq!(
            (first.runs(), others),
            (std::slice::from_ref(&(2..4)), false)
        );
        let (second, others) = flights.lead(&(0..6), |block| block != 5);
        assert_eq!((second.runs(), others), (&[0..2, 4..5][..], true));
        assert!(flights.lead_whole(4..6).is_none());
        assert!(flights.lead_whole(0..9).is_none());
        assert!(flights.lead_whole(5..9).is_some());
        drop(second);
        assert!(flights.lead_whole(4..6).is_some());
    }

    #[test]
    fn a_follower_wakes_when_the_leader_ends_even_by_panic() {
        let flights = Flights::default();
        std::thread::scope(|scope| {
            let (flight, _) = flights.lead(&(0..1), |_| true);
            let follower = scope.spawn(|| {
                flights.follow(&(0..1), |_| true, Instant::now() + Duration::from_secs(60))
            });
            let leader = scope.spawn(move || {
                let _flight = flight;
                panic!("the leader fails");
            });
            assert!(leader.join().is_err());
            assert!(follower.join().unwrap());
        });
    }

    #[test]
    fn a_follower_gives_up_at_its_deadline() {
        let flights = Flights::default();
        let (_flight, _) = flights.lead(&(0..1), |_| true);
        assert!(!flights.follow(&(0..1), |_| true, Instant::now()));
    }
}
