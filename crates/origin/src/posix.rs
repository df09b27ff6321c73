//! Any mounted file system.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use forebay_dataset::{Fingerprint, SegmentIndex};

use crate::{Origin, OriginError, SegmentRef, spent};

/// Files kept open, so that a read costs no open at the metadata server.
const OPEN_FILES: usize = 256;

/// A folder of a mounted file system.
#[derive(Debug)]
pub struct PosixOrigin {
    root: PathBuf,
    open: RwLock<HashMap<SegmentIndex, Arc<File>>>,
}

impl PosixOrigin {
    /// The files below `root`. Nothing is opened yet.
    pub fn new(root: PathBuf) -> Self {
        Self {
            root,
            open: RwLock::default(),
        }
    }

    /// Folder that segment paths are relative to.
    pub fn root(&self) -> &Path {
        &self.root
    }

    fn open(&self, segment: SegmentRef<'_>) -> Result<Arc<File>, OriginError> {
        let table = self.open.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(file) = table.get(&segment.index) {
            return Ok(file.clone());
        }
        drop(table);
        spent::metadata(|| self.open_first(segment))
    }

    /// Opens a file that is not open yet.
    fn open_first(&self, segment: SegmentRef<'_>) -> Result<Arc<File>, OriginError> {
        let path = self.root.join(segment.path);
        let file = File::open(&path).map_err(|source| OriginError::Open {
            path: path.display().to_string(),
            source,
        })?;
        let file = Arc::new(file);
        self.check(segment, &file)?;
        let mut table = self.open.write().unwrap_or_else(PoisonError::into_inner);
        if table.len() >= OPEN_FILES {
            // Any will do: a random access order has no favourite, and it is only a file handle.
            if let Some(victim) = table.keys().next().copied() {
                table.remove(&victim);
            }
        }
        table.insert(segment.index, file.clone());
        Ok(file)
    }

    fn check(&self, segment: SegmentRef<'_>, file: &File) -> Result<(), OriginError> {
        let found = fingerprint_of(file).map_err(|source| OriginError::Open {
            path: self.shown(segment),
            source,
        })?;
        if found == segment.fingerprint {
            return Ok(());
        }
        self.open
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&segment.index);
        Err(OriginError::Stale {
            path: self.shown(segment),
            indexed: segment.fingerprint,
            found,
        })
    }

    fn shown(&self, segment: SegmentRef<'_>) -> String {
        self.root.join(segment.path).display().to_string()
    }
}

impl Origin for PosixOrigin {
    fn read_at(
        &self,
        segment: SegmentRef<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        let size = segment.fingerprint.size;
        let end = offset.saturating_add(out.len() as u64);
        if end > size {
            return Err(OriginError::OutOfRange {
                path: self.shown(segment),
                offset,
                end,
                size,
            });
        }
        let file = self.open(segment)?;
        let read = spent::reading(|| file.read_exact_at(out, offset));
        // After the read: a file that changed before or during it shows here, whatever the read
        // returned.
        spent::metadata(|| self.check(segment, &file))?;
        read.map_err(|source| OriginError::Read {
            path: self.shown(segment),
            offset,
            end,
            source,
        })
    }
}

/// What identifies the present version of an open file.
pub fn fingerprint_of(file: &File) -> io::Result<Fingerprint> {
    let meta = file.metadata()?;
    let mtime_ns = meta
        .mtime()
        .saturating_mul(1_000_000_000)
        .saturating_add(meta.mtime_nsec());
    Ok(Fingerprint {
        size: meta.len(),
        mtime_ns,
        inode: meta.ino(),
    })
}

#[cfg(test)]
mod tests;
