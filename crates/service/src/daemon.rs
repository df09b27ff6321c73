//! The daemon's life: lock, listen, serve, leave.

use std::collections::HashMap;
use std::io;
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use forebay_cache::{AttachError, Cache, Policy};
use forebay_dataset::ErrorKind;
use forebay_origin::Stores;
use forebay_residency::NodePaths;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use thiserror::Error;

use crate::follow::{self, Roll};
use crate::link::serve_link;
use crate::lock::DaemonLock;
use crate::names::{Names, OpenDirectory};
use crate::origins::Origins;
use crate::peers::{Peers, Roster, Serving};
use crate::pool::Pool;
use crate::settings::ServePlan;
use crate::stage::Readers;
use crate::stager::{Stager, StagerParts};
use crate::status::status;

/// How long leaving waits for requests that are being answered.
const DRAIN: Duration = Duration::from_secs(5);

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Served {
    /// Stopped by a signal or a request.
    Stopped,
    /// No client for the time set.
    Idle,
    /// Another daemon serves the folder already.
    AlreadyServed,
}

/// A daemon that cannot start or go on.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The folder, the lock or the socket cannot be used.
    #[error("cannot serve cache folder `{folder}`")]
    Folder {
        /// The cache folder.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// The other nodes cannot be reached or served.
    #[error("cannot be a member of the job")]
    Peers(#[source] io::Error),
    /// Where names of published files are kept cannot be used.
    #[error("cannot keep names of published files")]
    Names(#[source] io::Error),
    /// What is in the folder cannot be used.
    #[error(transparent)]
    Cache(#[from] AttachError),
}

impl ServeError {
    /// What the operator can do.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Folder { .. } | Self::Peers(_) | Self::Names(_) => ErrorKind::Unavailable,
            Self::Cache(error) => error.kind(),
        }
    }
}

/// What all links share.
pub(crate) struct Node {
    pub(crate) readers: Readers,
    pub(crate) stager: Stager,
    pub(crate) origins: Origins,
    /// The other nodes; `None` for a node alone.
    pub(crate) roster: Option<Arc<Roster>>,
    pub(crate) serving: Serving,
    /// Published files.
    pub(crate) names: Names,
    plan: ServePlan,
    started: Instant,
    stopping: AtomicBool,
    links: Links,
}

impl Node {
    /// The other nodes as they are now; `None` for a node alone.
    pub(crate) fn peers(&self) -> Option<Arc<Peers>> {
        self.roster.as_ref().map(|roster| roster.now())
    }

    pub(crate) fn status(&self) -> String {
        status(
            &self.plan,
            self.peers().as_deref(),
            self.readers.cache(),
            self.stager.status(),
            self.started,
            self.links.count(),
            self.names.status(),
        )
    }

    /// True once the daemon was asked to leave.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Asks the daemon to leave.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Ends all that is in progress, and leaves the cache as a clean stop does.
    fn leave(&self) {
        // Those who wait for a name, and whoever came by a signal: told at once.
        self.stop();
        self.stager.stop();
        self.serving.stop();
        self.names.close();
        self.links.close_and_wait(DRAIN);
        if let Some(peers) = self.peers() {
            peers.close();
        }
        self.readers.cache().close();
    }
}

/// What the daemon is given by the program that it is a part of.
#[derive(Default)]
pub struct Outside {
    /// Opens origins that are URLs; without, they are refused.
    pub stores: Option<Arc<dyn Stores>>,
    /// Opens the directory of names, if the members are not to keep them.
    pub names: Option<OpenDirectory>,
    /// Tells of members that come and go; without, they are those of the plan throughout.
    pub roll: Option<Box<dyn Roll>>,
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").finish_non_exhaustive()
    }
}

/// Runs the daemon in this process until it is told to stop or has been idle.
///
/// `wait_for_leaving`: a client's daemon waits for one that is just leaving; an operator's does
/// not. `ready` is called once clients can connect.
pub fn serve(
    mut plan: ServePlan,
    outside: Outside,
    wait_for_leaving: bool,
    ready: impl FnOnce(),
) -> Result<Served, ServeError> {
    let paths = plan.paths();
    let in_folder = |source| ServeError::Folder {
        folder: paths.folder().display().to_string(),
        source,
    };
    paths.create_folder().map_err(in_folder)?;
    let lock = if wait_for_leaving {
        DaemonLock::take_over(&paths)
    } else {
        DaemonLock::try_take(&paths)
    };
    let Some(_lock) = lock.map_err(in_folder)? else {
        return Ok(Served::AlreadyServed);
    };
    forebay_residency::raise_open_file_limit();
    // Samplers remove their plans; those of a process that was killed are nobody's.
    let _ = std::fs::remove_dir_all(paths.plans());
    let cache = Arc::new(Cache::open(plan.cache.clone())?);
    keep_room(&cache).map_err(in_folder)?;
    let pool = Arc::new(Pool::start(plan.origin_reads).map_err(in_folder)?);
    if let Some(peers) = &mut plan.peers {
        peers.follows = outside.roll.is_some();
    }
    let roster = plan.peers.clone().map(Roster::start).transpose();
    let roster = roster.map_err(ServeError::Peers)?;
    if let Some(roster) = &roster {
        cache.set_ownership(roster.clone());
    }
    let stager = Stager::start(StagerParts {
        cache: cache.clone(),
        pool: pool.clone(),
        ahead_bytes: plan.look_ahead_bytes,
        ahead: plan.look_ahead,
        bytes_a_second: plan.look_ahead_rate,
        evicts_by_plan: plan.cache.policy == Policy::Plan,
    });
    let node = Arc::new(Node {
        readers: Readers::new(cache, pool, plan.hedged_reads),
        stager: stager.map_err(in_folder)?,
        origins: Origins::new(outside.stores),
        serving: Serving::start(roster.is_some()).map_err(in_folder)?,
        names: Names::open(&paths, roster.as_deref(), outside.names).map_err(ServeError::Names)?,
        roster,
        started: Instant::now(),
        stopping: AtomicBool::new(false),
        links: Links::default(),
        plan,
    });
    let (signals, listener) = listen(&paths).map_err(in_folder)?;
    if let Some(roster) = &node.roster {
        Serving::listen(&node, roster).map_err(ServeError::Peers)?;
        if let Some(roll) = outside.roll {
            follow::start(&node, roster, roll).map_err(in_folder)?;
        }
    }
    Names::start(&node).map_err(in_folder)?;
    ready();
    let served = accept_until_done(&node, &listener, &signals).map_err(in_folder)?;
    // No new client from here on; one that comes now starts a daemon that waits for the lock.
    let _ = std::fs::remove_file(paths.socket());
    drop(listener);
    node.leave();
    Ok(served)
}

/// Starts the thread that makes room before it is needed. It ends soon after the cache.
fn keep_room(cache: &Arc<Cache>) -> io::Result<()> {
    let cache = Arc::downgrade(cache);
    let keep = move || {
        while let Some(cache) = cache.upgrade() {
            cache.keep_room(Duration::from_secs(1));
        }
    };
    std::thread::Builder::new()
        .name("room".into())
        .spawn(keep)?;
    Ok(())
}

fn listen(paths: &NodePaths) -> io::Result<(UnixStream, UnixListener)> {
    let (signals, in_handler) = UnixStream::pair()?;
    for signal in [SIGTERM, SIGINT, SIGHUP] {
        signal_hook::low_level::pipe::register(signal, in_handler.try_clone()?)?;
    }
    let listener = paths.listen()?;
    listener.set_nonblocking(true)?;
    Ok((signals, listener))
}

fn accept_until_done(
    node: &Arc<Node>,
    listener: &UnixListener,
    signals: &UnixStream,
) -> io::Result<Served> {
    let tick = Timespec {
        tv_sec: 0,
        tv_nsec: 100_000_000,
    };
    loop {
        let mut ready = [
            PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
        ];
        match poll(&mut ready, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        if !ready[1].revents().is_empty() || node.stopping.load(Ordering::Acquire) {
            return Ok(Served::Stopped);
        }
        match listener.accept() {
            Ok((stream, _)) => admit(node, stream),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // Out of descriptors or memory: those connected go on, and the client tries again.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
        if node
            .plan
            .idle_exit
            .is_some_and(|limit| node.links.idle_for(node.started) >= limit)
        {
            return Ok(Served::Idle);
        }
    }
}

/// Starts a link, or closes it at once: a client that is not answered reads the origin itself.
fn admit(node: &Arc<Node>, stream: UnixStream) {
    let user = rustix::process::geteuid();
    let peer = rustix::net::sockopt::socket_peercred(&stream);
    let known = peer.is_ok_and(|peer| peer.uid == user || peer.uid.is_root());
    if !known || node.links.count() >= node.plan.max_links || stream.set_nonblocking(false).is_err()
    {
        return;
    }
    let Ok(number) = node.links.add(&stream) else {
        return;
    };
    let serving = node.clone();
    let thread = std::thread::Builder::new()
        .name(format!("link-{number}"))
        .spawn(move || {
            // Given back on unwind too, or the daemon would never be idle again.
            let _entry = LinkEntry {
                node: &serving,
                number,
            };
            // Whatever ended it, the client has its own way on.
            let _ = serve_link(&serving, number, stream);
        });
    if thread.is_err() {
        node.links.remove(number);
    }
}

/// A link's place among the connected clients, given back on drop.
struct LinkEntry<'a> {
    node: &'a Node,
    number: u64,
}

impl Drop for LinkEntry<'_> {
    fn drop(&mut self) {
        self.node.stager.forget(self.number);
        self.node.links.remove(self.number);
    }
}

/// The connected clients.
#[derive(Default)]
struct Links {
    open: Mutex<HashMap<u64, UnixStream>>,
    closed: Condvar,
    next: AtomicU64,
    last_change: Mutex<Option<Instant>>,
}

impl Links {
    fn lock(&self) -> MutexGuard<'_, HashMap<u64, UnixStream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn count(&self) -> usize {
        self.lock().len()
    }

    fn add(&self, stream: &UnixStream) -> io::Result<u64> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        self.lock().insert(number, stream.try_clone()?);
        Ok(number)
    }

    fn remove(&self, number: u64) {
        // Before the link is gone: whoever finds none must not take an older time for the last.
        *self
            .last_change
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
        self.lock().remove(&number);
        self.closed.notify_all();
    }

    /// Time since the last client left, or since the start if none came; zero while one is here.
    fn idle_for(&self, started: Instant) -> Duration {
        if self.count() > 0 {
            return Duration::ZERO;
        }
        let last = *self
            .last_change
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        last.unwrap_or(started).elapsed()
    }

    /// Lets every link finish the answer it is at, then closes it.
    fn close_and_wait(&self, limit: Duration) {
        let deadline = Instant::now() + limit;
        let mut open = self.lock();
        open.values()
            .for_each(|stream| drop(stream.shutdown(Shutdown::Read)));
        while !open.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            open = self
                .closed
                .wait_timeout(open, left)
                .unwrap_or_else(PoisonError::into_inner)
                .0;
        }
    }
}
