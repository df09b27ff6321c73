//! Origins in use, one for each data set and root, however many clients have it open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use forebay_origin::{Origin, OriginError, PosixOrigin, SegmentRef};

use crate::pace::Pace;

/// An origin, and how fast it has been.
#[derive(Debug)]
pub(crate) struct OriginInUse {
    pub(crate) files: PosixOrigin,
    pub(crate) pace: Pace,
}

impl OriginInUse {
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
        let began = Instant::now();
        self.origin.files.read_at(segment, offset, out)?;
        let nanos = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.nanos.fetch_add(nanos, Ordering::Relaxed);
        self.bytes.fetch_add(out.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// Each origin keeps files open, so that links share them bounds the daemon's descriptors.
#[derive(Default)]
pub(crate) struct Origins(Mutex<HashMap<(u128, PathBuf), Weak<OriginInUse>>>);

impl Origins {
    /// The origin of the data set `generation` below `root`. Dropped with its last user.
    pub(crate) fn get(&self, generation: u128, root: PathBuf) -> Arc<OriginInUse> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (generation, root);
        if let Some(origin) = table.get(&key).and_then(Weak::upgrade) {
            return origin;
        }
        table.retain(|_, origin| origin.strong_count() > 0);
        let origin = Arc::new(OriginInUse {
            files: PosixOrigin::new(key.1.clone()),
            pace: Pace::default(),
        });
        table.insert(key, Arc::downgrade(&origin));
        origin
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_of_one_root_share_its_origin() {
        let origins = Origins::default();
        let first = origins.get(1, "/a".into());
        assert!(Arc::ptr_eq(&first, &origins.get(1, "/a".into())));
        assert!(!Arc::ptr_eq(&first, &origins.get(1, "/b".into())));
        let other = origins.get(2, "/a".into());
        assert!(!Arc::ptr_eq(&first, &other), "segments of another index");
        drop((first, other));
        drop(origins.get(3, "/c".into()));
        assert_eq!(
            origins.0.lock().unwrap().len(),
            1,
            "none outlives its users for long"
        );
    }
}
