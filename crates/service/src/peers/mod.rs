//! The other nodes of the job: who owns what, and a link to each.
//!
//! What a node does not own it asks the owner for, and keeps as replicas. An owner that is down,
//! slow or refuses is passed over for the next in the order of the region, and all of them for the
//! origin. Peers cost time and never bytes: every block that comes is compared with its checksum.
//!
//! A node that is asked reads the origin and asks nobody, so no two nodes ever wait for each other
//! in a ring.

mod fetch;
mod held;
mod roster;
mod serve;
mod status;
mod wanted;
mod way;

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::{Duration, Instant};

use forebay_dataset::{Member, Placement, Region, ShardIndex, hash_of_members};
use forebay_origin::IndexFile;
use forebay_transport::{Arrivals, Ended, Fabric, LinkState, Secret};
use forebay_wire::{Ask, Hello};

use crate::clock::Clock;
use crate::pace::Pace;
use crate::settings::{PeersPlan, Transport};
use crate::stage::OpenDataset;

#[cfg(test)]
pub(crate) use fetch::Fetch;
pub(crate) use fetch::OtherPath;
pub(crate) use held::{Handed, Held};
pub(crate) use roster::Roster;
pub(crate) use serve::{Serving, later as answer_later};
#[cfg(test)]
pub(crate) use wanted::{AnswerTo, Wanted};
pub(crate) use way::{Asking, Way};

/// Data sets that members may have opened here, at most.
const MOST_SERVED: usize = 1024;
/// How long a member that would not open a data set is not asked for it again.
const REFUSED: Duration = Duration::from_secs(1);

/// Number of the next list of members, and of the next member of one.
static NEXT: AtomicU64 = AtomicU64::new(1);

/// The other nodes of one list of members, as one process sees them.
pub(crate) struct Peers {
    plan: PeersPlan,
    shared: Arc<Shared>,
    /// Tells this list from others.
    number: u64,
    /// By member; `None` for this node itself.
    peers: Vec<Option<Arc<Peer>>>,
    placements: Mutex<HashMap<u128, Arc<Placement>>>,
    refused: Mutex<HashMap<(usize, u128), Instant>>,
}

/// What is the same whoever the members are.
struct Shared {
    secret: Secret,
    clock: Clock,
    /// What lends blocks, and reads those of members; why there is none, where one was to be.
    fabric: Result<Arc<Fabric>, Option<String>>,
    served: Mutex<HashMap<u128, OpenDataset>>,
}

impl Shared {
    fn new(secret: Secret, clock: Clock, fabric: Result<Arc<Fabric>, Option<String>>) -> Self {
        Self {
            secret,
            clock,
            fabric,
            served: Mutex::default(),
        }
    }
}

struct Peer {
    way: Box<dyn Way>,
    /// Tells it from a member of the same name that was there before.
    number: u64,
    /// How long its answers take.
    pace: Pace,
    /// When it answered last.
    answered: Mutex<Option<Instant>>,
    asks: AtomicU64,
    lost: AtomicU64,
}

impl Peer {
    fn new(way: Box<dyn Way>) -> Self {
        Self {
            way,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            pace: Pace::default(),
            answered: Mutex::default(),
            asks: AtomicU64::new(0),
            lost: AtomicU64::new(0),
        }
    }

    /// True if it answered something less than `time` ago.
    fn answered_within(&self, time: Duration, now: Instant) -> bool {
        let answered = *lock(&self.answered);
        answered.is_some_and(|answered| now.saturating_duration_since(answered) < time)
    }
}

/// One data set that has owners, whoever they are at the time.
#[derive(Clone, Debug)]
pub(crate) struct Owners {
    roster: Arc<Roster>,
    root: PathBuf,
}

impl Owners {
    /// The owners of a data set's regions. `None` if it cannot be placed: then every node reads it
    /// all for itself.
    pub(crate) fn of(roster: &Arc<Roster>, index: &IndexFile, root: PathBuf) -> Option<Self> {
        roster.now().placement(index)?;
        let roster = roster.clone();
        Some(Self { roster, root })
    }
}

impl Peers {
    /// The members of a plan. Those that `before` has too keep the ways that they have there.
    fn new(
        plan: PeersPlan,
        shared: Arc<Shared>,
        before: Option<&Self>,
        dial: &roster::Dial,
    ) -> io::Result<Self> {
        let peer = |(member, name): (usize, &str)| {
            if member == plan.me {
                return Ok(None);
            }
            let known = before.and_then(|before| before.peers[before.member(name)?].clone());
            match known {
                Some(known) => Ok(Some(known)),
                None => Ok(Some(Arc::new(Peer::new(dial(&plan, name)?)))),
            }
        };
        let names = plan.members.iter().map(|member| member.name.as_str());
        let peers = names.enumerate().map(peer).collect::<io::Result<_>>()?;
        Ok(Self {
            peers,
            plan,
            shared,
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            placements: Mutex::default(),
            refused: Mutex::default(),
        })
    }

    /// What lends blocks over a fabric, where there is one.
    pub(crate) fn fabric(&self) -> Option<&Arc<Fabric>> {
        self.shared.fabric.as_ref().ok()
    }

    /// Ends what goes over the fabric, so that nothing of it is left on this machine.
    pub(crate) fn close(&self) {
        if let Some(fabric) = self.fabric() {
            fabric.close();
        }
    }

    /// What this member says to one of this name.
    #[cfg(test)]
    pub(crate) fn hello(&self, to: &str) -> Hello {
        hello(&self.plan, to)
    }

    /// As if each member had taken so long again and again.
    #[cfg(test)]
    pub(crate) fn know_pace(&self, took: Duration) {
        for peer in self.peers.iter().flatten() {
            (0..64).for_each(|_| peer.pace.note(took));
        }
    }

    /// Why one that dials may not come, if it may not. Where members come and go, one that is not
    /// known yet may.
    pub(crate) fn admits(&self, hello: &Hello) -> Result<(), String> {
        let plan = &self.plan;
        if hello.to != plan.name() {
            let me = plan.name();
            return Err(format!("this is member `{me}`, not `{}`", hello.to));
        }
        if self.member(&hello.from).is_none() && !plan.follows {
            return Err(format!("`{}` is no member of this job", hello.from));
        }
        if hello.members != members_hash(plan) {
            return Err("the list of members is another one here".to_owned());
        }
        Ok(())
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
        let mut served = lock(&self.shared.served);
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
        lock(&self.shared.served).get(&generation).cloned()
    }

    fn peer(&self, member: usize) -> Option<&Peer> {
        self.peers.get(member)?.as_deref()
    }

    fn is_refused(&self, member: usize, generation: u128) -> bool {
        let refused = lock(&self.refused).get(&(member, generation)).copied();
        refused.is_some_and(|since| self.is_fresh(since))
    }

    fn refuse(&self, member: usize, generation: u128) {
        let mut refused = lock(&self.refused);
        refused.retain(|_, since| self.is_fresh(*since));
        refused.insert((member, generation), self.shared.clock.now());
    }

    fn is_fresh(&self, refused: Instant) -> bool {
        self.shared.clock.now().saturating_duration_since(refused) < REFUSED
    }

    /// A number that tells this job from others.
    pub(crate) fn job(&self) -> u64 {
        self.shared.secret.job()
    }

    /// Name of this node.
    pub(crate) fn name(&self) -> &str {
        self.plan.name()
    }

    /// Which member this node is.
    pub(crate) fn me(&self) -> usize {
        self.plan.me
    }

    /// All members.
    pub(crate) fn members(&self) -> &[Member] {
        &self.plan.members
    }

    /// The member of this name.
    pub(crate) fn member(&self, name: &str) -> Option<usize> {
        let mut members = self.plan.members.iter();
        members.position(|member| member.name == name)
    }

    /// Sends an ask to a member; `None` if that cannot be asked now, or is this node.
    pub(crate) fn call(
        &self,
        member: usize,
        ask: impl FnOnce(u64) -> Ask,
        arrivals: Option<Arc<dyn Arrivals>>,
        done: &mpsc::Sender<Ended>,
    ) -> Option<Asking> {
        let way = &self.peer(member)?.way;
        way.call(Box::new(ask), arrivals, done)
    }

    /// True if a member can be asked now.
    pub(crate) fn is_up(&self, member: usize) -> bool {
        let peer = self.peer(member);
        peer.is_some_and(|peer| peer.way.state() == LinkState::Up)
    }

    /// Tells the link to a member from all that were or will be there; 0 where there is none yet.
    pub(crate) fn link(&self, member: usize) -> u64 {
        let of = |peer: &Peer| match peer.way.links() {
            0 => 0,
            links => (peer.number << 32) | (links & 0xFFFF_FFFF),
        };
        self.peer(member).map_or(0, of)
    }

    /// True where members come and go.
    pub(crate) fn follows(&self) -> bool {
        self.plan.follows
    }

    /// Tells this list of members from others.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Waits for a member that is just being dialled for the first time.
    pub(crate) fn wait_for_first(&self, member: usize, deadline: Instant) {
        if let Some(peer) = self.peer(member) {
            peer.way.wait_for_first(deadline);
        }
    }

    /// Waits until a member can be asked. False if it cannot by `deadline`.
    pub(crate) fn wait_until_up(&self, member: usize, deadline: Instant) -> bool {
        let peer = self.peer(member);
        peer.is_some_and(|peer| peer.way.wait_until_up(deadline))
    }
}

impl Peers {
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

/// What this member says to one of this name.
fn hello(plan: &PeersPlan, to: &str) -> Hello {
    Hello {
        from: plan.name().to_owned(),
        to: to.to_owned(),
        members: members_hash(plan),
    }
}

/// What members with another list are told by. Where lists change they differ for a while, which
/// costs a second read of the origin and no more: who is asked asks nobody.
fn members_hash(plan: &PeersPlan) -> u64 {
    hash_of_members(if plan.follows { &[] } else { &plan.members })
}

/// The fabric that the plan names. Where it may be left out, why it is.
fn open_fabric(plan: &PeersPlan) -> io::Result<Result<Arc<Fabric>, Option<String>>> {
    let fabric = match &plan.transport {
        Transport::Tcp => return Ok(Err(None)),
        Transport::Fabric(fabric) | Transport::Auto(fabric) => Fabric::open(fabric),
    };
    match (fabric, &plan.transport) {
        (Ok(fabric), _) => Ok(Ok(fabric)),
        (Err(error), Transport::Auto(_)) => Ok(Err(Some(error.to_string()))),
        (Err(error), _) => Err(io::Error::new(
            io::ErrorKind::Unsupported,
            error.to_string(),
        )),
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
