//! Answers the other members: what they ask for is filled from the origin and sent as it lies.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};

use forebay_cache::{Cache, Job, Lent, jobs};
use forebay_dataset::{ByteRange, ErrorKind, Fingerprint, ShardIndex};
use forebay_transport::{LinkError, LinkReader, LinkWriter, Listening, accept};
use forebay_wire::{Answer, Ask, BlockRun};

use super::{Peers, lock};
use crate::daemon::Node;
use crate::link::{Refusal, open_dataset};
use crate::names::answer_member;
use crate::pool::{Class, Pool};
use crate::stage::{OpenDataset, Readers};

/// Requests that may wait for the origin at one time, for all members together.
const THREADS: usize = 32;
/// Longest time that the proof of one that dials may take.
const PROOF: Duration = Duration::from_secs(3);
/// A link on which nothing came for so long is closed: an idle caller pings more often.
const IDLE: Duration = Duration::from_secs(60);
/// Links of one member, at most: its last one may not have been noticed to be gone.
const LINKS_A_MEMBER: usize = 4;
/// Bytes of blocks in one frame.
const FRAME_BYTES: u64 = 1 << 20;
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
    pub(crate) fn listen(node: &Arc<Node>, peers: &Arc<Peers>) -> io::Result<()> {
        let name = peers.plan.name();
        let listening = Listening::on(name).map_err(|error| {
            io::Error::new(error.kind(), format!("cannot listen on `{name}`: {error}"))
        })?;
        let (node, peers) = (node.clone(), peers.clone());
        std::thread::Builder::new()
            .name("members".into())
            .spawn(move || {
                while !node.serving.stopping.load(Ordering::Acquire) {
                    match listening.next(Duration::from_millis(100)) {
                        Ok(Some(stream)) => admit(&node, &peers, stream),
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
fn admit(node: &Arc<Node>, peers: &Arc<Peers>, stream: std::net::TcpStream) {
    let most = peers.plan.members.len() * LINKS_A_MEMBER;
    if node.serving.links.fetch_add(1, Ordering::Relaxed) >= most {
        node.serving.links.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let place = Place(node.clone());
    let peers = peers.clone();
    // One that cannot be started closes the link.
    let _ = std::thread::Builder::new()
        .name("member".into())
        .stack_size(512 << 10)
        .spawn(move || {
            // Whatever ended it, the member has its own way on.
            let _ = serve_member(&place.0, &peers, stream);
        });
}

fn serve_member(
    node: &Arc<Node>,
    peers: &Arc<Peers>,
    stream: std::net::TcpStream,
) -> Result<(), LinkError> {
    let plan = &peers.plan;
    let proved = accept(
        stream,
        &peers.secret,
        plan.socket,
        plan.silence,
        PROOF,
        |hello| peers.admits(hello),
    )?;
    let (_, mut reader, writer) = proved;
    let writer = Arc::new(writer);
    node.serving.add(&writer);
    let served = answer_all(node, peers, &mut reader, &writer);
    writer.close();
    served
}

fn answer_all(
    node: &Arc<Node>,
    peers: &Arc<Peers>,
    reader: &mut LinkReader,
    writer: &Arc<LinkWriter>,
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
            Ask::Open {
                id,
                generation,
                index,
                root,
            } => {
                let (opener, peers, answering) = (node.clone(), peers.clone(), writer.clone());
                later(node, writer, id, move || {
                    let opened =
                        open_exported(&opener, &peers, generation, &index, root.as_deref());
                    let answer = match opened {
                        Ok(()) => Answer::Opened { id },
                        Err(refusal) => refusal.into_answer(id),
                    };
                    answering.send(&answer.encode())
                })?;
            }
            Ask::Fetch {
                id,
                generation,
                deadline_ms,
                runs,
            } => {
                let wait = Duration::from_millis(deadline_ms.into()).min(LONGEST_WAIT);
                let deadline = Instant::now() + wait;
                match Wanted::check(peers, generation, runs) {
                    Ok(wanted) => answer_fetch(node, writer, id, wanted, deadline)?,
                    Err(refusal) => writer.send(&refusal.into_answer(id).encode())?,
                }
            }
        }
    }
}

/// Sends at once what is resident, and the rest once it is.
fn answer_fetch(
    node: &Arc<Node>,
    writer: &Arc<LinkWriter>,
    id: u64,
    wanted: Wanted,
    deadline: Instant,
) -> io::Result<()> {
    if wanted.is_resident(node.readers.cache()) {
        return wanted.send(node.readers.cache(), &**writer, id);
    }
    let (filler, answering) = (node.clone(), writer.clone());
    later(node, writer, id, move || {
        match wanted.fill(&filler.readers, deadline) {
            Ok(()) => wanted.send(filler.readers.cache(), &*answering, id),
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

/// Where an answer goes: a link of the transport, or a simulated one.
pub(crate) trait AnswerTo {
    /// Sends a frame.
    fn send(&self, frame: &[u8]) -> io::Result<()>;

    /// Sends a frame, and bytes of a file after it.
    fn send_file(&self, frame: &[u8], file: &File, offset: u64, len: u64) -> io::Result<()>;
}

impl AnswerTo for LinkWriter {
    fn send(&self, frame: &[u8]) -> io::Result<()> {
        Self::send(self, frame)
    }

    fn send_file(&self, frame: &[u8], file: &File, offset: u64, len: u64) -> io::Result<()> {
        Self::send_file(self, frame, file, offset, len)
    }
}

/// Blocks that a member wants, all of a data set that is open here.
pub(crate) struct Wanted {
    open: OpenDataset,
    runs: Vec<(ShardIndex, Range<u64>)>,
}

impl Wanted {
    /// Checks what a member asks for.
    pub(crate) fn check(
        peers: &Peers,
        generation: u128,
        runs: Vec<BlockRun>,
    ) -> Result<Self, Refusal> {
        let open = peers.offered(generation).ok_or_else(|| {
            let message = format!("data set {generation:032x} is not open here");
            Refusal::new(ErrorKind::NotFound, message)
        })?;
        let check = |run: BlockRun| check_run(&open, run);
        let runs = runs.into_iter().map(check).collect::<Result<_, _>>()?;
        Ok(Self { open, runs })
    }

    fn ranges(&self) -> impl Iterator<Item = (ShardIndex, ByteRange)> {
        let size = u64::from(self.open.dataset.index().block_size().bytes());
        self.runs.iter().filter_map(move |(shard, blocks)| {
            let len = (blocks.end - blocks.start) * size;
            Some((*shard, ByteRange::new(blocks.start * size, len).ok()?))
        })
    }

    /// True if all of it can be sent now.
    pub(crate) fn is_resident(&self, cache: &Cache) -> bool {
        self.ranges()
            .all(|(shard, range)| cache.is_resident(&self.open.dataset, shard, range))
    }

    /// Makes it resident, as far as there is room.
    pub(crate) fn fill(&self, readers: &Readers, deadline: Instant) -> Result<(), Refusal> {
        let ranges: Vec<_> = self.ranges().collect();
        let jobs: Vec<Job> = jobs(&ranges, self.open.dataset.index().block_size());
        let staged = readers.stage(&self.open, jobs, deadline);
        // What there is no room for is missing from the answer.
        staged.map_err(|error| Refusal::of(error.kind(), &error))?;
        Ok(())
    }

    /// The device did not give what the map promised: the next who asks must not meet it again.
    fn distrust(&self, cache: &Cache, shard: ShardIndex, lent: &Lent, error: &io::Error) {
        let is_devices = error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error());
        if let Some(range) = ByteRange::new(lent.offset(), lent.len())
            .ok()
            .filter(|_| is_devices)
        {
            let _ = cache.distrust(&self.open.dataset, shard, range);
        }
    }

    /// Sends what is resident of it.
    pub(crate) fn send(&self, cache: &Cache, writer: &dyn AnswerTo, id: u64) -> io::Result<()> {
        let mut complete = true;
        for (shard, blocks) in &self.runs {
            let mut at = blocks.start;
            while at < blocks.end {
                let lent = cache.lend(&self.open.dataset, *shard, &(at..blocks.end), FRAME_BYTES);
                let Ok(Some(lent)) = lent else {
                    complete = false;
                    at += 1;
                    continue;
                };
                let blocks = Answer::Blocks {
                    id,
                    shard: shard.0,
                    first: at,
                    body_len: lent.len() as u32,
                    checksums: lent.checksums().to_vec(),
                };
                let sent =
                    writer.send_file(&blocks.encode(), lent.file(), lent.offset(), lent.len());
                sent.inspect_err(|error| self.distrust(cache, *shard, &lent, error))?;
                at += lent.checksums().len() as u64;
            }
        }
        writer.send(&Answer::Ended { id, complete }.encode())
    }
}

/// A run that lies in one file, the same that the asker's index has there.
fn check_run(open: &OpenDataset, run: BlockRun) -> Result<(ShardIndex, Range<u64>), Refusal> {
    let index = open.dataset.index();
    let size = u64::from(index.block_size().bytes());
    let shard = ShardIndex(run.shard);
    let blocks = run.first..run.first + u64::from(run.count);
    let outside = || {
        let Range { start, end } = blocks.clone();
        let message = format!(
            "blocks [{start}, {end}) of shard {} are in no one file",
            shard.0
        );
        Refusal::new(ErrorKind::InvalidInput, message)
    };
    let start = blocks.start.checked_mul(size).ok_or_else(outside)?;
    let segment = index.segment_at(shard, start).ok().flatten();
    let segment = index.segment(segment.ok_or_else(outside)?);
    let segment = segment.map_err(|error| Refusal::of(error.kind(), &error))?;
    let segment_end = segment.shard_start + segment.fingerprint.size;
    if blocks.end > segment_end.div_ceil(size) {
        return Err(outside());
    }
    let asked = Fingerprint {
        size: run.file_size,
        mtime_ns: run.file_mtime_ns,
        inode: run.file_inode,
    };
    if asked != segment.fingerprint {
        let message = format!("origin file `{}` is another one here", segment.path);
        return Err(Refusal::new(ErrorKind::Stale, message));
    }
    Ok((shard, blocks))
}
