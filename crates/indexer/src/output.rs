//! Files that are complete or absent.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::IndexerError;
use crate::error::Result;

/// Where a file is written until it is complete.
pub(crate) fn partial_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".partial");
    PathBuf::from(name)
}

/// Writes `path` by `write`: on success it holds all that was written, and it is on the device;
/// on failure it is as it was.
///
/// The partial file is locked, so that of two runs that write one file, the second fails at once.
pub(crate) fn write_whole<T>(
    path: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T>,
) -> Result<T> {
    let partial = partial_path(path);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&partial)
        .map_err(IndexerError::io("create", &partial))?;
    // A file that was opened just before another run completed and renamed it is that run's
    // output by now: the path has to lead to it still.
    if file.try_lock().is_err() || !is_at(&file, &partial) {
        return Err(IndexerError::Request(format!(
            "another process is writing `{}`",
            path.display()
        )));
    }
    let written = write_locked(&file, &partial, write).and_then(|value| {
        fs::rename(&partial, path).map_err(IndexerError::io("complete", path))?;
        sync_folder_of(path)?;
        Ok(value)
    });
    if written.is_err() {
        // The error that is reported is the first one; a partial file left behind is overwritten
        // by the next run.
        let _ = fs::remove_file(&partial);
    }
    written
}

fn is_at(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(held), Ok(found)) => held.ino() == found.ino() && held.dev() == found.dev(),
        _ => false,
    }
}

fn write_locked<T>(
    file: &File,
    partial: &Path,
    write: impl FnOnce(&mut BufWriter<&File>) -> Result<T>,
) -> Result<T> {
    file.set_len(0)
        .map_err(IndexerError::io("write", partial))?;
    let mut writer = BufWriter::with_capacity(1 << 20, file);
    let value = write(&mut writer)?;
    writer.flush().map_err(IndexerError::io("write", partial))?;
    file.sync_all()
        .map_err(IndexerError::io("write", partial))?;
    Ok(value)
}

/// Puts a rename in the folder of `path` on the device.
pub(crate) fn sync_folder_of(path: &Path) -> Result<()> {
    let folder = path.parent().filter(|path| !path.as_os_str().is_empty());
    let folder = folder.unwrap_or(Path::new("."));
    File::open(folder)
        .and_then(|folder| folder.sync_all())
        .map_err(IndexerError::io("write", folder))
}
