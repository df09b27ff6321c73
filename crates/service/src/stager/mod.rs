//! Stages along the orders that samplers have announced, ahead of need and nearest need first.
//!
//! One thread owns everything here; links and finished fills talk to it by a bounded channel.
//! A wrong plan costs time, never data: all it can do is to make blocks resident that nobody asks
//! for.

mod flights;
mod follow;
mod known;
mod limit;
mod rate;
mod start;
mod uses;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, Filled, Job};
use forebay_residency::PlanFile;

use crate::origins::OriginReads;
use crate::pool::{Class, Pool};
use crate::stage::OpenDataset;

use flights::{Flights, OriginId};
use follow::{Following, entries};
use known::{Known, Place};
use rate::RateLimit;
use uses::Uses;

/// How often the samplers' places are looked at while there are plans.
const TICK: Duration = Duration::from_millis(2);
/// Samples whose ranges are merged into common reads.
const MERGED_SAMPLES: usize = 16;
/// Samples looked at in one tick, at most, so that a resident data set costs little.
const SAMPLES_A_TICK: usize = 2048;
/// Time that a fill ahead of need may wait for another's fill of the same block.
const FOLLOW_LIMIT: Duration = Duration::from_secs(30);
/// Words for the stager that may wait. Whoever has more to say waits: the stager hears all that
/// there is at every look, and never says anything to itself.
const QUEUE: usize = 4096;
/// Plans of one link that are followed, the latest ones.
const PLANS_A_LINK: usize = 16;

/// What the stager hears.
enum Event {
    Follow {
        link: u64,
        following: Box<Following>,
    },
    Forget {
        link: u64,
    },
    Learned {
        place: Place,
        progress: Weak<AtomicU64>,
        uses: Option<Box<Uses>>,
    },
    Stop,
    Ended(Ended),
}

/// A fill of the stager's that has ended.
#[derive(Clone, Copy)]
struct Ended {
    /// Number of the plan that it was for, and its batch there.
    plan: u64,
    batch: u64,
    origin: OriginId,
    /// Bytes of its blocks.
    bytes: u64,
    /// What it read and kept.
    read: Option<OriginReads>,
}

/// A fill of the stager's. Says on drop that it has ended, so that one that panics counts too.
struct Fill {
    events: SyncSender<Event>,
    ended: Ended,
}

impl Drop for Fill {
    fn drop(&mut self) {
        let _ = self.events.send(Event::Ended(self.ended));
    }
}

/// What the stager does, for the status.
#[derive(Debug, Default)]
pub(crate) struct StagerStatus {
    pub(crate) plans: AtomicU64,
    pub(crate) ahead_samples: AtomicU64,
    pub(crate) ahead_bytes: AtomicU64,
    /// Iterations of the rank that is least ahead; all ones where no plan says how many samples
    /// one has.
    pub(crate) ahead_iterations: AtomicU64,
    pub(crate) in_flight_reads: AtomicU64,
    pub(crate) in_flight_bytes: AtomicU64,
    pub(crate) flight_limit: AtomicU64,
    pub(crate) yields: AtomicU64,
    pub(crate) staged_bytes: AtomicU64,
}

/// The way to talk to the stager. Its thread ends with it.
pub(crate) struct Stager {
    events: SyncSender<Event>,
    status: Arc<StagerStatus>,
}

/// What a stager needs of its node.
pub(crate) struct StagerParts {
    pub(crate) cache: Arc<Cache>,
    pub(crate) pool: Arc<Pool>,
    /// Bytes that one plan may be ahead of need.
    pub(crate) ahead_bytes: u64,
    /// Time that one plan may be ahead of need, at the pace at which samples are taken.
    pub(crate) ahead: Duration,
    /// Bytes that may be read ahead of need in a second; `None` for any number.
    pub(crate) bytes_a_second: Option<u64>,
    /// Whether eviction asks what is needed next.
    pub(crate) evicts_by_plan: bool,
}

impl Stager {
    /// Starts the thread. It ends when it is told to.
    pub(crate) fn start(parts: StagerParts) -> std::io::Result<Self> {
        let (events, heard) = sync_channel(QUEUE);
        let status = Arc::new(StagerStatus::default());
        let most = parts.pool.prefetch_threads();
        let rate = RateLimit::new(parts.bytes_a_second, Instant::now());
        let mut work = Work {
            parts,
            status: status.clone(),
            events: events.clone(),
            following: Vec::new(),
            plans: 0,
            flights: Flights::new(most),
            in_flight_bytes: 0,
            rate,
            known: Arc::default(),
            learning: false,
            looked: None,
        };
        work.parts.cache.set_future(work.known.clone());
        std::thread::Builder::new()
            .name("stager".into())
            .spawn(move || {
                work.run(&heard);
                // First, so that whoever still has something to say does not wait.
                drop(heard);
                drop(work);
            })?;
        Ok(Self { events, status })
    }

    /// Follows a plan from now on, in place of an earlier one of the same sampler.
    pub(crate) fn follow(&self, link: u64, open: OpenDataset, plans: Vec<PlanFile>) {
        let following = Box::new(Following::new(open, plans));
        let _ = self.events.send(Event::Follow { link, following });
    }

    /// Forgets the plans of a link that has ended.
    pub(crate) fn forget(&self, link: u64) {
        let _ = self.events.send(Event::Forget { link });
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let _ = self.events.send(Event::Stop);
    }

    pub(crate) fn status(&self) -> &StagerStatus {
        &self.status
    }
}

impl Drop for Stager {
    fn drop(&mut self) {
        self.stop();
    }
}

/// The thread's own state.
struct Work {
    parts: StagerParts,
    status: Arc<StagerStatus>,
    events: SyncSender<Event>,
    following: Vec<(u64, Box<Following>)>,
    /// How many plans have been followed: the number of the next one.
    plans: u64,
    flights: Flights,
    in_flight_bytes: u64,
    rate: RateLimit,
    known: Arc<Known>,
    /// Whether the uses of some plan are being worked out: of one at a time, for the memory's sake.
    learning: bool,
    /// When the samplers' places were looked at.
    looked: Option<Instant>,
}

impl Work {
    fn run(&mut self, heard: &Receiver<Event>) {
        loop {
            let event = if self.following.is_empty() && self.flights.in_flight() == 0 {
                heard.recv().map_err(|_| RecvTimeoutError::Disconnected)
            } else {
                heard.recv_timeout(TICK)
            };
            match event {
                Ok(Event::Stop) => return,
                Ok(event) => self.hear(event),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(event) = heard.try_recv() {
                if matches!(event, Event::Stop) {
                    return;
                }
                self.hear(event);
            }
            self.look();
            self.stage_ahead();
            self.show();
        }
    }

    fn hear(&mut self, event: Event) {
        match event {
            Event::Follow { link, following } => self.follow(link, following),
            Event::Forget { link } => {
                self.following.retain(|(other, _)| *other != link);
                self.forget_the_gone();
            }
            Event::Stop => {}
            Event::Learned {
                place,
                progress,
                uses,
            } => {
                self.learning = false;
                // One that was replaced meanwhile has left with its progress.
                if let (Some(uses), Some(progress)) = (uses, progress.upgrade()) {
                    self.known.insert(place, *uses, progress);
                }
                self.learn_next();
            }
            Event::Ended(ended) => self.ended(ended),
        }
    }

    fn ended(&mut self, ended: Ended) {
        // A fill that found its blocks resident, or that followed another's, took no time of the
        // origin's.
        let read = ended.read.filter(|read| read.bytes > 0);
        self.flights.end(ended.origin, read.map(|read| read.took));
        self.in_flight_bytes = self.in_flight_bytes.saturating_sub(ended.bytes);
        let staged = read.map_or(0, |read| read.bytes);
        (self.status.staged_bytes).fetch_add(staged, Ordering::Relaxed);
        self.note_end(ended);
    }

    /// Tells the plan that one of its reads has ended, or will not begin.
    fn note_end(&mut self, ended: Ended) {
        let mut plans = self.following.iter_mut();
        if let Some((_, following)) = plans.find(|(_, each)| each.number == ended.plan) {
            following.ended(ended.batch);
        }
    }

    fn follow(&mut self, link: u64, mut following: Box<Following>) {
        following.number = self.plans;
        self.plans += 1;
        let place = following.place(link);
        self.following
            .retain(|(other, old)| old.place(*other) != place);
        let of_link = |(other, _): &(u64, Box<Following>)| *other == link;
        if self.following.iter().filter(|each| of_link(each)).count() >= PLANS_A_LINK {
            let oldest = self.following.iter().position(of_link);
            oldest.map(|at| self.following.remove(at));
        }
        self.following.push((link, following));
        // The uses of the order before stay known until those of this one are.
        self.forget_the_gone();
        self.learn_next();
    }

    fn forget_the_gone(&mut self) {
        let followed = |place: &Place| {
            let mut places = self.following.iter().map(|(link, each)| each.place(*link));
            places.any(|each| each == *place)
        };
        self.known.retain(followed);
        let following = &self.following;
        let is_read = |origin| following.iter().any(|(_, each)| each.origin() == origin);
        self.flights.retain(is_read);
    }

    /// Works out when each block is needed, beside the staging, where room may become short: for
    /// the plan that has waited longest for it.
    fn learn_next(&mut self) {
        // It takes a processor for a while, and a loader that starts has more use for it.
        if self.learning || !self.parts.evicts_by_plan || self.is_any_starting() {
            return;
        }
        let mut unlearnt = (self.following.iter_mut()).filter(|(_, each)| !each.is_learnt);
        let Some((link, following)) = unlearnt.next() else {
            return;
        };
        following.is_learnt = true;
        let place = following.place(*link);
        let dataset = following.open().dataset.clone();
        let plans = following.plans().clone();
        let progress = Arc::downgrade(following.progress());
        let events = self.events.clone();
        // One that cannot be started costs the better order of eviction, and nothing else.
        let started = std::thread::Builder::new()
            .name("uses".into())
            .spawn(move || {
                let uses = catch_unwind(AssertUnwindSafe(|| {
                    Uses::of(dataset.index(), |first| {
                        // Nobody wants to know any more once the plan is gone.
                        let gone = progress.strong_count() == 0;
                        if gone {
                            Vec::new()
                        } else {
                            entries(&plans, first)
                        }
                    })
                }));
                let uses = uses
                    .ok()
                    .and_then(|known| known.ok().flatten())
                    .map(Box::new);
                let _ = events.send(Event::Learned {
                    place,
                    progress,
                    uses,
                });
            });
        self.learning = started.is_ok();
    }

    /// Looks how far the samplers are. A plan that was given up, or that cannot be read, is followed
    /// no longer.
    fn look(&mut self) {
        let now = Instant::now();
        if self.looked.is_some_and(|then| now < then + TICK) {
            return;
        }
        self.looked = Some(now);
        let before = self.following.len();
        self.following
            .retain_mut(|(_, following)| matches!(following.look(now), Ok(true)));
        for (_, following) in &mut self.following {
            following.tell_staged();
        }
        if self.following.len() < before {
            self.forget_the_gone();
        }
    }

    fn stage_ahead(&mut self) {
        if self.yields() {
            return;
        }
        // All plans together leave half of the cache to what is in use.
        let half = self.parts.cache.plan().capacity_bytes / 2;
        let share = half / (self.following.len() as u64).max(1);
        let (bytes, time) = (self.parts.ahead_bytes.min(share), self.parts.ahead);
        let gently = self.is_any_starting();
        let mut looked_at = 0;
        while looked_at < SAMPLES_A_TICK && self.rate.admits(Instant::now()) {
            let flights = &mut self.flights;
            let nearest = (self.following.iter_mut())
                .map(|(_, following)| following)
                .filter(|following| following.may_go_on(bytes, time, gently))
                .filter(|following| flights.bear(following.origin()))
                .min_by_key(|following| following.lead());
            let Some(nearest) = nearest else { return };
            if let Some((batch, job)) = nearest.next_job() {
                let open = nearest.open().clone();
                let block = u64::from(open.dataset.index().block_size().bytes());
                let ended = Ended {
                    plan: nearest.number,
                    batch,
                    origin: nearest.origin(),
                    bytes: (job.blocks.end - job.blocks.start) * block,
                    read: None,
                };
                self.submit(&open, job, ended);
            } else {
                nearest.look_ahead(&self.parts.cache, MERGED_SAMPLES, bytes);
                looked_at += MERGED_SAMPLES;
            }
        }
    }

    fn is_any_starting(&self) -> bool {
        (self.following.iter()).any(|(_, each)| each.is_starting())
    }

    /// Whether some rank of the node is in a phase that reads ahead of need must not disturb.
    fn yields(&self) -> bool {
        self.following.iter().any(|(_, each)| each.yields())
    }

    fn submit(&mut self, open: &OpenDataset, job: Job, ended: Ended) {
        self.rate.spend(ended.bytes);
        let cache = self.parts.cache.clone();
        let (open, events) = (open.clone(), self.events.clone());
        let accepted = self.parts.pool.submit(Class::Prefetch, move || {
            let mut fill = Fill { events, ended };
            let (filled, read) = open.fill_ahead(&cache, &job, Instant::now() + FOLLOW_LIMIT);
            fill.ended.read = matches!(filled, Ok(Filled::Resident)).then_some(read);
        });
        if accepted {
            self.flights.begin(ended.origin);
            self.in_flight_bytes += ended.bytes;
        } else {
            self.note_end(ended);
        }
    }

    fn show(&self) {
        let set = |counter: &AtomicU64, value: u64| counter.store(value, Ordering::Relaxed);
        let sum =
            |part: fn(&Following) -> u64| self.following.iter().map(|(_, each)| part(each)).sum();
        set(&self.status.plans, self.following.len() as u64);
        set(&self.status.ahead_samples, sum(Following::staged_lead));
        set(&self.status.ahead_bytes, sum(Following::ahead_bytes));
        let iterations = (self.following.iter()).filter_map(|(_, each)| each.staged_iterations());
        let least = iterations.min().unwrap_or(u64::MAX);
        set(&self.status.ahead_iterations, least);
        set(&self.status.in_flight_bytes, self.in_flight_bytes);
        set(
            &self.status.in_flight_reads,
            self.flights.in_flight() as u64,
        );
        set(&self.status.flight_limit, self.flights.limit() as u64);
        set(&self.status.yields, self.yields().into());
    }
}

#[cfg(test)]
mod tests;
