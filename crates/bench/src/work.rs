//! The folder that a run makes for itself on the file system under test, and removes.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, openat};

use crate::folder::{Folder, Identity};
use crate::{BenchError, Result};

/// The file that says whose a folder is.
pub const MARKER: &str = ".forebay-bench";

/// A run's own folder. Everything that a benchmark makes lies in it, and nothing outside it is
/// ever removed.
#[derive(Debug)]
pub struct WorkFolder {
    path: PathBuf,
    run_id: String,
    identity: Identity,
}

impl WorkFolder {
    /// Where a run's folder lies below the folder under test.
    #[must_use]
    pub fn place(dataset_path: &Path, run_id: &str) -> PathBuf {
        dataset_path.join(format!("forebay-bench-{run_id}"))
    }

    /// Makes the folder, which must be new, and its marker.
    ///
    /// # Errors
    /// [`BenchError::Io`] where it cannot be made.
    pub fn create(path: &Path, run_id: &str) -> Result<Self> {
        let (parent, name) = parts(path)?;
        let parent = std::fs::canonicalize(parent).map_err(BenchError::io("use folder", parent))?;
        let folder = Folder::open(&parent)?.make(name)?;
        let marker = folder.path().join(MARKER);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        openat(&folder, MARKER, flags, Mode::from_raw_mode(0o644))
            .map_err(std::io::Error::from)
            .and_then(|fd| File::from(fd).write_all(run_id.as_bytes()))
            .map_err(BenchError::io("write", &marker))?;
        Ok(Self {
            identity: folder.identity()?,
            path: folder.path().to_owned(),
            run_id: run_id.to_owned(),
        })
    }

    /// Opens a folder that this run made, in another of its processes.
    ///
    /// # Errors
    /// [`BenchError::NotOurs`] where the marker is another run's or absent.
    pub fn join(path: &Path, run_id: &str) -> Result<Folder> {
        let folder = Folder::open(path)?;
        check(&folder, run_id)?;
        Ok(folder)
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it and all that is in it, if it still is the folder that was made.
    ///
    /// # Errors
    /// [`BenchError::NotOurs`] where something else stands in its place: then nothing is removed.
    pub fn remove(self) -> Result<()> {
        let (parent, name) = parts(&self.path)?;
        let parent = Folder::open(parent)?;
        let folder = parent.enter(name)?;
        if folder.identity()? != self.identity {
            return Err(BenchError::NotOurs {
                path: self.path,
                fault: "it is not the folder that this run made".to_owned(),
            });
        }
        check(&folder, &self.run_id)?;
        parent.remove(name)
    }
}

fn parts(path: &Path) -> Result<(&Path, &str)> {
    let name = path.file_name().and_then(|name| name.to_str());
    path.parent()
        .zip(name)
        .ok_or_else(|| BenchError::Usage(format!("`{}` is no folder of a run", path.display())))
}

fn check(folder: &Folder, run_id: &str) -> Result<()> {
    let mut found = String::new();
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let read = openat(folder, MARKER, flags, Mode::empty())
        .map_err(std::io::Error::from)
        .and_then(|fd| File::from(fd).take(1 << 10).read_to_string(&mut found));
    let fault = match read {
        Ok(_) if found == run_id => return Ok(()),
        Ok(_) => format!("its file `{MARKER}` names another run"),
        Err(error) => format!("its file `{MARKER}` cannot be read: {error}"),
    };
    Err(BenchError::NotOurs {
        path: folder.path().to_owned(),
        fault,
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    fn made(temp: &Path) -> WorkFolder {
        WorkFolder::create(&WorkFolder::place(temp, "run-1"), "run-1").unwrap()
    }

    #[test]
    fn a_folder_goes_with_all_that_is_in_it_and_nothing_beside_it() {
        let temp = tempfile::tempdir().unwrap();
        fs::write(temp.path().join("beside"), "kept").unwrap();
        let work = made(temp.path());
        fs::create_dir_all(work.path().join("a/b")).unwrap();
        fs::write(work.path().join("a/b/c"), "x").unwrap();
        WorkFolder::join(work.path(), "run-1").unwrap();
        work.remove().unwrap();
        let left: Vec<_> = fs::read_dir(temp.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }

    #[test]
    fn what_another_put_in_its_place_stays() {
        let temp = tempfile::tempdir().unwrap();
        let other = temp.path().join("other");
        let swaps: [fn(&Path, &Path); 3] = [
            // The folder of another run.
            |path, _| {
                fs::create_dir(path).unwrap();
                fs::write(path.join(MARKER), "run-1").unwrap();
            },
            // A link to a folder with the very marker.
            |path, other| symlink(other, path).unwrap(),
            // A file.
            |path, _| fs::write(path, "file").unwrap(),
        ];
        fs::create_dir(&other).unwrap();
        fs::write(other.join(MARKER), "run-1").unwrap();
        for (number, swap) in swaps.into_iter().enumerate() {
            let work = made(temp.path());
            let path = work.path().to_owned();
            fs::rename(&path, temp.path().join(format!("away-{number}"))).unwrap();
            swap(&path, &other);
            work.remove().unwrap_err();
            fs::symlink_metadata(&path).expect("still there");
            assert!(other.join(MARKER).exists());
            fs::rename(&path, temp.path().join(format!("swap-{number}"))).unwrap();
        }
    }

    #[test]
    fn a_marker_of_another_run_or_none_is_not_ours() {
        let temp = tempfile::tempdir().unwrap();
        let work = made(temp.path());
        assert!(WorkFolder::join(work.path(), "run-2").is_err());
        fs::remove_file(work.path().join(MARKER)).unwrap();
        let path = work.path().to_owned();
        assert!(matches!(work.remove(), Err(BenchError::NotOurs { .. })));
        assert!(path.exists());
    }

    #[test]
    fn a_folder_that_is_there_is_not_taken() {
        let temp = tempfile::tempdir().unwrap();
        let path = WorkFolder::place(temp.path(), "run-1");
        fs::create_dir(&path).unwrap();
        WorkFolder::create(&path, "run-1").unwrap_err();
        let missing = temp.path().join("missing");
        let error = WorkFolder::create(&WorkFolder::place(&missing, "x"), "x").unwrap_err();
        assert!(error.line().contains("missing"), "{}", error.line());
    }
}
