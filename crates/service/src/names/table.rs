//! The names that this node keeps for all: which file each is, and who waits for one. No I/O and no
//! clock.
//!
//! # Invariants
//! - *Latest*: of the versions of a name that were announced, none stands beside or over a later
//!   one. Which is later does not depend on the order in which they come.
//! - *Bounded*: names and waiters have limits; one whose time is over makes place for another.

use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::time::Instant;

use forebay_wire::{MAX_FILES, PublishedFile};

/// Names kept at one time, at most.
pub(crate) const MOST_NAMES: usize = 65_536;
/// Who may wait at one time.
const MOST_WAITERS: usize = 16_384;

/// Names, and waiters of type `W`.
pub(crate) struct Table<W> {
    files: BTreeMap<String, PublishedFile>,
    waiting: HashMap<String, Vec<Waiting<W>>>,
    waiters: usize,
}

struct Waiting<W> {
    until: Instant,
    waiter: W,
}

/// What an announcement came to.
#[derive(Debug)]
pub(crate) struct Announced<W> {
    /// The file that has the name now.
    pub(crate) stands: PublishedFile,
    /// Another one that had it until now.
    pub(crate) before: Option<PublishedFile>,
    /// Those who waited for it.
    pub(crate) woken: Vec<W>,
}

impl<W> Default for Table<W> {
    fn default() -> Self {
        Self {
            files: BTreeMap::new(),
            waiting: HashMap::new(),
            waiters: 0,
        }
    }
}

impl<W> Table<W> {
    /// Takes note of a file, unless a later version stands. `None` if there is no place for its
    /// name.
    pub(crate) fn announce(&mut self, file: PublishedFile) -> Option<Announced<W>> {
        let before = self.files.get(&file.name);
        if let Some(before) = before.filter(|before| !file.is_later_than(before)) {
            return Some(Announced {
                stands: before.clone(),
                before: None,
                woken: Vec::new(),
            });
        }
        if before.is_none() && self.files.len() >= MOST_NAMES {
            return None;
        }
        let woken = self.wake(&file.name);
        let before = self.files.insert(file.name.clone(), file.clone());
        Some(Announced {
            stands: file,
            before,
            woken,
        })
    }

    /// Those who wait for a name; they wait no more.
    pub(crate) fn wake(&mut self, name: &str) -> Vec<W> {
        let woken = self.waiting.remove(name).unwrap_or_default();
        self.waiters -= woken.len();
        woken.into_iter().map(|waiting| waiting.waiter).collect()
    }

    /// Forgets a version of a name. False if it is not the one that stands.
    pub(crate) fn withdraw(&mut self, name: &str, generation: u64) -> bool {
        let stands = self.files.get(name);
        let is_it = stands.is_some_and(|file| file.generation == generation);
        if is_it {
            self.files.remove(name);
        }
        is_it
    }

    /// The file that has a name.
    pub(crate) fn find(&self, name: &str) -> Option<&PublishedFile> {
        self.files.get(name)
    }

    /// Lets one wait for a name until a time. False if too many wait already.
    pub(crate) fn wait(&mut self, name: &str, now: Instant, until: Instant, waiter: W) -> bool {
        if self.waiters >= MOST_WAITERS {
            self.forget_late(now);
        }
        if self.waiters >= MOST_WAITERS {
            return false;
        }
        let waiting = self.waiting.entry(name.to_owned()).or_default();
        // Who asks again has a new place; the old ones of this name would gather here.
        let before = waiting.len();
        waiting.retain(|waiting| waiting.until > now);
        self.waiters -= before - waiting.len();
        waiting.push(Waiting { until, waiter });
        self.waiters += 1;
        true
    }

    fn forget_late(&mut self, now: Instant) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|waiting| waiting.until > now);
            !waiting.is_empty()
        });
        self.waiters = self.waiting.values().map(Vec::len).sum();
    }

    /// The files after a name, in order, as many as go into one message.
    pub(crate) fn list(&self, after: &str) -> Vec<PublishedFile> {
        let from = (Bound::Excluded(after), Bound::Unbounded);
        let files = self.files.range::<str, _>(from).take(MAX_FILES);
        files.map(|(_, file)| file.clone()).collect()
    }

    /// Names kept, and who waits.
    pub(crate) fn counts(&self) -> (usize, usize) {
        (self.files.len(), self.waiters)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    fn file(name: &str, node: &str, generation: u64) -> PublishedFile {
        PublishedFile {
            name: name.to_owned(),
            node: node.to_owned(),
            generation,
            size: 0,
            mtime_ns: 0,
            inode: 0,
        }
    }

    proptest! {
        #[test]
        fn the_latest_version_stands_in_whatever_order_they_come(
            versions in proptest::collection::vec((0u8..3, 0u64..6), 1..12),
        ) {
            let files = versions.iter().map(|(node, generation)| {
                file("a", &node.to_string(), *generation)
            });
            let mut table = Table::<()>::default();
            let mut latest: Option<PublishedFile> = None;
            for file in files {
                let announced = table.announce(file.clone()).unwrap();
                if latest.as_ref().is_none_or(|latest| file.is_later_than(latest)) {
                    prop_assert_eq!(&announced.before, &latest);
                    latest = Some(file);
                } else {
                    prop_assert_eq!(announced.before, None);
                }
                prop_assert_eq!(Some(&announced.stands), latest.as_ref());
                prop_assert_eq!(table.find("a"), latest.as_ref());
            }
        }
    }

    #[test]
    fn those_who_wait_are_woken_once_by_a_new_version_only() {
        let now = Instant::now();
        let later = now + Duration::from_secs(1);
        let mut table = Table::default();
        assert!(table.wait("a", now, later, 1) && table.wait("a", now, later, 2));
        assert!(table.wait("b", now, later, 3));
        assert_eq!(table.announce(file("a", "x", 5)).unwrap().woken, [1, 2]);
        assert!(table.wait("a", now, later, 4));
        assert!(table.announce(file("a", "y", 4)).unwrap().woken.is_empty());
        assert_eq!(table.announce(file("a", "y", 6)).unwrap().woken, [4]);
        assert_eq!(table.counts(), (1, 1));
    }

    #[test]
    fn only_the_version_that_is_meant_is_withdrawn() {
        let mut table = Table::<()>::default();
        table.announce(file("a", "x", 5)).unwrap();
        assert!(!table.withdraw("a", 4) && !table.withdraw("b", 5));
        assert!(table.find("a").is_some());
        assert!(table.withdraw("a", 5) && table.find("a").is_none());
    }

    #[test]
    fn names_and_waiters_have_limits_and_the_late_make_place() {
        let now = Instant::now();
        let (soon, later) = (now + Duration::from_secs(1), now + Duration::from_secs(9));
        let mut table = Table::default();
        for number in 0..MOST_NAMES {
            assert!(table.announce(file(&number.to_string(), "x", 1)).is_some());
        }
        assert!(table.announce(file("one more", "x", 1)).is_none());
        assert!(
            table.announce(file("7", "x", 2)).is_some(),
            "it has a place"
        );
        for number in 0..MOST_WAITERS {
            let until = if number == 0 { soon } else { later };
            assert!(table.wait(&format!("w{number}"), now, until, number));
        }
        assert!(!table.wait("one more", now, later, 0));
        assert!(table.wait("one more", soon, later, 0));
        assert_eq!(table.counts(), (MOST_NAMES, MOST_WAITERS));
    }

    #[test]
    fn one_who_asks_again_and_again_takes_one_place() {
        let now = Instant::now();
        let mut table = Table::default();
        for second in 0..100 {
            let at = now + Duration::from_secs(second);
            assert!(table.wait("a", at, at + Duration::from_millis(900), ()));
        }
        assert_eq!(table.counts(), (0, 1));
    }

    #[test]
    fn a_list_goes_on_after_a_name() {
        let mut table = Table::<()>::default();
        for number in 0..MAX_FILES + 2 {
            table
                .announce(file(&format!("{number:05}"), "x", 1))
                .unwrap();
        }
        let first = table.list("");
        assert_eq!(first.len(), MAX_FILES);
        let rest = table.list(&first[MAX_FILES - 1].name);
        assert_eq!(rest.len(), 2);
        assert!(table.list(&rest[1].name).is_empty());
    }
}
