//! Runs the jobs of one request: on the link's own thread while the origin is fast, else on the
//! pool, where a read that takes too long is begun once more.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, CachedDataset, FillError, Filled, Job};

use crate::origins::OriginInUse;
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
}

impl OpenDataset {
    /// Fills a job and notes how long that took.
    pub(crate) fn fill(
        &self,
        cache: &Cache,
        job: &Job,
        deadline: Instant,
    ) -> Result<Filled, FillError> {
        let began = Instant::now();
        let filled = cache.fill(&self.dataset, &self.origin.files, job, deadline);
        self.origin.pace.note(began.elapsed());
        filled
    }
}

/// Who reads, and how much may be read twice.
pub(crate) struct Readers {
    pub(crate) cache: Arc<Cache>,
    pub(crate) pool: Arc<Pool>,
    /// Reads begun once more that may be in progress at one time for one request; 0 for none.
    pub(crate) hedged_reads: usize,
}

/// A job on the pool.
struct Waiting {
    job: Job,
    since: Instant,
    hedged: bool,
}

type Answer = (Job, Result<Filled, FillError>);

impl Readers {
    /// Fills every job by `deadline`. True if all of it was admitted.
    pub(crate) fn stage(
        &self,
        open: &OpenDataset,
        jobs: Vec<Job>,
        deadline: Instant,
    ) -> Result<bool, FillError> {
        if jobs.len() <= FEW && !open.origin.pace.is_slow() {
            return jobs.iter().try_fold(true, |complete, job| {
                Ok(complete & (open.fill(&self.cache, job, deadline)? == Filled::Resident))
            });
        }
        self.stage_on_pool(open, jobs, deadline)
    }

    fn stage_on_pool(
        &self,
        open: &OpenDataset,
        jobs: Vec<Job>,
        deadline: Instant,
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
                if self.submit(open, &job, deadline, &done) {
                    let since = Instant::now();
                    waiting.push(Waiting {
                        job,
                        since,
                        hedged: false,
                    });
                } else {
                    complete = false;
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

    /// Takes an answer to account. A second answer for a job is nobody's.
    fn heard(
        &self,
        waiting: &mut Vec<Waiting>,
        job: &Job,
        filled: Result<Filled, FillError>,
    ) -> Result<bool, FillError> {
        let Some(at) = waiting.iter().position(|waiting| waiting.job == *job) else {
            return Ok(true);
        };
        waiting.swap_remove(at);
        Ok(filled? == Filled::Resident)
    }

    /// Lets the pool fill a job; false if too much waits there already.
    fn submit(
        &self,
        open: &OpenDataset,
        job: &Job,
        deadline: Instant,
        done: &mpsc::Sender<Answer>,
    ) -> bool {
        let (cache, open) = (self.cache.clone(), open.clone());
        let (job, done) = (job.clone(), done.clone());
        self.pool.submit(Class::Demand, move || {
            if Instant::now() >= deadline {
                // Nobody waits any more: the origin is for those who do.
                return;
            }
            let filled = open.fill(&cache, &job, deadline);
            // The requester may have given up.
            let _ = done.send((job, filled));
        })
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
            .filter(|waiting| !waiting.hedged && waiting.since.elapsed() >= late_after)
            .take(self.hedged_reads.saturating_sub(hedged));
        for late in late {
            let (cache, open, done) = (self.cache.clone(), open.clone(), done.clone());
            let job = late.job.clone();
            late.hedged = self.pool.submit(Class::Demand, move || {
                if Instant::now() >= deadline {
                    return;
                }
                // Its failure is no answer: the first read may still succeed.
                if let Ok(Filled::Resident) =
                    cache.fill_again(&open.dataset, &open.origin.files, &job)
                {
                    let _ = done.send((job, Ok(Filled::Resident)));
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
