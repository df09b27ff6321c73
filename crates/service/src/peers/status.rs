//! What `forebay status` tells of the other nodes. `docs/METRICS.md` describes it.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use forebay_transport::LinkState;
use serde_json::{Value, json};

use super::{Peer, Peers};

impl Peers {
    /// How it stands with each member.
    pub(crate) fn status(&self) -> Value {
        let of = |(member, peer): (usize, &Option<Arc<Peer>>)| {
            let name = &self.plan.members[member].name;
            let Some(peer) = peer else {
                return json!({ "name": name, "state": "this node" });
            };
            let (state, reason) = match peer.way.state() {
                LinkState::Connecting => ("connecting", None),
                LinkState::Up => ("up", None),
                LinkState::Down { reason } => ("down", Some(reason)),
            };
            let fabric = peer.way.fabric();
            json!({
                "name": name,
                "state": state,
                "reason": reason,
                "asks": peer.asks.load(Ordering::Relaxed),
                "lost_asks": peer.lost.load(Ordering::Relaxed),
                "in_flight": peer.way.in_flight(),
                "received_bytes": peer.way.received_bytes(),
                "fabric": self.fabric().map(|_| json!({
                    "open": fabric.is_open,
                    "reason": fabric.reason,
                    "received_bytes": fabric.bytes,
                    "failed_reads": fabric.failures,
                })),
            })
        };
        self.peers.iter().enumerate().map(of).collect()
    }

    /// What blocks go over beside TCP.
    pub(crate) fn fabric_status(&self) -> Value {
        match &self.shared.fabric {
            Ok(fabric) => json!({
                "provider": fabric.provider(),
                "requested_class": fabric.requested_class().map(|class| class.to_string()),
                "lent_bytes": fabric.lent_bytes(),
                "reason": null,
            }),
            Err(Some(reason)) => json!({
                "provider": null,
                "requested_class": null,
                "lent_bytes": 0,
                "reason": reason,
            }),
            Err(None) => Value::Null,
        }
    }
}
