//! Threads for reads that wait, so that those that need not never stand behind them.

use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, thread};

/// Reads that wait for a thread, at most.
const QUEUE: usize = 1024;

pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// The threads end when it is dropped and what was queued is done.
#[derive(Debug)]
pub(crate) struct Pool {
    jobs: SyncSender<Job>,
}

impl Pool {
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let (jobs, queue) = sync_channel::<Job>(QUEUE);
        let queue = Arc::new(Mutex::new(queue));
        for number in 0..threads.max(1) {
            let queue = queue.clone();
            thread::Builder::new()
                .name(format!("mount-reader-{number}"))
                .spawn(move || {
                    while let Some(job) = next(&queue) {
                        job()
                    }
                })?;
        }
        Ok(Self { jobs })
    }

    /// Runs `job` on one of the threads; here, where as many wait as may: then the kernel waits too.
    pub(crate) fn run(&self, job: Job) {
        match self.jobs.try_send(job) {
            Ok(()) => {}
            Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => job(),
        }
    }
}

fn next(queue: &Mutex<Receiver<Job>>) -> Option<Job> {
    let queue = queue.lock().unwrap_or_else(PoisonError::into_inner);
    queue.recv().ok()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn every_job_is_run_however_many_wait() {
        let pool = Pool::start(2).unwrap();
        let (done, seen) = channel();
        for number in 0..QUEUE + 500 {
            let done = done.clone();
            pool.run(Box::new(move || done.send(number).unwrap()));
        }
        drop((pool, done));
        let mut all: Vec<usize> = seen.iter().collect();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..QUEUE + 500));
    }
}
