//! The tree of files beside an index.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_dataset::tree::{Attributes, FileTree};

use crate::{IndexFile, OriginError};

/// Where the tree of the files of an index lies.
pub fn tree_path(index: &Path) -> PathBuf {
    let mut path = index.as_os_str().to_owned();
    path.push(".tree");
    PathBuf::from(path)
}

/// The folders and files of an index: as the tree beside it says, or, where there is none of this
/// index, as its paths say. Files are read-only then, and belong to the owner of the index.
///
/// # Errors
/// A tree that cannot be read or is damaged, an index that is.
pub fn open_tree(index: &IndexFile) -> Result<FileTree, OriginError> {
    let path = tree_path(index.path());
    let fault = |path: &Path| {
        let path = path.display().to_string();
        move |source| OriginError::Index { path, source }
    };
    match fs::read(&path) {
        Ok(bytes) if FileTree::generation_of(&bytes).is_none_or(|it| it == index.generation()) => {
            return FileTree::decode(&bytes, index.generation(), index.segment_count())
                .map_err(fault(&path));
        }
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            let path = path.display().to_string();
            return Err(OriginError::OpenIndex { path, source });
        }
        // Of an index that was here before.
        Ok(_) | Err(_) => {}
    }
    let of_index = fs::metadata(index.path()).map_err(|source| OriginError::OpenIndex {
        path: index.path().display().to_string(),
        source,
    })?;
    let time = of_index.mtime().saturating_mul(1_000_000_000);
    let file = Attributes {
        permissions: 0o444,
        uid: of_index.uid(),
        gid: of_index.gid(),
        links: 1,
        size: 0,
        blocks: 0,
        mtime_ns: time,
        ctime_ns: time,
    };
    let folder = Attributes {
        permissions: 0o555,
        ..file
    };
    FileTree::of_index(index, file, folder).map_err(fault(index.path()))
}
