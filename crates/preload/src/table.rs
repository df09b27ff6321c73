//! What is known of each descriptor: a hint, never the truth, so that it needs no lock and no call
//! when a descriptor is closed.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

use forebay_dataset::SegmentIndex;

/// Descriptors with a larger number pass through.
const DESCRIPTORS: usize = 1 << 16;

/// The word of a descriptor that nothing is known of.
const UNKNOWN: u64 = 0;
/// The uppermost byte of a folder that holds, or lies in, a root.
const FOLDER: u64 = 255;
/// That of a file that is published once it is closed.
const WRITTEN: u64 = 254;

// Pages of them that are never used take no memory.
static KNOWN: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(UNKNOWN) }; DESCRIPTORS];
/// Where the next miss of each descriptor is expected, if its reads go on as they did.
static NEXT_MISS: [AtomicU64; DESCRIPTORS] = [const { AtomicU64::new(0) }; DESCRIPTORS];

/// What a descriptor was when it was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Known {
    /// A file of a staged root.
    File(FileId),
    /// A folder in which such files may lie.
    Folder,
    /// A file that the process of this number writes, to be published when it closes it.
    Written(u32),
}

/// A file of a staged root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileId {
    /// Number of the root.
    pub(crate) root: u8,
    /// Its file system, folded.
    pub(crate) device: u32,
    /// Its number in the index.
    pub(crate) segment: SegmentIndex,
}

impl FileId {
    /// Bits of a folded device.
    const DEVICE: u32 = (1 << 24) - 1;

    /// Folds the numbers of a device. Only to tell one from another: the inode, the size and the time
    /// of a file must agree too.
    pub(crate) fn fold(major: u32, minor: u32) -> u32 {
        (major.wrapping_mul(0x9E37_79B1) ^ minor) & Self::DEVICE
    }
}

impl Known {
    fn encode(self) -> u64 {
        match self {
            Self::Folder => FOLDER << 56,
            Self::Written(process) => WRITTEN << 56 | u64::from(process),
            Self::File(file) => {
                u64::from(file.root + 1) << 56
                    | u64::from(file.device & FileId::DEVICE) << 32
                    | u64::from(file.segment.0)
            }
        }
    }

    fn decode(word: u64) -> Option<Self> {
        match word >> 56 {
            UNKNOWN => None,
            FOLDER => Some(Self::Folder),
            WRITTEN => Some(Self::Written(word as u32)),
            root => Some(Self::File(FileId {
                root: (root - 1) as u8,
                device: (word >> 32) as u32 & FileId::DEVICE,
                segment: SegmentIndex(word as u32),
            })),
        }
    }
}

fn slot(fd: c_int) -> Option<&'static AtomicU64> {
    usize::try_from(fd).ok().and_then(|at| KNOWN.get(at))
}

/// True unless nothing is known of it: the whole price of a call on a foreign descriptor.
#[inline]
pub(crate) fn is_known(fd: c_int) -> bool {
    // A word stands for itself: nothing else is read on the strength of it.
    slot(fd).is_some_and(|word| word.load(Ordering::Relaxed) != UNKNOWN)
}

/// What is known of it.
pub(crate) fn get(fd: c_int) -> Option<Known> {
    Known::decode(slot(fd)?.load(Ordering::Relaxed))
}

/// Notes what a new descriptor is; `None` for nothing of interest.
pub(crate) fn set(fd: c_int, known: Option<Known>) {
    let Some(word) = slot(fd) else { return };
    word.store(known.map_or(UNKNOWN, Known::encode), Ordering::Relaxed);
    expect_miss(fd, 0);
}

/// Forgets what was found to be no longer so, unless it is something else already.
pub(crate) fn forget(fd: c_int, known: Known) {
    if let Some(word) = slot(fd) {
        let _ = word.compare_exchange(
            known.encode(),
            UNKNOWN,
            Ordering::Relaxed,
            Ordering::Relaxed,
        );
    }
}

/// Where the next miss is expected.
pub(crate) fn next_miss(fd: c_int) -> Option<u64> {
    let at = usize::try_from(fd).ok()?;
    Some(NEXT_MISS.get(at)?.load(Ordering::Relaxed))
}

/// Says where the next miss is expected.
pub(crate) fn expect_miss(fd: c_int, offset: u64) {
    if let Some(word) = usize::try_from(fd).ok().and_then(|at| NEXT_MISS.get(at)) {
        word.store(offset, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_noted_is_found() {
        let file = |root, segment| {
            Known::File(FileId {
                root,
                device: FileId::fold(8, 17),
                segment: SegmentIndex(segment),
            })
        };
        for known in [
            Known::Folder,
            Known::Written(7),
            file(0, 0),
            file(crate::roots::MOST_ROOTS as u8 - 1, u32::MAX),
        ] {
            assert_eq!(Known::decode(known.encode()), Some(known));
        }
        set(1000, Some(file(3, 7)));
        assert!(is_known(1000) && !is_known(1001));
        forget(1000, file(3, 8));
        assert_eq!(get(1000), Some(file(3, 7)), "it is not what was meant");
        forget(1000, file(3, 7));
        assert_eq!(get(1000), None);
    }

    #[test]
    fn numbers_without_a_place_are_unknown() {
        for fd in [-1, c_int::MIN, DESCRIPTORS as c_int, c_int::MAX] {
            set(fd, Some(Known::Folder));
            assert!(!is_known(fd), "{fd}");
        }
    }
}
