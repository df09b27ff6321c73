//! A source file's attributes in the form the kernel takes, as faults let them look.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::{Duration, SystemTime};

use fuser::{FileAttr, FileType, INodeNo};

use crate::fault::Bump;
use crate::tree::Found;

/// The attributes of what a lookup found.
pub(crate) fn entry_attributes(found: &Found, bump: Bump) -> FileAttr {
    attributes(found.node, &found.metadata, bump)
}

/// A file's attributes as the mount shows them, under the inode number `shown`.
pub(crate) fn attributes(shown: u64, metadata: &Metadata, bump: Bump) -> FileAttr {
    // Directories keep their attributes: a fault changes files.
    let bump = if metadata.is_file() {
        bump
    } else {
        Bump::default()
    };
    let time = |seconds: i64, nanos: i64| {
        shift(
            SystemTime::UNIX_EPOCH,
            i128::from(seconds) * 1_000_000_000 + i128::from(nanos),
        )
    };
    let mtime = time(metadata.mtime(), metadata.mtime_nsec());
    FileAttr {
        ino: INodeNo(shown),
        size: metadata.size().saturating_add_signed(bump.size),
        blocks: metadata.blocks(),
        atime: time(metadata.atime(), metadata.atime_nsec()),
        mtime: shift(mtime, i128::from(bump.mtime_ns)),
        ctime: time(metadata.ctime(), metadata.ctime_nsec()),
        crtime: SystemTime::UNIX_EPOCH,
        kind: FileType::from_std(metadata.file_type()).unwrap_or(FileType::RegularFile),
        perm: (metadata.mode() & 0o7777) as u16,
        nlink: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        uid: metadata.uid(),
        gid: metadata.gid(),
        rdev: metadata.rdev() as u32,
        blksize: u32::try_from(metadata.blksize()).unwrap_or(4096),
        flags: 0,
    }
}

fn shift(time: SystemTime, nanos: i128) -> SystemTime {
    let part = nanos.unsigned_abs();
    let span = Duration::new(
        u64::try_from(part / 1_000_000_000).unwrap_or(u64::MAX),
        (part % 1_000_000_000) as u32,
    );
    let moved = if nanos < 0 {
        time.checked_sub(span)
    } else {
        time.checked_add(span)
    };
    moved.unwrap_or(time)
}
