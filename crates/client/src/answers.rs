//! Who answered this process's reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes read by this process, by who had them, and how long it waited for those that were not
/// resident. Grows while the data set is open; a child of `fork` starts at zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Bytes that were resident when they were asked for.
    pub local_bytes: u64,
    /// Bytes that the daemon made resident first.
    pub staged_bytes: u64,
    /// Bytes that this process read from the origin itself.
    pub direct_bytes: u64,
    /// Time spent on bytes that were not resident.
    pub waited: Duration,
}

/// The counters behind [`Answered`].
#[derive(Debug, Default)]
pub(crate) struct Answers {
    local: AtomicU64,
    staged: AtomicU64,
    direct: AtomicU64,
    waited_ns: AtomicU64,
}

/// How bytes came to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Local,
    Staged,
    Direct,
}

impl Answers {
    pub(crate) fn add(&self, served: Served, bytes: u64) {
        let counter = match served {
            Served::Local => &self.local,
            Served::Staged => &self.staged,
            Served::Direct => &self.direct,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts the time until the guard is dropped as waited.
    pub(crate) fn waiting(&self) -> Waiting<'_> {
        Waiting(self, Instant::now())
    }

    pub(crate) fn now(&self) -> Answered {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Answered {
            local_bytes: get(&self.local),
            staged_bytes: get(&self.staged),
            direct_bytes: get(&self.direct),
            waited: Duration::from_nanos(get(&self.waited_ns)),
        }
    }
}

pub(crate) struct Waiting<'a>(&'a Answers, Instant);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let waited = u64::try_from(self.1.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.waited_ns.fetch_add(waited, Ordering::Relaxed);
    }
}
