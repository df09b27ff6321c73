//! Files that producers publish by name, for consumers on any node.
//!
//! The node on which a file was published knows the truth about it ([`store`]). Two members for
//! each name, the same in every process, keep which node that is ([`table`]); what they keep may be
//! lost or old, since whoever finds a file there asks its node too. So a keeper that is gone costs
//! time, and a file is what it was published as or an error.

mod directory;
mod publish;
mod read;
mod search;
mod serve;
mod store;
mod table;

use std::collections::HashMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak, mpsc};
use std::time::{Duration, Instant};

use forebay_dataset::{ErrorKind, keepers_of_name};
use forebay_residency::NodePaths;
use forebay_transport::{Ended, LinkWriter};
use forebay_wire::{NameRequest, PublishedFile, Reply};
use serde_json::{Value, json};

use crate::daemon::Node;
use crate::link::Refusal;
use crate::peers::{Peers, Roster};
use store::Store;
use table::Table;

pub use directory::{Kept, NameDirectory, OpenDirectory};
pub(crate) use serve::answer as answer_member;

/// Members that keep each name.
const KEEPERS: usize = 2;
/// Longest time for which a request may wait, whatever it asks for.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);
/// Parts of files of other nodes on their way to clients at one time.
const MOST_READS: usize = 32;

/// Who waits for a name.
enum Waiter {
    /// A member, for its ask of this number.
    Member(Weak<LinkWriter>, u64),
    /// A client of this node.
    Client(mpsc::Sender<Ended>),
}

/// What this node knows of published files.
pub(crate) struct Names {
    store: Mutex<Store>,
    table: Mutex<Table<Waiter>>,
    /// Where names are kept if the members do not do it.
    directory: Option<Arc<dyn NameDirectory>>,
    /// By name and keeper: over which link that was told, and of which version.
    told: Mutex<HashMap<(String, String), (u64, u64)>>,
    /// By keeper: a name and version of which it could not be told that they are no more.
    untold: Mutex<Vec<(String, String, u64)>>,
    /// The list of members, and the links over which all keepers were told all; none where some
    /// were not. With a directory, its epoch in which it was told all.
    all_told: Mutex<(u64, Vec<u64>)>,
    reads: (Mutex<usize>, Condvar),
    read_bytes: AtomicU64,
    sent_bytes: AtomicU64,
}

impl Names {
    /// What an earlier daemon of this job left in the folder.
    pub(crate) fn open(
        paths: &NodePaths,
        roster: Option<&Roster>,
        directory: Option<OpenDirectory>,
    ) -> io::Result<Self> {
        let peers = roster.map(Roster::now);
        let peers = peers.as_deref();
        let job = peers.map_or("alone".to_owned(), |peers| format!("{:016x}", peers.job()));
        let node = peers.map_or("", Peers::name).to_owned();
        let directory = match directory.filter(|_| peers.is_some()) {
            Some(open) => Some(open(&job).map_err(io::Error::other)?),
            None => None,
        };
        let names = Self {
            directory,
            store: Mutex::new(Store::open(paths.published(), job, node)?),
            table: Mutex::default(),
            told: Mutex::default(),
            untold: Mutex::default(),
            all_told: Mutex::default(),
            reads: (Mutex::default(), Condvar::new()),
            read_bytes: AtomicU64::new(0),
            sent_bytes: AtomicU64::new(0),
        };
        let held: Vec<PublishedFile> = lock(&names.store).all().cloned().collect();
        for file in held {
            let is_mine = |peers: &Peers| keepers(peers, &file.name).contains(&peers.me());
            if names.directory.is_none() && peers.is_none_or(is_mine) {
                lock(&names.table).announce(file);
            }
        }
        Ok(names)
    }

    /// Starts the thread that tells keepers what they do not know, and the one that a directory of
    /// names tells. They end soon after the node.
    pub(crate) fn start(node: &Arc<Node>) -> io::Result<()> {
        if node.roster.is_none() {
            return Ok(());
        }
        if let Some(directory) = node.names.directory.clone() {
            let node = Arc::downgrade(node);
            std::thread::Builder::new()
                .name("directory".into())
                .spawn(move || directory::watch(&node, &*directory))?;
        }
        let node = Arc::downgrade(node);
        let tell = move || {
            while let Some(node) = node.upgrade().filter(|node| !node.is_stopping()) {
                publish::tell_keepers(&node);
                drop(node);
                std::thread::sleep(publish::LOOK);
            }
        };
        std::thread::Builder::new()
            .name("names".into())
            .spawn(tell)?;
        Ok(())
    }

    /// The node leaves: a directory is not to send others to it any more.
    pub(crate) fn close(&self) {
        if let Some(directory) = &self.directory {
            directory.close();
        }
    }

    /// How things are. `docs/METRICS.md` describes it.
    pub(crate) fn status(&self) -> Value {
        let (names, waiting) = lock(&self.table).counts();
        json!({
            "files": lock(&self.store).len(),
            "names": names,
            "waiting": waiting,
            "directory": self.directory.is_some(),
            "read_bytes": self.read_bytes.load(Ordering::Relaxed),
            "sent_bytes": self.sent_bytes.load(Ordering::Relaxed),
        })
    }
}

/// Answers a client. `is_gone` tells that it waits no more.
pub(crate) fn answer_client(
    node: &Node,
    request: NameRequest,
    is_gone: &dyn Fn() -> bool,
) -> Result<Reply, Refusal> {
    match request {
        NameRequest::Publish {
            name,
            path,
            deadline_ms,
        } => {
            let file = publish::publish(node, &name, Path::new(&path), until(deadline_ms))?;
            Ok(Reply::Published {
                files: vec![file],
                path: Some(path),
            })
        }
        NameRequest::Unpublish { name, deadline_ms } => {
            publish::unpublish(node, &name, until(deadline_ms), is_gone)?;
            Ok(Reply::Done)
        }
        NameRequest::Consume { name, deadline_ms } => {
            let found = search::consume(node, &name, until(deadline_ms), is_gone)?;
            Ok(Reply::Published {
                files: vec![found.file],
                path: found.path.map(|path| path.to_string_lossy().into_owned()),
            })
        }
        NameRequest::Read {
            node: member,
            part,
            deadline_ms,
        } => read::read(node, &member, part, until(deadline_ms), is_gone).map(Reply::Bytes),
        NameRequest::List { after } => {
            let files = search::list(node, &after);
            Ok(Reply::Published { files, path: None })
        }
    }
}

fn until(deadline_ms: u32) -> Instant {
    Instant::now() + Duration::from_millis(deadline_ms.into()).min(LONGEST_WAIT)
}

/// The members that keep a name.
fn keepers(peers: &Peers, name: &str) -> Vec<usize> {
    let mut keepers = keepers_of_name(name, peers.members()).unwrap_or_default();
    keepers.truncate(KEEPERS);
    keepers
}

fn leaving() -> Refusal {
    Refusal::new(ErrorKind::Unavailable, "the daemon is leaving: ask again")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
