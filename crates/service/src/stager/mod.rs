//! Stages along the orders that samplers have announced, ahead of need and nearest need first.
//!
//! One thread owns everything here; links and finished fills talk to it by a bounded channel.
//! A wrong plan costs time, never data: all it can do is to make blocks resident that nobody asks
//! for.

mod follow;
mod known;
mod limit;
mod uses;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, Filled, Job};
use forebay_residency::PlanFile;

use crate::pool::{Class, Pool};
use crate::stage::OpenDataset;

use follow::{Following, entries};
use known::{Known, Place};
use limit::FlightLimit;
use uses::Uses;

/// How often the samplers' places are looked at while there are plans.
const TICK: Duration = Duration::from_millis(2);
/// Samples whose ranges are merged into common reads.
const MERGED_SAMPLES: usize = 16;
/// Samples looked at in one tick, at most, so that a resident data set costs little.
const SAMPLES_A_TICK: usize = 2048;
/// Time that a fill ahead of need may wait for another's fill of the same block.
const FOLLOW_LIMIT: Duration = Duration::from_secs(30);
/// Words for the stager that may wait.
const QUEUE: usize = 4096;

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
        progress: Arc<AtomicU64>,
        uses: Box<Uses>,
    },
    Stop,
    Filled {
        took: Duration,
        bytes: u64,
        admitted: bool,
    },
}

/// What the stager does, for the status.
#[derive(Debug, Default)]
pub(crate) struct StagerStatus {
    pub(crate) plans: AtomicU64,
    pub(crate) ahead_samples: AtomicU64,
    pub(crate) ahead_bytes: AtomicU64,
    pub(crate) in_flight_reads: AtomicU64,
    pub(crate) flight_limit: AtomicU64,
    pub(crate) staged_bytes: AtomicU64,
}

/// The way to talk to the stager.
#[derive(Clone)]
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
    /// Whether eviction asks what is needed next.
    pub(crate) evicts_by_plan: bool,
}

impl Stager {
    /// Starts the thread. It ends when it is told to.
    pub(crate) fn start(parts: StagerParts) -> std::io::Result<Self> {
        let (events, heard) = sync_channel(QUEUE);
        let status = Arc::new(StagerStatus::default());
        // Prefetch leaves a quarter of the readers to those who wait now.
        let most = (parts.pool.threads() - parts.pool.threads() / 4).max(1);
        let work = Work {
            parts,
            status: status.clone(),
            events: events.clone(),
            following: Vec::new(),
            in_flight: 0,
            limit: FlightLimit::new(most),
            known: Arc::default(),
        };
        work.parts.cache.set_future(work.known.clone());
        std::thread::Builder::new()
            .name("stager".into())
            .spawn(move || work.run(&heard))?;
        Ok(Self { events, status })
    }

    /// Follows a plan from now on, in place of an earlier one of the same link and rank.
    pub(crate) fn follow(&self, link: u64, open: OpenDataset, plans: Vec<PlanFile>) {
        let following = Box::new(Following::new(open, plans));
        // A full queue means that the stager is far behind: one plan less costs only time.
        let _ = self.events.try_send(Event::Follow { link, following });
    }

    /// Forgets the plans of a link that has ended.
    pub(crate) fn forget(&self, link: u64) {
        let _ = self.events.try_send(Event::Forget { link });
    }

    /// Ends the thread.
    pub(crate) fn stop(&self) {
        let _ = self.events.try_send(Event::Stop);
    }

    pub(crate) fn status(&self) -> &StagerStatus {
        &self.status
    }
}

/// The thread's own state.
struct Work {
    parts: StagerParts,
    status: Arc<StagerStatus>,
    events: SyncSender<Event>,
    following: Vec<(u64, Box<Following>)>,
    in_flight: usize,
    limit: FlightLimit,
    known: Arc<Known>,
}

impl Work {
    fn run(mut self, heard: &Receiver<Event>) {
        loop {
            let event = if self.following.is_empty() && self.in_flight == 0 {
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
            Event::Follow { link, following } => {
                let place = following.place(link);
                self.following
                    .retain(|(other, old)| old.place(*other) != place);
                self.learn(place, &following);
                self.following.push((link, following));
            }
            Event::Forget { link } => {
                self.following.retain(|(other, _)| *other != link);
                self.known.retain(|place| place.link != link);
            }
            Event::Stop => {}
            Event::Learned {
                place,
                progress,
                uses,
            } => {
                let still = |(_, following): &(u64, Box<Following>)| {
                    Arc::ptr_eq(following.progress(), &progress)
                };
                if self.following.iter().any(still) {
                    self.known.insert(place, *uses, progress);
                }
            }
            Event::Filled {
                took,
                bytes,
                admitted,
            } => {
                self.in_flight -= 1;
                self.limit.heard(took, self.in_flight);
                if admitted {
                    self.status.staged_bytes.fetch_add(bytes, Ordering::Relaxed);
                }
            }
        }
    }

    /// Works out when each block is needed, beside the staging, where room may become short.
    fn learn(&self, place: Place, following: &Following) {
        if !self.parts.evicts_by_plan {
            return;
        }
        let dataset = following.open().dataset.clone();
        let (plans, progress) = (following.plans().clone(), following.progress().clone());
        let events = self.events.clone();
        // One that cannot be started costs the better order of eviction, and nothing else.
        let _ = std::thread::Builder::new()
            .name("uses".into())
            .spawn(move || {
                let known = Uses::of(dataset.index(), |first| entries(&plans, first));
                if let Ok(Some(uses)) = known {
                    let uses = Box::new(uses);
                    let _ = events.send(Event::Learned {
                        place,
                        progress,
                        uses,
                    });
                }
            });
    }

    /// Looks how far the samplers are; a plan that cannot be read is followed no longer.
    fn look(&mut self) {
        let now = Instant::now();
        self.following
            .retain_mut(|(_, following)| following.look(now).is_ok());
    }

    fn stage_ahead(&mut self) {
        let mut looked_at = 0;
        while self.in_flight < self.limit.now() && looked_at < SAMPLES_A_TICK {
            let (bytes, time) = (self.parts.ahead_bytes, self.parts.ahead);
            let nearest = (self.following.iter_mut())
                .map(|(_, following)| following)
                .filter(|following| following.may_go_on(bytes, time))
                .min_by_key(|following| following.lead());
            let Some(nearest) = nearest else { return };
            let jobs = nearest.next_jobs(&self.parts.cache, MERGED_SAMPLES);
            looked_at += MERGED_SAMPLES;
            let open = nearest.open().clone();
            for job in jobs {
                self.submit(&open, job);
            }
        }
    }

    fn submit(&mut self, open: &OpenDataset, job: Job) {
        let cache = self.parts.cache.clone();
        let (open, events) = (open.clone(), self.events.clone());
        let block = u64::from(open.dataset.index().block_size().bytes());
        let bytes = (job.blocks.end - job.blocks.start) * block;
        let accepted = self.parts.pool.submit(Class::Prefetch, move || {
            let began = Instant::now();
            let filled = open.fill(&cache, &job, began + FOLLOW_LIMIT);
            let admitted = matches!(filled, Ok(Filled::Resident));
            let _ = events.send(Event::Filled {
                took: began.elapsed(),
                bytes,
                admitted,
            });
        });
        self.in_flight += usize::from(accepted);
    }

    fn show(&self) {
        let set = |counter: &AtomicU64, value: u64| counter.store(value, Ordering::Relaxed);
        let sum =
            |part: fn(&Following) -> u64| self.following.iter().map(|(_, each)| part(each)).sum();
        set(&self.status.plans, self.following.len() as u64);
        set(&self.status.ahead_samples, sum(Following::lead));
        set(&self.status.ahead_bytes, sum(Following::ahead_bytes));
        set(&self.status.in_flight_reads, self.in_flight as u64);
        set(&self.status.flight_limit, self.limit.now() as u64);
    }
}
