//! Publishes, unpublishes, and tells keepers what they do not know.

use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use forebay_dataset::ErrorKind;
use forebay_transport::Outcome;
use forebay_wire::{Ask, NameAsk, PublishedFile};

use super::store::{full, inspect};
use super::{directory, keepers, lock, search, serve};
use crate::daemon::Node;
use crate::link::Refusal;
use crate::peers::Peers;

/// How often keepers are looked at that may have forgotten.
pub(super) const LOOK: Duration = Duration::from_millis(200);
/// How long keepers are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// How often a publication begins anew because another node's was later.
const TRIES: usize = 8;
/// Announcements in progress at one time.
const BATCH: usize = 256;
/// Most withdrawals that wait for a keeper; what is found there asks the file's node in any case.
const MOST_UNTOLD: usize = 4096;

/// Publishes a complete file. When it returns, who asks a keeper that is up finds this version or a
/// later one.
pub(super) fn publish(
    node: &Node,
    name: &str,
    path: &Path,
    deadline: Instant,
) -> Result<PublishedFile, Refusal> {
    let fingerprint = inspect(path)?;
    let mut least = 0;
    for _ in 0..TRIES {
        let put = lock(&node.names.store).put(name, path, fingerprint, least);
        let file = put?;
        // Clients of this node need no keeper.
        let woken = lock(&node.names.table).wake(name);
        serve::wake(node, woken, &file);
        match announce(node, &file, deadline.min(Instant::now() + PATIENCE)) {
            Ok(None) => return Ok(file),
            Ok(Some(later)) => least = later.generation,
            Err(refusal) => {
                lock(&node.names.store).remove(name, file.generation);
                return Err(refusal);
            }
        }
    }
    let message = format!("others publish `{name}` at the same time, again and again");
    Err(Refusal::new(ErrorKind::Unavailable, message))
}

/// Tells the keepers of a file; returns a later version that one of them knows of.
fn announce(
    node: &Node,
    file: &PublishedFile,
    until: Instant,
) -> Result<Option<PublishedFile>, Refusal> {
    let mut told = Vec::new();
    let Some(peers) = node.peers() else {
        told.push(keep(node, file.clone())?);
        return Ok(later_than(file, &told));
    };
    if let Some(names) = &node.names.directory {
        told.push(directory::announce(&**names, file, until)?);
        return Ok(told_all(node, &peers, file, &told));
    }
    let (done, ends) = mpsc::channel();
    let mut calls = Vec::new();
    let keepers = keepers(&peers, &file.name);
    for keeper in keepers.iter().copied() {
        if keeper == peers.me() {
            told.push(keep(node, file.clone())?);
            continue;
        }
        let link = peers.link(keeper);
        let ask = NameAsk::Announce(file.clone());
        if let Some(call) = peers.call(keeper, |id| Ask::Name { id, ask }, None, &done) {
            calls.push((keeper, link, call));
        }
    }
    while !calls.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(ended) = ends.recv_timeout(left) else {
            break;
        };
        let Some(at) = calls.iter().position(|(_, _, call)| call.id() == ended.id) else {
            continue;
        };
        let (keeper, link, _call) = calls.swap_remove(at);
        match ended.outcome {
            Outcome::Published(files) => {
                note_told(node, &peers, keeper, link, file);
                told.push(files);
            }
            Outcome::Failed { kind, .. } if is_full(kind) => return Err(full()),
            // It is told later, by the thread that looks after that.
            _ => {}
        }
    }
    if told.len() < keepers.len() {
        lock(&node.names.all_told).1.clear();
    }
    Ok(told_all(node, &peers, file, &told))
}

/// What came of it: a later version that stands, or none, and then what it replaced is let know.
fn told_all(
    node: &Node,
    peers: &Peers,
    file: &PublishedFile,
    told: &[Vec<PublishedFile>],
) -> Option<PublishedFile> {
    let later = later_than(file, told);
    if later.is_none() {
        displace(node, peers, file, told);
    }
    later
}

fn is_full(kind: u8) -> bool {
    ErrorKind::ALL.get(usize::from(kind)) == Some(&ErrorKind::NoSpace)
}

/// Keeps a name here. Returns what another keeper would answer.
pub(super) fn keep(node: &Node, file: PublishedFile) -> Result<Vec<PublishedFile>, Refusal> {
    let announced = lock(&node.names.table).announce(file).ok_or_else(full)?;
    serve::wake(node, announced.woken, &announced.stands);
    let mut files = vec![announced.stands];
    files.extend(announced.before);
    Ok(files)
}

fn later_than(file: &PublishedFile, told: &[Vec<PublishedFile>]) -> Option<PublishedFile> {
    let stand = told.iter().filter_map(|files| files.first());
    let later = stand.filter(|stands| stands.is_later_than(file));
    later.max_by_key(|file| file.generation).cloned()
}

/// Lets the nodes whose versions were replaced know, so that they give them to nobody any more.
fn displace(node: &Node, peers: &Peers, file: &PublishedFile, told: &[Vec<PublishedFile>]) {
    let (done, ends) = mpsc::channel();
    let before = told.iter().filter_map(|files| files.get(1));
    let others = before.filter(|before| before.node != file.node);
    let calls = others.filter_map(|before| {
        let member = peers.member(&before.node)?;
        let ask = NameAsk::Withdraw {
            name: before.name.clone(),
            generation: before.generation,
        };
        peers.call(member, |id| Ask::Name { id, ask }, None, &done)
    });
    let calls: Vec<_> = calls.collect();
    let until = Instant::now() + PATIENCE;
    for _ in &calls {
        let left = until.saturating_duration_since(Instant::now());
        if node.is_stopping() || ends.recv_timeout(left).is_err() {
            return;
        }
    }
}

fn note_told(node: &Node, peers: &Peers, keeper: usize, link: u64, file: &PublishedFile) {
    let key = (file.name.clone(), peers.members()[keeper].name.clone());
    lock(&node.names.told).insert(key, (link, file.generation));
}

/// Lets a name go, wherever it was published.
pub(super) fn unpublish(
    node: &Node,
    name: &str,
    deadline: Instant,
    is_gone: &dyn Fn() -> bool,
) -> Result<(), Refusal> {
    let held = lock(&node.names.store).held(name);
    let until = deadline.min(Instant::now() + PATIENCE);
    if let Some(held) = held {
        let_go(node, name, held.file.generation);
        clear_directory(node, name, held.file.generation, until);
        return Ok(());
    }
    let found = search::find(node, name, until, is_gone)?;
    let Some(file) = found else {
        let message = format!("`{name}` is not published");
        return Err(Refusal::new(ErrorKind::NotFound, message));
    };
    let gone = || {
        let message = format!(
            "node `{}`, which published `{name}`, cannot be reached",
            file.node
        );
        Refusal::new(ErrorKind::Unavailable, message)
    };
    let peers = node.peers().ok_or_else(gone)?;
    let member = peers.member(&file.node).ok_or_else(gone)?;
    let (done, ends) = mpsc::channel();
    let ask = NameAsk::Withdraw {
        name: name.to_owned(),
        generation: file.generation,
    };
    let call = peers.call(member, |id| Ask::Name { id, ask }, None, &done);
    let _call = call.ok_or_else(gone)?;
    let left = deadline.saturating_duration_since(Instant::now());
    match ends.recv_timeout(left).map(|ended| ended.outcome) {
        Ok(Outcome::Done { .. }) => {
            withdraw(node, &peers, name, file.generation);
            clear_directory(node, name, file.generation, until);
            Ok(())
        }
        _ => Err(gone()),
    }
}

/// Has a directory of names be rid of a version before whoever asked for that goes on. One that
/// says nothing by `until` is told in the background, as of all withdrawals.
fn clear_directory(node: &Node, name: &str, generation: u64, until: Instant) {
    if let Some(names) = &node.names.directory {
        directory::withdraw(&**names, name, generation, until);
    }
}

/// Lets a version of a file of this node go. False if there is none.
pub(super) fn let_go(node: &Node, name: &str, generation: u64) -> bool {
    let was_held = lock(&node.names.store).remove(name, generation);
    if was_held {
        lock(&node.names.told).retain(|(told, _), _| told != name);
        lock(&node.names.table).withdraw(name, generation);
        if let Some(peers) = node.peers() {
            withdraw(node, &peers, name, generation);
        }
    }
    was_held
}

/// Tells the keepers of a name that a version is no more; those that cannot be told now, and a
/// directory, later. Waits for nobody.
pub(super) fn withdraw(node: &Node, peers: &Peers, name: &str, generation: u64) {
    if node.names.directory.is_some() {
        return note_untold(node, "", name, generation);
    }
    // Nobody waits for the end: what a keeper does not hear, the file's own node says.
    let (done, _) = mpsc::channel();
    for keeper in keepers(peers, name) {
        if keeper == peers.me() {
            lock(&node.names.table).withdraw(name, generation);
            continue;
        }
        let ask = NameAsk::Withdraw {
            name: name.to_owned(),
            generation,
        };
        if peers
            .call(keeper, |id| Ask::Name { id, ask }, None, &done)
            .is_none()
        {
            note_untold(node, &peers.members()[keeper].name, name, generation);
        }
    }
}

fn note_untold(node: &Node, keeper: &str, name: &str, generation: u64) {
    let mut untold = lock(&node.names.untold);
    if untold.len() < MOST_UNTOLD {
        untold.push((keeper.to_owned(), name.to_owned(), generation));
    }
}

/// Tells keepers that came, or came back, what they do not know.
pub(super) fn tell_keepers(node: &Node) {
    if let Some(names) = &node.names.directory {
        return directory::tell(node, &**names);
    }
    let Some(peers) = node.peers() else {
        return;
    };
    withdraw_untold(node, &peers);
    let link = |member| {
        if peers.is_up(member) {
            peers.link(member)
        } else {
            0
        }
    };
    let links = (0..peers.members().len()).map(link).collect();
    let now = (peers.number(), links);
    let before = lock(&node.names.all_told).clone();
    if before == now {
        return;
    }
    if before.0 != now.0 {
        let is_member = |keeper: &str| peers.member(keeper).is_some();
        lock(&node.names.told).retain(|(_, keeper), _| is_member(keeper));
    }
    // Before the look: what is published from here on says itself if it is not told.
    *lock(&node.names.all_told) = now;
    let held: Vec<PublishedFile> = lock(&node.names.store).all().cloned().collect();
    let mut forgotten = Vec::new();
    for file in held {
        for keeper in keepers(&peers, &file.name) {
            if keeper == peers.me() {
                lock(&node.names.table).announce(file.clone());
            } else if peers.is_up(keeper) && !is_told(node, &peers, keeper, &file) {
                forgotten.push((keeper, file.clone()));
            }
        }
    }
    for batch in forgotten.chunks(BATCH) {
        if !tell(node, &peers, batch) {
            lock(&node.names.all_told).1.clear();
        }
    }
}

/// Tells keepers that can be reached again what is no more.
fn withdraw_untold(node: &Node, peers: &Peers) {
    let untold = std::mem::take(&mut *lock(&node.names.untold));
    for (keeper, name, generation) in untold {
        match peers.member(&keeper) {
            Some(member) if peers.is_up(member) => withdraw(node, peers, &name, generation),
            Some(_) => lock(&node.names.untold).push((keeper, name, generation)),
            // It keeps nothing any more.
            None => {}
        }
    }
}

fn is_told(node: &Node, peers: &Peers, keeper: usize, file: &PublishedFile) -> bool {
    let key = (file.name.clone(), peers.members()[keeper].name.clone());
    let told = lock(&node.names.told).get(&key).copied();
    told == Some((peers.link(keeper), file.generation))
}

/// False if some could not be told.
fn tell(node: &Node, peers: &Peers, batch: &[(usize, PublishedFile)]) -> bool {
    let (done, ends) = mpsc::channel();
    let mut calls = Vec::new();
    let mut all = true;
    for (keeper, file) in batch {
        let link = peers.link(*keeper);
        let ask = NameAsk::Announce(file.clone());
        if let Some(call) = peers.call(*keeper, |id| Ask::Name { id, ask }, None, &done) {
            calls.push((*keeper, link, file, call));
        } else {
            all = false;
        }
    }
    let until = Instant::now() + PATIENCE;
    while !calls.is_empty() {
        let left = until.saturating_duration_since(Instant::now());
        let Ok(ended) = ends.recv_timeout(left) else {
            return false;
        };
        let Some(at) = calls.iter().position(|(.., call)| call.id() == ended.id) else {
            continue;
        };
        let (keeper, link, file, _call) = calls.swap_remove(at);
        if let Outcome::Published(files) = ended.outcome {
            note_told(node, peers, keeper, link, file);
            // Somebody else published the name while this node was out of reach.
            if later_than(file, &[files]).is_some() {
                let_go(node, &file.name, file.generation);
            }
        } else {
            all = false;
        }
    }
    all
}
