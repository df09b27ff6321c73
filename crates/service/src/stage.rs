//! Runs the jobs of one request: on the link's own thread while the origin is fast, else on the
//! pool, where a read that takes too long is begun once more.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, mpsc};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, CachedDataset, FillError, Filled, Job};

use forebay_dataset::{ByteRange, ShardIndex};
use forebay_residency::HandedMemory;
use forebay_transport::{Ended, Outcome};

use crate::bridge::bridged;
use crate::origins::{OriginInUse, OriginReads};
use crate::peers::{Handed, Held, OtherPath, Owners};
use crate::pool::{Class, Pool};

/// Jobs that one thread does in a row rather than hand over, where each is fast.
const FEW: usize = 4;
/// How often a link that waits looks for late reads.
const LOOK: Duration = Duration::from_millis(5);

/// A data set and where this client has its origin.
#[derive(Clone)]
pub(crate) struct OpenDataset {
    pub(crate) dataset: Arc<CachedDataset>,
    pub(crate) origin: Arc<OriginInUse>,
    /// Who else has it; `None` if nobody is to be asked.
    pub(crate) owners: Option<Owners>,
}

impl OpenDataset {
    /// The ranges, joined where this origin is asked for several in one go.
    pub(crate) fn bridged(
        &self,
        ranges: Vec<(ShardIndex, ByteRange)>,
    ) -> Vec<(ShardIndex, ByteRange)> {
        bridged(self.dataset.index(), ranges, self.origin.bridged)
    }

    /// Fills a job. Also returns what it read of the origin itself, which is noted: a job that was
    /// resident, or that another's read was waited for, says nothing about the origin.
    pub(crate) fn fill(
        &self,
        cache: &Cache,
        job: &Job,
        deadline: Instant,
    ) -> (Result<Filled, FillError>, OriginReads) {
        let timed = self.origin.timed();
        let filled = cache.fill(&self.dataset, &timed, job, deadline);
        (filled, timed.note())
    }

    /// Fills a job ahead of need, from its owner as far as it is another's. What came from there
    /// counts as read of the origin: how much of it may be in progress follows what it takes.
    pub(crate) fn fill_ahead(
        &self,
        cache: &Arc<Cache>,
        job: &Job,
        deadline: Instant,
    ) -> (Result<Filled, FillError>, OriginReads) {
        let fetched = self.owners.as_ref().map(|owners| {
            owners.fetch(cache, self, std::slice::from_ref(job), deadline, None, None)
        });
        let (filled, read) = self.fill(cache, job, deadline);
        let fetched = fetched.map(|came| came.reads);
        let came = fetched.filter(|fetched| fetched.bytes > 0 && read.bytes == 0);
        (filled, came.unwrap_or(read))
    }

    /// Fills a job of which others may be asking a member for blocks: those are not waited for if
    /// `at_once`, since it may be one that says nothing.
    fn fill_for(
        &self,
        cache: &Cache,
        job: &Job,
        deadline: Instant,
        at_once: bool,
    ) -> Result<Filled, FillError> {
        if at_once && matches!(self.fill_again(cache, job), Ok(Filled::Resident)) {
            return Ok(Filled::Resident);
        }
        self.fill(cache, job, deadline).0
    }

    /// Reads a job once more that takes too long.
    pub(crate) fn fill_again(&self, cache: &Cache, job: &Job) -> Result<Filled, FillError> {
        let timed = self.origin.timed();
        let filled = cache.fill_again(&self.dataset, &timed, job);
        timed.note();
        filled
    }
}

/// What came of a request.
#[derive(Debug)]
pub(crate) struct Staged {
    /// Whether all of it was admitted.
    pub(crate) complete: bool,
    /// Bytes that came from other nodes.
    pub(crate) peer_bytes: u64,
    /// The bytes themselves, which are not written yet.
    pub(crate) handed: Option<Handed>,
}

/// Who reads, and how much may be read twice.
pub(crate) struct Readers {
    cache: Arc<Cache>,
    pool: Arc<Pool>,
    /// Reads begun once more that may be in progress at one time for one request; 0 for none.
    hedged_reads: usize,
    /// Those of all requests.
    hedges: Arc<AtomicUsize>,
}

/// A job on the pool.
struct Waiting {
    job: Job,
    /// When a thread took it up: time in the queue is no fault of the read.
    since: Arc<OnceLock<Instant>>,
    /// Reads that are to answer: a second one once it was late.
    reads: usize,
    hedged: bool,
}

impl Waiting {
    fn is_late(&self, late_after: Duration) -> bool {
        !self.hedged
            && self
                .since
                .get()
                .is_some_and(|since| since.elapsed() >= late_after)
    }
}

/// Bytes that a client takes in its memory.
pub(crate) struct Taken<'a> {
    pub(crate) ranges: &'a [(ShardIndex, ByteRange)],
    pub(crate) memory: Arc<HandedMemory>,
}

type Answer = (Job, Result<Filled, FillError>);

/// Answers on drop, so that nobody waits for a task that has panicked.
struct Answering {
    answer: Option<Answer>,
    done: mpsc::Sender<Answer>,
}

impl Drop for Answering {
    fn drop(&mut self) {
        // The requester may have given up.
        let _ = self.answer.take().map(|answer| self.done.send(answer));
    }
}

/// One of the reads begun once more, until it ends.
struct Hedge(Arc<AtomicUsize>);

impl Drop for Hedge {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Readers {
    pub(crate) fn new(cache: Arc<Cache>, pool: Arc<Pool>, hedged_reads: usize) -> Self {
        Self {
            cache,
            pool,
            hedged_reads,
            hedges: Arc::default(),
        }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Fills every job by `deadline`, from their owners as far as they are others'. Hands over
    /// what is `taken` if all of it comes from there.
    pub(crate) fn stage(
        &self,
        open: &OpenDataset,
        mut jobs: Vec<Job>,
        deadline: Instant,
        taken: Option<Taken<'_>>,
    ) -> Result<Staged, FillError> {
        let (mut peer_bytes, mut at_once) = (0, false);
        if let Some(owners) = &open.owners {
            let held = taken.map(|taken| (Arc::new(Held::new(taken.memory)), taken.ranges));
            let holds = held.as_ref().map(|(held, _)| held.clone());
            let block_size = open.dataset.index().block_size();
            let fetched = owners.fetch(&self.cache, open, &jobs, deadline, Some(self), holds);
            peer_bytes = fetched.reads.bytes;
            at_once = fetched.has_lost;
            let handed = held.and_then(|(held, ranges)| held.close(ranges, block_size));
            if handed.is_some() {
                return Ok(Staged {
                    complete: true,
                    peer_bytes,
                    handed,
                });
            }
            jobs.retain(|job| !self.is_resident(open, job));
        }
        let complete = self.stage_from_origin(open, jobs, deadline, at_once)?;
        Ok(Staged {
            complete,
            peer_bytes,
            handed: None,
        })
    }

    /// Reads from the origin what is absent of the jobs; `at_once` also what others ask for.
    pub(crate) fn stage_from_origin(
        &self,
        open: &OpenDataset,
        jobs: Vec<Job>,
        deadline: Instant,
        at_once: bool,
    ) -> Result<bool, FillError> {
        if jobs.len() <= FEW && !open.origin.pace.is_slow() {
            jobs.iter().try_fold(true, |complete, job| {
                let filled = open.fill_for(&self.cache, job, deadline, at_once)?;
                Ok::<_, FillError>(complete & (filled == Filled::Resident))
            })
        } else {
            self.stage_on_pool(open, jobs, deadline, at_once)
        }
    }

    fn stage_on_pool(
        &self,
        open: &OpenDataset,
        jobs: Vec<Job>,
        deadline: Instant,
        at_once: bool,
    ) -> Result<bool, FillError> {
        let mut jobs = jobs.into_iter();
        let (done, answers) = mpsc::channel();
        let mut complete = true;
        let mut waiting: Vec<Waiting> = Vec::new();
        loop {
            // No more at one time than there are readers, so that requests take turns.
            while waiting.len() < self.pool.threads()
                && let Some(job) = jobs.next()
            {
                match self.submit(open, job, (deadline, at_once), &done) {
                    Some(submitted) => waiting.push(submitted),
                    None => complete = false,
                }
            }
            let Some(first) = waiting.first() else {
                return Ok(complete);
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(late(&first.job));
            }
            match answers.recv_timeout(left.min(LOOK)) {
                Ok((job, filled)) => {
                    complete &= self.heard(&mut waiting, &job, filled)?;
                }
                Err(_) => self.hedge(open, &mut waiting, deadline, &done),
            }
        }
    }

    /// Takes an answer to account. Of two reads the one that succeeds counts, and the later one
    /// where neither does; an answer after that is nobody's.
    fn heard(
        &self,
        waiting: &mut Vec<Waiting>,
        job: &Job,
        filled: Result<Filled, FillError>,
    ) -> Result<bool, FillError> {
        let Some(at) = waiting.iter().position(|waiting| waiting.job == *job) else {
            return Ok(true);
        };
        waiting[at].reads -= 1;
        let is_resident = matches!(filled, Ok(Filled::Resident));
        if !is_resident && waiting[at].reads > 0 {
            return Ok(true);
        }
        waiting.swap_remove(at);
        Ok(filled? == Filled::Resident)
    }

    /// Lets the pool fill a job; `None` if too much waits there already.
    fn submit(
        &self,
        open: &OpenDataset,
        job: Job,
        (deadline, at_once): (Instant, bool),
        done: &mpsc::Sender<Answer>,
    ) -> Option<Waiting> {
        let (cache, open) = (self.cache.clone(), open.clone());
        let waiting = Waiting {
            job: job.clone(),
            since: Arc::default(),
            reads: 1,
            hedged: false,
        };
        let since = waiting.since.clone();
        let done = done.clone();
        let accepted = self.pool.submit(Class::Demand, move || {
            let began = Instant::now();
            if began >= deadline {
                // Nobody waits any more: the origin is for those who do.
                return;
            }
            let _ = since.set(began);
            // The answer of a task that panics: read it through.
            let answer = Some((job.clone(), Ok(Filled::NoRoom)));
            let mut answering = Answering { answer, done };
            let filled = open.fill_for(&cache, &job, deadline, at_once);
            answering.answer = Some((job, filled));
        });
        accepted.then_some(waiting)
    }

    /// Begins late reads once more, a bounded number of them at one time.
    fn hedge(
        &self,
        open: &OpenDataset,
        waiting: &mut [Waiting],
        deadline: Instant,
        done: &mpsc::Sender<Answer>,
    ) {
        let Some(late_after) = open.origin.pace.late_after() else {
            return;
        };
        let hedged = waiting.iter().filter(|waiting| waiting.hedged).count();
        let late = (waiting.iter_mut())
            .filter(|waiting| waiting.is_late(late_after))
            .take(self.hedged_reads.saturating_sub(hedged));
        for late in late {
            let Some(hedge) = self.begin_hedge() else {
                return;
            };
            let (cache, open, done) = (self.cache.clone(), open.clone(), done.clone());
            let job = late.job.clone();
            late.hedged = self.pool.submit(Class::Demand, move || {
                let _hedge = hedge;
                if Instant::now() >= deadline {
                    return;
                }
                let answer = Some((job.clone(), Ok(Filled::NoRoom)));
                let mut answering = Answering { answer, done };
                answering.answer = Some((job.clone(), open.fill_again(&cache, &job)));
            });
            late.reads += usize::from(late.hedged);
        }
    }

    pub(crate) fn is_resident(&self, open: &OpenDataset, job: &Job) -> bool {
        let size = u64::from(open.dataset.index().block_size().bytes());
        let len = (job.blocks.end - job.blocks.start) * size;
        let range = ByteRange::new(job.blocks.start * size, len);
        range.is_ok_and(|range| self.cache.is_resident(&open.dataset, job.shard, range))
    }

    /// A place among the reads begun once more. They have an eighth of the readers: an origin that
    /// has become slow as a whole must not be asked for everything twice.
    fn begin_hedge(&self) -> Option<Hedge> {
        let most = (self.pool.threads() / 8).max(1);
        let counted = self
            .hedges
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| {
                (count < most).then_some(count + 1)
            });
        counted.is_ok().then(|| Hedge(self.hedges.clone()))
    }
}

impl OtherPath for Readers {
    fn begin(&self, open: &OpenDataset, jobs: Vec<Job>, ask: u64, done: &mpsc::Sender<Ended>) {
        let left = Arc::new(AtomicUsize::new(jobs.len()));
        for job in jobs.into_iter().take(self.hedged_reads) {
            let Some(hedge) = self.begin_hedge() else {
                return;
            };
            let (cache, open) = (self.cache.clone(), open.clone());
            let (done, left) = (done.clone(), left.clone());
            self.pool.submit(Class::Demand, move || {
                let _hedge = hedge;
                if let Ok(Filled::Resident) = open.fill_again(&cache, &job)
                    && left.fetch_sub(1, Ordering::AcqRel) == 1
                {
                    let outcome = Outcome::Done { complete: true };
                    let _ = done.send(Ended { id: ask, outcome });
                }
            });
        }
    }
}

fn late(job: &Job) -> FillError {
    FillError::Deadline {
        shard: job.shard.0,
        start: job.blocks.start,
        end: job.blocks.end,
    }
}

#[cfg(test)]
mod tests;
