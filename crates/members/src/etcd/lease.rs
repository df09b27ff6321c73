//! A lease that lasts: what is put under it is gone some seconds after its node has died.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Etcd;
use crate::meeting::MeetingError;

/// Seconds after which what a dead node left is gone.
const LEASE: u64 = 15;
/// How often a lease is renewed.
const RENEW: Duration = Duration::from_secs(4);

/// A lease that is renewed until it is dropped, and granted anew where it was lost: the node may
/// have stood still for longer than it lasts.
pub(super) struct KeptLease {
    etcd: Etcd,
    id: Arc<Mutex<String>>,
    /// Ends the thread that renews it, when it is dropped.
    renewing: Mutex<Option<Sender<()>>>,
}

impl KeptLease {
    /// Has one granted. `put` is called with the name of each lease, and leaves there what is to be
    /// under it.
    pub(super) fn grant(
        etcd: &Etcd,
        put: impl Fn(&Etcd, &str) -> Result<(), MeetingError> + Send + 'static,
    ) -> Result<Self, MeetingError> {
        let lease = etcd.lease(LEASE)?;
        put(etcd, &lease)?;
        let id = Arc::new(Mutex::new(lease));
        let (renewing, ended) = channel();
        let (renewer, renewed) = (etcd.clone(), id.clone());
        let thread = std::thread::Builder::new().name("lease".into());
        thread
            .spawn(move || renew(&renewer, &renewed, &ended, put))
            .map_err(|error| etcd.failed(error))?;
        Ok(Self {
            etcd: etcd.clone(),
            id,
            renewing: Mutex::new(Some(renewing)),
        })
    }

    /// Its name now.
    pub(super) fn id(&self) -> String {
        lock(&self.id).clone()
    }

    /// Gives it up, with all that is under it.
    pub(super) fn end(&self) {
        if lock(&self.renewing).take().is_some() {
            self.etcd.revoke(&self.id());
        }
    }
}

impl Drop for KeptLease {
    fn drop(&mut self) {
        self.end();
    }
}

/// Renews a lease until the other end of the channel is gone.
fn renew(
    etcd: &Etcd,
    id: &Mutex<String>,
    ended: &Receiver<()>,
    put: impl Fn(&Etcd, &str) -> Result<(), MeetingError>,
) {
    while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(RENEW) {
        let lease = lock(id).clone();
        // One that fails is tried again, well before the lease runs out.
        if etcd.renew(&lease).unwrap_or(true) {
            continue;
        }
        let Ok(granted) = etcd.lease(LEASE) else {
            continue;
        };
        lock(id).clone_from(&granted);
        // Without what was put the lease is let run out, and granted anew. Whoever ended it
        // meanwhile gave up the one before.
        if put(etcd, &granted).is_err() || has_ended(ended) {
            etcd.revoke(&granted);
        }
    }
}

fn has_ended(ended: &Receiver<()>) -> bool {
    ended.try_recv() == Err(TryRecvError::Disconnected)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
