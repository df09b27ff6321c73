//! How far staging may be ahead of a loader that starts.
//!
//! A loader that starts its workers and a trainer that waits for its first batch need the processors
//! and the origin more than any later batch does. So staging begins with the first batches alone,
//! and once the trainer has one, the bound of its lead doubles every quarter of a second.

use std::time::{Duration, Instant};

/// Batches that are staged while workers start: one of each of two workers.
const START_BATCHES: u64 = 2;
/// The same in samples, at least.
const START_SAMPLES: u64 = 32;
/// Batches that staging may be ahead when the first one has arrived.
const FIRST_BATCHES: u64 = 8;
/// How long that bound takes to double.
const DOUBLING: Duration = Duration::from_millis(250);
/// How long a loader may take to start. One that takes longer is busy with something else.
const LONGEST: Duration = Duration::from_secs(1);
/// A loader hands out the batches of its start in one go; the next one after such a pause is for
/// a batch that has arrived.
const PAUSE: Duration = Duration::from_millis(50);

/// A loader's start, from when it announced its order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    since: Instant,
    /// When it was last seen to hand out samples, while it starts.
    handed_out: Option<Instant>,
    over: Option<Instant>,
}

impl Start {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            handed_out: None,
            over: None,
        }
    }

    /// Notes whether more samples were handed out by now.
    pub(super) fn look(&mut self, moved: bool, now: Instant) {
        if self.over.is_some() {
            return;
        }
        let is_next = moved && self.handed_out.is_some_and(|last| now > last + PAUSE);
        if is_next || now > self.since + LONGEST {
            self.over = Some(now);
        } else if moved {
            self.handed_out = Some(now);
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.over.is_some()
    }

    /// Samples from the beginning of the order that are staged before the start is over.
    pub(super) fn samples(batch: u64) -> u64 {
        (START_BATCHES * batch).max(START_SAMPLES)
    }

    /// Samples that staging may be ahead of the loader once it is over, for as long as another one
    /// starts.
    pub(super) fn first_lead(batch: u64) -> u64 {
        Self::samples(batch) * FIRST_BATCHES / START_BATCHES
    }

    /// The same when none does.
    pub(super) fn lead(&self, batch: u64, now: Instant) -> u64 {
        let over = self.over.unwrap_or(now);
        let doublings = now.saturating_duration_since(over).as_millis() / DOUBLING.as_millis();
        let doublings = u32::try_from(doublings).unwrap_or(u32::MAX);
        Self::first_lead(batch).saturating_mul(1u64.checked_shl(doublings).unwrap_or(u64::MAX))
    }
}
