//! An etcd in which each node of a job leaves its address under a lease: what a node that dies has
//! left there is gone some seconds later.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

use crate::meeting::{Meeting, MeetingError};

/// Seconds after which what a dead node left is gone.
const LEASE: u64 = 15;
/// How often a lease is renewed.
const RENEW: Duration = Duration::from_secs(4);
/// Seconds for which it is known that a node was done, after it has left.
const DONE_LEASE: u64 = 300;
/// How often is looked who is there.
const LOOK: Duration = Duration::from_millis(200);
/// Longest time that one answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Most bytes of one answer: a hundred for each of 65,536 members.
const MOST_BYTES: u64 = 8 << 20;

/// This node's place in an etcd; given up on drop.
pub struct EtcdMeeting {
    etcd: Etcd,
    prefix: String,
    address: String,
    lease: String,
    /// Ends the thread that renews the lease, when it is dropped.
    _renewing: Sender<()>,
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
        let lease = etcd.lease(LEASE)?;
        etcd.put(&format!("{prefix}member/{address}"), &lease)?;
        let (renewing, ended) = channel();
        let (renewer, renewed) = (etcd.clone(), lease.clone());
        let thread = std::thread::Builder::new().name("lease".into());
        thread
            .spawn(move || renewer.renew(&renewed, &ended))
            .map_err(|error| etcd.failed(error))?;
        Ok(Self {
            etcd,
            prefix,
            address: address.to_owned(),
            lease,
            _renewing: renewing,
        })
    }

    fn wait_for(
        &self,
        kind: &str,
        nodes: usize,
        limit: Duration,
    ) -> Result<Vec<String>, MeetingError> {
        let prefix = format!("{}{kind}/", self.prefix);
        let deadline = Instant::now() + limit;
        loop {
            let found = self.etcd.names(&prefix)?;
            let left = deadline.saturating_duration_since(Instant::now());
            if found.len() >= nodes || left.is_zero() {
                return Ok(found);
            }
            std::thread::sleep(LOOK.min(left));
        }
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

impl Drop for EtcdMeeting {
    fn drop(&mut self) {
        let _ = self.etcd.ask("lease/revoke", &json!({ "ID": self.lease }));
    }
}

/// Speaks to etcd by its gateway of JSON over HTTP.
#[derive(Clone)]
struct Etcd {
    agent: Agent,
    endpoint: String,
}

impl Etcd {
    fn new(endpoint: &str) -> Self {
        let config = Agent::config_builder()
            .timeout_global(Some(ANSWER))
            // It is a machine of the cluster: no proxy leads there.
            .proxy(None)
            .build();
        Self {
            agent: config.into(),
            endpoint: endpoint.to_owned(),
        }
    }

    fn failed(&self, what: impl std::fmt::Display) -> MeetingError {
        MeetingError::Etcd {
            endpoint: self.endpoint.clone(),
            what: what.to_string(),
        }
    }

    fn ask(&self, what: &str, body: &Value) -> Result<Value, MeetingError> {
        let url = format!("http://{}/v3/{what}", self.endpoint);
        let sent = self.agent.post(&url).send(body.to_string());
        let mut answer = sent.map_err(|error| self.failed(error))?;
        let text = answer
            .body_mut()
            .with_config()
            .limit(MOST_BYTES)
            .read_to_string();
        let text = text.map_err(|error| self.failed(error))?;
        serde_json::from_str(&text).map_err(|error| self.failed(error))
    }

    /// A lease of so many seconds.
    fn lease(&self, seconds: u64) -> Result<String, MeetingError> {
        let granted = self.ask("lease/grant", &json!({ "TTL": seconds }))?;
        // 64-bit numbers are text there.
        let id = granted["ID"].as_str().map(str::to_owned);
        id.ok_or_else(|| self.failed("it granted no lease"))
    }

    fn put(&self, key: &str, lease: &str) -> Result<(), MeetingError> {
        let body = json!({ "key": STANDARD.encode(key), "value": "", "lease": lease });
        self.ask("kv/put", &body).map(|_| ())
    }

    /// What follows `prefix` in the keys that begin with it, in order.
    fn names(&self, prefix: &str) -> Result<Vec<String>, MeetingError> {
        let mut end = prefix.as_bytes().to_vec();
        // A prefix ends with `/`; the first key after all of its own ends with what follows that.
        if let Some(last) = end.last_mut() {
            *last += 1;
        }
        let body = json!({
            "key": STANDARD.encode(prefix),
            "range_end": STANDARD.encode(end),
            "keys_only": true,
        });
        let found = self.ask("kv/range", &body)?;
        let key = |pair: &Value| {
            let key = STANDARD.decode(pair["key"].as_str()?).ok()?;
            let key = String::from_utf8(key).ok()?;
            key.strip_prefix(prefix).map(str::to_owned)
        };
        let pairs = found["kvs"].as_array().into_iter().flatten();
        let mut names: Vec<String> = pairs.filter_map(key).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Renews a lease until the other end of the channel is gone.
    fn renew(&self, lease: &str, ended: &Receiver<()>) {
        while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(RENEW) {
            // One that fails is tried again, well before the lease runs out.
            let _ = self.ask("lease/keepalive", &json!({ "ID": lease }));
        }
    }
}
