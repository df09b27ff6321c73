//! What a thread has spent at mounted origins, by kind of operation.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// Time that one thread has spent at mounted origins. Only grows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    /// Opening files, and asking which version they are.
    pub metadata: Duration,
    /// Reading their bytes.
    pub reading: Duration,
}

thread_local! {
    static SPENT: Cell<Spent> = const {
        Cell::new(Spent { metadata: Duration::ZERO, reading: Duration::ZERO })
    };
}

/// What the calling thread has spent so far. Stores of objects are not counted: they open nothing.
pub fn spent() -> Spent {
    SPENT.get()
}

impl Spent {
    /// What came since `before`, which this thread noted.
    #[must_use]
    pub fn since(self, before: Self) -> Self {
        Self {
            metadata: self.metadata.saturating_sub(before.metadata),
            reading: self.reading.saturating_sub(before.reading),
        }
    }
}

/// Does what counts as metadata.
pub(crate) fn metadata<T>(act: impl FnOnce() -> T) -> T {
    timed(act, |spent, took| spent.metadata += took)
}

/// Does what counts as reading.
pub(crate) fn reading<T>(act: impl FnOnce() -> T) -> T {
    timed(act, |spent, took| spent.reading += took)
}

fn timed<T>(act: impl FnOnce() -> T, add: impl FnOnce(&mut Spent, Duration)) -> T {
    let began = Instant::now();
    let done = act();
    let mut spent = SPENT.get();
    add(&mut spent, began.elapsed());
    SPENT.set(spent);
    done
}
