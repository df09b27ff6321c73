//! Folders as they were listed, beside an index that is being made: a run that was ended does not
//! list again, nor ask again for the attributes of their files.
//!
//! A folder is listed anew if its times have changed. A file that was written to in place
//! meanwhile keeps its old fingerprint, and is found stale by the first who reads it.

use std::collections::HashMap;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use forebay_dataset::Fingerprint;
use serde::{Deserialize, Serialize};

use crate::IndexRequest;
use crate::error::Result;
use crate::parts_folder::{PartsFolder, read_json, write_json};
use crate::superblock::may_be_hdf5;

/// Files after which a listing is put on disk: what takes less is listed again in no time.
const FILES_A_LISTING: usize = 1 << 16;
/// Time after which it is put there, however few they are: metadata may be slow.
const TIME_A_LISTING: Duration = Duration::from_secs(10);
/// A folder that was written to so lately may change again without a change of its times.
const SETTLED_NS: i128 = 2_000_000_000;

/// Which folder this is, and which state of it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub(crate) struct FolderState {
    device: u64,
    inode: u64,
    modified_ns: i128,
    changed_ns: i128,
}

impl FolderState {
    pub(crate) fn of(metadata: &Metadata) -> Self {
        let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
        Self {
            device: metadata.dev(),
            inode: metadata.ino(),
            modified_ns: ns(metadata.mtime(), metadata.mtime_nsec()),
            changed_ns: ns(metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Device and inode.
    pub(crate) const fn identity(&self) -> (u64, u64) {
        (self.device, self.inode)
    }

    fn is_settled(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now = now.map_or(0, |now| now.as_nanos() as i128);
        self.modified_ns < now - SETTLED_NS
    }
}

/// A folder's content by name.
#[derive(Debug, Default, Deserialize, Serialize)]
pub(crate) struct Entries {
    pub(crate) links: Vec<String>,
    pub(crate) folders: Vec<String>,
    pub(crate) files: Vec<FileEntry>,
}

/// A file of a folder.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct FileEntry {
    pub(crate) name: String,
    /// Where its HDF5 superblock begins, if it has one and was looked at.
    pub(crate) superblock: Option<u64>,
    /// Size, mtime and inode, where they were asked.
    found: Option<(u64, i64, u64)>,
}

impl FileEntry {
    pub(crate) fn new(name: String, superblock: Option<u64>, found: Option<Fingerprint>) -> Self {
        let found = found.map(|found| (found.size, found.mtime_ns, found.inode));
        Self {
            name,
            superblock,
            found,
        }
    }

    pub(crate) fn fingerprint(&self) -> Option<Fingerprint> {
        self.found.map(|(size, mtime_ns, inode)| Fingerprint {
            size,
            mtime_ns,
            inode,
        })
    }
}

#[derive(Deserialize, Serialize)]
struct KeptFolder {
    path: PathBuf,
    state: FolderState,
    entries: Entries,
}

#[derive(Deserialize, Serialize)]
struct File {
    request: String,
    folders: Vec<KeptFolder>,
}

/// The listings of a run, and those that an earlier one has left.
pub(crate) struct Listings<'a> {
    folder: Option<&'a mut PartsFolder>,
    request: String,
    files_a_listing: usize,
    known: HashMap<PathBuf, (FolderState, Entries)>,
    /// Not on disk yet.
    fresh: Vec<KeptFolder>,
    fresh_files: usize,
    since: Instant,
    next: usize,
}

impl<'a> Listings<'a> {
    /// Finds what an earlier run has left; without a folder nothing is left or found.
    pub(crate) fn open(
        request: &IndexRequest,
        mut folder: Option<&'a mut PartsFolder>,
    ) -> Result<Self> {
        let mut known = HashMap::new();
        let mut next = 0;
        let words = words(request);
        if let Some(folder) = &mut folder
            && folder.find()?
        {
            while let Some(file) = read_json::<File>(&path(folder, next)) {
                next += 1;
                if file.request == words {
                    let kept = file.folders.into_iter();
                    known.extend(kept.map(|kept| (kept.path, (kept.state, kept.entries))));
                }
            }
        }
        Ok(Self {
            folder,
            request: words,
            files_a_listing: FILES_A_LISTING.min(request.part_records as usize),
            known,
            fresh: Vec::new(),
            fresh_files: 0,
            since: Instant::now(),
            next,
        })
    }

    /// What a folder holds, if it was listed in this state.
    pub(crate) fn find(&self, path: &Path, state: FolderState) -> Option<&Entries> {
        let (known, entries) = self.known.get(path)?;
        (*known == state).then_some(entries)
    }

    /// A folder was listed.
    pub(crate) fn add(&mut self, path: PathBuf, state: FolderState, entries: Entries) {
        if self.folder.is_some() && state.is_settled() {
            self.fresh_files += entries.files.len();
            self.fresh.push(KeptFolder {
                path,
                state,
                entries,
            });
        }
    }

    /// Puts on disk what is worth it.
    pub(crate) fn keep(&mut self) -> Result<()> {
        let is_worth_it =
            self.fresh_files >= self.files_a_listing || self.since.elapsed() >= TIME_A_LISTING;
        let Some(folder) = self.folder.as_mut().filter(|_| is_worth_it) else {
            return Ok(());
        };
        folder.create()?;
        let file = File {
            request: self.request.clone(),
            folders: std::mem::take(&mut self.fresh),
        };
        write_json(&path(folder, self.next), &file)?;
        self.next += 1;
        self.fresh_files = 0;
        self.since = Instant::now();
        Ok(())
    }
}

fn path(folder: &PartsFolder, number: usize) -> PathBuf {
    folder.path().join(format!("listing-{number:06}.json"))
}

/// What the entries depend on, beside the folder.
fn words(request: &IndexRequest) -> String {
    format!(
        "{} {} {} {}",
        env!("CARGO_PKG_VERSION"),
        request.hidden,
        request.files_as_samples,
        may_be_hdf5(request)
    )
}
