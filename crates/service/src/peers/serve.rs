//! Answers the other members: what they ask for is filled from the origin and sent as it lies.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use forebay_dataset::ErrorKind;
use forebay_transport::{LinkError, LinkReader, LinkWriter, Listening, Loans, accept};
use forebay_wire::{Answer, Ask};

use super::wanted::Wanted;
use super::{Peers, Roster, lock};
use crate::daemon::Node;
use crate::link::{Refusal, open_dataset};
use crate::names::answer_member;
use crate::pool::{Class, Pool};

/// Requests that may wait for the origin at one time, for all members together.
const THREADS: usize = 32;
/// Longest time that the proof of one that dials may take.
const PROOF: Duration = Duration::from_secs(3);
/// A link on which nothing came for so long is closed: an idle caller pings more often.
const IDLE: Duration = Duration::from_secs(60);
/// Links of one member, at most: its last one may not have been noticed to be gone.
const LINKS_A_MEMBER: usize = 4;
/// Where members come and go: more may come at one time than are known yet.
const MANY: usize = 64;
/// Longest time for which a request may wait, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(600);

/// The links on which others ask.
pub(crate) struct Serving {
    pool: Pool,
    links: AtomicUsize,
    writers: Mutex<Vec<Weak<LinkWriter>>>,
    stopping: AtomicBool,
}

impl Serving {
    /// Starts the threads that wait for the origin, if there are members to wait.
    pub(crate) fn start(has_members: bool) -> io::Result<Self> {
        Ok(Self {
            pool: Pool::start(if has_members { THREADS } else { 0 })?,
            links: AtomicUsize::new(0),
            writers: Mutex::default(),
            stopping: AtomicBool::new(false),
        })
    }

    /// Listens for members, on a thread of its own, until it is told to stop.
    pub(crate) fn listen(node: &Arc<Node>, roster: &Arc<Roster>) -> io::Result<()> {
        let peers = roster.now();
        let name = peers.plan.name();
        let listening = Listening::on(name).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on `{name}`: {error}"))
        })?;
        let (node, roster) = (node.clone(), roster.clone());
        std::thread::Builder::new()
            .name("members".into())
            .spawn(move || {
                while !node.serving.stopping.load(Ordering::Acquire) {
                    match listening.next(Duration::from_millis(100)) {
                        Ok(Some(stream)) => admit(&node, &roster, stream),
                        Ok(None) => {}
                        // Out of descriptors or memory: those connected go on.
                        Err(_) => std::thread::sleep(Duration::from_millis(10)),
                    }
                }
            })?;
        Ok(())
    }

    /// Ends all links.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        for writer in lock(&self.writers).drain(..) {
            if let Some(writer) = writer.upgrade() {
                writer.close();
            }
        }
    }

    /// Runs something that may have to wait for a member on another thread; false if too much waits
    /// already.
    pub(crate) fn submit(&self, task: impl FnOnce() + Send + 'static) -> bool {
        self.pool.submit(Class::Demand, task)
    }

    fn add(&self, writer: &Arc<LinkWriter>) {
        let mut writers = lock(&self.writers);
        writers.retain(|writer| writer.strong_count() > 0);
        writers.push(Arc::downgrade(writer));
    }
}

/// A link's place among those of members, given back on drop.
struct Place(Arc<Node>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.serving.links.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Starts a link, or closes it at once: who is not answered goes another way.
fn admit(node: &Arc<Node>, roster: &Arc<Roster>, stream: std::net::TcpStream) {
    let peers = roster.now();
    let least = if peers.plan.follows { MANY } else { 0 };
    let most = peers.members().len().max(least) * LINKS_A_MEMBER;
    if node.serving.links.fetch_add(1, Ordering::Relaxed) >= most {
        node.serving.links.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let place = Place(node.clone());
    let roster = roster.clone();
    // One that cannot be started closes the link.
    let _ = std::thread::Builder::new()
        .name("member".into())
        .stack_size(512 << 10)
        .spawn(move || {
            // Whatever ended it, the member has its own way on.
            let _ = serve_member(&place.0, &roster, stream);
        });
}

fn serve_member(
    node: &Arc<Node>,
    roster: &Arc<Roster>,
    stream: std::net::TcpStream,
) -> Result<(), LinkError> {
    let peers = roster.now();
    let plan = &peers.plan;
    let proved = accept(
        stream,
        &peers.shared.secret,
        plan.socket,
        plan.silence,
        PROOF,
        |hello| roster.now().admits(hello),
    )?;
    let (hello, mut reader, writer) = proved;
    if peers.member(&hello.from).is_none() {
        roster.stir();
    }
    let writer = Arc::new(writer);
    node.serving.add(&writer);
    // Whatever ends the link gives back all that was lent over it. What goes over a fabric is not
    // encrypted.
    let fabric = peers.fabric().filter(|_| !writer.is_encrypted());
    let loans = fabric.cloned().map(Loans::new).map(Arc::new);
    drop(peers);
    let served = answer_all(node, roster, &mut reader, &writer, loans.as_ref());
    writer.close();
    served
}

fn answer_all(
    node: &Arc<Node>,
    roster: &Arc<Roster>,
    reader: &mut LinkReader,
    writer: &Arc<LinkWriter>,
    loans: Option<&Arc<Loans>>,
) -> Result<(), LinkError> {
    loop {
        let waiting = Instant::now();
        let idle = || {
            if node.serving.stopping.load(Ordering::Acquire) || waiting.elapsed() >= IDLE {
                return Err(io::Error::from(io::ErrorKind::TimedOut).into());
            }
            Ok(())
        };
        let Some((kind, payload)) = reader.next(idle)? else {
            return Ok(());
        };
        match Ask::decode(kind, payload)? {
            Ask::Name { id, ask } => answer_member(node, writer, id, ask)?,
            Ask::Ping { id } => writer.send(&Answer::Pong { id }.encode())?,
            Ask::Fabric { id, provider } => {
                writer.send(&answer_fabric(loans, id, &provider).encode())?;
            }
            Ask::Return { loan } => {
                if let Some(loans) = loans {
                    loans.give_back(loan);
                }
            }
            Ask::Open {
                id,
                generation,
                index,
                root,
            } => answer_open(node, &roster.now(), writer, id, (generation, index, root))?,
            Ask::Fetch {
                id,
                generation,
                deadline_ms,
                may_lend,
                runs,
            } => {
                let wait = Duration::from_millis(deadline_ms.into()).min(LONGEST_WAIT);
                let deadline = Instant::now() + wait;
                match Wanted::check(&roster.now(), generation, runs) {
                    Ok(wanted) => {
                        let loans = loans.filter(|_| may_lend);
                        answer_fetch(node, writer, loans, id, wanted, deadline)?;
                    }
                    Err(refusal) => writer.send(&refusal.into_answer(id).encode())?,
                }
            }
        }
    }
}

/// Where memory of this node is read over the fabric.
fn answer_fabric(loans: Option<&Arc<Loans>>, id: u64, provider: &str) -> Answer {
    let memory = match loans {
        Some(loans) => loans.fabric().memory(provider),
        None => Err(
            "nothing is lent there: its transport is TCP only, or the link encrypted".to_owned(),
        ),
    };
    match memory {
        Ok(memory) => Answer::Fabric {
            id,
            memory: memory.clone(),
        },
        Err(reason) => Refusal::new(ErrorKind::Unavailable, reason).into_answer(id),
    }
}

/// Takes a data set into use, on another thread.
fn answer_open(
    node: &Arc<Node>,
    peers: &Arc<Peers>,
    writer: &Arc<LinkWriter>,
    id: u64,
    (generation, index, root): (u128, String, Option<String>),
) -> io::Result<()> {
    let (opener, peers, answering) = (node.clone(), peers.clone(), writer.clone());
    later(node, writer, id, move || {
        let opened = open_exported(&opener, &peers, generation, &index, root.as_deref());
        let answer = match opened {
            Ok(()) => Answer::Opened { id },
            Err(refusal) => refusal.into_answer(id),
        };
        answering.send(&answer.encode())
    })
}

/// Sends at once what is resident, and the rest once it is.
fn answer_fetch(
    node: &Arc<Node>,
    writer: &Arc<LinkWriter>,
    loans: Option<&Arc<Loans>>,
    id: u64,
    wanted: Wanted,
    deadline: Instant,
) -> io::Result<()> {
    let loans = loans.cloned();
    if wanted.is_resident(node.readers.cache()) {
        return wanted.send(node.readers.cache(), &**writer, loans.as_deref(), id);
    }
    let (filler, answering) = (node.clone(), writer.clone());
    later(node, writer, id, move || {
        match wanted.fill(&filler.readers, deadline) {
            Ok(()) => wanted.send(filler.readers.cache(), &*answering, loans.as_deref(), id),
            Err(refusal) => answering.send(&refusal.into_answer(id).encode()),
        }
    })
}

/// Answers on another thread, so that the link's own can go on; refuses if too much waits already.
pub(crate) fn later(
    node: &Node,
    writer: &LinkWriter,
    id: u64,
    answer: impl FnOnce() -> io::Result<()> + Send + 'static,
) -> io::Result<()> {
    let accepted = node.serving.submit(move || {
        // The link is closed then, and its thread ends.
        let _ = answer();
    });
    if accepted {
        return Ok(());
    }
    let busy = Refusal::new(
        ErrorKind::Unavailable,
        "too many requests wait for the origin",
    );
    writer.send(&busy.into_answer(id).encode())
}

/// Opens a data set that lies where members may have one opened.
fn open_exported(
    node: &Node,
    peers: &Peers,
    generation: u128,
    index: &str,
    root: Option<&str>,
) -> Result<(), Refusal> {
    if peers.offered(generation).is_some() {
        return Ok(());
    }
    let inside = |path: &str| {
        let real = Path::new(path).canonicalize();
        let exported = real.is_ok_and(|real| {
            let mut exports = peers.plan.exports.iter();
            exports.any(|export| {
                export
                    .canonicalize()
                    .is_ok_and(|export| real.starts_with(export))
            })
        });
        if exported {
            return Ok(());
        }
        let message = format!("`{path}` is in no folder that `exports` names");
        Err(Refusal::new(ErrorKind::InvalidInput, message))
    };
    inside(index)?;
    root.map_or(Ok(()), inside)?;
    let opened = open_dataset(node, Path::new(index), root.map(Into::into), generation)?;
    peers.offer(&opened);
    if peers.offered(generation).is_none() {
        let message = "too many data sets are open here";
        return Err(Refusal::new(ErrorKind::Unavailable, message));
    }
    Ok(())
}
