//! Listing a folder in the pieces the kernel asks for.

use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;

use fuser::FileType;
use rustix::fs::{AtFlags, Dir, DirEntry};

/// An open folder. Offsets are the source's own, so a listing can be resumed anywhere.
pub(crate) struct FolderStream {
    dir: Dir,
    position: u64,
    /// Read from the source but not yet taken by the kernel.
    pending: Option<DirEntry>,
}

impl FolderStream {
    pub(crate) fn new(dir: Dir) -> Self {
        Self {
            dir,
            position: 0,
            pending: None,
        }
    }

    /// Hand entries after `offset` to `add` (inode, next offset, kind, name) until it returns
    /// true: full.
    pub(crate) fn fill(
        &mut self,
        offset: u64,
        mut add: impl FnMut(u64, u64, FileType, &OsStr) -> bool,
    ) -> io::Result<()> {
        if offset != self.position {
            self.pending = None;
            let place =
                i64::try_from(offset).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?;
            self.dir.seek(place)?;
            self.position = offset;
        }
        loop {
            let entry = match self.pending.take() {
                Some(entry) => entry,
                None => match self.dir.read() {
                    Some(entry) => entry?,
                    None => return Ok(()),
                },
            };
            let kind = self.kind(&entry);
            let next = entry.offset() as u64;
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if add(entry.ino(), next, kind, name) {
                self.pending = Some(entry);
                return Ok(());
            }
            self.position = next;
        }
    }

    fn kind(&self, entry: &DirEntry) -> FileType {
        use rustix::fs::FileType as Source;
        let mut kind = entry.file_type();
        if kind == Source::Unknown
            && let Ok(fd) = self.dir.fd()
            && let Ok(stat) = rustix::fs::statat(fd, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW)
        {
            kind = Source::from_raw_mode(stat.st_mode);
        }
        match kind {
            Source::Directory => FileType::Directory,
            Source::Symlink => FileType::Symlink,
            Source::Fifo => FileType::NamedPipe,
            Source::Socket => FileType::Socket,
            Source::CharacterDevice => FileType::CharDevice,
            Source::BlockDevice => FileType::BlockDevice,
            Source::RegularFile | Source::Unknown => FileType::RegularFile,
        }
    }
}
