//! Runs the jobs of one request: the first on the link's own thread, the others on the pool.

use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, CachedDataset, FillError, Filled, Job};
use forebay_origin::Origin;

use crate::pool::{Class, Pool};

/// A data set and where this client has its origin.
#[derive(Clone)]
pub(crate) struct OpenDataset {
    pub(crate) dataset: Arc<CachedDataset>,
    pub(crate) origin: Arc<dyn Origin>,
}

/// Fills every job by `deadline`. True if all of it was admitted.
pub(crate) fn stage(
    cache: &Arc<Cache>,
    pool: &Pool,
    open: &OpenDataset,
    jobs: Vec<Job>,
    deadline: Instant,
) -> Result<bool, FillError> {
    let mut jobs = jobs.into_iter();
    let Some(first) = jobs.next() else {
        return Ok(true);
    };
    let (done, results) = mpsc::channel();
    let submit = |job: &Job| submit(cache, pool, open, job.clone(), deadline, done.clone());
    let (mut in_flight, refused): (Vec<Job>, Vec<Job>) =
        jobs.by_ref().take(pool.threads()).partition(submit);
    // A lone job pays no hand-over to another thread.
    let filled = cache.fill(&open.dataset, open.origin.as_ref(), &first, deadline)?;
    let mut complete = refused.is_empty() && filled == Filled::Resident;
    while let Some(waited_for) = in_flight.first() {
        let left = deadline
            .saturating_duration_since(Instant::now())
            .max(Duration::from_millis(1));
        let Ok((job, filled)) = results.recv_timeout(left) else {
            let (start, end) = (waited_for.blocks.start, waited_for.blocks.end);
            return Err(FillError::Deadline {
                shard: waited_for.shard.0,
                start,
                end,
            });
        };
        complete &= filled? == Filled::Resident;
        in_flight.retain(|waiting| *waiting != job);
        if let Some(next) = jobs.next() {
            if submit(&next) {
                in_flight.push(next);
            } else {
                complete = false;
            }
        }
    }
    Ok(complete)
}

/// Lets the pool fill a job; false if too much waits there already.
fn submit(
    cache: &Arc<Cache>,
    pool: &Pool,
    open: &OpenDataset,
    job: Job,
    deadline: Instant,
    done: mpsc::Sender<(Job, Result<Filled, FillError>)>,
) -> bool {
    let (cache, open) = (cache.clone(), open.clone());
    pool.submit(Class::Demand, move || {
        if Instant::now() >= deadline {
            // Nobody waits any more: the origin is for those who do.
            return;
        }
        let filled = cache.fill(&open.dataset, open.origin.as_ref(), &job, deadline);
        // The requester may have given up.
        let _ = done.send((job, filled));
    })
}
