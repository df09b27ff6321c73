//! Folders by descriptor: what is made and removed in them cannot be led elsewhere by a link.

use std::ffi::{CStr, CString};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::{BenchError, Result};

const OPEN_FOLDER: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC);

/// An open folder.
#[derive(Debug)]
pub struct Folder {
    fd: OwnedFd,
    path: PathBuf,
}

/// What tells a folder from every other of this node: device and inode.
pub(crate) type Identity = (u64, u64);

impl Folder {
    /// Opens a folder; a link in the last place of the path is refused.
    ///
    /// # Errors
    /// [`BenchError::Io`] names the folder.
    pub fn open(path: &Path) -> Result<Self> {
        let fd = rustix::fs::open(path, OPEN_FOLDER, Mode::empty())
            .map_err(BenchError::os("open folder", path))?;
        Ok(Self {
            fd,
            path: path.to_owned(),
        })
    }

    /// Makes a folder in this one, which must be new, and opens it.
    ///
    /// # Errors
    /// As [`Folder::open`]; so for all of these.
    pub fn make(&self, name: &str) -> Result<Self> {
        let path = self.path.join(name);
        mkdirat(&self.fd, name, Mode::from_raw_mode(0o755))
            .map_err(BenchError::os("make folder", &path))?;
        self.enter(name)
    }

    /// Opens a folder in this one.
    ///
    /// # Errors
    /// [`BenchError::Io`] where there is none, or a link.
    pub fn enter(&self, name: &str) -> Result<Self> {
        let path = self.path.join(name);
        let fd = openat(&self.fd, name, OPEN_FOLDER, Mode::empty())
            .map_err(BenchError::os("open folder", &path))?;
        Ok(Self { fd, path })
    }

    /// Where it was when it was opened.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn identity(&self) -> Result<Identity> {
        identity(self.fd.as_fd(), &self.path)
    }

    /// The names in it, but for `.` and `..`.
    pub(crate) fn names(&self) -> Result<Vec<CString>> {
        let mut names = Vec::new();
        each(&self.fd, &self.path, |name, _| {
            names.push(name.to_owned());
            Ok(())
        })?;
        Ok(names)
    }

    /// Removes all that is in it and stays on its file system. No link is followed. Memory grows
    /// with the names of folders only, and the depth has no bound.
    ///
    /// # Errors
    /// [`BenchError::NotOurs`] where another file system is mounted below it, [`BenchError::Io`]
    /// where something cannot be removed.
    pub fn clear(&self) -> Result<()> {
        let device = self.identity()?.0;
        let mut at = Cursor::new(self)?;
        let mut way = vec![Level {
            name: CString::default(),
            folders: unlink_files(&at, &self.path)?,
        }];
        while let Some(level) = way.last_mut() {
            if let Some(name) = level.folders.pop() {
                at.down(&name)?;
                if identity(at.as_fd(), &self.path)?.0 != device {
                    return Err(BenchError::NotOurs {
                        path: self.path.join(name.to_string_lossy().as_ref()),
                        fault: "another file system is mounted there".to_owned(),
                    });
                }
                let folders = unlink_files(&at, &self.path)?;
                way.push(Level { name, folders });
                continue;
            }
            let done = way.pop();
            if let Some(done) = done.filter(|_| !way.is_empty()) {
                at.up()?;
                unlinkat(&at, &done.name, AtFlags::REMOVEDIR).map_err(at.fault("remove all of"))?;
            }
        }
        Ok(())
    }

    /// Clears a folder in this one and removes it.
    ///
    /// # Errors
    /// As [`Folder::clear`].
    pub fn remove(&self, name: &str) -> Result<()> {
        self.enter(name)?.clear()?;
        unlinkat(&self.fd, name, AtFlags::REMOVEDIR)
            .map_err(BenchError::os("remove", &self.path.join(name)))
    }
}

impl AsFd for Folder {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// A place in a tree of folders: down by name and up by `..`, so that no depth needs more than one
/// descriptor. Going up, it checks that it comes to where it went down.
pub(crate) struct Cursor {
    at: OwnedFd,
    root: PathBuf,
    way: Vec<Identity>,
}

impl Cursor {
    pub(crate) fn new(root: &Folder) -> Result<Self> {
        let at = root.fd.try_clone();
        Ok(Self {
            at: at.map_err(BenchError::io("open folder", &root.path))?,
            root: root.path.clone(),
            way: Vec::new(),
        })
    }

    /// Opens a folder in this one.
    pub(crate) fn open(&self, name: &CStr) -> Result<OwnedFd> {
        openat(&self.at, name, OPEN_FOLDER, Mode::empty()).map_err(self.fault("open folder"))
    }

    pub(crate) fn down(&mut self, name: &CStr) -> Result<()> {
        let inner = self.open(name)?;
        self.way.push(identity(self.at.as_fd(), &self.root)?);
        self.at = inner;
        Ok(())
    }

    pub(crate) fn up(&mut self) -> Result<()> {
        let above = self.open(c"..")?;
        if self.way.pop() != Some(identity(above.as_fd(), &self.root)?) {
            return Err(BenchError::NotOurs {
                path: self.root.clone(),
                fault: "folders in it were moved meanwhile".to_owned(),
            });
        }
        self.at = above;
        Ok(())
    }

    /// An error in this tree.
    pub(crate) fn fault(&self, act: &'static str) -> impl FnOnce(Errno) -> BenchError {
        BenchError::os(act, &self.root)
    }
}

impl AsFd for Cursor {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.at.as_fd()
    }
}

/// A folder on the way down, with those in it that are still to be removed.
struct Level {
    name: CString,
    folders: Vec<CString>,
}

fn identity(folder: BorrowedFd<'_>, path: &Path) -> Result<Identity> {
    let stat = fstat(folder).map_err(BenchError::os("look at", path))?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Calls for each entry but `.` and `..`.
fn each(
    folder: &impl AsFd,
    path: &Path,
    mut call: impl FnMut(&CStr, FileType) -> Result<()>,
) -> Result<()> {
    let fault = |error| BenchError::os("list", path)(error);
    // Its own descriptor, so that it begins at the first entry.
    for entry in Dir::read_from(folder.as_fd()).map_err(fault)? {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name();
        if name != c"." && name != c".." {
            call(name, entry.file_type())?;
        }
    }
    Ok(())
}

/// Unlinks all that is no folder; the names of the folders.
fn unlink_files(folder: &impl AsFd, path: &Path) -> Result<Vec<CString>> {
    let mut folders = Vec::new();
    each(folder, path, |name, kind| {
        let unlinked = match kind {
            FileType::Directory => Err(Errno::ISDIR),
            _ => unlinkat(folder.as_fd(), name, AtFlags::empty()),
        };
        match unlinked {
            // EPERM is what POSIX says of a folder, where the file system does not tell types.
            Err(Errno::ISDIR | Errno::PERM) => folders.push(name.to_owned()),
            Ok(()) | Err(Errno::NOENT) => {}
            Err(error) => return Err(BenchError::os("remove all of", path)(error)),
        }
        Ok(())
    })?;
    Ok(folders)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_are_removed_and_what_they_point_to_stays() {
        let temp = tempfile::tempdir().unwrap();
        let outside = temp.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "kept").unwrap();
        let ours = temp.path().join("ours");
        fs::create_dir_all(ours.join("deep/er")).unwrap();
        fs::write(ours.join("deep/file"), "x").unwrap();
        symlink(&outside, ours.join("link")).unwrap();
        symlink(&outside, ours.join("deep/er/link")).unwrap();
        symlink(outside.join("kept"), ours.join("deep/link")).unwrap();
        Folder::open(&ours).unwrap().clear().unwrap();
        assert_eq!(fs::read_dir(&ours).unwrap().count(), 0);
        assert_eq!(fs::read_to_string(outside.join("kept")).unwrap(), "kept");
    }

    #[test]
    fn a_link_in_place_of_a_folder_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        fs::create_dir(temp.path().join("outside")).unwrap();
        fs::write(temp.path().join("outside/kept"), "kept").unwrap();
        symlink("outside", temp.path().join("link")).unwrap();
        let folder = Folder::open(temp.path()).unwrap();
        folder.remove("link").unwrap_err();
        Folder::open(&temp.path().join("link")).unwrap_err();
        assert!(temp.path().join("outside/kept").exists());
    }

    #[test]
    fn a_tree_deeper_than_any_path_is_removed() {
        let temp = tempfile::tempdir().unwrap();
        let root = Folder::open(temp.path()).unwrap();
        let mut at = root.make("d").unwrap();
        // Some 6,000 bytes of path, and more levels than a process has descriptors by default.
        for _ in 0..3_000 {
            at = at.make("d").unwrap();
        }
        root.remove("d").unwrap();
        assert!(root.names().unwrap().is_empty());
    }

    #[test]
    fn many_folders_beside_each_other_are_removed() {
        let temp = tempfile::tempdir().unwrap();
        for n in 0..300 {
            let folder = temp.path().join(format!("a/{n}/b"));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("file"), "x").unwrap();
        }
        let root = Folder::open(temp.path()).unwrap();
        root.clear().unwrap();
        assert!(root.names().unwrap().is_empty());
    }
}
