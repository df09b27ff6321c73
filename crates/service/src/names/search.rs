//! Finds the file of a name.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use forebay_dataset::ErrorKind;
use forebay_transport::{Ended, Outcome};
use forebay_wire::{Ask, MAX_FILES, NameAsk, PublishedFile};

use super::{Waiter, directory, keepers, leaving, lock, publish};
use crate::daemon::Node;
use crate::link::Refusal;
use crate::peers::Asking;

/// After so long keepers are asked again, and the client is looked at.
const ROUND: Duration = Duration::from_millis(500);
/// A node that does not say within this time whether it still has a file is not waited for, nor a
/// directory that does not say who has it.
const OWN_WORD: Duration = Duration::from_secs(1);
/// How long members are waited for that list names.
const LIST: Duration = Duration::from_secs(2);

/// A file, and where it lies if that is on this node.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) file: PublishedFile,
    pub(super) path: Option<PathBuf>,
}

/// Waits for a file of this name.
pub(super) fn consume(
    node: &Node,
    name: &str,
    deadline: Instant,
    is_gone: &dyn Fn() -> bool,
) -> Result<Found, Refusal> {
    let began = Instant::now();
    let mut search = Search::new(node, name, deadline, is_gone);
    // Who does not wait for the name waits for answers all the same.
    search.waits = deadline > began;
    loop {
        if let Some(found) = search.round()? {
            return Ok(found);
        }
        if node.is_stopping() || is_gone() {
            return Err(leaving());
        }
        if Instant::now() >= deadline {
            let waited = deadline.saturating_duration_since(began);
            return Err(search.late(waited));
        }
    }
}

/// The file of this name, if there is one by `deadline`.
pub(super) fn find(
    node: &Node,
    name: &str,
    deadline: Instant,
    is_gone: &dyn Fn() -> bool,
) -> Result<Option<PublishedFile>, Refusal> {
    let mut search = Search::new(node, name, deadline, is_gone);
    search.waits = false;
    let found = search.round()?.map(|found| found.file);
    match found.is_none() && search.unknown.is_some() {
        true => Err(search.late(Duration::ZERO)),
        false => Ok(found),
    }
}

struct Search<'a> {
    node: &'a Node,
    name: &'a str,
    deadline: Instant,
    is_gone: &'a dyn Fn() -> bool,
    /// False to give up once all that are asked know nothing.
    waits: bool,
    /// A node that is said to have the file, and says nothing.
    unreachable: Option<String>,
    /// Why the directory of names says nothing.
    unknown: Option<String>,
}

/// What one round has asked.
struct Asked {
    ends: (mpsc::Sender<Ended>, mpsc::Receiver<Ended>),
    calls: Vec<(String, Asking)>,
    until: Instant,
}

impl<'a> Search<'a> {
    fn new(
        node: &'a Node,
        name: &'a str,
        deadline: Instant,
        is_gone: &'a dyn Fn() -> bool,
    ) -> Self {
        Self {
            node,
            name,
            deadline,
            is_gone,
            waits: true,
            unreachable: None,
            unknown: None,
        }
    }

    /// Looks here, asks the keepers, and waits for a while until one has word of it.
    fn round(&mut self) -> Result<Option<Found>, Refusal> {
        let now = Instant::now();
        let mut asked = Asked {
            ends: mpsc::channel(),
            calls: Vec::new(),
            until: self.until(ROUND),
        };
        // First of all, so that nothing that comes from now on is missed.
        let waiter = Waiter::Client(asked.ends.0.clone());
        let mut table = lock(&self.node.names.table);
        if !table.wait(self.name, now, asked.until, waiter) {
            let message = "too many wait for published files here";
            return Err(Refusal::new(ErrorKind::Unavailable, message));
        }
        let kept = table.find(self.name).cloned();
        drop(table);
        if let Some(found) = self.here()? {
            return Ok(Some(found));
        }
        if let Some(kept) = kept.or_else(|| self.in_directory())
            && let Some(found) = self.confirm(kept)?
        {
            return Ok(Some(found));
        }
        if self.node.names.directory.is_none() {
            self.ask_keepers(&mut asked);
        }
        while self.waits || !asked.calls.is_empty() {
            let left = asked.until.saturating_duration_since(Instant::now());
            let Ok(ended) = asked.ends.1.recv_timeout(left) else {
                return Ok(None);
            };
            let from = (asked.calls.iter()).position(|(_, call)| call.id() == ended.id);
            let from = from.map(|at| asked.calls.swap_remove(at).0);
            if let Outcome::Published(files) = ended.outcome
                && let Some(file) = files
                    .into_iter()
                    .next()
                    .filter(|file| file.name == self.name)
                && let Some(found) = self.heard(from, file)?
            {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// So long from now, or the deadline.
    fn until(&self, limit: Duration) -> Instant {
        let until = Instant::now() + limit;
        if self.waits {
            until.min(self.deadline)
        } else {
            until
        }
    }

    /// The file, if this node has published it.
    fn here(&self) -> Result<Option<Found>, Refusal> {
        let held = lock(&self.node.names.store).held(self.name);
        let Some(held) = held else {
            return Ok(None);
        };
        held.open()?;
        Ok(Some(Found {
            file: held.file,
            path: Some(held.path),
        }))
    }

    /// What a directory of names has, if that is where they are kept.
    fn in_directory(&mut self) -> Option<PublishedFile> {
        let names = self.node.names.directory.as_ref()?;
        match names.get(self.name, self.until(OWN_WORD)) {
            Ok(kept) => {
                self.unknown = None;
                kept.map(|kept| kept.file)
                    .filter(|file| file.name == self.name)
            }
            Err(why) => {
                self.unknown = Some(why);
                None
            }
        }
    }

    fn ask_keepers(&self, asked: &mut Asked) {
        let Some(peers) = self.node.peers() else {
            return;
        };
        let left = asked.until.saturating_duration_since(Instant::now());
        let wait = if self.waits { left } else { Duration::ZERO };
        let wait_ms = u32::try_from(wait.as_millis()).unwrap_or(u32::MAX);
        for keeper in keepers(&peers, self.name) {
            let ask = NameAsk::Find {
                name: self.name.to_owned(),
                wait_ms,
            };
            // One that is just being dialled for the first time is waited for.
            peers.wait_for_first(keeper, asked.until);
            let done = &asked.ends.0;
            if let Some(call) = peers.call(keeper, |id| Ask::Name { id, ask }, None, done) {
                asked
                    .calls
                    .push((peers.members()[keeper].name.clone(), call));
            }
        }
    }

    /// A member has word of a file; its own node's is the truth.
    fn heard(
        &mut self,
        from: Option<String>,
        file: PublishedFile,
    ) -> Result<Option<Found>, Refusal> {
        let is_its_node = from.is_some_and(|from| from == file.node);
        if is_its_node {
            return Ok(Some(Found { file, path: None }));
        }
        self.confirm(file)
    }

    /// Has the node that is said to have a file say so itself: what keepers know may be old.
    fn confirm(&mut self, mut file: PublishedFile) -> Result<Option<Found>, Refusal> {
        // It may send us on to a later one, which its node in turn has replaced meanwhile.
        for _ in 0..4 {
            let Some(peers) = self.node.peers() else {
                return self.here();
            };
            if file.node == peers.name() {
                let here = self.here()?;
                if here.is_none() {
                    publish::withdraw(self.node, &peers, self.name, file.generation);
                }
                return Ok(here);
            }
            let Some(own) = self.own_word(&file) else {
                self.unreachable = Some(file.node);
                self.pause();
                return Ok(None);
            };
            match own.into_iter().next().filter(|own| own.name == self.name) {
                None => {
                    publish::withdraw(self.node, &peers, self.name, file.generation);
                    return Ok(None);
                }
                Some(own) if own.node == file.node => {
                    return Ok(Some(Found {
                        file: own,
                        path: None,
                    }));
                }
                Some(other) if other.is_later_than(&file) => file = other,
                Some(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// What the node of a file says; `None` if it says nothing.
    fn own_word(&self, file: &PublishedFile) -> Option<Vec<PublishedFile>> {
        let peers = self.node.peers()?;
        let member = peers.member(&file.node)?;
        let (done, ends) = mpsc::channel();
        let ask = NameAsk::Find {
            name: self.name.to_owned(),
            wait_ms: 0,
        };
        let _call = peers.call(member, |id| Ask::Name { id, ask }, None, &done)?;
        let left = self
            .until(OWN_WORD)
            .saturating_duration_since(Instant::now());
        match ends.recv_timeout(left).ok()?.outcome {
            Outcome::Published(files) => Some(files),
            _ => None,
        }
    }

    /// Keepers would say the same at once: not asked without pause.
    fn pause(&self) {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if self.waits && !(self.is_gone)() {
            std::thread::sleep(left.min(ROUND / 5));
        }
    }

    fn late(&self, waited: Duration) -> Refusal {
        let name = self.name;
        if let Some(why) = &self.unknown {
            let message = format!("it is not known whether `{name}` is published: {why}");
            return Refusal::new(ErrorKind::Unavailable, message);
        }
        match &self.unreachable {
            Some(node) => {
                let message = format!(
                    "`{name}` was published by node `{node}`, which could not be reached within \
                     {:.1} s",
                    waited.as_secs_f64()
                );
                Refusal::new(ErrorKind::Unavailable, message)
            }
            None => {
                let message = format!(
                    "`{name}` was not published within {:.1} s",
                    waited.as_secs_f64()
                );
                Refusal::new(ErrorKind::Deadline, message)
            }
        }
    }
}

/// The names after this one that any node knows, in order.
pub(super) fn list(node: &Node, after: &str) -> Vec<PublishedFile> {
    let mut files = BTreeMap::new();
    if let Some(names) = &node.names.directory {
        add(&mut files, directory::list(&**names, after));
    } else {
        add(&mut files, listed_by_members(node, after));
    }
    let held: Vec<PublishedFile> = (lock(&node.names.store).all())
        .filter(|file| file.name.as_str() > after)
        .cloned()
        .collect();
    add(&mut files, held);
    files.into_values().take(MAX_FILES).collect()
}

/// The names after this one that members keep.
fn listed_by_members(node: &Node, after: &str) -> Vec<PublishedFile> {
    let mut all = lock(&node.names.table).list(after);
    let (done, ends) = mpsc::channel();
    let mut calls = Vec::new();
    if let Some(peers) = node.peers() {
        for member in 0..peers.members().len() {
            let after = after.to_owned();
            let ask = |id| Ask::Name {
                id,
                ask: NameAsk::List { after },
            };
            calls.extend(peers.call(member, ask, None, &done));
        }
    }
    let until = Instant::now() + LIST;
    for _ in &calls {
        let left = until.saturating_duration_since(Instant::now());
        match ends.recv_timeout(left).map(|ended| ended.outcome) {
            Ok(Outcome::Published(listed)) => all.extend(listed),
            Ok(_) => {}
            Err(_) => break,
        }
    }
    all
}

fn add(files: &mut BTreeMap<String, PublishedFile>, more: Vec<PublishedFile>) {
    for file in more {
        let known = files.get(&file.name);
        if known.is_none_or(|known| file.is_later_than(known)) {
            files.insert(file.name.clone(), file);
        }
    }
}
