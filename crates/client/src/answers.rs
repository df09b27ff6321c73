//! Who answered this process's reads.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Bytes read by this process, of all data sets, by who had them, and the time it took. Only grows;
/// a child of `fork` goes on from its parent's numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Answered {
    /// Bytes that were resident when they were asked for.
    pub local_bytes: u64,
    /// Bytes that the daemon made resident first.
    pub staged_bytes: u64,
    /// Bytes of whole blocks that other nodes gave for them.
    pub peer_bytes: u64,
    /// Bytes that this process read from the origin itself.
    pub direct_bytes: u64,
    /// Time spent in reads, summed over threads.
    pub reading: Duration,
    /// The part of it that was spent on bytes that were not resident.
    pub waited: Duration,
}

/// Who answered the reads of this process so far.
pub fn answered() -> Answered {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Answered {
        local_bytes: get(&ANSWERS.local),
        staged_bytes: get(&ANSWERS.staged),
        peer_bytes: get(&ANSWERS.peer),
        direct_bytes: get(&ANSWERS.direct),
        reading: Duration::from_nanos(get(&ANSWERS.reading_ns)),
        waited: Duration::from_nanos(get(&ANSWERS.waited_ns)),
    }
}

/// The counters behind [`Answered`].
struct Answers {
    local: AtomicU64,
    staged: AtomicU64,
    peer: AtomicU64,
    direct: AtomicU64,
    reading_ns: AtomicU64,
    waited_ns: AtomicU64,
}

static ANSWERS: Answers = Answers {
    local: AtomicU64::new(0),
    staged: AtomicU64::new(0),
    peer: AtomicU64::new(0),
    direct: AtomicU64::new(0),
    reading_ns: AtomicU64::new(0),
    waited_ns: AtomicU64::new(0),
};

/// How bytes came to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Served {
    Local,
    Staged,
    Direct,
}

impl Served {
    pub(crate) fn count(self, bytes: u64) {
        let counter = match self {
            Self::Local => &ANSWERS.local,
            Self::Staged => &ANSWERS.staged,
            Self::Direct => &ANSWERS.direct,
        };
        counter.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Other nodes gave so many bytes of what the daemon was asked for.
pub(crate) fn from_peers(bytes: u64) {
    ANSWERS.peer.fetch_add(bytes, Ordering::Relaxed);
}

/// Counts the time until it is dropped.
pub(crate) struct Timed(&'static AtomicU64, Instant);

impl Timed {
    /// As spent in a read.
    pub(crate) fn reading() -> Self {
        Self(&ANSWERS.reading_ns, Instant::now())
    }

    /// As spent on bytes that were not resident.
    pub(crate) fn waiting() -> Self {
        Self(&ANSWERS.waited_ns, Instant::now())
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let took = u64::try_from(self.1.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.0.fetch_add(took, Ordering::Relaxed);
    }
}
