//! Object references: addresses in the file, which mean something only as paths of what lies there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::cursor::{Fields, address};
use super::links::Target;
use super::{H5File, H5Result, ObjectKind, Remedy, damaged, unsupported};

/// The paths of a file's objects, once they were asked for.
#[derive(Default)]
pub(super) struct KnownPaths(Mutex<Option<Arc<Paths>>>);

/// How each object is reached from the root: the shortest way, and of several the first by name.
pub(super) struct Paths {
    root: u64,
    /// By address: the group that holds the object, and its name there.
    ways: HashMap<u64, (u64, Box<str>)>,
}

impl H5File {
    /// The paths of all objects, found by one walk through the groups of this file.
    pub(super) fn paths(&self) -> H5Result<Arc<Paths>> {
        // Held during the walk: a second reader waits for it instead of walking too.
        let mut known = self.paths.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(paths) = &*known {
            return Ok(Arc::clone(paths));
        }
        let paths = Arc::new(Paths::of(self)?);
        *known = Some(Arc::clone(&paths));
        Ok(paths)
    }
}

impl Paths {
    fn of(file: &H5File) -> H5Result<Self> {
        let root = file.root();
        let mut ways = HashMap::new();
        let mut waiting = VecDeque::from([root]);
        // Each object is looked at once, under the first way that leads to it.
        while let Some(group) = waiting.pop_front() {
            let object = file.object(group)?;
            if object.kind != ObjectKind::Group {
                continue;
            }
            for link in file.links(&object)? {
                let Target::Hard(child) = link.target else {
                    continue;
                };
                if child != root && !ways.contains_key(&child) {
                    ways.insert(child, (group, link.name.into_boxed_str()));
                    waiting.push_back(child);
                }
            }
        }
        Ok(Self { root, ways })
    }

    /// Appends the path that a stored reference leads to, and returns its bytes; none for one that
    /// was never set.
    pub(super) fn append(
        &self,
        file: &H5File,
        reference: &[u8],
        out: &mut Vec<u8>,
    ) -> H5Result<u64> {
        if reference.len() != usize::from(file.offset_size) {
            return damaged(format!(
                "its references have {} bytes, addresses {}",
                reference.len(),
                file.offset_size
            ));
        }
        let stored = Fields::new(reference, "reference").uint(file.offset_size)?;
        let Some(object) = address(stored, file.offset_size).filter(|at| *at != 0) else {
            return Ok(0);
        };
        let names = self.names(object)?;
        // Each name stands behind a `/`, and the root is that alone.
        let len = names
            .iter()
            .map(|name| name.len() + 1)
            .sum::<usize>()
            .max(1);
        file.place.family.charge_decoded(len as u64)?;
        if names.is_empty() {
            out.push(b'/');
        }
        for name in names.iter().rev() {
            out.push(b'/');
            out.extend_from_slice(name.as_bytes());
        }
        Ok(len as u64)
    }

    /// Names on the way from an object up to the root.
    fn names(&self, object: u64) -> H5Result<Vec<&str>> {
        let (mut at, mut names) = (object, Vec::new());
        while at != self.root {
            // A group was reached before what it holds, so the way up ends at the root.
            let Some((group, name)) = self.ways.get(&at) else {
                return unsupported(
                    "a reference to an object that no group holds",
                    Remedy::Convert,
                );
            };
            names.push(&**name);
            at = *group;
        }
        Ok(names)
    }
}
