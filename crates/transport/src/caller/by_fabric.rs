//! What a peer lends, as the side that reads it sees it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_libfabric::ReadError;
use forebay_wire::{Answer, Ask, FabricMemory};

use super::{Arrived, NEXT, Shared};
use crate::{Fabric, LinkError};

/// Time for which a fabric that failed is left alone; it doubles with each failure after another.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Loans that may wait to be given back: more than a peer has to lend.
const MOST_DONE: usize = 1024;

/// How it stands with a peer over the fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FabricState {
    /// True if the peer may lend.
    pub is_open: bool,
    /// Why it may not, or why a read failed last.
    pub reason: Option<String>,
    /// Bytes of blocks that were read over it.
    pub bytes: u64,
    /// Reads that failed; what they were for came over the link.
    pub failures: u64,
}

/// The fabric to one peer.
pub(super) struct ByFabric {
    fabric: Option<Arc<Fabric>>,
    way: Mutex<Way>,
    /// Loans that were read and are to be given back.
    done: Mutex<Vec<u64>>,
    bytes: AtomicU64,
    failures: AtomicU64,
}

#[derive(Default)]
struct Way {
    /// Number of the ask for the peer's memory, until it is answered.
    asked: Option<u64>,
    memory: Option<Arc<FabricMemory>>,
    reason: Option<String>,
    /// Until when it is left alone, and for how long the next time.
    alone_until: Option<Instant>,
    pause: Duration,
}

impl Way {
    fn is_open(&self, now: Instant) -> bool {
        self.memory.is_some() && self.alone_until.is_none_or(|until| until <= now)
    }
}

impl ByFabric {
    pub(super) fn new(fabric: Option<Arc<Fabric>>) -> Self {
        Self {
            fabric,
            way: Mutex::default(),
            done: Mutex::default(),
            bytes: AtomicU64::new(0),
            failures: AtomicU64::new(0),
        }
    }

    /// A link came up: what to ask of the peer on it.
    pub(super) fn ask(&self, id: u64) -> Option<Ask> {
        let fabric = self.fabric.as_ref()?;
        // Loans end with their link.
        lock(&self.done).clear();
        let mut way = self.lock();
        // Where its memory lay over an earlier link means nothing; that it failed does.
        way.memory = None;
        way.asked = Some(id);
        Some(Ask::Fabric {
            id,
            provider: fabric.provider().to_owned(),
        })
    }

    /// The peer tells where its memory lies.
    pub(super) fn told(&self, id: u64, memory: FabricMemory) -> Result<(), LinkError> {
        let mut way = self.lock();
        if way.asked.take_if(|asked| *asked == id).is_none() {
            return Err(LinkError::Unasked);
        }
        way.memory = Some(Arc::new(memory));
        Ok(())
    }

    /// True if the refusal with this number is of the peer's memory.
    pub(super) fn refused(&self, id: u64, reason: &str) -> bool {
        let mut way = self.lock();
        let is_ours = way.asked.take_if(|asked| *asked == id).is_some();
        if is_ours {
            way.reason = Some(reason.to_owned());
        }
        is_ours
    }

    pub(super) fn may_lend(&self, now: Instant) -> bool {
        self.fabric.is_some() && self.lock().is_open(now)
    }

    pub(super) fn state(&self, now: Instant) -> FabricState {
        let way = self.lock();
        FabricState {
            is_open: self.fabric.is_some() && way.is_open(now),
            reason: way.reason.clone(),
            bytes: self.bytes.load(Ordering::Relaxed),
            failures: self.failures.load(Ordering::Relaxed),
        }
    }

    /// Reads what the peer has lent and hands it to `take`; `None` if it could not be read.
    ///
    /// # Errors
    /// [`LinkError::Unasked`] if the peer lends what it has not.
    pub(super) fn read<T>(
        &self,
        (offset, len): (u64, usize),
        deadline: Instant,
        goes_on: &dyn Fn() -> bool,
        take: impl FnOnce(&[u8]) -> T,
    ) -> Result<Option<T>, LinkError> {
        let way = self.lock();
        let memory = way.memory.clone();
        let is_open = way.is_open(Instant::now());
        drop(way);
        let (Some(fabric), Some(memory)) = (&self.fabric, memory) else {
            return Err(LinkError::Unasked);
        };
        let end = offset.checked_add(len as u64);
        if end.is_none_or(|end| end > memory.len) {
            return Err(LinkError::Unasked);
        }
        if !is_open {
            // Lent before it failed.
            return Ok(None);
        }
        match fabric.read(&memory, (offset, len), deadline, goes_on, take) {
            Ok(taken) => {
                self.bytes.fetch_add(len as u64, Ordering::Relaxed);
                self.lock().pause = Duration::ZERO;
                Ok(Some(taken))
            }
            Err(error) => {
                self.failed(&error);
                Ok(None)
            }
        }
    }

    /// A loan is to be given back.
    ///
    /// # Errors
    /// [`LinkError::Unasked`] if the peer lends on and on, and takes nothing back.
    fn is_done_with(&self, loan: u64) -> Result<(), LinkError> {
        let mut done = lock(&self.done);
        if done.len() >= MOST_DONE {
            return Err(LinkError::Unasked);
        }
        done.push(loan);
        Ok(())
    }

    fn failed(&self, error: &ReadError) {
        self.failures.fetch_add(1, Ordering::Relaxed);
        let mut way = self.lock();
        way.reason = Some(error.to_string());
        if *error == ReadError::Busy {
            // It is no fault of the peer's.
            return;
        }
        way.pause = (2 * way.pause).clamp(FIRST_PAUSE, LONGEST_PAUSE);
        way.alone_until = Some(Instant::now() + way.pause);
    }

    fn lock(&self) -> MutexGuard<'_, Way> {
        lock(&self.way)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    /// Asks where the peer's memory lies, if this node reads any.
    pub(super) fn ask_for_fabric(&self) -> Result<(), LinkError> {
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        match (self.by_fabric.ask(id), self.writer()) {
            (Some(ask), Some(writer)) => Ok(writer.send(&ask.encode())?),
            _ => Ok(()),
        }
    }

    /// Reads what is lent and gives it back. What cannot be read spoils its ask: it is asked for once
    /// more, and comes over the link.
    pub(super) fn take_lent(&self, lent: Answer) -> Result<(), LinkError> {
        let Answer::Lent {
            id,
            loan,
            offset,
            shard,
            first,
            body_len,
            checksums,
        } = lent
        else {
            return Ok(());
        };
        let deadline = Instant::now() + self.plan.silence / 2;
        let goes_on = || !self.stopping.load(Ordering::Acquire);
        let place = (offset, body_len as usize);
        // Nobody waits for it any more, and it is not read at all.
        let is_wanted = self.pending.arrivals(id).is_some();
        let taken = is_wanted.then(|| {
            self.by_fabric.read(place, deadline, &goes_on, |bytes| {
                let blocks = Arrived {
                    shard,
                    first,
                    checksums: &checksums,
                    bytes: bytes.into(),
                };
                self.hand_out(id, blocks)
            })
        });
        match taken {
            None | Some(Ok(Some(Ok(())))) => {}
            Some(Ok(None)) => self.pending.spoil(id),
            Some(Ok(Some(Err(error))) | Err(error)) => return Err(error),
        }
        self.by_fabric.is_done_with(loan)?;
        self.give_back()
    }

    /// Gives back what was read, as far as that needs no wait: the peer's own thread may be waiting
    /// for this one to read on.
    pub(super) fn give_back(&self) -> Result<(), LinkError> {
        let mut done = lock(&self.by_fabric.done);
        if done.is_empty() {
            return Ok(());
        }
        let Some(writer) = self.writer() else {
            return Ok(());
        };
        while let Some(loan) = done.last() {
            if !writer.try_send(&Ask::Return { loan: *loan }.encode())? {
                break;
            }
            done.pop();
        }
        Ok(())
    }
}
