//! The files that clients of this node have published: where they lie and which version they are.
//!
//! A file stays where its producer has it; the daemon notes path, size, time of modification and
//! inode, and compares the latter three after each read. The notes outlive a daemon that is killed.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use forebay_dataset::{ErrorKind, Fingerprint};
use forebay_origin::fingerprint_of;
use forebay_wire::{PublishedFile, check_name};
use serde::{Deserialize, Serialize};

use super::table::MOST_NAMES;
use crate::link::Refusal;

/// Version of the notes.
const VERSION: u32 = 1;
/// Most bytes of a note.
const MOST_BYTES: u64 = 256 << 10;
/// A file that was written to within this time may be written to once more without its time of
/// modification telling: the kernel's clock for files ticks that slowly.
const SETTLED: Duration = Duration::from_millis(10);

/// A note on the device. `docs/FORMAT.md` describes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Note {
    version: u32,
    job: String,
    name: String,
    path: PathBuf,
    generation: u64,
    size: u64,
    mtime_ns: i64,
    inode: u64,
}

/// A published file of this node.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) file: PublishedFile,
    pub(super) path: PathBuf,
}

/// All of them.
pub(super) struct Store {
    folder: PathBuf,
    /// What tells this job from others; notes of another job are thrown away.
    job: String,
    /// Name of this node.
    node: String,
    held: BTreeMap<String, Held>,
    /// Greatest generation given so far.
    last: u64,
}

impl Store {
    /// Reads the notes that an earlier daemon of the job left.
    pub(super) fn open(folder: PathBuf, job: String, node: String) -> io::Result<Self> {
        std::fs::create_dir_all(&folder)?;
        let mut store = Self {
            folder,
            job,
            node,
            held: BTreeMap::new(),
            last: 0,
        };
        for entry in std::fs::read_dir(&store.folder)? {
            let path = entry?.path();
            match store.read_note(&path) {
                Some(held) if store.held.len() < MOST_NAMES => store.remember(held),
                // Of another job or version, or damaged: nobody's.
                _ => drop(std::fs::remove_file(path)),
            }
        }
        Ok(store)
    }

    fn read_note(&self, path: &Path) -> Option<Held> {
        let file = File::open(path).ok()?;
        if file.metadata().ok()?.len() > MOST_BYTES {
            return None;
        }
        let note: Note = serde_json::from_reader(io::BufReader::new(file)).ok()?;
        let is_ours = note.version == VERSION && note.job == self.job;
        let is_where_it_belongs = path == self.note_path(note.generation);
        if !is_ours || !is_where_it_belongs || check_name(&note.name).is_err() {
            return None;
        }
        let file = PublishedFile {
            name: note.name,
            node: self.node.clone(),
            generation: note.generation,
            size: note.size,
            mtime_ns: note.mtime_ns,
            inode: note.inode,
        };
        let path = note.path;
        Some(Held { file, path })
    }

    fn note_path(&self, generation: u64) -> PathBuf {
        self.folder.join(format!("{generation:016x}"))
    }

    /// Of two notes of one name the later counts: the daemon was killed between two steps.
    fn remember(&mut self, held: Held) {
        self.last = self.last.max(held.file.generation);
        let name = held.file.name.clone();
        let other = self.held.get(&name).map(|other| other.file.generation);
        match other {
            Some(other) if other > held.file.generation => {
                let _ = std::fs::remove_file(self.note_path(held.file.generation));
            }
            Some(other) => {
                let _ = std::fs::remove_file(self.note_path(other));
                self.held.insert(name, held);
            }
            None => drop(self.held.insert(name, held)),
        }
    }

    /// Notes a file as the next version of a name, later than `least`. One that was published
    /// before, and is as it was, is no other version: who reads it reads on.
    pub(super) fn put(
        &mut self,
        name: &str,
        path: &Path,
        fingerprint: Fingerprint,
        least: u64,
    ) -> Result<PublishedFile, Refusal> {
        if self.held.len() >= MOST_NAMES && !self.held.contains_key(name) {
            return Err(full());
        }
        if let Some(held) = self.held.get(name)
            && held.path == path
            && held.fingerprint() == fingerprint
            && held.file.generation > least
        {
            return Ok(held.file.clone());
        }
        let clock = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
        let clock = clock.map_or(0, |time| u64::try_from(time.as_nanos()).unwrap_or(0));
        // Greater than all that came before, whatever the clock says.
        let generation = clock.max(self.last.max(least).saturating_add(1));
        let file = PublishedFile {
            name: name.to_owned(),
            node: self.node.clone(),
            generation,
            size: fingerprint.size,
            mtime_ns: fingerprint.mtime_ns,
            inode: fingerprint.inode,
        };
        let path = path.to_owned();
        let held = Held { file, path };
        self.write_note(&held).map_err(|error| {
            let message = format!("cannot note that `{name}` is published: {error}");
            Refusal::new(ErrorKind::Unavailable, message)
        })?;
        let file = held.file.clone();
        self.remember(held);
        Ok(file)
    }

    fn write_note(&self, held: &Held) -> io::Result<()> {
        let file = &held.file;
        let note = Note {
            version: VERSION,
            job: self.job.clone(),
            name: file.name.clone(),
            path: held.path.clone(),
            generation: file.generation,
            size: file.size,
            mtime_ns: file.mtime_ns,
            inode: file.inode,
        };
        let whole = self.note_path(file.generation);
        let part = whole.with_extension("part");
        let mut out = File::create(&part)?;
        out.write_all(&serde_json::to_vec(&note)?)?;
        std::fs::rename(part, whole)
    }

    /// The file that this node has under a name.
    pub(super) fn held(&self, name: &str) -> Option<Held> {
        self.held.get(name).cloned()
    }

    /// All of them.
    pub(super) fn all(&self) -> impl Iterator<Item = &PublishedFile> {
        self.held.values().map(|held| &held.file)
    }

    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    /// Lets a version of a name go; the file itself is left where it is. False if it is not held.
    pub(super) fn remove(&mut self, name: &str, generation: u64) -> bool {
        let held = self.held.get(name);
        if held.is_none_or(|held| held.file.generation != generation) {
            return false;
        }
        self.held.remove(name);
        let _ = std::fs::remove_file(self.note_path(generation));
        true
    }
}

/// There is no place for one more name.
pub(super) fn full() -> Refusal {
    let message = format!("{MOST_NAMES} names are published already: unpublish some");
    Refusal::new(ErrorKind::NoSpace, message)
}

/// What a file is that is to be published. Waits until a later change could not go unnoticed.
pub(super) fn inspect(path: &Path) -> Result<Fingerprint, Refusal> {
    let failed = |error: io::Error| {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        Refusal::new(
            kind,
            format!("cannot publish `{}`: {error}", path.display()),
        )
    };
    if !path.is_absolute() {
        let message = format!(
            "cannot publish `{}`: name it by an absolute path",
            path.display()
        );
        return Err(Refusal::new(ErrorKind::InvalidInput, message));
    }
    // Not opened before it is known to be a file: a pipe would hang whoever opens it.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        let message = format!("cannot publish `{}`: it is no regular file", path.display());
        return Err(Refusal::new(ErrorKind::InvalidInput, message));
    }
    let file = File::open(path).map_err(failed)?;
    let fingerprint = fingerprint_of(&file).map_err(failed)?;
    let modified = file.metadata().and_then(|meta| meta.modified());
    let age = modified.map_err(failed)?.elapsed().unwrap_or(SETTLED);
    if age < SETTLED {
        std::thread::sleep(SETTLED - age);
        if fingerprint_of(&file).map_err(failed)? != fingerprint {
            let message = format!(
                "cannot publish `{}`: it is being written to; publish it once it is closed",
                path.display()
            );
            return Err(Refusal::new(ErrorKind::Unavailable, message));
        }
    }
    Ok(fingerprint)
}

impl Held {
    fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            size: self.file.size,
            mtime_ns: self.file.mtime_ns,
            inode: self.file.inode,
        }
    }

    fn failed(&self, act: &str, error: &io::Error) -> Refusal {
        let kind = match error.kind() {
            io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        let (name, path) = (&self.file.name, self.path.display());
        Refusal::new(
            kind,
            format!("cannot {act} published file `{name}` at `{path}`: {error}"),
        )
    }

    /// The file, if it is still the one that was published.
    pub(super) fn open(&self) -> Result<File, Refusal> {
        let file = File::open(&self.path).map_err(|error| self.failed("open", &error))?;
        self.check(&file)?;
        Ok(file)
    }

    fn check(&self, file: &File) -> Result<(), Refusal> {
        let found = fingerprint_of(file).map_err(|error| self.failed("look at", &error))?;
        if found == self.fingerprint() {
            return Ok(());
        }
        let message = format!(
            "published file `{}` at `{}` changed since it was published: publish it again",
            self.file.name,
            self.path.display()
        );
        Err(Refusal::new(ErrorKind::Stale, message))
    }

    /// A part of it.
    pub(super) fn read(&self, start: u64, len: u32) -> Result<Vec<u8>, Refusal> {
        let end = start.checked_add(len.into());
        if end.is_none_or(|end| end > self.file.size) {
            let message = format!(
                "{len} bytes from {start} are outside published file `{}` of {} bytes",
                self.file.name, self.file.size
            );
            return Err(Refusal::new(ErrorKind::InvalidInput, message));
        }
        let file = self.open()?;
        let mut bytes = vec![0; len as usize];
        let read = file.read_exact_at(&mut bytes, start);
        // After the read: a file that changed meanwhile shows here, whatever the read returned.
        self.check(&file)?;
        read.map_err(|error| self.failed("read", &error))?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct World {
        folder: tempfile::TempDir,
    }

    impl World {
        fn store(&self, job: &str) -> Store {
            let folder = self.folder.path().join("published");
            Store::open(folder, job.to_owned(), "n:1".to_owned()).unwrap()
        }

        fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
            let path = self.folder.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path
        }
    }

    fn world() -> World {
        let folder = tempfile::tempdir().unwrap();
        World { folder }
    }

    fn put(store: &mut Store, name: &str, path: &Path) -> PublishedFile {
        store.put(name, path, inspect(path).unwrap(), 0).unwrap()
    }

    #[test]
    fn what_was_published_outlives_the_daemon_but_not_the_job() {
        let world = world();
        let (first, second) = (world.file("a", b"one"), world.file("b", b"other"));
        let mut store = world.store("j");
        put(&mut store, "x", &first);
        let latest = put(&mut store, "x", &second);
        let gone = put(&mut store, "y", &first);
        assert!(!store.remove("y", gone.generation - 1));
        assert!(store.remove("y", gone.generation));
        drop(store);
        let store = world.store("j");
        assert_eq!(store.all().collect::<Vec<_>>(), [&latest]);
        assert_eq!(store.held("x").unwrap().read(2, 3).unwrap(), b"her");
        assert_eq!(world.store("another").len(), 0);
        assert_eq!(world.store("j").len(), 0, "another job was there");
    }

    #[test]
    fn a_generation_is_later_than_all_before_it() {
        let world = world();
        let path = world.file("a", b"one");
        let fingerprint = inspect(&path).unwrap();
        let mut store = world.store("j");
        let far = u64::MAX - 5;
        let first = store.put("x", &path, fingerprint, far).unwrap();
        let same = store.put("x", &path, fingerprint, 0).unwrap();
        assert_eq!(same, first, "it is no other file");
        let again = store.put("x", &path, fingerprint, far + 1).unwrap();
        assert_eq!(again.generation, far + 2, "others have the name by now");
        let other = Fingerprint {
            mtime_ns: fingerprint.mtime_ns + 1,
            ..fingerprint
        };
        let second = store.put("x", &path, other, 0).unwrap();
        assert_eq!(first.generation, far + 1);
        assert_eq!(second.generation, far + 3);
    }

    #[test]
    fn notes_are_frozen_at_version_1_and_damaged_ones_are_thrown_away() {
        let world = world();
        let folder = world.folder.path().join("published");
        std::fs::create_dir(&folder).unwrap();
        let golden = r#"{"version":1,"job":"j","name":"x","path":"/f","generation":16,"size":3,"mtime_ns":-4,"inode":5}"#;
        std::fs::write(folder.join("0000000000000010"), golden).unwrap();
        for (name, text) in [("11", golden), ("12", "{"), ("13", "[]")] {
            std::fs::write(folder.join(format!("00000000000000{name}")), text).unwrap();
        }
        let future = golden.replace("\"version\":1", "\"version\":2");
        std::fs::write(folder.join("0000000000000014"), future).unwrap();
        let store = world.store("j");
        let held = store.held("x").unwrap();
        assert_eq!(held.path, Path::new("/f"));
        assert_eq!(
            (
                held.file.generation,
                held.file.size,
                held.file.mtime_ns,
                held.file.inode
            ),
            (16, 3, -4, 5)
        );
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 1);
        store.write_note(&held).unwrap();
        let written = std::fs::read_to_string(folder.join("0000000000000010")).unwrap();
        assert_eq!(written, golden, "notes changed: raise VERSION");
    }

    #[test]
    fn a_changed_or_missing_file_is_told_and_never_other_bytes() {
        let world = world();
        let path = world.file("a", b"one");
        let mut store = world.store("j");
        put(&mut store, "x", &path);
        let held = store.held("x").unwrap();
        assert_eq!(held.read(0, 3).unwrap(), b"one");
        assert_eq!(held.read(3, 0).unwrap(), b"");
        for (start, len) in [(0, 4), (4, 0), (u64::MAX, 1)] {
            assert_eq!(
                held.read(start, len).unwrap_err().kind(),
                ErrorKind::InvalidInput
            );
        }
        world.file("a", b"two");
        assert_eq!(held.read(0, 3).unwrap_err().kind(), ErrorKind::Stale);
        std::fs::remove_file(&path).unwrap();
        assert_eq!(held.read(0, 3).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn only_regular_files_by_absolute_paths_are_published() {
        let world = world();
        let missing = world.folder.path().join("none");
        assert_eq!(inspect(&missing).unwrap_err().kind(), ErrorKind::NotFound);
        for path in [world.folder.path(), Path::new("/dev/zero"), Path::new("a")] {
            assert_eq!(inspect(path).unwrap_err().kind(), ErrorKind::InvalidInput);
        }
        assert_eq!(inspect(&world.file("empty", b"")).unwrap().size, 0);
    }
}
