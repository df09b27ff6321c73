//! Origins in use, one for each data set and root, however many clients have it open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use forebay_origin::{Origin, OriginError, SegmentRef, StoreUrl, Stores, open_origin};

use crate::clock::Clock;
use crate::pace::Pace;

/// Where a store brings this much in less time than it takes to answer one more request.
const BRIDGED: u64 = 256 << 10;

/// An origin, and how fast it has been.
#[derive(Debug)]
pub(crate) struct OriginInUse {
    origin: Arc<dyn Origin>,
    /// Ranges of one segment that lie so close to each other, in bytes, are read in one go.
    pub(crate) bridged: u64,
    pub(crate) pace: Pace,
    clock: Clock,
}

impl OriginInUse {
    /// An origin of which each range is read alone.
    #[cfg(test)]
    pub(crate) fn simulated(origin: Arc<dyn Origin>, clock: Clock) -> Self {
        Self {
            origin,
            bridged: 0,
            pace: Pace::default(),
            clock,
        }
    }

    /// The origin, for one fill.
    pub(crate) fn timed(&self) -> Timed<'_> {
        Timed {
            origin: self,
            nanos: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }
}

/// What one fill has read of its origin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct OriginReads {
    pub(crate) took: Duration,
    pub(crate) bytes: u64,
}

/// An origin that keeps count of its reads that succeed.
#[derive(Debug)]
pub(crate) struct Timed<'a> {
    origin: &'a OriginInUse,
    nanos: AtomicU64,
    bytes: AtomicU64,
}

impl Timed<'_> {
    /// Notes what was read, if anything was.
    pub(crate) fn note(self) -> OriginReads {
        let reads = OriginReads {
            took: Duration::from_nanos(self.nanos.into_inner()),
            bytes: self.bytes.into_inner(),
        };
        if reads.bytes > 0 {
            self.origin.pace.note(reads.took);
        }
        reads
    }
}

impl Origin for Timed<'_> {
    fn read_at(
        &self,
        segment: SegmentRef<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        let began = self.origin.clock.now();
        self.origin.origin.read_at(segment, offset, out)?;
        let took = self.origin.clock.now().saturating_duration_since(began);
        let nanos = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.bytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Each origin keeps files open, so that links share them bounds the daemon's descriptors.
pub(crate) struct Origins {
    stores: Option<Arc<dyn Stores>>,
    table: Mutex<HashMap<(u128, PathBuf), Weak<OriginInUse>>>,
}

impl Origins {
    /// None yet. `stores` opens those that are no folders.
    pub(crate) fn new(stores: Option<Arc<dyn Stores>>) -> Self {
        Self {
            stores,
            table: Mutex::default(),
        }
    }

    /// The origin of the data set `generation` below `root`. Dropped with its last user.
    pub(crate) fn get(
        &self,
        generation: u128,
        root: PathBuf,
    ) -> Result<Arc<OriginInUse>, OriginError> {
        let mut table = self.table.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (generation, root);
        if let Some(origin) = table.get(&key).and_then(Weak::upgrade) {
            return Ok(origin);
        }
        table.retain(|_, origin| origin.strong_count() > 0);
        let origin = Arc::new(OriginInUse {
            origin: open_origin(&key.1, self.stores.as_deref())?,
            bridged: match key.1.to_str() {
                Some(root) if StoreUrl::is_url(root) => BRIDGED,
                _ => 0,
            },
            pace: Pace::default(),
            clock: Clock::default(),
        });
        table.insert(key, Arc::downgrade(&origin));
        Ok(origin)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_one_root_share_its_origin() {
        let origins = Origins::new(None);
        let get = |generation, root: &str| origins.get(generation, root.into()).unwrap();
        let first = get(1, "/a");
        assert!(Arc::ptr_eq(&first, &get(1, "/a")));
        assert!(!Arc::ptr_eq(&first, &get(1, "/b")));
        let other = get(2, "/a");
        assert!(!Arc::ptr_eq(&first, &other), "segments of another index");
        drop((first, other));
        drop(get(3, "/c"));
        assert_eq!(
            origins.table.lock().unwrap().len(),
            1,
            "none outlives its users for long"
        );
    }
}
