//! One plan being followed: where the sampler is, how far staging is ahead, what comes next.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, Job, jobs};
use forebay_residency::{PlanFile, PlanPlace};

use super::flights::OriginId;
use super::known::Place;
use super::start::Start;
use crate::stage::OpenDataset;

/// Entries read from a plan at one time.
const WINDOW: u64 = 4096;
/// Samples that staging may be ahead, whatever their size.
const MOST_AHEAD: u64 = 1 << 20;
/// Samples that staging may be ahead before the pace is known.
const UNPACED_AHEAD: u64 = 4096;
/// A plan, and the one after it where that is known.
pub(crate) struct Following {
    /// Tells it from others, those before it in its place too.
    pub(super) number: u64,
    open: OpenDataset,
    plans: Arc<Vec<PlanFile>>,
    /// How far the reads of the order are, for those who ask from other threads.
    progress: Arc<AtomicU64>,
    start: Start,
    /// Samples that staging may be ahead, so long after the start.
    lead_bound: u64,
    /// Entries of all plans that the sampler has handed out.
    taken: u64,
    /// Entries of all plans that were looked at.
    cursor: u64,
    /// Entries read from the plans and not looked at.
    upcoming: VecDeque<u64>,
    /// Whether the plans gave no entry where there should be one: they are read no further.
    is_broken: bool,
    /// Reads that the samples before `cursor` need and that are not begun, each with the number of
    /// its batch.
    pending: VecDeque<(u64, Job)>,
    batches: Batches,
    /// Whether reads ahead of need are asked to yield.
    yields: bool,
    /// Whether it was begun to work out when each block is needed.
    pub(super) is_learnt: bool,
    /// Bytes of each sample between `taken` and `cursor`.
    ahead: VecDeque<u32>,
    ahead_bytes: u64,
    pace: Pace,
}

impl Following {
    pub(crate) fn new(open: OpenDataset, plans: Vec<PlanFile>) -> Self {
        Self {
            number: 0,
            open,
            plans: Arc::new(plans),
            progress: Arc::default(),
            start: Start::new(Instant::now()),
            lead_bound: 0,
            taken: 0,
            cursor: 0,
            upcoming: VecDeque::new(),
            is_broken: false,
            pending: VecDeque::new(),
            batches: Batches::default(),
            yields: false,
            is_learnt: false,
            ahead: VecDeque::new(),
            ahead_bytes: 0,
            pace: Pace::default(),
        }
    }

    pub(crate) fn open(&self) -> &OpenDataset {
        &self.open
    }

    /// Where its samples come from.
    pub(super) fn origin(&self) -> OriginId {
        OriginId(Arc::as_ptr(&self.open.origin) as usize)
    }

    /// Whose order it is, announced over `link`.
    pub(super) fn place(&self, link: u64) -> Place {
        Place {
            link,
            generation: self.open.dataset.index().generation(),
            rank: self.plans.first().map_or(0, |plan| plan.rank),
            sampler: self.plans.first().map_or(0, |plan| plan.sampler),
        }
    }

    pub(super) fn plans(&self) -> &Arc<Vec<PlanFile>> {
        &self.plans
    }

    pub(super) fn progress(&self) -> &Arc<AtomicU64> {
        &self.progress
    }

    /// Samples that were looked at and are not taken yet.
    pub(crate) fn lead(&self) -> u64 {
        self.cursor.saturating_sub(self.taken)
    }

    /// Samples that are staged and not taken yet.
    pub(crate) fn staged_lead(&self) -> u64 {
        self.batches.staged(self.cursor).saturating_sub(self.taken)
    }

    /// The same in iterations; `None` where the plan does not say how many samples one has.
    pub(crate) fn staged_iterations(&self) -> Option<u64> {
        self.staged_lead().checked_div(self.batch())
    }

    /// Whether reads ahead of need are asked to yield now.
    pub(crate) fn yields(&self) -> bool {
        self.yields
    }

    pub(crate) fn ahead_bytes(&self) -> u64 {
        self.ahead_bytes
    }

    /// Notes how far the sampler is; false if it has given the order up.
    pub(crate) fn look(&mut self, now: Instant) -> io::Result<bool> {
        let place = self.plans.first().map_or(Ok(None), PlanFile::place)?;
        let Some(PlanPlace {
            taken,
            unread,
            yields,
        }) = place
        else {
            return Ok(false);
        };
        self.yields = yields;
        self.pace.note(taken, now);
        let moved = taken > self.taken;
        self.start.look(moved, now);
        self.lead_bound = self.start.lead(self.batch(), now);
        let passed = taken.saturating_sub(self.taken);
        for _ in 0..passed.min(self.ahead.len() as u64) {
            self.ahead_bytes -= u64::from(self.ahead.pop_front().unwrap_or(0));
        }
        if taken > self.cursor {
            // The trainer is ahead of the stager: what it has passed is not worth a read.
            self.cursor = taken;
            self.upcoming.clear();
            self.pending.clear();
            self.batches.clear();
        }
        self.taken = taken.max(self.taken);
        // What a loader has asked for and not read is still needed.
        let read = self.taken.saturating_sub(unread);
        self.progress.store(read, Ordering::Relaxed);
        Ok(true)
    }

    /// Whether its loader has not got a batch yet.
    pub(crate) fn is_starting(&self) -> bool {
        !self.start.is_over()
    }

    /// True if there is more to stage within the bounds of bytes and time. `gently`: a loader of
    /// this node starts.
    pub(crate) fn may_go_on(&self, bytes: u64, time: Duration, gently: bool) -> bool {
        if !self.pending.is_empty() {
            return true;
        }
        let total: u64 = self.plans.iter().map(PlanFile::len).sum();
        let is_inside = if self.is_starting() {
            self.cursor < Start::samples(self.batch())
        } else {
            self.lead() < self.most_ahead(time, gently)
        };
        is_inside && self.ahead_bytes < bytes && self.cursor < total && !self.is_broken
    }

    fn most_ahead(&self, time: Duration, gently: bool) -> u64 {
        let paced = (self.pace.samples_in(time)).unwrap_or(UNPACED_AHEAD);
        let paced = paced.clamp(64, MOST_AHEAD);
        if gently {
            paced.min(Start::first_lead(self.batch()))
        } else {
            paced.min(self.lead_bound)
        }
    }

    /// Samples of an iteration; 0 where the plan does not say.
    fn batch(&self) -> u64 {
        self.plans.first().map_or(0, |plan| plan.batch.into())
    }

    /// The next read that the samples looked at need, and the batch that it is of.
    pub(crate) fn next_job(&mut self) -> Option<(u64, Job)> {
        self.pending.pop_front()
    }

    /// A read of this batch has ended.
    pub(crate) fn ended(&mut self, batch: u64) {
        self.batches.ended(batch);
    }

    /// Tells the sampler how far its order is staged, where that has changed.
    pub(crate) fn tell_staged(&mut self) {
        let staged = self.batches.staged(self.cursor);
        let Some(plan) = self.plans.first() else {
            return;
        };
        if staged != self.batches.told {
            self.batches.told = staged;
            // Only of use to whoever looks on.
            let _ = plan.tell_staged(staged.min(plan.len()));
        }
    }

    /// Looks at the next samples, up to `bytes` ahead, for the reads that they need, merged.
    pub(crate) fn look_ahead(&mut self, cache: &Cache, samples: usize, bytes: u64) {
        let mut ranges = Vec::new();
        let before_cursor = self.cursor;
        for _ in 0..samples {
            if self.ahead_bytes >= bytes {
                break;
            }
            let Some(sample) = self.next_entry() else {
                self.is_broken = true;
                break;
            };
            let before = ranges.len();
            // A sample that does not exist is skipped: it takes no bytes and no read.
            let found = self.open.dataset.index().sample(sample);
            let added = found.and_then(|sample| sample.add_stored_ranges(&mut ranges));
            if added.is_err() {
                ranges.truncate(before);
            }
            let bytes: u64 = ranges[before..].iter().map(|(_, range)| range.len()).sum();
            self.ahead
                .push_back(u32::try_from(bytes).unwrap_or(u32::MAX));
            self.ahead_bytes += bytes.min(u32::MAX.into());
        }
        let dataset = &self.open.dataset;
        ranges.retain(|(shard, range)| !cache.is_resident(dataset, *shard, *range));
        let ranges = self.open.bridged(ranges);
        let jobs = jobs(&ranges, dataset.index().block_size());
        let batch = self.batches.add(before_cursor, jobs.len());
        self.pending
            .extend(jobs.into_iter().map(|job| (batch, job)));
    }

    fn next_entry(&mut self) -> Option<u64> {
        if self.upcoming.is_empty() {
            self.read_window();
        }
        let entry = self.upcoming.pop_front()?;
        self.cursor += 1;
        Some(entry)
    }

    fn read_window(&mut self) {
        self.upcoming.extend(entries(&self.plans, self.cursor));
    }
}

/// Samples that were looked at together, in the order of the plan, until their reads have ended.
#[derive(Default)]
struct Batches {
    /// Number of the first one that is waited for.
    first: u64,
    /// Where each begins in the plan, and its reads that have not ended.
    waiting: VecDeque<(u64, usize)>,
    /// What the sampler was told last.
    told: u64,
}

impl Batches {
    /// Takes in the samples from `start` on, of which `reads` reads are needed. Returns the number
    /// of the batch.
    fn add(&mut self, start: u64, reads: usize) -> u64 {
        let number = self.first + self.waiting.len() as u64;
        self.waiting.push_back((start, reads));
        self.pass();
        number
    }

    fn ended(&mut self, batch: u64) {
        let at = batch.checked_sub(self.first).map(|at| at as usize);
        if let Some((_, left)) = at.and_then(|at| self.waiting.get_mut(at)) {
            *left = left.saturating_sub(1);
        }
        self.pass();
    }

    fn pass(&mut self) {
        while self.waiting.front().is_some_and(|(_, left)| *left == 0) {
            self.waiting.pop_front();
            self.first += 1;
        }
    }

    /// What is waited for was passed by the trainer.
    fn clear(&mut self) {
        self.first += self.waiting.len() as u64;
        self.waiting.clear();
    }

    /// Entries staged without a gap, where `cursor` entries were looked at.
    fn staged(&self, cursor: u64) -> u64 {
        self.waiting.front().map_or(cursor, |(start, _)| *start)
    }
}

/// Some entries from `first` on, counted over consecutive plans. None at the end; a plan that
/// cannot be read is at its end.
pub(super) fn entries(plans: &[PlanFile], mut first: u64) -> Vec<u64> {
    let mut window = Vec::new();
    for plan in plans {
        if first < plan.len() {
            if plan.read(first, WINDOW, &mut window).is_err() {
                window.clear();
            }
            return window;
        }
        first -= plan.len();
    }
    window
}

/// How fast samples are taken.
#[derive(Default)]
struct Pace {
    last: Option<(u64, Instant)>,
    per_second: Option<f64>,
}

impl Pace {
    fn note(&mut self, taken: u64, now: Instant) {
        let Some((before, then)) = self.last else {
            self.last = Some((taken, now));
            return;
        };
        let passed = now.saturating_duration_since(then).as_secs_f64();
        if passed < 0.5 || taken <= before {
            return;
        }
        let measured = (taken - before) as f64 / passed;
        // Half old, half new: a stalled trainer must not shrink the window that would help it.
        self.per_second = Some(
            self.per_second
                .map_or(measured, |old| (old + measured) / 2.0),
        );
        self.last = Some((taken, now));
    }

    fn samples_in(&self, time: Duration) -> Option<u64> {
        self.per_second
            .map(|pace| (pace * time.as_secs_f64()) as u64)
    }
}
