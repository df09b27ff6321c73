//! Reads ahead of need that are in progress, and how many more each origin bears. Pure.

use std::collections::HashMap;
use std::time::Duration;

use super::limit::FlightLimit;

/// Tells origins apart while they are in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OriginId(pub(super) usize);

#[derive(Debug)]
struct Flight {
    limit: FlightLimit,
    in_flight: usize,
}

/// One limit for each origin, so that a slow one does not hold up a fast one, and one for all.
#[derive(Debug)]
pub(super) struct Flights {
    most: usize,
    in_flight: usize,
    of: HashMap<OriginId, Flight>,
}

impl Flights {
    /// No more than `most` of all origins together.
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            in_flight: 0,
            of: HashMap::new(),
        }
    }

    /// Reads in progress.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    /// Reads that may be in progress, of all origins known.
    pub(super) fn limit(&self) -> usize {
        let limits = self.of.values().map(|flight| flight.limit.now());
        limits.sum::<usize>().min(self.most)
    }

    /// True if one more read of this origin may begin.
    pub(super) fn bear(&mut self, origin: OriginId) -> bool {
        if self.in_flight >= self.most {
            return false;
        }
        let flight = self.flight(origin);
        flight.in_flight < flight.limit.now()
    }

    /// A read of this origin begins.
    pub(super) fn begin(&mut self, origin: OriginId) {
        self.in_flight += 1;
        self.flight(origin).in_flight += 1;
    }

    /// A read of this origin has ended; `took` if it was the origin that took the time.
    pub(super) fn end(&mut self, origin: OriginId, took: Option<Duration>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        let flight = self.flight(origin);
        flight.in_flight = flight.in_flight.saturating_sub(1);
        if let Some(took) = took {
            flight.limit.heard(took, flight.in_flight);
        }
    }

    /// Forgets origins of which nothing is in progress and nothing more will be read.
    pub(super) fn retain(&mut self, still: impl Fn(OriginId) -> bool) {
        self.of
            .retain(|origin, flight| flight.in_flight > 0 || still(*origin));
    }

    fn flight(&mut self, origin: OriginId) -> &mut Flight {
        let most = self.most;
        self.of.entry(origin).or_insert_with(|| Flight {
            limit: FlightLimit::new(most),
            in_flight: 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOW: OriginId = OriginId(1);
    const FAST: OriginId = OriginId(2);

    #[test]
    fn an_origin_that_queues_does_not_hold_up_another() {
        let mut flights = Flights::new(64);
        for round in 0..200 {
            for (origin, took) in [(SLOW, 1 + round), (FAST, 1)] {
                while flights.bear(origin) {
                    flights.begin(origin);
                }
                flights.end(origin, Some(Duration::from_millis(took)));
            }
        }
        let of = |origin| flights.of[&origin].limit.now();
        assert!(of(SLOW) < 16, "{}", of(SLOW));
        assert!(of(FAST) > 40, "{}", of(FAST));
        assert!(flights.in_flight() <= 64);
    }

    #[test]
    fn an_origin_is_forgotten_once_nothing_of_it_is_in_progress() {
        let mut flights = Flights::new(4);
        flights.begin(SLOW);
        flights.begin(FAST);
        flights.end(FAST, None);
        flights.retain(|_| false);
        assert_eq!((flights.of.len(), flights.in_flight()), (1, 1));
        flights.end(SLOW, None);
        flights.retain(|_| false);
        assert_eq!((flights.of.len(), flights.in_flight()), (0, 0));
    }
}
