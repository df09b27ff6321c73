//! Names that are kept outside of the members: in an etcd.
//!
//! What is there points to the node that has a file, as what members keep does. That node knows the
//! truth, so an entry that is old, lost or another's invention costs a question.

use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_dataset::ErrorKind;
use forebay_wire::{MAX_FILES, PublishedFile};

use super::{lock, publish, serve};
use crate::daemon::Node;
use crate::link::Refusal;

/// How often it is tried to put a name that others put at the same time.
const TRIES: usize = 8;
/// How soon a watch that ended is begun anew.
const AGAIN: Duration = Duration::from_millis(500);
/// How long a directory may take that nobody waits for.
const PATIENCE: Duration = Duration::from_secs(5);

/// Opens the directory of the job with this id.
pub type OpenDirectory =
    Box<dyn FnOnce(&str) -> Result<Arc<dyn NameDirectory>, String> + Send + Sync>;

/// A name as a directory has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The file.
    pub file: PublishedFile,
    /// Tells this entry from those of the name before and after it; not 0.
    pub revision: u64,
}

/// A place outside of the daemons that all nodes of a job see. What a node puts there is gone some
/// time after it has died. Errors say what failed, in words.
pub trait NameDirectory: Send + Sync {
    /// Changes when what this node has put there before may be gone.
    fn epoch(&self) -> u64;

    /// What stands for a name.
    ///
    /// # Errors
    /// Where it is not known by `until`.
    fn get(&self, name: &str, until: Instant) -> Result<Option<Kept>, String>;

    /// Puts a file, if its name's entry is still that of revision `seen`; 0 for none. False if
    /// another came meanwhile.
    ///
    /// # Errors
    /// Where it may not have been put by `until`.
    fn put(&self, file: &PublishedFile, seen: u64, until: Instant) -> Result<bool, String>;

    /// Removes the entry of revision `seen`. False if it is another by now.
    ///
    /// # Errors
    /// Where it may not have been removed by `until`.
    fn remove(&self, name: &str, seen: u64, until: Instant) -> Result<bool, String>;

    /// The files whose names come after one, in order, at most so many.
    ///
    /// # Errors
    /// Where they cannot be known now.
    fn list(&self, after: &str, most: usize) -> Result<Vec<PublishedFile>, String>;

    /// Hands over what any node puts from now on, until `came` returns false. It may end before.
    ///
    /// # Errors
    /// Why it ended before.
    fn watch(&self, came: &mut dyn FnMut(PublishedFile) -> bool) -> Result<(), String>;

    /// Removes what this node has put there: it leaves.
    fn close(&self);
}

fn failed(what: &str) -> Refusal {
    Refusal::new(ErrorKind::Unavailable, what)
}

/// Puts a file there, unless a later one stands. Returns what stands, and what did before it if that
/// is another.
pub(super) fn announce(
    directory: &dyn NameDirectory,
    file: &PublishedFile,
    until: Instant,
) -> Result<Vec<PublishedFile>, Refusal> {
    for _ in 0..TRIES {
        let kept = directory.get(&file.name, until);
        let kept = kept.map_err(|error| failed(&error))?;
        let stands = kept.as_ref().map(|kept| &kept.file);
        if let Some(stands) = stands.filter(|stands| stands.is_later_than(file)) {
            return Ok(vec![stands.clone()]);
        }
        let seen = kept.as_ref().map_or(0, |kept| kept.revision);
        let put = directory.put(file, seen, until);
        if put.map_err(|error| failed(&error))? {
            let before = kept.map(|kept| kept.file).filter(|before| before != file);
            return Ok([file.clone()].into_iter().chain(before).collect());
        }
    }
    let message = format!(
        "others publish `{}` at the same time, again and again",
        file.name
    );
    Err(failed(&message))
}

/// Removes a version of a name. False if it could not be by `until`; nothing there is as good.
pub(super) fn withdraw(
    directory: &dyn NameDirectory,
    name: &str,
    generation: u64,
    until: Instant,
) -> bool {
    match directory.get(name, until) {
        Ok(Some(kept)) if kept.file.generation == generation => {
            directory.remove(name, kept.revision, until).is_ok()
        }
        Ok(_) => true,
        Err(_) => false,
    }
}

/// The files after a name; none where they cannot be known.
pub(super) fn list(directory: &dyn NameDirectory, after: &str) -> Vec<PublishedFile> {
    directory.list(after, MAX_FILES).unwrap_or_default()
}

/// Announces this node's files again where the directory may have lost them, and takes back what it
/// could not be told of before.
pub(super) fn tell(node: &Node, directory: &dyn NameDirectory) {
    let mut untold = std::mem::take(&mut *lock(&node.names.untold));
    while let Some((keeper, name, generation)) = untold.pop() {
        let until = Instant::now() + PATIENCE;
        if node.is_stopping() || !withdraw(directory, &name, generation, until) {
            untold.push((keeper, name, generation));
            return lock(&node.names.untold).extend(untold);
        }
    }
    let epoch = directory.epoch();
    if lock(&node.names.all_told).0 == epoch {
        return;
    }
    let held: Vec<PublishedFile> = lock(&node.names.store).all().cloned().collect();
    for file in held {
        if node.is_stopping() {
            return;
        }
        match announce(directory, &file, Instant::now() + PATIENCE) {
            Ok(told) if told.first() == Some(&file) => {}
            // Somebody else published the name while this node was away.
            Ok(_) => drop(publish::let_go(node, &file.name, file.generation)),
            Err(_) => return,
        }
    }
    lock(&node.names.all_told).0 = epoch;
}

/// Wakes those who wait here for what is published anywhere. Ends with the node.
pub(super) fn watch(node: &std::sync::Weak<Node>, directory: &dyn NameDirectory) {
    let runs = || node.upgrade().filter(|node| !node.is_stopping());
    while runs().is_some() {
        let mut came = |file: PublishedFile| {
            let Some(node) = runs() else { return false };
            let woken = lock(&node.names.table).wake(&file.name);
            serve::wake(&node, woken, &file);
            true
        };
        // Whoever waits looks by itself too, if less often, and so misses nothing meanwhile.
        let _ = directory.watch(&mut came);
        let until = Instant::now() + AGAIN;
        while Instant::now() < until && runs().is_some() {
            std::thread::sleep(AGAIN / 5);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Mutex;

    use super::*;

    /// One in memory. `rivals` are put by others just before this node's next puts.
    #[derive(Default)]
    struct InMemory {
        kept: Mutex<BTreeMap<String, Kept>>,
        rivals: Mutex<Vec<PublishedFile>>,
        revision: std::sync::atomic::AtomicU64,
        is_gone: bool,
    }

    impl InMemory {
        fn set(&self, file: &PublishedFile) {
            use std::sync::atomic::Ordering::Relaxed;
            let revision = self.revision.fetch_add(1, Relaxed) + 1;
            let file = file.clone();
            lock(&self.kept).insert(file.name.clone(), Kept { file, revision });
        }

        fn found(&self) -> Option<PublishedFile> {
            Some(self.get("x", Instant::now()).unwrap()?.file)
        }
    }

    impl NameDirectory for InMemory {
        fn epoch(&self) -> u64 {
            1
        }

        fn get(&self, name: &str, _: Instant) -> Result<Option<Kept>, String> {
            match self.is_gone {
                true => Err("nobody answers".to_owned()),
                false => Ok(lock(&self.kept).get(name).cloned()),
            }
        }

        fn put(&self, file: &PublishedFile, seen: u64, until: Instant) -> Result<bool, String> {
            if let Some(rival) = lock(&self.rivals).pop() {
                self.set(&rival);
            }
            let kept = self.get(&file.name, until)?;
            let is_seen = kept.map_or(0, |kept| kept.revision) == seen;
            if is_seen {
                self.set(file);
            }
            Ok(is_seen)
        }

        fn remove(&self, name: &str, seen: u64, _: Instant) -> Result<bool, String> {
            let mut kept = lock(&self.kept);
            let is_seen = kept.get(name).is_some_and(|kept| kept.revision == seen);
            if is_seen {
                kept.remove(name);
            }
            Ok(is_seen)
        }

        fn list(&self, _: &str, _: usize) -> Result<Vec<PublishedFile>, String> {
            Ok(lock(&self.kept)
                .values()
                .map(|kept| kept.file.clone())
                .collect())
        }

        fn watch(&self, _: &mut dyn FnMut(PublishedFile) -> bool) -> Result<(), String> {
            Ok(())
        }

        fn close(&self) {}
    }

    fn file(node: &str, generation: u64) -> PublishedFile {
        PublishedFile {
            name: "x".to_owned(),
            node: node.to_owned(),
            generation,
            size: 0,
            mtime_ns: 0,
            inode: 0,
        }
    }

    #[test]
    fn a_later_version_stands_and_what_it_replaced_is_told() {
        let names = InMemory::default();
        assert_eq!(
            announce(&names, &file("a", 5), Instant::now()).unwrap(),
            [file("a", 5)]
        );
        assert_eq!(
            announce(&names, &file("a", 5), Instant::now()).unwrap(),
            [file("a", 5)]
        );
        let told = announce(&names, &file("b", 7), Instant::now()).unwrap();
        assert_eq!(told, [file("b", 7), file("a", 5)]);
        assert_eq!(
            announce(&names, &file("a", 6), Instant::now()).unwrap(),
            [file("b", 7)]
        );
        assert_eq!(names.found(), Some(file("b", 7)));
    }

    #[test]
    fn what_others_put_meanwhile_is_heeded() {
        let names = InMemory::default();
        lock(&names.rivals).push(file("b", 3));
        let told = announce(&names, &file("a", 5), Instant::now()).unwrap();
        assert_eq!(told, [file("a", 5), file("b", 3)]);
        lock(&names.rivals).push(file("b", 9));
        assert_eq!(
            announce(&names, &file("a", 6), Instant::now()).unwrap(),
            [file("b", 9)]
        );
        lock(&names.rivals).extend((10..30).rev().map(|generation| file("b", generation)));
        let refused = announce(&names, &file("z", 100), Instant::now()).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
    }

    #[test]
    fn only_the_version_that_is_meant_is_withdrawn() {
        let names = InMemory::default();
        names.set(&file("a", 5));
        let withdraw = |names, generation| withdraw(names, "x", generation, Instant::now());
        assert!(withdraw(&names, 4) && names.found().is_some());
        assert!(withdraw(&names, 5) && names.found().is_none());
        assert!(withdraw(&names, 5), "nothing there is as good");
        let gone = InMemory {
            is_gone: true,
            ..InMemory::default()
        };
        assert!(!withdraw(&gone, 5), "it is to be told later");
        assert!(announce(&gone, &file("a", 1), Instant::now()).is_err());
    }
}
