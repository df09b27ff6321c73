//! Names of a job's files in an etcd.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use super::lease::KeptLease;
use super::{Etcd, Pair};
use crate::meeting::MeetingError;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameEntry {
    /// The name.
    pub name: String,
    /// What was put there.
    pub value: Vec<u8>,
    /// Tells this value from those before and after it.
    pub revision: u64,
}

/// The names of one job in an etcd. What this node puts there is gone some seconds after it has
/// died.
pub struct EtcdNames {
    etcd: Etcd,
    prefix: String,
    lease: KeptLease,
    epoch: Arc<AtomicU64>,
}

impl EtcdNames {
    /// The names of job `id` under `prefix`, in the etcd at `endpoint`, which is `HOST:PORT`.
    ///
    /// # Errors
    /// [`MeetingError::Etcd`].
    pub fn open(endpoint: &str, prefix: &str, id: &str) -> Result<Self, MeetingError> {
        let etcd = Etcd::new(endpoint);
        let epoch = Arc::new(AtomicU64::new(0));
        let counted = epoch.clone();
        let lease = KeptLease::grant(&etcd, move |_, _| {
            counted.fetch_add(1, Ordering::AcqRel);
            Ok(())
        })?;
        Ok(Self {
            etcd,
            prefix: format!("{prefix}/{id}/name/"),
            lease,
            epoch,
        })
    }

    /// Changes when what this node has put there before may be gone: the lease was lost.
    pub fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    /// Removes what this node has put there: it leaves.
    pub fn close(&self) {
        self.lease.end();
    }

    /// What stands for a name, if that is said within `limit`.
    ///
    /// # Errors
    /// [`MeetingError::Etcd`].
    pub fn get(&self, name: &str, limit: Duration) -> Result<Option<NameEntry>, MeetingError> {
        let found = self.etcd.get(&self.key(name), limit)?;
        Ok(found.and_then(|pair| self.entry(pair)))
    }

    /// Puts a name whose entry is that of revision `seen`, 0 where there is none, within `limit`.
    /// False if another came meanwhile.
    ///
    /// # Errors
    /// [`MeetingError::Etcd`].
    pub fn put(
        &self,
        name: &str,
        value: &[u8],
        seen: u64,
        limit: Duration,
    ) -> Result<bool, MeetingError> {
        let lease = self.lease.id();
        (self.etcd).swap(&self.key(name), value, &lease, seen, limit)
    }

    /// Removes a name whose entry is that of revision `seen`, within `limit`. False if another came
    /// meanwhile.
    ///
    /// # Errors
    /// [`MeetingError::Etcd`].
    pub fn remove(&self, name: &str, seen: u64, limit: Duration) -> Result<bool, MeetingError> {
        self.etcd.remove(&self.key(name), seen, limit)
    }

    /// The entries after a name, in order, at most so many.
    ///
    /// # Errors
    /// [`MeetingError::Etcd`].
    pub fn list(&self, after: &str, most: usize) -> Result<Vec<NameEntry>, MeetingError> {
        let found = self.etcd.range(&self.prefix, after, most, false)?;
        let entry = |pair| self.entry(pair);
        Ok(found.into_iter().filter_map(entry).collect())
    }

    /// Hands over what any node puts there from now on, for a minute or until `came` returns false.
    ///
    /// # Errors
    /// [`MeetingError::Etcd`]; also where the minute is over.
    pub fn watch(&self, mut came: impl FnMut(NameEntry) -> bool) -> Result<(), MeetingError> {
        let handed = |pair| self.entry(pair).is_none_or(&mut came);
        self.etcd.watch(&self.prefix, handed)
    }

    fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    fn entry(&self, pair: Pair) -> Option<NameEntry> {
        Some(NameEntry {
            name: pair.key.strip_prefix(&self.prefix)?.to_owned(),
            value: pair.value,
            revision: pair.revision,
        })
    }
}
