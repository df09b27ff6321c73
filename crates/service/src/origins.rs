//! Origins in use, one for each data set and root, however many clients have it open.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use forebay_origin::PosixOrigin;

use crate::pace::Pace;

/// An origin, and how fast it has been.
#[derive(Debug)]
pub(crate) struct OriginInUse {
    pub(crate) files: PosixOrigin,
    pub(crate) pace: Pace,
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
