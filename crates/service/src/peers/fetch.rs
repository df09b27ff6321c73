//! Asks owners for what is absent: one request for each owner, all in flight at once.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, Claim, Delivered, Job};
use forebay_dataset::{ErrorKind, Placement, REGION_BYTES, Region};
use forebay_transport::{Arrivals, Arrived, Ended, Landing, LinkState, Outcome};
use forebay_wire::{Ask, BlockRun, MAX_RUNS};

use super::{Asking, Held, Owners, Peer, Peers, lock};
use crate::origins::OriginReads;
use crate::stage::OpenDataset;

/// Members that are asked for one job before the origin is.
const TRIES: usize = 3;
/// How long a node that has just started waits to reach a member for the first time.
const FIRST_REACH: Duration = Duration::from_secs(3);
/// How long owners may take while what others gave is held unwritten: whoever wants those blocks
/// too waits for that.
const PROMPT: Duration = Duration::from_millis(5);
/// Jobs of one request, at most: as much as a slow member may hold up.
const JOBS_AN_ASK: usize = 256;

/// A job that is some other member's.
struct Want {
    job: Job,
    /// Members to ask in turn, the last first.
    order: Vec<usize>,
}

/// Wants of one member, under way.
struct Asked {
    member: usize,
    wants: Vec<Want>,
    call: Asking,
    since: Instant,
    is_open: bool,
    is_hedged: bool,
}

/// The blocks of one request.
struct Claims {
    claims: Vec<Arc<Claim>>,
    landed_bytes: Arc<AtomicU64>,
    /// Where blocks wait that are handed over before they are written.
    held: Option<Arc<Held>>,
}

impl Arrivals for Claims {
    fn arrived(&self, blocks: Arrived<'_>) -> bool {
        let Arrived {
            shard,
            first,
            checksums,
            bytes,
        } = blocks;
        let len = bytes.len() as u64;
        let expects = |claim: &&Arc<Claim>| {
            claim.shard().0 == shard && claim.expects(first, checksums.len() as u64, len)
        };
        let Some(claim) = self.claims.iter().find(expects) else {
            return false;
        };
        let delivered = match &self.held {
            Some(held) => {
                let bytes = bytes.keep(|len| held.landing(len));
                let checked = claim.check(first, checksums, bytes);
                checked.map_or_else(|fault| fault, |blocks| held.take(claim, blocks))
            }
            None => claim.deliver(first, checksums, &bytes),
        };
        // What is corrupt, or fails to be written, stays absent, and is read from the origin.
        if delivered == Delivered::Landed {
            self.landed_bytes.fetch_add(len, Ordering::Relaxed);
        }
        true
    }

    fn landing(&self, len: usize) -> Option<Box<dyn Landing>> {
        self.held.as_ref()?.landing(len)
    }
}

/// What reads late jobs on another path.
pub(crate) trait OtherPath {
    /// Begins to read the jobs from the origin, and tells `done` of the ask when all are resident.
    fn begin(&self, open: &OpenDataset, jobs: Vec<Job>, ask: u64, done: &mpsc::Sender<Ended>);
}

impl Owners {
    /// Fetches what is absent of `jobs` from its owners, as far as they give it by half of the time
    /// until `deadline`; what is left is the origin's.
    pub(crate) fn fetch(
        &self,
        cache: &Arc<Cache>,
        open: &OpenDataset,
        jobs: &[Job],
        deadline: Instant,
        other_path: Option<&dyn OtherPath>,
        held: Option<Arc<Held>>,
    ) -> Came {
        let hedges = other_path.is_some();
        let mut fetch = self.begin(cache, open, jobs, deadline, hedges, held);
        while let Some(wake) = fetch.wake_at() {
            let left = wake.saturating_duration_since(fetch.now());
            match fetch.ends.1.recv_timeout(left) {
                Ok(ended) => fetch.ended(ended),
                Err(_) => fetch.look(other_path),
            }
        }
        fetch.came()
    }

    /// Asks the owners. The caller takes how asks end from [`Fetch::ends`] to [`Fetch::ended`], and
    /// calls [`Fetch::look`] when [`Fetch::wake_at`] says, until that says that all is over.
    pub(crate) fn begin(
        &self,
        cache: &Arc<Cache>,
        open: &OpenDataset,
        jobs: &[Job],
        deadline: Instant,
        hedges: bool,
        held: Option<Arc<Held>>,
    ) -> Fetch {
        let peers = self.roster.now();
        let began = peers.shared.clock.now();
        let left = deadline.saturating_duration_since(began);
        let placement = peers.placement(open.dataset.index());
        let mut fetch = Fetch {
            peers,
            root: self.root.clone(),
            cache: cache.clone(),
            open: open.clone(),
            began,
            until: began + left / 2,
            hedges,
            ends: mpsc::channel(),
            asked: Vec::new(),
            landed_bytes: Arc::default(),
            has_lost: false,
            held,
        };
        // Without a placement all of it is the origin's.
        if let Some(placement) = placement {
            let wants = fetch.wants(&placement, jobs);
            fetch.ask(wants);
        }
        fetch
    }
}

/// One request of a client, at work. It waits for nothing: who drives it does.
pub(crate) struct Fetch {
    /// The members when it began.
    peers: Arc<Peers>,
    root: PathBuf,
    cache: Arc<Cache>,
    open: OpenDataset,
    began: Instant,
    until: Instant,
    /// Whether what is late is begun on another path too.
    hedges: bool,
    pub(crate) ends: (mpsc::Sender<Ended>, mpsc::Receiver<Ended>),
    asked: Vec<Asked>,
    landed_bytes: Arc<AtomicU64>,
    has_lost: bool,
    held: Option<Arc<Held>>,
}

/// What came from members.
pub(crate) struct Came {
    /// How much, and how long all of it took.
    pub(crate) reads: OriginReads,
    /// True if a link ended on which something was asked.
    pub(crate) has_lost: bool,
}

impl Fetch {
    /// The jobs that are another's first of all, cut where owners change.
    fn wants(&self, placement: &Placement, jobs: &[Job]) -> Vec<Want> {
        let block_size = self.open.dataset.index().block_size();
        let region_blocks = REGION_BYTES / u64::from(block_size.bytes());
        let mut orders: HashMap<Region, Vec<usize>> = HashMap::new();
        let mut wants = Vec::new();
        for job in jobs {
            let mut start = job.blocks.start;
            while start < job.blocks.end {
                let number = start / region_blocks;
                let end = job.blocks.end.min((number + 1) * region_blocks);
                let number = u32::try_from(number).unwrap_or(u32::MAX);
                let region = Region {
                    shard: job.shard,
                    number,
                };
                let order = (orders.entry(region)).or_insert_with(|| self.order(placement, region));
                if !order.is_empty() {
                    wants.push(Want {
                        job: Job {
                            shard: job.shard,
                            blocks: start..end,
                        },
                        order: order.clone(),
                    });
                }
                start = end;
            }
        }
        wants
    }

    /// Members before this node in the region's order that can be asked, the last first.
    fn order(&self, placement: &Placement, region: Region) -> Vec<usize> {
        let me = self.peers.plan.me;
        let before_me = (placement.order(region).into_iter()).take_while(|each| *each != me);
        let mut order: Vec<usize> = before_me
            .filter(|member| self.is_reached(*member))
            .take(TRIES)
            .collect();
        order.reverse();
        order
    }

    fn is_reached(&self, member: usize) -> bool {
        let Some(peer) = self.peers.peer(member) else {
            return false;
        };
        match peer.way.state() {
            LinkState::Up => true,
            LinkState::Connecting => {
                let first = self.now() + FIRST_REACH;
                peer.way.wait_for_first(first.min(self.until))
            }
            LinkState::Down { .. } => false,
        }
    }

    /// When to look; `None` once there is nothing to wait for, or no time left.
    pub(crate) fn wake_at(&self) -> Option<Instant> {
        if self.asked.is_empty() || self.now() >= self.until {
            return None;
        }
        let mut wake = self.until;
        if self.held.is_some() {
            wake = wake.min(self.began + PROMPT);
        }
        for asked in self.asked.iter().filter(|asked| self.may_hedge(asked)) {
            if let Some(late) = self.late_at(asked) {
                wake = wake.min(late);
            }
        }
        Some(wake)
    }

    /// What came of it.
    pub(crate) fn came(&self) -> Came {
        Came {
            reads: OriginReads {
                took: self.now().saturating_duration_since(self.began),
                bytes: self.landed_bytes.load(Ordering::Relaxed),
            },
            has_lost: self.has_lost,
        }
    }

    fn now(&self) -> Instant {
        self.peers.shared.clock.now()
    }

    /// Asks the next member of each want.
    fn ask(&mut self, wants: Vec<Want>) {
        let generation = self.open.dataset.index().generation();
        let mut by_member: BTreeMap<usize, Vec<Want>> = BTreeMap::new();
        for mut want in wants {
            let is_refused = |member: &usize| self.peers.is_refused(*member, generation);
            let next = std::iter::from_fn(|| want.order.pop()).find(|member| !is_refused(member));
            if let Some(member) = next {
                by_member.entry(member).or_default().push(want);
            }
        }
        for (member, mut wants) in by_member {
            while !wants.is_empty() {
                let rest = wants.split_off(wants.len().min(JOBS_AN_ASK));
                self.ask_member(member, wants, true);
                wants = rest;
            }
        }
    }

    /// Without `may_lend` all that is asked for comes over the link.
    fn ask_member(&mut self, member: usize, wants: Vec<Want>, may_lend: bool) {
        let peers = self.peers.clone();
        let Some(peer) = peers.peer(member) else {
            return;
        };
        let mut claims = Vec::new();
        let mut runs = Vec::new();
        for want in &wants {
            // What is no claim is resident, another's, or without room: not this request's.
            let Ok(Some(claim)) = self.cache.claim(&self.open.dataset, &want.job) else {
                continue;
            };
            let more = self.runs(&claim);
            if runs.len() + more.len() > MAX_RUNS {
                break;
            }
            runs.extend(more);
            claims.push(Arc::new(claim));
        }
        if runs.is_empty() {
            return;
        }
        let left = self.until.saturating_duration_since(self.now());
        let deadline_ms = u32::try_from(left.as_millis()).unwrap_or(u32::MAX);
        let generation = self.open.dataset.index().generation();
        let fetch = |id| Ask::Fetch {
            id,
            generation,
            deadline_ms,
            may_lend: may_lend && peer.way.may_lend(),
            runs,
        };
        let claims = Arc::new(Claims {
            claims,
            landed_bytes: self.landed_bytes.clone(),
            held: self.held.clone(),
        });
        match peer.way.call(Box::new(fetch), Some(claims), &self.ends.0) {
            Some(call) => self.note(peer, member, wants, call, false),
            // Lost meanwhile.
            None => self.ask(wants),
        }
    }

    fn note(&mut self, peer: &Peer, member: usize, wants: Vec<Want>, call: Asking, is_open: bool) {
        peer.asks.fetch_add(1, Ordering::Relaxed);
        self.asked.push(Asked {
            member,
            wants,
            call,
            since: self.now(),
            is_open,
            is_hedged: false,
        });
    }

    /// What the other side must find in its index to be talking of the same bytes.
    fn runs(&self, claim: &Claim) -> Vec<BlockRun> {
        let index = self.open.dataset.index();
        let size = u64::from(index.block_size().bytes());
        let run = |piece: &forebay_cache::Piece| {
            let file = index.segment(piece.segment).ok()?.fingerprint;
            Some(BlockRun {
                shard: claim.shard().0,
                first: piece.first_block,
                count: u32::try_from(piece.len.div_ceil(size)).ok()?,
                file_size: file.size,
                file_mtime_ns: file.mtime_ns,
                file_inode: file.inode,
            })
        };
        claim.pieces().iter().filter_map(run).collect()
    }

    fn may_hedge(&self, asked: &Asked) -> bool {
        self.hedges && !asked.is_hedged && !asked.is_open
    }

    fn late_at(&self, asked: &Asked) -> Option<Instant> {
        let peer = self.peers.peer(asked.member)?;
        Some(asked.since + peer.pace.late_after()?)
    }

    /// Looks whether owners take too long: to hold what others gave, or to wait for them alone.
    pub(crate) fn look(&mut self, other_path: Option<&dyn OtherPath>) {
        if self.now() >= self.began + PROMPT {
            self.hold_no_more();
        }
        if let Some(other_path) = other_path {
            self.begin_hedges(other_path);
        }
    }

    /// Writes what has come, and from now on what comes.
    fn hold_no_more(&mut self) {
        if let Some(held) = self.held.take() {
            held.stop();
        }
    }

    /// Begins what is late on another path too.
    fn begin_hedges(&mut self, other_path: &dyn OtherPath) {
        let now = self.now();
        for at in 0..self.asked.len() {
            let asked = &self.asked[at];
            if !self.may_hedge(asked) || self.late_at(asked).is_none_or(|late| now < late) {
                continue;
            }
            let jobs = asked.wants.iter().map(|want| want.job.clone()).collect();
            other_path.begin(&self.open, jobs, asked.call.id(), &self.ends.0);
            self.asked[at].is_hedged = true;
        }
    }

    /// Takes to account how an ask ended.
    pub(crate) fn ended(&mut self, ended: Ended) {
        // One that was hedged may end twice.
        let Some(at) = (self.asked.iter()).position(|asked| asked.call.id() == ended.id) else {
            return;
        };
        let asked = self.asked.swap_remove(at);
        let peers = self.peers.clone();
        let Some(peer) = peers.peer(asked.member) else {
            return;
        };
        if !matches!(ended.outcome, Outcome::Done { .. }) {
            // It is asked of another, and what is held is nobody else's to ask for.
            self.hold_no_more();
        }
        if ended.outcome != Outcome::Lost {
            *lock(&peer.answered) = Some(self.now());
        }
        match ended.outcome {
            Outcome::Done { .. } if asked.is_open => {
                self.ask_member(asked.member, asked.wants, true);
            }
            Outcome::Done { .. } => {
                let took = self.now().saturating_duration_since(asked.since);
                peer.pace.note(took);
            }
            // Some of what was lent was not read.
            Outcome::Again => self.ask_member(asked.member, asked.wants, false),
            // An answer to another question: no blocks come.
            Outcome::Published(_) => self.ask(asked.wants),
            Outcome::Failed { kind, .. } => {
                let is_unknown =
                    ErrorKind::ALL.get(usize::from(kind)) == Some(&ErrorKind::NotFound);
                if is_unknown && !asked.is_open {
                    self.have_opened(peer, asked);
                } else {
                    let generation = self.open.dataset.index().generation();
                    self.peers.refuse(asked.member, generation);
                    self.ask(asked.wants);
                }
            }
            Outcome::Lost => {
                self.has_lost = true;
                peer.lost.fetch_add(1, Ordering::Relaxed);
                let awake = asked.wants.into_iter().map(|want| self.of_awake(want));
                let wants = awake.collect();
                self.ask(wants);
            }
        }
    }

    /// Leaves only members that have answered of late. What took one away may have taken others, and
    /// each that says nothing would cost its whole silence: the origin is there at once.
    fn of_awake(&self, mut want: Want) -> Want {
        let (of_late, now) = (self.peers.plan.silence / 2, self.now());
        want.order.retain(|member| {
            let peer = self.peers.peer(*member);
            peer.is_some_and(|peer| peer.answered_within(of_late, now))
        });
        want
    }

    /// Has a member open a data set that none of its own clients has opened.
    fn have_opened(&mut self, peer: &Peer, asked: Asked) {
        let index = self.open.dataset.index();
        let open = |id| Ask::Open {
            id,
            generation: index.generation(),
            index: index.path().display().to_string(),
            root: Some(self.root.display().to_string()),
        };
        match peer.way.call(Box::new(open), None, &self.ends.0) {
            Some(call) => self.note(peer, asked.member, asked.wants, call, true),
            None => self.ask(asked.wants),
        }
    }
}
