//! An index file, mapped once and shared by all processes of a node.

use std::fs::File;
use std::ops::Deref;
use std::path::{Path, PathBuf};

use forebay_dataset::index::Index;
use memmap2::Mmap;

use crate::{OriginError, SegmentRef};
use forebay_dataset::{IndexError, SegmentIndex, is_store_url};

/// Maps an index file, or a part of one, that was put in place by rename and is never written to
/// again.
///
/// # Errors
/// What the system says.
pub fn map_index_file(path: &Path) -> std::io::Result<Mmap> {
    crate::sys::map_index(&File::open(path)?)
}

/// An open index file.
#[derive(Debug)]
pub struct IndexFile {
    index: Index<Mmap>,
    path: PathBuf,
}

impl IndexFile {
    /// Maps and checks the index at `path`.
    pub fn open(path: &Path) -> Result<Self, OriginError> {
        let shown = || path.display().to_string();
        if path.is_dir() {
            return Err(OriginError::IndexFolder { path: shown() });
        }
        let map = map_index_file(path).map_err(|source| OriginError::OpenIndex {
            path: shown(),
            source,
        })?;
        let index = Index::parse(map).map_err(|source| OriginError::Index {
            path: shown(),
            source,
        })?;
        let path = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        Ok(Self { index, path })
    }

    /// Where it was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Folder or URL that the segments are in: `root` where the user says so, else the one recorded,
    /// and if that is a relative folder, from the index's own folder. [`crate::open_origin`] opens
    /// it.
    pub fn resolve_root(&self, root: Option<&Path>) -> PathBuf {
        let recorded = Path::new(self.index.root());
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        match root {
            Some(root) => root.to_path_buf(),
            None if is_store_url(self.index.root()) => recorded.to_path_buf(),
            None => folder.join(recorded),
        }
    }

    /// What is needed to read from a segment.
    pub fn segment_ref(&self, index: SegmentIndex) -> Result<SegmentRef<'_>, IndexError> {
        let segment = self.index.segment(index)?;
        Ok(SegmentRef {
            index,
            path: segment.path,
            fingerprint: segment.fingerprint,
        })
    }
}

impl Deref for IndexFile {
    type Target = Index<Mmap>;

    fn deref(&self) -> &Self::Target {
        &self.index
    }
}
