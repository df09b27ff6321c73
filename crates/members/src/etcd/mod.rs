//! What is spoken with an etcd: by its gateway of JSON over HTTP.

mod lease;
mod meeting;
mod names;

use std::io::{BufRead, BufReader, Read};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use ureq::Agent;

use crate::meeting::MeetingError;

pub use meeting::EtcdMeeting;
pub(crate) use meeting::EtcdWatch;
pub use names::{EtcdNames, NameEntry};

/// Longest time that one answer may take.
const ANSWER: Duration = Duration::from_secs(5);
/// Longest time that one watch is listened to; then another begins. A silent etcd is no better than
/// a dead one.
const WATCH: Duration = Duration::from_secs(60);
/// Most bytes of one answer: a hundred for each of 65,536 members.
const MOST_BYTES: u64 = 8 << 20;

/// One etcd.
#[derive(Clone)]
struct Etcd {
    agent: Agent,
    endpoint: String,
}

/// A key, with what it holds and the revision in which it was last put.
struct Pair {
    key: String,
    value: Vec<u8>,
    revision: u64,
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

    fn url(&self, what: &str) -> String {
        format!("http://{}/v3/{what}", self.endpoint)
    }

    fn ask(&self, what: &str, body: &Value) -> Result<Value, MeetingError> {
        self.ask_within(ANSWER, what, body)
    }

    /// Asks, and waits no longer than this, nor than for any answer.
    fn ask_within(&self, limit: Duration, what: &str, body: &Value) -> Result<Value, MeetingError> {
        let request = self.agent.post(self.url(what));
        // None at all would be no limit.
        let limit = limit.clamp(Duration::from_millis(1), ANSWER);
        let request = request.config().timeout_global(Some(limit)).build();
        let sent = request.send(body.to_string());
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

    /// Renews a lease. False if it has run out.
    fn renew(&self, lease: &str) -> Result<bool, MeetingError> {
        let renewed = self.ask("lease/keepalive", &json!({ "ID": lease }))?;
        let left = renewed["result"]["TTL"].as_str();
        Ok(left.and_then(|left| left.parse().ok()).unwrap_or(0) > 0)
    }

    /// Gives a lease up, with all that is under it, if it can be.
    fn revoke(&self, lease: &str) {
        let _ = self.ask("lease/revoke", &json!({ "ID": lease }));
    }

    fn put(&self, key: &str, lease: &str) -> Result<(), MeetingError> {
        let body = json!({ "key": STANDARD.encode(key), "value": "", "lease": lease });
        self.ask("kv/put", &body).map(|_| ())
    }

    /// Puts a key that was last put in revision `seen`, 0 for one that is not there. False if that
    /// is no longer so.
    fn swap(
        &self,
        key: &str,
        value: &[u8],
        lease: &str,
        seen: u64,
        limit: Duration,
    ) -> Result<bool, MeetingError> {
        let put = json!({
            "key": STANDARD.encode(key),
            "value": STANDARD.encode(value),
            "lease": lease,
        });
        self.unless_changed(key, seen, &json!({ "requestPut": put }), limit)
    }

    /// Removes a key that was last put in revision `seen`. False if that is no longer so.
    fn remove(&self, key: &str, seen: u64, limit: Duration) -> Result<bool, MeetingError> {
        let delete = json!({ "key": STANDARD.encode(key) });
        self.unless_changed(key, seen, &json!({ "requestDeleteRange": delete }), limit)
    }

    fn unless_changed(
        &self,
        key: &str,
        seen: u64,
        act: &Value,
        limit: Duration,
    ) -> Result<bool, MeetingError> {
        let body = json!({
            "compare": [{
                "key": STANDARD.encode(key),
                "target": "MOD",
                "result": "EQUAL",
                "modRevision": seen.to_string(),
            }],
            "success": [act],
        });
        let done = self.ask_within(limit, "kv/txn", &body)?;
        Ok(done["succeeded"].as_bool().unwrap_or(false))
    }

    /// The keys that begin with `prefix` and come after `prefix` and `after`, at most so many.
    fn range(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
        keys_only: bool,
    ) -> Result<Vec<Pair>, MeetingError> {
        let mut from = format!("{prefix}{after}").into_bytes();
        if !after.is_empty() {
            from.push(0);
        }
        let body = json!({
            "key": STANDARD.encode(from),
            "range_end": STANDARD.encode(end_of(prefix)),
            "keys_only": keys_only,
            "limit": limit,
        });
        let found = self.ask("kv/range", &body)?;
        let pairs = found["kvs"].as_array().into_iter().flatten();
        Ok(pairs.filter_map(pair).collect())
    }

    /// What a key holds.
    fn get(&self, key: &str, limit: Duration) -> Result<Option<Pair>, MeetingError> {
        let body = json!({ "key": STANDARD.encode(key) });
        let found = self.ask_within(limit, "kv/range", &body)?;
        Ok(found["kvs"]
            .as_array()
            .and_then(|pairs| pair(pairs.first()?)))
    }

    /// What follows `prefix` in the keys that begin with it, in order.
    fn names(&self, prefix: &str) -> Result<Vec<String>, MeetingError> {
        let pairs = self.range(prefix, "", 0, true)?;
        let name = |pair: &Pair| pair.key.strip_prefix(prefix).map(str::to_owned);
        let mut names: Vec<String> = pairs.iter().filter_map(name).collect();
        names.sort_unstable();
        Ok(names)
    }

    /// Hands over what is put from now on under keys that begin with `prefix`, for a while or until
    /// `came` returns false.
    fn watch(&self, prefix: &str, mut came: impl FnMut(Pair) -> bool) -> Result<(), MeetingError> {
        let body = json!({
            "create_request": {
                "key": STANDARD.encode(prefix),
                "range_end": STANDARD.encode(end_of(prefix)),
                "filters": ["NODELETE"],
            }
        });
        let request = self.agent.post(self.url("watch"));
        let request = request.config().timeout_global(Some(WATCH)).build();
        let sent = request.send(body.to_string());
        let answer = sent.map_err(|error| self.failed(error))?;
        let mut lines = BufReader::new(answer.into_body().into_reader());
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = lines.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line);
            let read = read.map_err(|error| self.failed(error))?;
            if read == 0 {
                return Ok(());
            }
            let said: Value = serde_json::from_slice(&line).map_err(|error| self.failed(error))?;
            let events = said["result"]["events"].as_array().into_iter().flatten();
            for pair in events.filter_map(|event| pair(&event["kv"])) {
                if !came(pair) {
                    return Ok(());
                }
            }
        }
    }
}

fn pair(pair: &Value) -> Option<Pair> {
    let key = STANDARD.decode(pair["key"].as_str()?).ok()?;
    // What is empty is left out.
    let value = pair["value"].as_str().unwrap_or("");
    Some(Pair {
        key: String::from_utf8(key).ok()?,
        value: STANDARD.decode(value).ok()?,
        revision: pair["mod_revision"].as_str()?.parse().ok()?,
    })
}

/// The first key after all that begin with `prefix`, whose last byte is not the greatest.
fn end_of(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last += 1;
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_etcd_says_is_read_and_what_is_none_is_left_out() {
        let said = json!({ "key": "YS9i", "value": "AQI=", "mod_revision": "7" });
        let read = pair(&said).unwrap();
        assert_eq!(
            (read.key.as_str(), read.value.as_slice()),
            ("a/b", &[1, 2][..])
        );
        assert_eq!(read.revision, 7);
        let empty = json!({ "key": "YS9i", "mod_revision": "7" });
        assert!(pair(&empty).unwrap().value.is_empty());
        for wrong in [
            json!(null),
            json!([]),
            json!({ "value": "AQI=", "mod_revision": "7" }),
            json!({ "key": "??", "mod_revision": "7" }),
            json!({ "key": "/w==", "mod_revision": "7" }),
            json!({ "key": "YS9i", "mod_revision": 7 }),
            json!({ "key": "YS9i", "mod_revision": "-7" }),
            json!({ "key": "YS9i", "value": "?", "mod_revision": "7" }),
        ] {
            assert!(pair(&wrong).is_none(), "{wrong}");
        }
    }

    #[test]
    fn a_prefix_ends_before_the_first_key_that_does_not_begin_with_it() {
        assert_eq!(end_of("a/"), b"a0");
        let end = end_of("a/");
        assert!(b"a/".as_slice() < end.as_slice() && b"a/~~~".as_slice() < end.as_slice());
    }
}
