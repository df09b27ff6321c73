//! Threads that read the origin: as many as may read it at one time.

use std::collections::VecDeque;
use std::io;
use std::mem::take;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

type Task = Box<dyn FnOnce() + Send>;

/// Who waits for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// A reader, now.
    Demand,
    /// Nobody yet. Done when no reader waits.
    Prefetch,
}

#[derive(Default)]
struct Queue {
    demand: VecDeque<Task>,
    prefetch: VecDeque<Task>,
    closed: bool,
}

impl Queue {
    fn of(&mut self, class: Class) -> &mut VecDeque<Task> {
        match class {
            Class::Demand => &mut self.demand,
            Class::Prefetch => &mut self.prefetch,
        }
    }

    fn next(&mut self) -> Option<Task> {
        self.demand
            .pop_front()
            .or_else(|| self.prefetch.pop_front())
    }
}

/// Tasks that may wait for each thread.
const QUEUED_PER_THREAD: usize = 1024;

/// A fixed number of threads and a bounded queue of tasks that wait for one.
pub(crate) struct Pool {
    queue: Arc<(Mutex<Queue>, Condvar)>,
    threads: usize,
}

impl Pool {
    /// Starts the threads.
    pub(crate) fn start(threads: usize) -> io::Result<Self> {
        let pool = Self {
            queue: Arc::default(),
            threads,
        };
        for number in 0..threads {
            let queue = pool.queue.clone();
            std::thread::Builder::new()
                .name(format!("fill-{number}"))
                .spawn(move || work(&queue))?;
        }
        Ok(pool)
    }

    /// How many tasks that nobody waits for may run at one time: a quarter of the threads, and one
    /// where there are two, are left to those who wait now.
    pub(crate) fn prefetch_threads(&self) -> usize {
        (self.threads - (self.threads / 4).max(1)).max(1)
    }

    /// How many tasks run at one time.
    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    /// Runs the task on some thread, later; false if too many wait already, as they do while the
    /// origin hangs.
    pub(crate) fn submit(&self, class: Class, task: impl FnOnce() + Send + 'static) -> bool {
        let mut queue = lock(&self.queue.0);
        if queue.of(class).len() >= self.threads * QUEUED_PER_THREAD {
            return false;
        }
        queue.of(class).push_back(Box::new(task));
        drop(queue);
        self.queue.1.notify_one();
        true
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        // A thread may be inside a read that never ends, so nobody waits for them.
        let mut queue = lock(&self.queue.0);
        queue.closed = true;
        let (demand, prefetch) = (take(&mut queue.demand), take(&mut queue.prefetch));
        drop(queue);
        self.queue.1.notify_all();
        // Not under the lock: what a task holds may do anything when it is dropped.
        drop((demand, prefetch));
    }
}

fn work(shared: &(Mutex<Queue>, Condvar)) {
    let (queue, wake) = shared;
    loop {
        let mut waiting = lock(queue);
        let task = loop {
            if let Some(task) = waiting.next() {
                break task;
            }
            if waiting.closed {
                return;
            }
            waiting = wake.wait(waiting).unwrap_or_else(PoisonError::into_inner);
        };
        drop(waiting);
        // What the task holds tells its requester; the thread lives on for the others.
        let _ = catch_unwind(AssertUnwindSafe(task));
    }
}

fn lock(queue: &Mutex<Queue>) -> MutexGuard<'_, Queue> {
    queue.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_panicking_task_does_not_take_its_thread_along() {
        let pool = Pool::start(1).unwrap();
        assert!(pool.submit(Class::Demand, || panic!("a task fails")));
        let (done, wait) = mpsc::channel();
        assert!(pool.submit(Class::Demand, move || done.send(7).unwrap()));
        assert_eq!(wait.recv(), Ok(7));
    }

    #[test]
    fn the_queue_does_not_grow_while_the_threads_hang() {
        let pool = Pool::start(1).unwrap();
        let (let_go, hang) = mpsc::channel::<()>();
        assert!(pool.submit(Class::Demand, move || {
            let _ = hang.recv();
        }));
        let queued = (0..3 * QUEUED_PER_THREAD).filter(|_| pool.submit(Class::Demand, || {}));
        let queued = queued.count();
        assert!(
            (QUEUED_PER_THREAD - 1..=QUEUED_PER_THREAD).contains(&queued),
            "{queued}"
        );
        drop(let_go);
    }

    #[test]
    fn who_waits_goes_first() {
        let pool = Pool::start(1).unwrap();
        let (let_go, hang) = mpsc::channel::<()>();
        assert!(pool.submit(Class::Demand, move || {
            let _ = hang.recv();
        }));
        let (done, order) = mpsc::channel();
        for (class, name) in [(Class::Prefetch, "prefetch"), (Class::Demand, "demand")] {
            let done = done.clone();
            assert!(pool.submit(class, move || done.send(name).unwrap()));
        }
        drop(let_go);
        assert_eq!((order.recv(), order.recv()), (Ok("demand"), Ok("prefetch")));
    }
}
