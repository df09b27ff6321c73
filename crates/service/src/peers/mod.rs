//! The other nodes of the job: who owns what, and a link to each.
//!
//! What a node does not own it asks the owner for, and keeps as replicas. An owner that is down,
//! slow or refuses is passed over for the next in the order of the region, and all of them for the
//! origin. Peers cost time and never bytes: every block that comes is compared with its checksum.
//!
//! A node that is asked reads the origin and asks nobody, so no two nodes ever wait for each other
//! in a ring.

mod fetch;
mod serve;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_cache::Ownership;
use forebay_dataset::{Placement, Region, ShardIndex, hash_of_members};
use forebay_origin::IndexFile;
use forebay_transport::{Caller, CallerPlan, LinkState, Secret};
use forebay_wire::Hello;
use serde_json::{Value, json};

use crate::pace::Pace;
use crate::settings::PeersPlan;
use crate::stage::OpenDataset;

pub(crate) use fetch::OtherPath;
pub(crate) use serve::Serving;

/// Data sets that members may have opened here, at most.
const MOST_SERVED: usize = 1024;
/// How long a member that would not open a data set is not asked for it again.
const REFUSED: Duration = Duration::from_secs(1);

/// The other nodes, as one process sees them.
pub(crate) struct Peers {
    plan: PeersPlan,
    secret: Secret,
    /// By member; `None` for this node itself.
    peers: Vec<Option<Peer>>,
    placements: Mutex<HashMap<u128, Arc<Placement>>>,
    served: Mutex<HashMap<u128, OpenDataset>>,
    refused: Mutex<HashMap<(usize, u128), Instant>>,
}

struct Peer {
    caller: Caller,
    /// How long its answers take.
    pace: Pace,
    asks: AtomicU64,
    lost: AtomicU64,
}

/// One data set and its owners.
#[derive(Clone)]
pub(crate) struct Owners {
    peers: Arc<Peers>,
    placement: Arc<Placement>,
    root: PathBuf,
}

impl Peers {
    /// Reads the secret and begins to dial all members.
    pub(crate) fn start(plan: PeersPlan) -> io::Result<Arc<Self>> {
        let secret = secret(&plan)?;
        let start = |(member, name): (usize, &str)| {
            if member == plan.me {
                return Ok(None);
            }
            let hello = Hello {
                from: plan.name().to_owned(),
                to: name.to_owned(),
                members: hash_of_members(&plan.members),
            };
            let caller = Caller::start(CallerPlan {
                address: name.to_owned(),
                hello,
                secret: secret.clone(),
                socket: plan.socket,
                silence: plan.silence,
            })?;
            Ok(Some(Peer {
                caller,
                pace: Pace::default(),
                asks: AtomicU64::new(0),
                lost: AtomicU64::new(0),
            }))
        };
        let names = plan.members.iter().map(|member| member.name.as_str());
        let peers = names.enumerate().map(start).collect::<io::Result<_>>()?;
        Ok(Arc::new(Self {
            plan,
            secret,
            peers,
            placements: Mutex::default(),
            served: Mutex::default(),
            refused: Mutex::default(),
        }))
    }

    /// The owners of a data set's regions. `None` if it cannot be placed: then every node reads it
    /// all for itself.
    pub(crate) fn owners(self: &Arc<Self>, index: &IndexFile, root: PathBuf) -> Option<Owners> {
        let placement = self.placement(index)?;
        Some(Owners {
            peers: self.clone(),
            placement,
            root,
        })
    }

    fn placement(&self, index: &IndexFile) -> Option<Arc<Placement>> {
        let generation = index.generation();
        if let Some(placement) = lock(&self.placements).get(&generation) {
            return Some(placement.clone());
        }
        let lens = (0..index.shard_count()).map(|shard| index.shard_len(ShardIndex(shard)));
        let lens: Vec<u64> = lens.collect::<Result<_, _>>().ok()?;
        let placement = Placement::new(generation, lens, &self.plan.members).ok()?;
        let placement = Arc::new(placement);
        lock(&self.placements).insert(generation, placement.clone());
        Some(placement)
    }

    /// Lets members have what a client has opened here.
    pub(crate) fn offer(&self, open: &OpenDataset) {
        let generation = open.dataset.index().generation();
        let mut served = lock(&self.served);
        if served.len() < MOST_SERVED {
            // Whoever is asked reads the origin and asks nobody.
            let alone = OpenDataset {
                owners: None,
                ..open.clone()
            };
            served.entry(generation).or_insert(alone);
        }
    }

    fn offered(&self, generation: u128) -> Option<OpenDataset> {
        lock(&self.served).get(&generation).cloned()
    }

    fn peer(&self, member: usize) -> Option<&Peer> {
        self.peers.get(member)?.as_ref()
    }

    fn is_refused(&self, member: usize, generation: u128) -> bool {
        let refused = lock(&self.refused).get(&(member, generation)).copied();
        refused.is_some_and(|since| since.elapsed() < REFUSED)
    }

    fn refuse(&self, member: usize, generation: u128) {
        let mut refused = lock(&self.refused);
        refused.retain(|_, since| since.elapsed() < REFUSED);
        refused.insert((member, generation), Instant::now());
    }

    /// How it stands with each member. `docs/METRICS.md` describes it.
    pub(crate) fn status(&self) -> Value {
        let of = |(member, peer): (usize, &Option<Peer>)| {
            let name = &self.plan.members[member].name;
            let Some(peer) = peer else {
                return json!({ "name": name, "state": "this node" });
            };
            let (state, reason) = match peer.caller.state() {
                LinkState::Connecting => ("connecting", None),
                LinkState::Up => ("up", None),
                LinkState::Down { reason } => ("down", Some(reason)),
            };
            json!({
                "name": name,
                "state": state,
                "reason": reason,
                "asks": peer.asks.load(Ordering::Relaxed),
                "lost_asks": peer.lost.load(Ordering::Relaxed),
                "in_flight": peer.caller.in_flight(),
                "received_bytes": peer.caller.received_bytes(),
            })
        };
        self.peers.iter().enumerate().map(of).collect()
    }
}

impl Ownership for Peers {
    fn owns(&self, generation: u128, region: Region) -> bool {
        let placement = lock(&self.placements).get(&generation).cloned();
        // What cannot be placed is nobody else's.
        placement.is_none_or(|placement| placement.owner(region) == Some(self.plan.me))
    }
}

impl fmt::Debug for Peers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Peers")
            .field("plan", &self.plan)
            .finish_non_exhaustive()
    }
}

fn secret(plan: &PeersPlan) -> io::Result<Secret> {
    let secret = match &plan.secret_file {
        Some(path) => Secret::from_file(path),
        None => match std::env::var("FOREBAY_SECRET") {
            Ok(text) => Secret::from_text(&text),
            Err(_) => {
                let message = "no secret: name its file with `secret_file`, or set FOREBAY_SECRET";
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
        },
    };
    secret.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error.to_string()))
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
