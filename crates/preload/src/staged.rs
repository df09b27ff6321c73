//! The files of the staged roots, as their indexes have them.

use std::os::fd::BorrowedFd;
use std::path::PathBuf;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use forebay_client::{Dataset, OpenOptions};
use forebay_dataset::{Fingerprint, SegmentIndex};
use forebay_origin::IndexFile;
use rustix::fs::{AtFlags, FileType, StatxFlags, statx};

use crate::config::config;
use crate::roots::Root;
use crate::table::{self, FileId, Known};

/// Files of a data set that are put in the order of their names in memory, at most, where it has no
/// keys that lead to them.
const MOST_SORTED: u32 = 1 << 20;

/// A root, opened when a path first leads into it.
pub(crate) struct StagedRoot {
    folder: PathBuf,
    index: PathBuf,
    dataset: Once<Option<Dataset>>,
    by_name: Once<Vec<u32>>,
}

/// A value that is made once. Several threads may make it, and one of them wins; nobody waits, so that
/// no lock is left behind by a fork.
struct Once<T>(AtomicPtr<T>);

impl<T> Once<T> {
    const fn new() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn get(&self, make: impl FnOnce() -> T) -> &T {
        let known = self.0.load(Ordering::Acquire);
        // SAFETY: what is not null came from `Box::into_raw` below and is never freed.
        if let Some(known) = unsafe { known.as_ref() } {
            return known;
        }
        let made = Box::into_raw(Box::new(make()));
        let (release, acquire) = (Ordering::AcqRel, Ordering::Acquire);
        let set = self
            .0
            .compare_exchange(ptr::null_mut(), made, release, acquire);
        match set {
            // SAFETY: just made, and never freed from here on.
            Ok(_) => unsafe { &*made },
            Err(first) => {
                // SAFETY: nobody else has seen it.
                drop(unsafe { Box::from_raw(made) });
                // SAFETY: another thread put it there by the same means.
                unsafe { &*first }
            }
        }
    }
}

impl StagedRoot {
    pub(crate) fn new(root: &Root) -> Self {
        Self {
            folder: root.folder.clone(),
            index: root.index.clone(),
            dataset: Once::new(),
            by_name: Once::new(),
        }
    }

    /// The data set; `None` if its index cannot be used.
    fn dataset(&self) -> Option<&Dataset> {
        let open = || {
            let options = OpenOptions {
                root: Some(self.folder.clone()),
                ..OpenOptions::default()
            };
            let dataset = Dataset::open_unannounced(&self.index, options).ok()?;
            (!dataset.in_store()).then_some(dataset)
        };
        self.dataset.get(open).as_ref()
    }

    /// The file of this name, relative to the root, with its fingerprint.
    pub(crate) fn find(&self, name: &[u8]) -> Option<(SegmentIndex, Fingerprint)> {
        let name = std::str::from_utf8(name).ok()?;
        let index = self.dataset()?.index();
        let found = by_key(index, name).or_else(|| self.by_name(index, name))?;
        Some((found, index.segment(found).ok()?.fingerprint))
    }

    fn by_name(&self, index: &IndexFile, name: &str) -> Option<SegmentIndex> {
        if index.segment_count() > MOST_SORTED || keys_are_names(index) {
            return None;
        }
        let path = |number: u32| {
            let segment = index.segment(SegmentIndex(number));
            segment.map_or("", |segment| segment.path)
        };
        let sorted = self.by_name.get(|| {
            let mut all: Vec<u32> = (0..index.segment_count()).collect();
            all.sort_by_key(|number| path(*number));
            all
        });
        let at = sorted.binary_search_by_key(&name, |number| path(*number));
        Some(SegmentIndex(sorted[at.ok()?]))
    }
}

/// Where each sample is a file, its key is the file's name.
fn by_key(index: &IndexFile, name: &str) -> Option<SegmentIndex> {
    let sample = index.find(name).ok()??;
    let segment = index.sample(sample).ok()?.field(0).ok()?.segment()?;
    (index.segment(segment).ok()?.path == name).then_some(segment)
}

fn keys_are_names(index: &IndexFile) -> bool {
    let first = index.segment(SegmentIndex(0));
    index.len() == u64::from(index.segment_count())
        && first.is_ok_and(|first| by_key(index, first.path) == Some(SegmentIndex(0)))
}

/// What the kernel says about a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) is_file: bool,
    pub(crate) is_folder: bool,
    pub(crate) device: u32,
    pub(crate) fingerprint: Fingerprint,
}

/// Looks at a descriptor. Without `sync` the kernel says what it knows and asks no server.
pub(crate) fn look(fd: BorrowedFd<'_>, sync: bool) -> Option<Seen> {
    let how = match sync {
        true => AtFlags::STATX_SYNC_AS_STAT,
        false => AtFlags::STATX_DONT_SYNC,
    };
    let wanted = StatxFlags::TYPE | StatxFlags::SIZE | StatxFlags::MTIME | StatxFlags::INO;
    let found = statx(fd, c"", AtFlags::EMPTY_PATH | how, wanted).ok()?;
    if !StatxFlags::from_bits_retain(found.stx_mask).contains(wanted) {
        return None;
    }
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    let mtime = found.stx_mtime;
    Some(Seen {
        is_file: kind.is_file(),
        is_folder: kind.is_dir(),
        device: FileId::fold(found.stx_dev_major, found.stx_dev_minor),
        fingerprint: Fingerprint {
            size: found.stx_size,
            mtime_ns: (mtime.tv_sec)
                .saturating_mul(1_000_000_000)
                .saturating_add(mtime.tv_nsec.into()),
            inode: found.stx_ino,
        },
    })
}

/// A staged file under a descriptor.
#[derive(Clone, Copy)]
pub(crate) struct StagedFile {
    pub(crate) dataset: &'static Dataset,
    pub(crate) segment: SegmentIndex,
    /// Bytes in it.
    pub(crate) size: u64,
    fingerprint: Fingerprint,
    device: u32,
}

impl StagedFile {
    /// What the descriptor is of, if the kernel agrees that it is still that file and version.
    pub(crate) fn of(fd: BorrowedFd<'_>, number: i32) -> Option<Self> {
        let known = table::get(number)?;
        let Known::File(id) = known else { return None };
        let dataset = config()?.staged.get(usize::from(id.root))?.dataset()?;
        let fingerprint = dataset.index().segment(id.segment).ok()?.fingerprint;
        let file = Self {
            dataset,
            segment: id.segment,
            size: fingerprint.size,
            fingerprint,
            device: id.device,
        };
        if file.is_under(fd) {
            return Some(file);
        }
        table::forget(number, known);
        None
    }

    /// Whether this file, in this version, is under the descriptor.
    pub(crate) fn is_under(&self, fd: BorrowedFd<'_>) -> bool {
        // A kernel that knows nothing without asking is let ask.
        let seen = look(fd, false).or_else(|| look(fd, true));
        seen.is_some_and(|seen| {
            seen.is_file && seen.device == self.device && seen.fingerprint == self.fingerprint
        })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[test]
    fn a_value_is_made_once() {
        let made = Cell::new(0);
        let once = Once::new();
        for _ in 0..2 {
            let value = once.get(|| {
                made.set(made.get() + 1);
                made.get()
            });
            assert_eq!(*value, 1);
        }
    }
}
