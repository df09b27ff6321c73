//! Room on the device: a byte capacity and a floor of free space, reserved before it is used.

use std::fs::File;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Granularity in which file systems allocate; a short block takes whole pages.
const PAGE: u64 = 4096;

/// Bytes that `len` bytes of a file take on the device.
pub(crate) fn allocated(len: u64) -> u64 {
    len.next_multiple_of(PAGE)
}

/// Bytes that the file system may take to note where the blocks of a sparse file lie.
///
/// The worst is every second block present: each is an extent of its own. ext4 notes four extents
/// in the inode and the others 12 bytes each in pages that are at least half full when they are
/// split off, and that stay when all but one of their extents are punched. A file system that
/// scatters single blocks takes more, but then it is too full to be used as a cache.
pub(crate) fn noted(blocks: u64) -> u64 {
    if blocks <= 4 {
        0
    } else {
        allocated(blocks * 32)
    }
}

/// The room that a cache may take.
#[derive(Debug)]
pub struct Budget {
    capacity: u64,
    free_floor: u64,
    used: AtomicU64,
    folder: File,
}

impl Budget {
    /// Room for `capacity` bytes on the file system of `folder`, of which at least `free_floor`
    /// bytes stay free for others.
    pub fn new(capacity: u64, free_floor: u64, folder: File) -> Self {
        Self {
            capacity,
            free_floor,
            used: AtomicU64::new(0),
            folder,
        }
    }

    /// Bytes in use or reserved.
    pub fn used(&self) -> u64 {
        self.used.load(Ordering::Acquire)
    }

    /// Bytes that may be in use.
    pub fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Sets `bytes` aside, or says that there is no room.
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Option<Reservation> {
        if !self.leaves_floor(bytes) {
            return None;
        }
        self.used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                used.checked_add(bytes).filter(|sum| *sum <= self.capacity)
            })
            .ok()?;
        Some(Reservation {
            budget: self.clone(),
            bytes,
        })
    }

    /// Counts bytes that are on the device already.
    pub(crate) fn adopt(&self, bytes: u64) {
        self.used.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Gives back bytes that left the device.
    pub(crate) fn release(&self, bytes: u64) {
        let released = self
            .used
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |used| {
                Some(used.saturating_sub(bytes))
            });
        debug_assert!(
            released.is_ok_and(|used| used >= bytes),
            "released more than was used"
        );
    }

    fn leaves_floor(&self, bytes: u64) -> bool {
        // A file system that does not tell how full it is reports a full device when it is met.
        rustix::fs::fstatvfs(&self.folder).is_ok_and(|stat| {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize);
            free >= self.free_floor.saturating_add(bytes)
        })
    }
}

/// Room set aside. Given back on drop unless it was used.
#[derive(Debug)]
#[must_use]
pub struct Reservation {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Reservation {
    /// `bytes` of the room are used from now on; they return by [`Budget::release`].
    pub(crate) fn spend(&mut self, bytes: u64) {
        debug_assert!(bytes <= self.bytes, "spent more than was reserved");
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(capacity: u64, floor: u64) -> Arc<Budget> {
        Arc::new(Budget::new(capacity, floor, File::open("/").unwrap()))
    }

    #[test]
    fn reservations_never_pass_the_capacity() {
        let budget = budget(100, 0);
        let mut first = budget.reserve(60).unwrap();
        assert!(budget.reserve(41).is_none());
        first.spend(10);
        drop(first);
        assert_eq!(budget.used(), 10, "unspent room is given back");
        assert!(budget.reserve(91).is_none());
        assert!(budget.reserve(u64::MAX).is_none());
        let _rest = budget.reserve(90).unwrap();
        assert!(budget.reserve(1).is_none());
    }

    #[test]
    fn the_floor_of_free_space_is_kept() {
        assert!(budget(u64::MAX, u64::MAX / 2).reserve(1).is_none());
    }
}
