//! Why a run should end early.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::{BenchError, Result};

/// Looked at between operations; set by a signal handler or at the deadline.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicUsize>);

impl Stop {
    /// What a signal handler stores in [`Stop::flag`].
    pub const INTERRUPTED: usize = 1;
    const EXPIRED: usize = 2;

    /// The word that a signal handler may set.
    #[must_use]
    pub fn flag(&self) -> Arc<AtomicUsize> {
        Arc::clone(&self.0)
    }

    /// Ends the run as a signal does.
    pub fn interrupt(&self) {
        self.set(Self::INTERRUPTED);
    }

    /// Ends the run as the deadline does.
    pub(crate) fn expire(&self) {
        self.set(Self::EXPIRED);
    }

    fn set(&self, why: usize) {
        // Relaxed here and in `check`: nothing else is told through it.
        let _ = self
            .0
            .compare_exchange(0, why, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Goes on, or says why not.
    ///
    /// # Errors
    /// [`BenchError::Interrupted`] or [`BenchError::Deadline`].
    #[inline]
    pub fn check(&self, seconds: u64) -> Result<()> {
        match self.0.load(Ordering::Relaxed) {
            0 => Ok(()),
            Self::EXPIRED => Err(BenchError::Deadline { seconds }),
            _ => Err(BenchError::Interrupted),
        }
    }
}
