//! One client's connection.

use std::error::Error;
use std::io::{self, IoSlice, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use forebay_cache::{CachedDataset, jobs};
use forebay_dataset::{ByteRange, ErrorKind, ShardIndex};
use forebay_origin::IndexFile;
use forebay_residency::{HandedMemory, PlanFile};
use forebay_wire::{Answer, MAX_HANDED, Reply, Request, StageRange, read_frame};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, sendmsg};

use crate::daemon::Node;
use crate::names::answer_client;
use crate::peers::{Handed, Owners};
use crate::stage::{OpenDataset, Taken};

/// Longest time for which a request may wait, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Data sets open on one link, at most.
const MAX_OPEN: usize = 1024;
/// Bytes of the memory in which one client takes bytes: whole blocks land there.
const MEMORY: u64 = 2 * MAX_HANDED as u64;
/// Links that have such memory, at most; clients of others read the block files.
const MOST_MEMORIES: usize = 64;

/// A refusal, as the client sees it.
#[derive(Debug)]
pub(crate) struct Refusal {
    kind: ErrorKind,
    message: String,
}

impl Refusal {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
        }
    }

    /// The whole chain of causes on one line: the client has only this text.
    pub(crate) fn of(kind: ErrorKind, error: &dyn Error) -> Self {
        let mut message = error.to_string();
        let mut cause = error.source();
        while let Some(error) = cause {
            message.push_str(": ");
            message.push_str(&error.to_string());
            cause = error.source();
        }
        Self { kind, message }
    }

    #[cfg(test)]
    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn into_reply(self) -> Reply {
        Reply::Failed {
            kind: self.code(),
            message: self.message,
        }
    }

    /// The same, as another node sees it.
    pub(crate) fn into_answer(self, id: u64) -> Answer {
        Answer::Failed {
            id,
            kind: self.code(),
            message: self.message,
        }
    }

    fn code(&self) -> u8 {
        let kind = ErrorKind::ALL.iter().position(|kind| *kind == self.kind);
        kind.unwrap_or(0) as u8
    }
}

/// Serves one client until it leaves.
pub(crate) fn serve_link(node: &Node, number: u64, mut stream: UnixStream) -> io::Result<()> {
    stream.set_write_timeout(Some(Duration::from_secs(30)))?;
    let mut payload = Vec::new();
    let mut open = Vec::new();
    let mut memory = None;
    while let Some(kind) = read_frame(&mut stream, &mut payload)? {
        let reply = match Request::decode(kind, &payload) {
            Ok(Request::Stage {
                dataset,
                deadline_ms,
                takes_bytes,
                ranges,
            }) => {
                let wait = Duration::from_millis(deadline_ms.into());
                let memory = memory.as_ref().filter(|_| takes_bytes);
                match stage(node, &open, dataset, wait, memory, &ranges) {
                    Ok((reply, handed)) => {
                        stream.write_all(&reply.encode())?;
                        if let Some(handed) = handed {
                            // The client first, which waits, perhaps for this very processor.
                            std::thread::yield_now();
                            // Written only now.
                            drop(handed);
                        }
                        continue;
                    }
                    Err(refusal) => refusal.into_reply(),
                }
            }
            Ok(Request::Memory) => match Memory::new(node) {
                Ok(new) => {
                    let new = memory.insert(new);
                    send_with(
                        &stream,
                        &Reply::Memory { len: MEMORY }.encode(),
                        new.0.file(),
                    )?;
                    continue;
                }
                Err(refusal) => refusal.into_reply(),
            },
            Ok(Request::Names(request)) => answer_client(node, request, &|| is_gone(&stream))
                .unwrap_or_else(Refusal::into_reply),
            Ok(request) => {
                answer(node, number, &mut open, request).unwrap_or_else(Refusal::into_reply)
            }
            Err(error) => Refusal::of(ErrorKind::InvalidInput, &error).into_reply(),
        };
        stream.write_all(&reply.encode())?;
    }
    Ok(())
}

/// The memory of one link.
struct Memory(Arc<HandedMemory>);

/// Links that have memory.
static MEMORIES: AtomicUsize = AtomicUsize::new(0);

impl Memory {
    fn new(node: &Node) -> Result<Self, Refusal> {
        let refused = |why: String| Refusal::new(ErrorKind::Unavailable, why);
        if node.peers().is_none() {
            return Err(refused(
                "there are no other nodes to have bytes from".to_owned(),
            ));
        }
        let made = HandedMemory::new(MEMORY);
        let made = made.map_err(|error| refused(format!("no memory to share: {error}")))?;
        let more = |count| (count < MOST_MEMORIES).then_some(count + 1);
        let counted = MEMORIES.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more);
        counted.map_err(|_| refused(format!("{MOST_MEMORIES} clients share memory already")))?;
        Ok(Self(made))
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        MEMORIES.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Sends a frame, and a descriptor with its first byte.
fn send_with(stream: &UnixStream, frame: &[u8], file: &std::fs::File) -> io::Result<()> {
    let fds = [file.as_fd()];
    let mut space = [std::mem::MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = SendAncillaryBuffer::new(&mut space);
    with.push(SendAncillaryMessage::ScmRights(&fds));
    let sent = sendmsg(
        stream,
        &[IoSlice::new(frame)],
        &mut with,
        SendFlags::NOSIGNAL,
    )?;
    (&*stream).write_all(&frame[sent..])
}

/// True if the client has closed its end.
fn is_gone(stream: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    matches!(
        rustix::net::recv(stream, &mut [0u8; 1][..], flags),
        Ok((_, 0))
    )
}

fn answer(
    node: &Node,
    number: u64,
    open: &mut Vec<OpenDataset>,
    request: Request,
) -> Result<Reply, Refusal> {
    match request {
        Request::Open {
            index,
            root,
            generation,
        } => {
            let opened =
                open_dataset(node, Path::new(&index), root.map(PathBuf::from), generation)?;
            take_into_use(node, open, opened)
        }
        Request::Distrust { dataset, range } => {
            let open = opened(open, dataset)?;
            for (shard, range) in check_ranges(&open.dataset, &[range])? {
                let checked = node.readers.cache().distrust(&open.dataset, shard, range);
                checked.map_err(|error| Refusal::of(error.kind(), &error))?;
            }
            Ok(Reply::Done)
        }
        Request::Follow {
            dataset,
            plan,
            next,
        } => {
            let open = opened(open, dataset)?;
            let generation = open.dataset.index().generation();
            let plans = [Some(plan), next].into_iter().flatten().map(|path| {
                PlanFile::open(Path::new(&path), generation)
                    .map_err(|error| Refusal::of(ErrorKind::InvalidInput, &error))
            });
            let plans = plans.collect::<Result<Vec<_>, _>>()?;
            node.stager.follow(number, open.clone(), plans);
            Ok(Reply::Done)
        }
        // Answered before it comes to this.
        Request::Ping | Request::Names(_) | Request::Stage { .. } | Request::Memory => {
            Ok(Reply::Done)
        }
        Request::Status => Ok(Reply::Status(node.status())),
        Request::Stop => {
            node.stop();
            Ok(Reply::Done)
        }
    }
}

/// Makes ranges resident, or hands their bytes over in the memory.
fn stage(
    node: &Node,
    open: &[OpenDataset],
    dataset: u32,
    wait: Duration,
    memory: Option<&Memory>,
    ranges: &[StageRange],
) -> Result<(Reply, Option<Handed>), Refusal> {
    let deadline = Instant::now() + wait.min(LONGEST_WAIT);
    let open = opened(open, dataset)?;
    let ranges = check_ranges(&open.dataset, ranges)?;
    let asked = ranges.iter().map(|(_, range)| range.len());
    let asked = asked.fold(0, u64::saturating_add);
    let memory = memory.filter(|_| asked <= MAX_HANDED.into());
    let wanted = memory.map(|memory| (ranges.clone(), memory.0.clone()));
    let taken = wanted.as_ref().map(|(ranges, memory)| Taken {
        ranges,
        memory: memory.clone(),
    });
    let jobs = jobs(&open.bridged(ranges), open.dataset.index().block_size());
    let staged = node.readers.stage(open, jobs, deadline, taken);
    let staged = staged.map_err(|error| Refusal::of(error.kind(), &error))?;
    let reply = Reply::Staged {
        complete: staged.complete,
        peer_bytes: staged.peer_bytes,
        handed: (staged.handed.as_ref()).map_or_else(Vec::new, |handed| handed.ranges().to_vec()),
    };
    Ok((reply, staged.handed))
}

fn take_into_use(
    node: &Node,
    open: &mut Vec<OpenDataset>,
    opened: OpenDataset,
) -> Result<Reply, Refusal> {
    if open.len() >= MAX_OPEN {
        return Err(Refusal::new(
            ErrorKind::InvalidInput,
            format!("more than {MAX_OPEN} data sets on one connection"),
        ));
    }
    if let Some(peers) = node.peers() {
        peers.offer(&opened);
    }
    open.push(opened);
    Ok(Reply::Opened {
        dataset: open.len() as u32 - 1,
    })
}

fn opened(open: &[OpenDataset], dataset: u32) -> Result<&OpenDataset, Refusal> {
    open.get(dataset as usize).ok_or_else(|| {
        Refusal::new(
            ErrorKind::InvalidInput,
            format!("no data set {dataset} is open on this connection"),
        )
    })
}

pub(crate) fn open_dataset(
    node: &Node,
    path: &Path,
    root: Option<PathBuf>,
    generation: u128,
) -> Result<OpenDataset, Refusal> {
    let index = IndexFile::open(path).map_err(|error| Refusal::of(error.kind(), &error))?;
    if index.generation() != generation {
        let message = format!(
            "index `{}` was replaced since the client opened it; open it again",
            path.display()
        );
        return Err(Refusal::new(ErrorKind::Stale, message));
    }
    let root = index.resolve_root(root.as_deref());
    let attached = node.readers.cache().attach(index);
    let dataset = attached.map_err(|error| Refusal::of(error.kind(), &error))?;
    let roster = node.roster.as_ref();
    let owners = roster.and_then(|roster| Owners::of(roster, dataset.index(), root.clone()));
    let origin = node.origins.get(generation, root);
    let origin = origin.map_err(|error| Refusal::of(error.kind(), &error))?;
    Ok(OpenDataset {
        dataset,
        origin,
        owners,
    })
}

/// The ranges, all inside their shards.
fn check_ranges(
    dataset: &CachedDataset,
    ranges: &[StageRange],
) -> Result<Vec<(ShardIndex, ByteRange)>, Refusal> {
    let check = |asked: &StageRange| {
        let shard = ShardIndex(asked.shard);
        let len = dataset
            .index()
            .shard_len(shard)
            .map_err(|error| Refusal::of(error.kind(), &error))?;
        let range = ByteRange::new(asked.start, asked.len)
            .map_err(|error| Refusal::of(ErrorKind::InvalidInput, &error))?;
        if range.end() > len {
            let message = format!(
                "bytes [{}, {}) are outside shard {} of {len} bytes",
                range.start(),
                range.end(),
                shard.0
            );
            return Err(Refusal::new(ErrorKind::InvalidInput, message));
        }
        Ok((shard, range))
    };
    ranges.iter().map(check).collect()
}
