//! Which index and tree a mount shows.

use std::path::{Path, PathBuf};

use forebay_indexer::{IndexerError, Progress, TreeRequest, TreeSummary, index_tree};
use forebay_origin::StoreUrl;
use forebay_residency::NodePaths;

use crate::mount::{MountFault, MountOptions};

/// The manifest of a mount.
#[derive(Clone, Debug, PartialEq)]
pub struct Manifest {
    /// The index; its tree lies beside it.
    pub index: PathBuf,
    /// What a walk of the folder found, if there was one.
    pub walked: Option<TreeSummary>,
}

/// The index that is to be shown: the source itself, if it is one; else that of the folder. It is
/// made by a walk of the folder, unless the manifest that the options name is there already.
///
/// # Errors
/// [`MountFault::Source`], [`MountFault::Manifest`].
pub fn find_manifest(
    options: &MountOptions,
    progress: &dyn Progress,
) -> Result<Manifest, MountFault> {
    let source = &options.source;
    let refuse = |why: String| MountFault::Source {
        path: source.clone(),
        why,
    };
    if source.to_str().is_some_and(StoreUrl::is_url) {
        let why = "index it first, `forebay index --files URL -o INDEX`, and mount the index";
        return Err(refuse(why.to_owned()));
    }
    let found = std::fs::metadata(source).map_err(|error| refuse(error.to_string()))?;
    if !found.is_dir() {
        if options.manifest.is_some() {
            let why = "it is an index itself, so that there is no manifest to name";
            return Err(refuse(why.to_owned()));
        }
        let index = source.clone();
        return Ok(Manifest {
            index,
            walked: None,
        });
    }
    let output = match &options.manifest {
        Some(path) if path.exists() => {
            let index = path.clone();
            return Ok(Manifest {
                index,
                walked: None,
            });
        }
        Some(path) => path.clone(),
        None => kept_at(&options.cache, source).map_err(|error| refuse(error.to_string()))?,
    };
    let request = TreeRequest {
        exclude: vec![options.cache.clone()],
        ..TreeRequest::new(source.clone(), output.clone())
    };
    let walked = index_tree(&request, progress).map_err(fault)?;
    Ok(Manifest {
        index: output,
        walked: Some(walked),
    })
}

fn fault(source: IndexerError) -> MountFault {
    MountFault::Manifest(source)
}

/// Where the manifest of a folder is kept where none is named: in the cache, by the folder's path.
fn kept_at(cache: &Path, source: &Path) -> std::io::Result<PathBuf> {
    let kept = NodePaths::new(cache.to_path_buf()).folder_index(&source.canonicalize()?);
    if let Some(folder) = kept.parent() {
        std::fs::create_dir_all(folder)?;
    }
    Ok(kept)
}
