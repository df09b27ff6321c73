//! Who answered this process's reads.

use std::cell::Cell;
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
    /// Time spent in reads, summed over threads, but for `local_metadata`.
    pub reading: Duration,
    /// The part of it that was spent on bytes that were not resident.
    pub waited: Duration,
    /// Time spent on opening files of the node's cache.
    pub local_metadata: Duration,
    /// The part of `waited` that went to opening files of the origin and to asking which version
    /// they are: of reads here as it was, of what the daemon was waited for by the share that it
    /// had in the daemon's time at the origin meanwhile.
    pub origin_metadata: Duration,
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
        local_metadata: Duration::from_nanos(get(&ANSWERS.local_metadata_ns)),
        origin_metadata: Duration::from_nanos(get(&ANSWERS.origin_metadata_ns)),
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
    local_metadata_ns: AtomicU64,
    origin_metadata_ns: AtomicU64,
}

static ANSWERS: Answers = Answers {
    local: AtomicU64::new(0),
    staged: AtomicU64::new(0),
    peer: AtomicU64::new(0),
    direct: AtomicU64::new(0),
    reading_ns: AtomicU64::new(0),
    waited_ns: AtomicU64::new(0),
    local_metadata_ns: AtomicU64::new(0),
    origin_metadata_ns: AtomicU64::new(0),
};

thread_local! {
    /// Time that this thread has spent on opening files of the cache.
    static OPENING: Cell<Duration> = const { Cell::new(Duration::ZERO) };
}

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

/// Opens files of the cache, and counts the time.
pub(crate) fn opening<T>(open: impl FnOnce() -> T) -> T {
    let began = Instant::now();
    let opened = open();
    let took = began.elapsed();
    OPENING.set(OPENING.get() + took);
    add(&ANSWERS.local_metadata_ns, took);
    opened
}

/// So much of a wait was for the origin's metadata.
pub(crate) fn for_origin_metadata(time: Duration) {
    add(&ANSWERS.origin_metadata_ns, time);
}

/// Counts the time until it is dropped, but for that of [`opening`].
pub(crate) struct Timed {
    counter: &'static AtomicU64,
    began: Instant,
    opening: Duration,
}

impl Timed {
    /// As spent in a read.
    pub(crate) fn reading() -> Self {
        Self::of(&ANSWERS.reading_ns)
    }

    /// As spent on bytes that were not resident.
    pub(crate) fn waiting() -> Self {
        Self::of(&ANSWERS.waited_ns)
    }

    fn of(counter: &'static AtomicU64) -> Self {
        Self {
            counter,
            began: Instant::now(),
            opening: OPENING.get(),
        }
    }
}

impl Drop for Timed {
    fn drop(&mut self) {
        let opening = OPENING.get().saturating_sub(self.opening);
        add(self.counter, self.began.elapsed().saturating_sub(opening));
    }
}

fn add(counter: &AtomicU64, time: Duration) {
    let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    counter.fetch_add(ns, Ordering::Relaxed);
}
