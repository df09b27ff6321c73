//! Runs a [`Queue`] in real time with a few threads.
//!
//! A request that sleeps costs an entry in a heap and no thread. One idle worker at a time (the
//! leader) sleeps until the earliest due time; when it takes a job it wakes the next one.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::queue::{Depth, Due, Queue, Request, Timing};
use crate::profile::Profile;

/// What a job is told when it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Its time has come: answer.
    Serve(Timing),
    /// The engine stops: answer with an error, at once.
    Cancel,
}

/// What runs when a request is due. It runs exactly once.
pub type Job = Box<dyn FnOnce(Outcome) + Send>;

/// The emulated server, running.
pub struct Engine {
    shared: Arc<Shared>,
    workers: Mutex<Vec<JoinHandle<()>>>,
}

struct Shared {
    start: Instant,
    state: Mutex<State>,
    /// Where the leader sleeps until the next due time.
    leader: Condvar,
    /// Where the other idle workers sleep.
    followers: Condvar,
    /// Where submitters sleep while the server holds as many requests as it may.
    room: Condvar,
}

struct State {
    queue: Queue<Job>,
    /// Until when the leader sleeps, if there is one.
    leader_until: Option<Duration>,
    in_flight: usize,
    most_in_flight: usize,
    limit: usize,
    stopping: bool,
}

impl Engine {
    /// Start an idle server with that many worker threads.
    ///
    /// # Errors
    /// Those of starting threads.
    pub fn start(profile: Arc<Profile>, workers: usize) -> io::Result<Self> {
        let state = State {
            limit: profile.max_in_flight,
            queue: Queue::new(profile),
            leader_until: None,
            in_flight: 0,
            most_in_flight: 0,
            stopping: false,
        };
        let shared = Arc::new(Shared {
            start: Instant::now(),
            state: Mutex::new(state),
            leader: Condvar::new(),
            followers: Condvar::new(),
            room: Condvar::new(),
        });
        let engine = Self {
            shared,
            workers: Mutex::new(Vec::new()),
        };
        for n in 0..workers.max(1) {
            let shared = Arc::clone(&engine.shared);
            let worker = thread::Builder::new()
                .name(format!("emulate-{n}"))
                .spawn(move || shared.work())?;
            engine
                .workers
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(worker);
        }
        Ok(engine)
    }

    /// Hand in a request; `job` runs when it is due. Blocks while the server holds as many
    /// requests as the profile allows: that is the backpressure on the kernel.
    pub fn submit(&self, request: Request, job: Job) {
        let mut state = self.shared.lock();
        while state.in_flight >= state.limit && !state.stopping {
            state = self
                .shared
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
        if state.stopping {
            drop(state);
            return job(Outcome::Cancel);
        }
        state.in_flight += 1;
        state.most_in_flight = state.most_in_flight.max(state.in_flight);
        let now = self.shared.now();
        state.queue.offer(now, request, job);
        // A request without a delay is answered here: no hand-over to another thread.
        match state.queue.pop_due(now) {
            Some(due) => drop(self.shared.run(state, due)),
            None => self.shared.wake(&state),
        }
    }

    /// Go on under another profile.
    pub fn retune(&self, profile: Arc<Profile>) {
        let mut state = self.shared.lock();
        state.limit = profile.max_in_flight;
        state.queue.retune(self.shared.now(), profile);
        self.shared.room.notify_all();
        self.shared.wake(&state);
    }

    /// Let every held request go on.
    pub fn release(&self) {
        let mut state = self.shared.lock();
        state.queue.release(self.shared.now());
        self.shared.wake(&state);
    }

    /// Requests in the server now, and the most there ever were.
    pub fn depth(&self) -> (Depth, usize) {
        let state = self.shared.lock();
        (state.queue.depth(), state.most_in_flight)
    }

    /// Cancel every request, also those that are yet to come, and end the workers.
    pub fn stop(&self) {
        let mut state = self.shared.lock();
        state.stopping = true;
        let cancelled = state.queue.drain();
        state.in_flight -= cancelled.len();
        drop(state);
        self.shared.leader.notify_all();
        self.shared.followers.notify_all();
        self.shared.room.notify_all();
        for due in cancelled {
            (due.job)(Outcome::Cancel);
        }
        let workers =
            std::mem::take(&mut *self.workers.lock().unwrap_or_else(PoisonError::into_inner));
        for worker in workers {
            // A worker that panicked has nothing left to end.
            let _ = worker.join();
        }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        // The queue is consistent between calls, and no job runs under the lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// Something may have become due, or due earlier.
    fn wake(&self, state: &State) {
        let Some(next) = state.queue.next_wake() else {
            return;
        };
        match state.leader_until {
            Some(until) if next < until => self.leader.notify_one(),
            Some(_) => {}
            None => self.followers.notify_one(),
        }
    }

    /// Run one job without the lock, then free its slot.
    fn run<'a>(&'a self, state: MutexGuard<'a, State>, due: Due<Job>) -> MutexGuard<'a, State> {
        drop(state);
        let (class, timing) = (due.class, due.timing);
        (due.job)(Outcome::Serve(timing));
        let mut state = self.lock();
        state.queue.finish(self.now(), class);
        state.in_flight -= 1;
        self.room.notify_one();
        // The freed slot may have gone to a request that is due before the leader wakes.
        self.wake(&state);
        state
    }

    fn work(&self) {
        let mut state = self.lock();
        loop {
            if let Some(due) = state.queue.pop_due(self.now()) {
                // There may be more: let another worker look while this one is busy.
                self.wake(&state);
                state = self.run(state, due);
                continue;
            }
            if state.stopping {
                return;
            }
            state = if state.leader_until.is_some() {
                self.followers
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner)
            } else {
                self.lead(state)
            };
        }
    }

    fn lead<'a>(&'a self, mut state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let next = state.queue.next_wake();
        state.leader_until = Some(next.unwrap_or(Duration::MAX));
        let mut state = match next {
            Some(at) => {
                let time = at.saturating_sub(self.now());
                self.leader
                    .wait_timeout(state, time)
                    .unwrap_or_else(PoisonError::into_inner)
                    .0
            }
            None => self
                .leader
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner),
        };
        state.leader_until = None;
        state
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::super::OpClass;
    use super::*;
    use crate::profile::ProfileSettings;

    fn engine(text: &str) -> Engine {
        let profile = ProfileSettings::parse("test", text)
            .unwrap()
            .resolve()
            .unwrap();
        Engine::start(Arc::new(profile), 3).unwrap()
    }

    fn read(hold: Option<Duration>) -> Request {
        Request {
            class: OpClass::Read,
            bytes: 1,
            hold,
        }
    }

    fn reporter<T: Send + 'static>(to: &mpsc::Sender<(T, Outcome)>, tag: T) -> Job {
        let to = to.clone();
        Box::new(move |outcome| to.send((tag, outcome)).unwrap())
    }

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn sleeping_requests_hold_no_thread() {
        // 500 requests sleep in 3 workers: all are in the server at once.
        let engine = engine("[read]\nmedian_ms = 200\nmax_parallel = 1000\n");
        let (to, done) = mpsc::channel();
        for n in 0..500 {
            engine.submit(read(None), reporter(&to, n));
        }
        for _ in 0..500 {
            let (_, outcome) = done.recv_timeout(PATIENCE).unwrap();
            assert!(matches!(outcome, Outcome::Serve(_)));
        }
        assert!(engine.depth().1 > 100, "most at once: {}", engine.depth().1);
    }

    #[test]
    fn an_earlier_request_overtakes_the_one_slept_for() {
        let engine = engine("[read]\nmedian_ms = 100000\n[metadata]\nmedian_ms = 1\n");
        let (to, done) = mpsc::channel();
        engine.submit(read(None), reporter(&to, "slow"));
        let request = Request {
            class: OpClass::Metadata,
            bytes: 0,
            hold: None,
        };
        engine.submit(request, reporter(&to, "fast"));
        assert_eq!(done.recv_timeout(PATIENCE).unwrap().0, "fast");
        engine.stop();
        assert_eq!(
            done.recv_timeout(PATIENCE).unwrap(),
            ("slow", Outcome::Cancel)
        );
    }

    #[test]
    fn beyond_the_limit_submitters_wait_and_stop_frees_them() {
        let engine = engine("max_in_flight = 2\n");
        let (to, done) = mpsc::channel();
        thread::scope(|scope| {
            for n in 0..5 {
                let (engine, to) = (&engine, to.clone());
                let hold = Some(Duration::from_secs(3000));
                scope.spawn(move || engine.submit(read(hold), reporter(&to, n)));
            }
            while engine.depth().0.held < 2 {
                thread::yield_now();
            }
            assert!(done.try_recv().is_err(), "nothing is answered");
            engine.release();
            assert!(matches!(
                done.recv_timeout(PATIENCE).unwrap().1,
                Outcome::Serve(_)
            ));
            engine.stop();
        });
        assert_eq!(done.iter().take(4).count(), 4, "every request is answered");
    }
}
