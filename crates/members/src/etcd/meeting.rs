//! An etcd in which each node of a job leaves its address under a lease.

use std::time::Duration;

use super::Etcd;
use super::lease::KeptLease;
use crate::meeting::{Meeting, MeetingError, Watch, wait_for};

/// Seconds for which it is known that a node was done, after it has left.
const DONE_LEASE: u64 = 300;

/// This node's place in an etcd; given up on drop.
pub struct EtcdMeeting {
    etcd: Etcd,
    prefix: String,
    address: String,
    _lease: KeptLease,
}

impl EtcdMeeting {
    /// Leaves `address` under `prefix` and the id of the job, in the etcd at `endpoint`, which is
    /// `HOST:PORT`.
    ///
    /// # Errors
    /// [`MeetingError::Etcd`].
    pub fn join(
        endpoint: &str,
        prefix: &str,
        id: &str,
        address: &str,
    ) -> Result<Self, MeetingError> {
        let etcd = Etcd::new(endpoint);
        let prefix = format!("{prefix}/{id}/");
        let key = format!("{prefix}member/{address}");
        let lease = KeptLease::grant(&etcd, move |etcd, lease| etcd.put(&key, lease))?;
        Ok(Self {
            etcd,
            prefix,
            address: address.to_owned(),
            _lease: lease,
        })
    }

    fn wait_for(
        &self,
        kind: &str,
        nodes: usize,
        limit: Duration,
    ) -> Result<Vec<String>, MeetingError> {
        let prefix = format!("{}{kind}/", self.prefix);
        wait_for(nodes, limit, || self.etcd.names(&prefix))
    }
}

impl Meeting for EtcdMeeting {
    fn come(&self, nodes: usize, limit: Duration) -> Result<Vec<String>, MeetingError> {
        self.wait_for("member", nodes, limit)
    }

    fn done(&self, nodes: usize, limit: Duration) -> Result<bool, MeetingError> {
        // Under a lease of its own: those who still wait must find it when this node has left.
        let lease = self.etcd.lease(DONE_LEASE)?;
        let key = format!("{}done/{}", self.prefix, self.address);
        self.etcd.put(&key, &lease)?;
        Ok(self.wait_for("done", nodes, limit)?.len() >= nodes)
    }

    fn place(&self) -> String {
        format!("etcd://{}/{}", self.etcd.endpoint, self.prefix)
    }
}

/// Looks who is there. What dies is gone with its lease.
pub(crate) struct EtcdWatch {
    etcd: Etcd,
    prefix: String,
}

impl EtcdWatch {
    /// `prefix`: that of the job, without a `/` at its end.
    pub(crate) fn new(endpoint: &str, prefix: &str) -> Self {
        Self {
            etcd: Etcd::new(endpoint),
            prefix: format!("{prefix}/member/"),
        }
    }
}

impl Watch for EtcdWatch {
    fn members(&mut self) -> Result<Vec<String>, MeetingError> {
        self.etcd.names(&self.prefix)
    }
}
