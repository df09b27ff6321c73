//! The source tree by node numbers: what a FUSE face needs to serve a folder read-only.
//!
//! It has no notion of delays or faults, so that other mounts can use it.
//!
//! # Contract
//! - A node's number is the inode number of its file wherever that is possible, so that a
//!   fingerprint (size, mtime, inode) is the same through the mount. The root is 1.
//! - A node lives as long as the kernel holds lookups of it; the table is bounded by that.
//! - Nothing outside the root is ever opened: every path is resolved beneath it, without
//!   following symbolic links.
//! - A file that is gone, or replaced by another, is `ESTALE`: the kernel then looks up anew.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{Mode, OFlags, ResolveFlags};

/// Number of the root, fixed by the FUSE protocol.
pub const ROOT: u64 = 1;

/// Nodes whose inode number can't be used get numbers with this bit.
const SYNTHETIC: u64 = 1 << 63;

/// What makes a file itself: device, inode, and a variant that is 0 unless the mount pretends
/// that the file was replaced.
pub type Identity = (u64, u64, u32);

/// What a lookup found.
#[derive(Debug)]
pub struct Found {
    /// Its number.
    pub node: u64,
    /// The source's attributes.
    pub metadata: Metadata,
}

/// A folder served by node numbers.
#[derive(Debug)]
pub struct Tree {
    root: OwnedFd,
    nodes: Mutex<Nodes>,
}

#[derive(Debug)]
struct Node {
    identity: Identity,
    path: Arc<Path>,
    lookups: u64,
}

#[derive(Debug, Default)]
struct Nodes {
    by_number: HashMap<u64, Node>,
    by_identity: HashMap<Identity, u64>,
    synthetic: u64,
}

impl Tree {
    /// Serve the folder `source`.
    ///
    /// # Errors
    /// Those of opening it; `NotADirectory` if it is no folder.
    pub fn open(source: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
        let root = rustix::fs::open(source, flags, Mode::empty())?;
        let metadata = File::from(root.try_clone()?).metadata()?;
        let node = Node {
            identity: (metadata.dev(), metadata.ino(), 0),
            path: Arc::from(Path::new("")),
            lookups: 1,
        };
        let mut nodes = Nodes::default();
        nodes.by_identity.insert(node.identity, ROOT);
        nodes.by_number.insert(ROOT, node);
        Ok(Self {
            root,
            nodes: Mutex::new(nodes),
        })
    }

    /// Find `name` in the folder `parent` and count one lookup. `variant` is asked for the path
    /// and gives the identity's variant.
    ///
    /// # Errors
    /// `ENOENT`, `ESTALE` for a parent that is gone, `EINVAL` for a name that is none.
    pub fn lookup(
        &self,
        parent: u64,
        name: &OsStr,
        variant: impl FnOnce(&Path) -> u32,
    ) -> io::Result<Found> {
        let path = self.child_path(parent, name)?;
        let metadata = self.metadata_at(&path)?;
        let identity = (metadata.dev(), metadata.ino(), variant(&path));
        let node = self.lock().count_lookup(identity, path);
        Ok(Found { node, metadata })
    }

    /// The kernel forgot `lookups` lookups of `node`.
    pub fn forget(&self, node: u64, lookups: u64) {
        self.lock().forget(node, lookups);
    }

    /// The path of a node below the root, empty for the root itself.
    ///
    /// # Errors
    /// `ESTALE` if there is no such node.
    pub fn path(&self, node: u64) -> io::Result<Arc<Path>> {
        Ok(self.lock().get(node)?.1)
    }

    /// The path of `name` in the folder `parent`.
    ///
    /// # Errors
    /// `ESTALE` for an unknown parent, `EINVAL` for a name with `/`, for `.` and for `..`.
    pub fn child_path(&self, parent: u64, name: &OsStr) -> io::Result<PathBuf> {
        let bytes = name.as_encoded_bytes();
        if bytes.is_empty() || bytes == b"." || bytes == b".." || bytes.contains(&b'/') {
            return Err(errno(libc::EINVAL));
        }
        Ok(self.path(parent)?.join(name))
    }

    /// A node's attributes, from the source.
    ///
    /// # Errors
    /// `ESTALE` if the file is gone or replaced.
    pub fn metadata(&self, node: u64) -> io::Result<Metadata> {
        self.checked(node, OFlags::PATH | OFlags::NOFOLLOW)
            .map(|(_, metadata)| metadata)
    }

    /// Open a node's file for reading.
    ///
    /// # Errors
    /// As [`Self::metadata`], and those of opening.
    pub fn open_file(&self, node: u64) -> io::Result<File> {
        // Without NONBLOCK, a FIFO that took the file's place would block the caller for good.
        self.checked(node, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK)
            .map(|(file, _)| file)
    }

    /// Open a node's folder for listing.
    ///
    /// # Errors
    /// As [`Self::open_file`].
    pub fn open_folder(&self, node: u64) -> io::Result<rustix::fs::Dir> {
        let (file, _) =
            self.checked(node, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW)?;
        Ok(rustix::fs::Dir::new(OwnedFd::from(file))?)
    }

    /// Where a symbolic link points, as written.
    ///
    /// # Errors
    /// As [`Self::metadata`], and `EINVAL` if it is no link.
    pub fn read_link(&self, node: u64) -> io::Result<OsString> {
        let (file, _) = self.checked(node, OFlags::PATH | OFlags::NOFOLLOW)?;
        let target = rustix::fs::readlinkat(&file, "", Vec::new())?;
        Ok(OsString::from_vec(target.into_bytes()))
    }

    /// The root folder.
    pub fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// Nodes the kernel holds now, the root included.
    pub fn nodes(&self) -> usize {
        self.lock().by_number.len()
    }

    fn checked(&self, node: u64, flags: OFlags) -> io::Result<(File, Metadata)> {
        let (identity, path) = self.lock().get(node)?;
        let file = match self.open_beneath(&path, flags) {
            Ok(fd) => File::from(fd),
            // The node was there when it was looked up, so its name is out of date.
            Err(e) if is_gone(&e) => return Err(errno(libc::ESTALE)),
            Err(e) => return Err(e),
        };
        let metadata = file.metadata()?;
        if (metadata.dev(), metadata.ino()) != (identity.0, identity.1) {
            return Err(errno(libc::ESTALE));
        }
        Ok((file, metadata))
    }

    fn metadata_at(&self, path: &Path) -> io::Result<Metadata> {
        File::from(self.open_beneath(path, OFlags::PATH | OFlags::NOFOLLOW)?).metadata()
    }

    fn open_beneath(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() {
            Path::new(".")
        } else {
            path
        };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        let flags = flags | OFlags::CLOEXEC;
        // EAGAIN: the kernel lost a race with a rename and asks to be called again.
        for _ in 0..16 {
            match rustix::fs::openat2(&self.root, path, flags, Mode::empty(), resolve) {
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {}
                other => return Ok(other?),
            }
        }
        Err(errno(libc::EIO))
    }

    fn lock(&self) -> MutexGuard<'_, Nodes> {
        // Every method leaves the two maps consistent, so a panic elsewhere spoils nothing.
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Nodes {
    fn get(&self, node: u64) -> io::Result<(Identity, Arc<Path>)> {
        let node = self
            .by_number
            .get(&node)
            .ok_or_else(|| errno(libc::ESTALE))?;
        Ok((node.identity, Arc::clone(&node.path)))
    }

    fn count_lookup(&mut self, identity: Identity, path: PathBuf) -> u64 {
        if let Some(number) = self.by_identity.get(&identity)
            && let Some(node) = self.by_number.get_mut(number)
        {
            node.lookups += 1;
            // The name it was found by last: the file may have been renamed at the source.
            if *number != ROOT && *node.path != *path {
                node.path = Arc::from(path);
            }
            return *number;
        }
        let number = self.number_for(identity);
        self.by_identity.insert(identity, number);
        self.by_number.insert(
            number,
            Node {
                identity,
                path: Arc::from(path),
                lookups: 1,
            },
        );
        number
    }

    fn number_for(&mut self, (_, inode, variant): Identity) -> u64 {
        let plain = inode & SYNTHETIC == 0 && inode > ROOT && variant == 0;
        if plain && !self.by_number.contains_key(&inode) {
            return inode;
        }
        // Another device's file has that number, or it is reserved, or the file pretends.
        self.synthetic += 1;
        SYNTHETIC | self.synthetic
    }

    fn forget(&mut self, number: u64, lookups: u64) {
        let Some(node) = self.by_number.get_mut(&number) else {
            return;
        };
        node.lookups = node.lookups.saturating_sub(lookups);
        if node.lookups == 0 && number != ROOT {
            let identity = node.identity;
            self.by_number.remove(&number);
            self.by_identity.remove(&identity);
        }
    }
}

fn errno(code: i32) -> io::Error {
    io::Error::from_raw_os_error(code)
}

fn is_gone(error: &io::Error) -> bool {
    matches!(
        error.raw_os_error(),
        Some(libc::ENOENT | libc::ENOTDIR | libc::ELOOP | libc::EXDEV)
    )
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn find(tree: &Tree, parent: u64, name: &str) -> io::Result<Found> {
        tree.lookup(parent, OsStr::new(name), |_| 0)
    }

    fn code<T>(result: io::Result<T>) -> Option<i32> {
        result.err().and_then(|e| e.raw_os_error())
    }

    #[test]
    fn numbers_are_the_inodes_and_end_with_the_last_forget() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), b"x").unwrap();
        fs::hard_link(dir.path().join("a"), dir.path().join("b")).unwrap();
        let tree = Tree::open(dir.path()).unwrap();

        let (a, b) = (
            find(&tree, ROOT, "a").unwrap(),
            find(&tree, ROOT, "b").unwrap(),
        );
        assert_eq!(a.node, fs::metadata(dir.path().join("a")).unwrap().ino());
        assert_eq!(a.node, b.node, "two names of one file are one node");
        tree.forget(a.node, 1);
        assert!(tree.metadata(a.node).is_ok());
        tree.forget(a.node, 1);
        assert_eq!(code(tree.metadata(a.node)), Some(libc::ESTALE));
        assert_eq!(tree.nodes(), 1, "only the root is left");
        tree.forget(ROOT, 100);
        assert!(tree.metadata(ROOT).is_ok(), "the root stays");
    }

    #[test]
    fn removed_renamed_and_replaced_files_are_stale_not_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for name in ["removed", "renamed", "replaced"] {
            fs::write(path(name), name).unwrap();
        }
        let tree = Tree::open(dir.path()).unwrap();
        let node = |name| find(&tree, ROOT, name).unwrap().node;
        let (removed, renamed, replaced) = (node("removed"), node("renamed"), node("replaced"));

        fs::write(path("new"), "other").unwrap();
        fs::remove_file(path("removed")).unwrap();
        fs::rename(path("renamed"), path("elsewhere")).unwrap();
        fs::rename(path("new"), path("replaced")).unwrap();
        for node in [removed, renamed, replaced] {
            assert_eq!(code(tree.metadata(node)), Some(libc::ESTALE));
            assert_eq!(code(tree.open_file(node)), Some(libc::ESTALE));
        }
        assert_eq!(
            find(&tree, ROOT, "elsewhere").unwrap().node,
            renamed,
            "found by its new name"
        );
        assert!(tree.open_file(renamed).is_ok());
    }

    #[test]
    fn nothing_outside_the_root_is_opened() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("in"), dir.path().join("out"));
        fs::create_dir(&inside).unwrap();
        fs::create_dir(inside.join("folder")).unwrap();
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("secret"), "s").unwrap();
        let tree = Tree::open(&inside).unwrap();
        for name in ["..", ".", "", "a/b", "folder/../../out"] {
            assert_eq!(
                code(find(&tree, ROOT, name)),
                Some(libc::EINVAL),
                "`{name}`"
            );
        }
        // A folder that turns into a link after it was looked up.
        let folder = find(&tree, ROOT, "folder").unwrap().node;
        fs::remove_dir(inside.join("folder")).unwrap();
        std::os::unix::fs::symlink("../out", inside.join("folder")).unwrap();
        assert!(find(&tree, folder, "secret").is_err());
        let link = find(&tree, ROOT, "folder").unwrap().node;
        assert_eq!(tree.read_link(link).unwrap(), "../out");
        assert!(tree.open_file(link).is_err());
    }

    #[test]
    fn a_pretended_replacement_has_another_number() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), b"x").unwrap();
        let tree = Tree::open(dir.path()).unwrap();
        let plain = find(&tree, ROOT, "a").unwrap().node;
        let other = tree.lookup(ROOT, OsStr::new("a"), |_| 1).unwrap().node;
        assert_ne!(plain, other);
        assert!(tree.open_file(other).is_ok());
    }
}
