//! A thread's own connection to its node's daemon.
//!
//! A data-loader worker is a fork of the trainer and inherits its descriptors. Two processes
//! reading one stream would take each other's replies, so a connection is used only by the thread
//! of the process that opened it.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_dataset::ErrorKind;
use forebay_residency::{NodePaths, TakenMemory, fork_generation};
use forebay_wire::{HandedRange, MAX_RANGES, Reply, Request, StageRange, read_frame};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::error::ClientError;
pub use crate::node::DaemonCommand;
use crate::node::{self, SILENCE, Silent, answers, start};
use crate::own_stream::OwnStream;

/// What a request needs to know about its daemon and its data set.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) paths: NodePaths,
    pub(crate) command: DaemonCommand,
    pub(crate) index: PathBuf,
    pub(crate) root: Option<PathBuf>,
    pub(crate) generation: u128,
}

struct Link {
    /// Tells it from this process's other connections.
    number: u64,
    stream: OwnStream,
    forks: u64,
    payload: Vec<u8>,
    timeout: Timeout,
    /// Index file, root and generation → number on this connection.
    opened: HashMap<(PathBuf, Option<PathBuf>, u128), u32>,
    /// In which the daemon hands bytes over; `None` before it was asked for some.
    memory: Option<Memory>,
}

enum Memory {
    Shared(TakenMemory),
    /// There is none: what is staged is read from the block files.
    Refused,
}

/// Asked when a signal ends a wait; true means that the wait is to be given up.
static INTERRUPTED: OnceLock<fn() -> bool> = OnceLock::new();

/// Lets the embedding program give up waits on signals (Ctrl-C in Python). First call wins.
pub fn on_signal(interrupted: fn() -> bool) {
    let _ = INTERRUPTED.set(interrupted);
}

/// What the wait was given up for.
#[derive(Debug, thiserror::Error)]
#[error("the wait was interrupted by a signal")]
struct Interrupted;

pub(crate) fn is_interrupted(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(|inner| inner.is::<Interrupted>())
}

/// Runs the signal handlers of the embedding program; an error if one of them wants the wait to
/// end.
pub(crate) fn check_signals() -> io::Result<()> {
    if INTERRUPTED.get().is_some_and(|interrupted| interrupted()) {
        return Err(io::Error::other(Interrupted));
    }
    Ok(())
}

/// A stream whose reads come back from a signal, to go on or to give up, and end at a time however
/// many signals come.
struct Interruptible<'a> {
    stream: &'a UnixStream,
    timeout: &'a mut Timeout,
    end: Instant,
    /// Whose daemon it is.
    paths: &'a NodePaths,
    /// A descriptor that came along.
    file: Option<File>,
}

/// The socket's timeouts in whole seconds, rounded up, so that most requests need not set them.
/// They only bound one system call: who waits looks at the clock.
#[derive(Default)]
struct Timeout(Option<u64>);

impl Timeout {
    fn set(&mut self, stream: &UnixStream, left: Duration) -> io::Result<()> {
        let seconds = left.min(SILENCE).as_secs() + 1;
        if self.0 != Some(seconds) {
            stream.set_read_timeout(Some(Duration::from_secs(seconds)))?;
            stream.set_write_timeout(Some(Duration::from_secs(seconds)))?;
            self.0 = Some(seconds);
        }
        Ok(())
    }
}

impl Read for Interruptible<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        loop {
            let left = self.end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.timeout.set(self.stream, left)?;
            match receive(self.stream, out, &mut self.file) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => check_signals()?,
                // The clock decides, above; but a daemon that is stopped would use all of it up.
                Err(error) if is_timeout(&error) => {
                    if Instant::now() < self.end && !answers(self.paths) {
                        return Err(io::Error::other(Silent));
                    }
                    check_signals()?;
                }
                read => return read,
            }
        }
    }
}

/// Reads what is there, and takes a descriptor that comes with it.
fn receive(stream: &UnixStream, out: &mut [u8], file: &mut Option<File>) -> io::Result<usize> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    let mut out = [IoSliceMut::new(out)];
    let received = recvmsg(stream, &mut out, &mut with, RecvFlags::CMSG_CLOEXEC)?;
    for message in with.drain() {
        if let RecvAncillaryMessage::ScmRights(files) = message {
            *file = files.map(File::from).next();
        }
    }
    Ok(received.bytes)
}

thread_local! {
    static LINKS: RefCell<HashMap<PathBuf, Link>> = RefCell::default();
}

/// Makes this thread's place for links, which is to be closed when the thread ends: libc allocates
/// for that. From then on nothing in a talk with the daemon uses libc's `malloc`, if the caller's
/// allocator does not, so that a signal handler may read whatever it interrupts.
pub fn prepare_thread() {
    // A thread that is ending has none any more.
    let _ = LINKS.try_with(|_| ());
}

impl Link {
    fn call(
        &mut self,
        paths: &NodePaths,
        request: &Request,
        deadline: Instant,
    ) -> io::Result<Reply> {
        self.call_for(paths, request, deadline, &mut None)
    }

    /// Calls; a descriptor that comes with the reply is put into `file`.
    fn call_for(
        &mut self,
        paths: &NodePaths,
        request: &Request,
        deadline: Instant,
        file: &mut Option<File>,
    ) -> io::Result<Reply> {
        // A little longer than the daemon waits, so that its own words arrive.
        let left = deadline.saturating_duration_since(Instant::now()) + Duration::from_millis(200);
        self.timeout.set(&self.stream, left)?;
        (&*self.stream).write_all(&request.encode())?;
        let mut reply = Interruptible {
            stream: &self.stream,
            timeout: &mut self.timeout,
            end: Instant::now() + left,
            paths,
            file: None,
        };
        let kind = read_frame(&mut reply, &mut self.payload)?
            .ok_or(io::Error::from(io::ErrorKind::UnexpectedEof))?;
        *file = reply.file.take();
        Reply::decode(kind, &self.payload).map_err(io::Error::other)
    }

    /// The memory in which the daemon hands bytes over, if it does.
    fn memory(&mut self, paths: &NodePaths, deadline: Instant) -> io::Result<Option<&TakenMemory>> {
        if self.memory.is_none() {
            let mut file = None;
            let reply = self.call_for(paths, &Request::Memory, deadline, &mut file)?;
            self.memory = Some(match (reply, file) {
                (Reply::Memory { len }, Some(file)) => {
                    TakenMemory::map(&file, len).map_or(Memory::Refused, Memory::Shared)
                }
                _ => Memory::Refused,
            });
        }
        Ok(match &self.memory {
            Some(Memory::Shared(memory)) => Some(memory),
            _ => None,
        })
    }

    fn dataset(
        &mut self,
        target: &Target,
        deadline: Instant,
    ) -> io::Result<Result<u32, ClientError>> {
        let key = (target.index.clone(), target.root.clone(), target.generation);
        if let Some(number) = self.opened.get(&key) {
            return Ok(Ok(*number));
        }
        let request = Request::Open {
            index: target.index.to_string_lossy().into_owned(),
            root: target
                .root
                .as_ref()
                .map(|root| root.to_string_lossy().into_owned()),
            generation: target.generation,
        };
        match self.call(&target.paths, &request, deadline)? {
            Reply::Opened { dataset } => {
                self.opened.insert(key, dataset);
                Ok(Ok(dataset))
            }
            reply => Ok(Err(refused(reply))),
        }
    }
}

pub(crate) fn refused(reply: Reply) -> ClientError {
    match reply {
        Reply::Failed { kind, message } => ClientError::Daemon {
            kind: ErrorKind::ALL
                .get(kind as usize)
                .copied()
                .unwrap_or(ErrorKind::Unavailable),
            message,
        },
        other => ClientError::Daemon {
            kind: ErrorKind::Unavailable,
            message: format!("the daemon gave an answer to another question: {other:?}"),
        },
    }
}

/// Talks over this thread's connection, opening one, and starting a daemon, where there is none.
/// A connection that breaks is replaced: the daemon may just have left or been restarted. So is a new
/// one, once: a daemon that is just leaving may have let it wait to be accepted.
fn with_link<T>(
    paths: &NodePaths,
    command: &DaemonCommand,
    deadline: Instant,
    mut talk: impl FnMut(&mut Link) -> io::Result<T>,
) -> io::Result<T> {
    // The table is not borrowed during the talk: a signal handler that runs then may read too.
    let mut fresh = 0;
    loop {
        let held = LINKS
            .with_borrow_mut(|links| links.remove(paths.folder()))
            .filter(|link| link.forks == fork_generation() && link.stream.is_intact());
        let mut link = match held {
            Some(link) => link,
            None => {
                fresh += 1;
                connect(paths, command, deadline)?
            }
        };
        match talk(&mut link) {
            Ok(answer) => {
                let folder = paths.folder().to_path_buf();
                LINKS.with_borrow_mut(|links| links.insert(folder, link));
                return Ok(answer);
            }
            // Part of a frame may be left in the stream, so the link is dropped in any case.
            Err(error)
                if fresh > 1
                    || is_timeout(&error)
                    || is_interrupted(&error)
                    || is_silent(&error) =>
            {
                return Err(error);
            }
            Err(_) => {}
        }
    }
}

pub(crate) fn is_timeout(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut
    )
}

fn is_silent(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|inner| inner.is::<Silent>())
}

fn connect(paths: &NodePaths, command: &DaemonCommand, deadline: Instant) -> io::Result<Link> {
    let stream = match node::connect(paths, deadline) {
        Ok(stream) => stream,
        Err(error) if is_silent(&error) || is_interrupted(&error) => return Err(error),
        Err(_) => {
            start(paths, command, deadline)?;
            node::connect(paths, deadline)?
        }
    };
    static LINKS_MADE: AtomicU64 = AtomicU64::new(0);
    Ok(Link {
        number: LINKS_MADE.fetch_add(1, Ordering::Relaxed),
        stream: OwnStream::new(stream),
        forks: fork_generation(),
        payload: Vec::new(),
        timeout: Timeout::default(),
        opened: HashMap::new(),
        memory: None,
    })
}

/// Takes the data set into use, so that a later miss finds the daemon ready.
pub(crate) fn open(target: &Target, deadline: Instant) -> io::Result<Result<(), ClientError>> {
    with_link(&target.paths, &target.command, deadline, |link| {
        Ok(link.dataset(target, deadline)?.map(drop))
    })
}

/// Takes the bytes of what was asked for from where they lie in the memory.
pub(crate) type Take<'a> = dyn FnMut(&TakenMemory, &[HandedRange]) -> io::Result<()> + 'a;

/// Asks for ranges; true if all of them were admitted. `take` gets their bytes instead where the
/// daemon has them in memory, if the ranges fit one request. Counts what came from other nodes.
pub(crate) fn stage(
    target: &Target,
    ranges: &[StageRange],
    deadline: Instant,
    mut take: Option<&mut Take<'_>>,
) -> io::Result<Result<bool, ClientError>> {
    let mut complete = true;
    for part in ranges.chunks(MAX_RANGES) {
        let mut take = take.as_deref_mut().filter(|_| part.len() == ranges.len());
        let staged = with_link(&target.paths, &target.command, deadline, |link| {
            let dataset = match link.dataset(target, deadline)? {
                Ok(dataset) => dataset,
                Err(error) => return Ok(Err(error)),
            };
            let takes_bytes = take.is_some() && link.memory(&target.paths, deadline)?.is_some();
            let left = deadline
                .saturating_duration_since(Instant::now())
                .as_millis();
            let deadline_ms = u32::try_from(left).unwrap_or(u32::MAX);
            let request = Request::Stage {
                dataset,
                deadline_ms,
                takes_bytes,
                ranges: part.to_vec(),
            };
            let reply = link.call(&target.paths, &request, deadline)?;
            Ok(match reply {
                Reply::Staged {
                    complete,
                    peer_bytes,
                    handed,
                } => {
                    crate::answers::from_peers(peer_bytes);
                    if let (Some(take), Some(Memory::Shared(memory))) = (&mut take, &link.memory)
                        && !handed.is_empty()
                    {
                        take(memory, &handed)?;
                    }
                    Ok(complete)
                }
                reply => Err(refused(reply)),
            })
        })?;
        match staged {
            Ok(whole) => complete &= whole,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(complete))
}

/// Lets the daemon stage along a plan, and the one after it where that is known, for as long as
/// this thread's connection lives. Returns the number of the connection.
pub(crate) fn follow(
    target: &Target,
    plan: &Path,
    next: Option<&Path>,
    deadline: Instant,
) -> io::Result<Result<u64, ClientError>> {
    let text = |path: &Path| path.to_string_lossy().into_owned();
    with_link(&target.paths, &target.command, deadline, |link| {
        let dataset = match link.dataset(target, deadline)? {
            Ok(dataset) => dataset,
            Err(error) => return Ok(Err(error)),
        };
        let request = Request::Follow {
            dataset,
            plan: text(plan),
            next: next.map(text),
        };
        Ok(match link.call(&target.paths, &request, deadline)? {
            Reply::Done => Ok(link.number),
            reply => Err(refused(reply)),
        })
    })
}

/// True while this thread's connection is the one of this number and the daemon has not closed it.
pub(crate) fn is_linked(paths: &NodePaths, number: u64) -> bool {
    LINKS.with_borrow(|links| {
        links.get(paths.folder()).is_some_and(|link| {
            link.forks == fork_generation() && link.number == number && is_open(&link.stream)
        })
    })
}

/// True unless the other end has closed the stream.
fn is_open(stream: &UnixStream) -> bool {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    match rustix::net::recv(stream, &mut [0u8; 1][..], flags) {
        Ok((_, bytes)) => bytes > 0,
        Err(error) => error == rustix::io::Errno::AGAIN || error == rustix::io::Errno::INTR,
    }
}

/// Tells the daemon that the device did not give back what the map promised. Only advice, since
/// the reader has other ways to its bytes: it fails for a signal alone.
pub(crate) fn distrust(
    target: &Target,
    range: StageRange,
    deadline: Instant,
) -> Result<(), ClientError> {
    let told = with_link(&target.paths, &target.command, deadline, |link| match link
        .dataset(target, deadline)?
    {
        Ok(dataset) => link
            .call(
                &target.paths,
                &Request::Distrust { dataset, range },
                deadline,
            )
            .map(drop),
        Err(_) => Ok(()),
    });
    match told {
        Err(error) if is_interrupted(&error) => Err(ClientError::Interrupted),
        _ => Ok(()),
    }
}

/// Asks what is about no data set.
pub(crate) fn ask(
    paths: &NodePaths,
    command: &DaemonCommand,
    request: &Request,
    deadline: Instant,
) -> Result<Reply, ClientError> {
    with_link(paths, command, deadline, |link| {
        link.call(paths, request, deadline)
    })
    .map_err(|source| {
        if is_interrupted(&source) {
            return ClientError::Interrupted;
        }
        ClientError::NoDaemon {
            folder: paths.folder().display().to_string(),
            source,
        }
    })
}

/// Asks a daemon that runs already.
fn ask_running(folder: &Path, request: &Request, limit: Duration) -> Result<Reply, ClientError> {
    let paths = NodePaths::new(folder.to_path_buf());
    let deadline = Instant::now() + limit;
    ask(&paths, &DaemonCommand::default(), request, deadline)
}

/// The daemon's status as JSON text. Starts none.
pub fn status(folder: &Path, deadline: Duration) -> Result<String, ClientError> {
    match ask_running(folder, &Request::Status, deadline)? {
        Reply::Status(json) => Ok(json),
        reply => Err(refused(reply)),
    }
}

/// Asks the daemon to stop cleanly.
pub fn stop(folder: &Path, deadline: Duration) -> Result<(), ClientError> {
    match ask_running(folder, &Request::Stop, deadline)? {
        Reply::Done => Ok(()),
        reply => Err(refused(reply)),
    }
}
