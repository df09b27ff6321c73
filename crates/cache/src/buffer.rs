//! Where bytes wait between origin and device.

use std::sync::{Mutex, PoisonError};

use crate::jobs::READ_BYTES;

/// Buffers that are kept for the next reads, of all threads together.
const KEPT: usize = 16;

static IDLE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// A buffer for one run. Threads share those that are not in use: one that reads has one, and one of
/// the many that wait for something else has none.
pub(crate) struct Buffer(Vec<u8>);

impl Buffer {
    pub(crate) fn take() -> Self {
        let idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner).pop();
        Self(idle.unwrap_or_default())
    }

    /// So many bytes of it, with whatever is in them.
    pub(crate) fn of_len(&mut self, len: usize) -> &mut [u8] {
        if self.0.len() < len {
            self.0.resize(len, 0);
        }
        &mut self.0[..len]
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        if idle.len() < KEPT && self.0.len() as u64 <= READ_BYTES {
            idle.push(std::mem::take(&mut self.0));
        }
    }
}
