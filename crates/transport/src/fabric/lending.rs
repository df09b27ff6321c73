//! Memory that is lent, and the thread that lets the provider answer those who read it.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use forebay_libfabric::{Lender, Slot};

use super::{Fabric, SLOTS};

/// How long the provider is let to work before it is looked whether anything is lent.
const TURN: Duration = Duration::from_millis(20);
/// The provider works once in so long even while nothing is lent: it has links to close.
const IDLE_TURN: Duration = Duration::from_secs(1);
/// Loans of one link, at most: one that gives nothing back must not have all.
const MOST_OF_LINK: usize = SLOTS / 2;
/// A loan that was not given back for so long is taken back. Whoever still reads it gets bytes that
/// fail their checksums.
const LONGEST_LOAN: Duration = Duration::from_secs(60);

/// Number of the next loan, of whichever link.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The parts of memory that may be lent.
#[derive(Debug)]
pub(super) struct Lending {
    state: Mutex<State>,
    changed: Condvar,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[derive(Debug)]
struct State {
    free: Vec<Slot>,
    /// Parts that are lent.
    lent: usize,
    is_closed: bool,
    /// Why nothing can be lent any more.
    failure: Option<String>,
}

impl Lending {
    pub(super) fn start(lender: Lender, slots: Vec<Slot>) -> io::Result<Arc<Self>> {
        let lending = Arc::new(Self {
            state: Mutex::new(State {
                free: slots,
                lent: 0,
                is_closed: false,
                failure: None,
            }),
            changed: Condvar::new(),
            thread: Mutex::default(),
        });
        let running = lending.clone();
        let thread = std::thread::Builder::new()
            .name("fabric".into())
            .spawn(move || running.run(lender))?;
        *lending
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(thread);
        Ok(lending)
    }

    /// Lets the provider work while something is lent; else it sleeps.
    fn run(&self, mut lender: Lender) {
        loop {
            let mut state = self.lock();
            if state.lent == 0 && !state.is_closed {
                let waited = self.changed.wait_timeout(state, IDLE_TURN);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            let turn = match (state.is_closed, state.lent) {
                (true, _) => return,
                (false, 0) => Duration::ZERO,
                (false, _) => TURN,
            };
            drop(state);
            if let Err(error) = lender.progress(turn) {
                let mut state = self.lock();
                state.failure = Some(error.to_string());
                state.is_closed = true;
            }
        }
    }

    pub(super) fn failure(&self) -> Option<String> {
        self.lock().failure.clone()
    }

    fn take(&self) -> Option<Slot> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let slot = state.free.pop()?;
        state.lent += 1;
        if state.lent == 1 {
            self.changed.notify_one();
        }
        Some(slot)
    }

    fn give_back(&self, slot: Slot) {
        let mut state = self.lock();
        state.free.push(slot);
        state.lent -= 1;
    }

    /// Ends the thread, and with it the lender.
    pub(super) fn close(&self) {
        self.lock().is_closed = true;
        self.changed.notify_all();
        let thread = self
            .thread
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        if let Some(thread) = thread {
            // One that panicked has closed it too.
            let _ = thread.join();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is lent over one link. All of it is taken back when this is dropped.
#[derive(Debug)]
pub struct Loans {
    fabric: Arc<Fabric>,
    lent: Mutex<HashMap<u64, (Instant, Slot)>>,
}

/// Bytes that are lent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loan {
    /// Its number, unlike all others of this process.
    pub number: u64,
    /// Where its bytes begin in the memory that is lent.
    pub offset: u64,
}

impl Loans {
    /// None yet.
    pub fn new(fabric: Arc<Fabric>) -> Self {
        Self {
            fabric,
            lent: Mutex::default(),
        }
    }

    /// The fabric that they are lent over.
    pub fn fabric(&self) -> &Fabric {
        &self.fabric
    }

    /// Lends `len` bytes that `fill` writes. `None` if there is no room: they go another way.
    ///
    /// # Errors
    /// What `fill` says.
    pub fn lend(
        &self,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> io::Result<()>,
    ) -> io::Result<Option<Loan>> {
        let Some(mut slot) = self.room() else {
            return Ok(None);
        };
        let filled = match slot.bytes_mut().get_mut(..len) {
            Some(bytes) => fill(bytes).map(|()| true),
            None => Ok(false),
        };
        match filled {
            Ok(true) => {}
            not => {
                self.fabric.lending.give_back(slot);
                return not.map(|_| None);
            }
        }
        let loan = Loan {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            offset: slot.offset() as u64,
        };
        self.lock().insert(loan.number, (Instant::now(), slot));
        self.fabric
            .lent_bytes
            .fetch_add(len as u64, Ordering::Relaxed);
        Ok(Some(loan))
    }

    fn room(&self) -> Option<Slot> {
        if self.lock().len() >= MOST_OF_LINK {
            self.take_back(|since| since.elapsed() >= LONGEST_LOAN);
            if self.lock().len() >= MOST_OF_LINK {
                return None;
            }
        }
        self.fabric.lending.take()
    }

    /// The other side does not need it any more. What is not lent over this link is left alone.
    pub fn give_back(&self, number: u64) {
        let lent = self.lock().remove(&number);
        if let Some((_, slot)) = lent {
            self.fabric.lending.give_back(slot);
        }
    }

    fn take_back(&self, which: impl Fn(&Instant) -> bool) {
        let mut lent = self.lock();
        let taken = lent.extract_if(|_, (since, _)| which(since));
        let taken: Vec<Slot> = taken.map(|(_, (_, slot))| slot).collect();
        drop(lent);
        for slot in taken {
            self.fabric.lending.give_back(slot);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, (Instant, Slot)>> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Loans {
    fn drop(&mut self) {
        self.take_back(|_| true);
    }
}
