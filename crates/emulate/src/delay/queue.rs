//! The emulated server as a state machine: slots, waiting lines, drawn times, one link.
//!
//! # Invariants
//! - At most `max_parallel` requests of a class are in service; the others wait in order.
//! - A request's draw is fixed by its place in the order of arrival within its class.
//! - Every request that is offered comes out exactly once, from `pop_due` or `drain`.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;

use super::{Bucket, Periods};
use crate::draw::Stream;
use crate::profile::{Class, Profile};

/// The two classes of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpClass {
    /// Reads of file bytes.
    Read,
    /// Everything that asks for names and attributes.
    Metadata,
}

impl OpClass {
    fn stream(self) -> Stream {
        match self {
            Self::Read => Stream::Read,
            Self::Metadata => Stream::Metadata,
        }
    }

    /// The class's part of a profile.
    pub fn of(self, profile: &Profile) -> &Class {
        match self {
            Self::Read => &profile.read,
            Self::Metadata => &profile.metadata,
        }
    }
}

/// What the server needs to know of a request.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its class.
    pub class: OpClass,
    /// Bytes it asks for.
    pub bytes: u64,
    /// Hold it back until released, at most this long, before it is served.
    pub hold: Option<Duration>,
}

/// How long a request took, and why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    /// Its number in its class, from 0: the counter of its draw.
    pub index: u64,
    /// Time spent held or waiting for a slot.
    pub queued: Duration,
    /// Time in service as drawn, the wait for the link included.
    pub delay: Duration,
}

/// A request whose time has come.
#[derive(Debug)]
pub struct Due<J> {
    /// What to run.
    pub job: J,
    /// Its class: give it back to [`Queue::finish`].
    pub class: OpClass,
    /// How long it took.
    pub timing: Timing,
}

/// Requests in the server now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Depth {
    /// Held by a hang fault.
    pub held: usize,
    /// Waiting for a slot.
    pub waiting: usize,
    /// In a slot.
    pub in_service: usize,
}

struct Pending<J> {
    request: Request,
    index: u64,
    arrived: Duration,
    job: J,
}

struct Timed<J> {
    at: Duration,
    /// Breaks ties in the order of arrival.
    order: u64,
    due: Due<J>,
}

impl<J> PartialEq for Timed<J> {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl<J> Eq for Timed<J> {}

impl<J> PartialOrd for Timed<J> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<J> Ord for Timed<J> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

struct Lane<J> {
    arrivals: u64,
    in_service: usize,
    waiting: VecDeque<Pending<J>>,
}

impl<J> Default for Lane<J> {
    fn default() -> Self {
        Self {
            arrivals: 0,
            in_service: 0,
            waiting: VecDeque::new(),
        }
    }
}

/// The server's state. `J` is what runs when a request is due.
pub struct Queue<J> {
    profile: Arc<Profile>,
    lanes: [Lane<J>; 2],
    serving: BinaryHeap<Reverse<Timed<J>>>,
    held: Vec<(Duration, Pending<J>)>,
    bucket: Bucket,
    periods: Periods,
    order: u64,
}

impl<J> Queue<J> {
    /// An idle server.
    pub fn new(profile: Arc<Profile>) -> Self {
        Self {
            bucket: Bucket::new(profile.read.bytes_per_s, profile.read.burst_bytes),
            periods: Periods::new(profile.seed, profile.slow),
            profile,
            lanes: Default::default(),
            serving: BinaryHeap::new(),
            held: Vec::new(),
            order: 0,
        }
    }

    /// Take in a request.
    pub fn offer(&mut self, now: Duration, request: Request, job: J) {
        let lane = &mut self.lanes[request.class as usize];
        let index = lane.arrivals;
        lane.arrivals += 1;
        let pending = Pending {
            request,
            index,
            arrived: now,
            job,
        };
        match request.hold {
            Some(hold) => self.held.push((now.saturating_add(hold), pending)),
            None => self.admit(now, pending),
        }
    }

    /// The earliest request whose time has come, if any.
    pub fn pop_due(&mut self, now: Duration) -> Option<Due<J>> {
        self.end_holds(now);
        if self.serving.peek().is_some_and(|timed| timed.0.at <= now) {
            return self.serving.pop().map(|timed| timed.0.due);
        }
        None
    }

    /// When to look again, unless something is offered, finished or released before.
    pub fn next_wake(&self) -> Option<Duration> {
        let held = self.held.iter().map(|(until, _)| *until).min();
        let served = self.serving.peek().map(|timed| timed.0.at);
        held.into_iter().chain(served).min()
    }

    /// A request that was due is done: its slot goes to the next in line.
    pub fn finish(&mut self, now: Duration, class: OpClass) {
        let lane = &mut self.lanes[class as usize];
        lane.in_service = lane.in_service.saturating_sub(1);
        self.fill_slots(now, class);
    }

    /// Let every held request go on.
    pub fn release(&mut self, now: Duration) {
        for (_, pending) in std::mem::take(&mut self.held) {
            self.admit(now, pending);
        }
    }

    /// Go on under another profile. Draws made already stay.
    pub fn retune(&mut self, now: Duration, profile: Arc<Profile>) {
        self.bucket
            .retune(now, profile.read.bytes_per_s, profile.read.burst_bytes);
        if (profile.seed, profile.slow) != (self.profile.seed, self.profile.slow) {
            self.periods = Periods::new(profile.seed, profile.slow);
        }
        self.profile = profile;
        self.fill_slots(now, OpClass::Read);
        self.fill_slots(now, OpClass::Metadata);
    }

    /// Take out everything, in no particular order, as if no time were left.
    pub fn drain(&mut self) -> Vec<Due<J>> {
        let mut all: Vec<Due<J>> = self.serving.drain().map(|timed| timed.0.due).collect();
        let waiting = self
            .lanes
            .iter_mut()
            .flat_map(|lane| lane.waiting.drain(..));
        let pending: Vec<_> = self.held.drain(..).map(|(_, p)| p).chain(waiting).collect();
        for pending in pending {
            let class = pending.request.class;
            self.lanes[class as usize].in_service += 1;
            all.push(Due {
                job: pending.job,
                class,
                timing: Timing {
                    index: pending.index,
                    ..Timing::default()
                },
            });
        }
        all
    }

    /// Requests in the server now.
    pub fn depth(&self) -> Depth {
        Depth {
            held: self.held.len(),
            waiting: self.lanes.iter().map(|lane| lane.waiting.len()).sum(),
            in_service: self.lanes.iter().map(|lane| lane.in_service).sum(),
        }
    }

    fn end_holds(&mut self, now: Duration) {
        while let Some(n) = self.held.iter().position(|(until, _)| *until <= now) {
            let (_, pending) = self.held.remove(n);
            self.admit(now, pending);
        }
    }

    fn admit(&mut self, now: Duration, pending: Pending<J>) {
        let class = pending.request.class;
        self.lanes[class as usize].waiting.push_back(pending);
        self.fill_slots(now, class);
    }

    fn fill_slots(&mut self, now: Duration, class: OpClass) {
        loop {
            let lane = &mut self.lanes[class as usize];
            if lane.in_service >= class.of(&self.profile).max_parallel {
                return;
            }
            let Some(pending) = lane.waiting.pop_front() else {
                return;
            };
            lane.in_service += 1;
            self.serve(now, pending);
        }
    }

    fn serve(&mut self, now: Duration, pending: Pending<J>) {
        let Request { class, bytes, .. } = pending.request;
        let rules = class.of(&self.profile);
        let slow = self.periods.at(now);
        let drawn = rules
            .latency
            .draw(self.profile.seed, class.stream(), pending.index, slow);
        let size =
            Duration::try_from_secs_f64(bytes as f64 * rules.seconds_per_byte).unwrap_or_default();
        let passed = match class {
            OpClass::Read => self.bucket.reserve(now, bytes),
            OpClass::Metadata => now,
        };
        let at = (now + drawn + size).max(passed);
        let timing = Timing {
            index: pending.index,
            queued: now.saturating_sub(pending.arrived),
            delay: at.saturating_sub(now),
        };
        self.order += 1;
        let due = Due {
            job: pending.job,
            class,
            timing,
        };
        self.serving.push(Reverse(Timed {
            at,
            order: self.order,
            due,
        }));
    }
}

#[cfg(test)]
mod tests;
