//! Asks that wait for their end, and buffers for what arrives.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Instant;

use super::{Arrivals, Ended, Landing, Outcome};

/// Asks of one peer in progress, at most.
const MOST: usize = 4096;
/// Buffers that are kept for the next blocks, of all links together.
const KEPT: usize = 32;
/// A buffer that grew past this is not kept.
const KEPT_BYTES: usize = 1 << 20;

/// Who waits for an ask.
pub(super) struct Waiter {
    pub(super) since: Instant,
    pub(super) arrivals: Option<Arc<dyn Arrivals>>,
    /// Some of what was lent for it could not be read.
    pub(super) is_spoiled: bool,
    pub(super) done: mpsc::Sender<Ended>,
}

/// The asks of one peer.
#[derive(Default)]
pub(super) struct Pending(Mutex<HashMap<u64, Waiter>>);

impl Pending {
    /// False if there are too many.
    pub(super) fn insert(&self, id: u64, waiter: Waiter) -> bool {
        let mut table = self.lock();
        if table.len() >= MOST {
            return false;
        }
        table.insert(id, waiter);
        true
    }

    pub(super) fn len(&self) -> usize {
        self.lock().len()
    }

    /// When the oldest was asked.
    pub(super) fn oldest(&self) -> Option<Instant> {
        self.lock().values().map(|waiter| waiter.since).min()
    }

    /// Who takes the blocks of an ask, if the ask is still in progress, and if it takes any.
    #[expect(
        clippy::option_option,
        reason = "gone, and without arrivals, are two things"
    )]
    pub(super) fn arrivals(&self, id: u64) -> Option<Option<Arc<dyn Arrivals>>> {
        self.lock().get(&id).map(|waiter| waiter.arrivals.clone())
    }

    /// Where so many bytes for an ask are to land.
    pub(super) fn landing(&self, id: u64, len: usize) -> Option<Box<dyn Landing>> {
        self.arrivals(id)??.landing(len)
    }

    pub(super) fn end(&self, id: u64, outcome: Outcome) {
        let waiter = self.lock().remove(&id);
        let Some(waiter) = waiter else { return };
        let outcome = match outcome {
            Outcome::Done { .. } if waiter.is_spoiled => Outcome::Again,
            other => other,
        };
        tell(id, waiter, outcome);
    }

    /// Some of what was lent for an ask could not be read.
    pub(super) fn spoil(&self, id: u64) {
        if let Some(waiter) = self.lock().get_mut(&id) {
            waiter.is_spoiled = true;
        }
    }

    pub(super) fn forget(&self, id: u64) {
        // Not under the lock: what the waiter holds may do anything when it is dropped.
        let waiter = self.lock().remove(&id);
        drop(waiter);
    }

    pub(super) fn lose_all(&self) {
        let waiters = std::mem::take(&mut *self.lock());
        for (id, waiter) in waiters {
            tell(id, waiter, Outcome::Lost);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Waiter>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(id: u64, waiter: Waiter, outcome: Outcome) {
    let Waiter { arrivals, done, .. } = waiter;
    // First, so that whoever is told finds nothing in progress any more.
    drop(arrivals);
    let _ = done.send(Ended { id, outcome });
}

/// A buffer for one body. Links share those that are not in use: a link in the middle of a body
/// has one, and an idle link none.
#[derive(Debug)]
pub(super) struct Buffers(Vec<u8>);

static IDLE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

impl Buffers {
    pub(super) fn take() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(idle.unwrap_or_default())
    }

    /// So many bytes of it, with whatever is in them.
    pub(super) fn of_len(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        &mut self.0[..len]
    }

    /// Its first bytes, as far as it has them.
    pub(super) fn first(&self, len: usize) -> &[u8] {
        &self.0[..len.min(self.0.len())]
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT && self.0.len() <= KEPT_BYTES {
            idle.push(std::mem::take(&mut self.0));
        }
    }
}
