//! The folder beside an index that is being made, with what a run that was ended has left.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::IndexerError;
use crate::error::Result;
use crate::output::write_whole;

/// First parts of the names of our own files there: others are not touched.
const OURS: [&str; 3] = ["part-", "listing-", "state.json"];

/// `OUTPUT.parts`. Locked from the first use on, so that two runs do not write one index.
pub(crate) struct PartsFolder {
    output: PathBuf,
    path: PathBuf,
    lock: Option<File>,
}

impl PartsFolder {
    pub(crate) fn of(output: &Path) -> Self {
        Self {
            output: output.to_path_buf(),
            path: path_of(output),
            lock: None,
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Locks it if an earlier run has left it; false if there is none.
    pub(crate) fn find(&mut self) -> Result<bool> {
        let is_there = self.path.is_dir();
        if is_there {
            self.lock()?;
        }
        Ok(is_there)
    }

    /// Makes it where it is missing.
    pub(crate) fn create(&mut self) -> Result<()> {
        fs::create_dir_all(&self.path).map_err(IndexerError::io("create", &self.path))?;
        self.lock()
    }

    fn lock(&mut self) -> Result<()> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = self.path.join("lock");
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(IndexerError::io("create", &path))?;
        if file.try_lock().is_err() {
            return Err(IndexerError::Request(format!(
                "another process is writing `{}`",
                self.output.display()
            )));
        }
        self.lock = Some(file);
        Ok(())
    }

    /// Removes our own files whose names begin so; the lock stays.
    pub(crate) fn remove(&self, prefixes: &[&str]) -> Result<()> {
        let folder = &self.path;
        for entry in fs::read_dir(folder).map_err(IndexerError::io("list", folder))? {
            let path = entry.map_err(IndexerError::io("list", folder))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if prefixes.iter().any(|prefix| name.starts_with(prefix)) {
                fs::remove_file(&path).map_err(IndexerError::io("remove", &path))?;
            }
        }
        Ok(())
    }

    /// The index is complete: nothing of this is needed any more.
    pub(crate) fn finish(self) -> Result<()> {
        if self.lock.is_none() {
            return Ok(());
        }
        self.remove(&OURS)?;
        let lock = self.path.join("lock");
        fs::remove_file(&lock).map_err(IndexerError::io("remove", &lock))?;
        // What others have put there stays, and so does the folder then.
        let _ = fs::remove_dir(&self.path);
        Ok(())
    }
}

/// Where the parts of an index lie.
pub(crate) fn path_of(output: &Path) -> PathBuf {
    let mut name = output.as_os_str().to_owned();
    name.push(".parts");
    PathBuf::from(name)
}

/// `None` if there is no such file or it is damaged: it is made again then.
pub(crate) fn read_json<T: for<'de> Deserialize<'de>>(path: &Path) -> Option<T> {
    serde_json::from_slice(&fs::read(path).ok()?).ok()
}

pub(crate) fn write_json(path: &Path, value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_vec(value)
        .map_err(|error| IndexerError::io("write", path)(std::io::Error::other(error)))?;
    write_whole(path, |out| {
        out.write_all(&text)
            .map_err(IndexerError::io("write", path))
    })
}
