//! Finds the files to index.

use std::collections::HashSet;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_dataset::Fingerprint;

use crate::error::Result;
use crate::format::{self, Format};
use crate::parts_folder::PartsFolder;
use crate::source::InputObject;
use crate::walk::walk;
use crate::{IndexRequest, IndexerError, Progress, objects};

/// One input file.
#[derive(Clone, Debug)]
pub(crate) struct InputFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Relative to the root, `/` between names.
    pub(crate) name: String,
    /// For an HDF5 file, where its superblock begins.
    pub(crate) superblock: Option<u64>,
    /// Whether an HDF5 file that another process writes is read as it stands.
    pub(crate) swmr: bool,
    /// Whether what of an HDF5 file cannot be read by ranges is decoded into memory.
    pub(crate) decode: bool,
    /// The object that it is, if it lies in a store; `path` is its URL then.
    pub(crate) object: Option<InputObject>,
    /// What it was when its folder was listed, where that was asked.
    pub(crate) listed: Option<Fingerprint>,
}

impl InputFile {
    /// What it is now; an object, what it was when it was listed.
    pub(crate) fn stat(&self) -> Result<Fingerprint> {
        match &self.object {
            Some(object) => Ok(object.fingerprint),
            None => fs::metadata(&self.path)
                .map(|metadata| fingerprint(&metadata))
                .map_err(IndexerError::io("read", &self.path)),
        }
    }

    /// What lies beside it under another name.
    pub(crate) fn sibling(&self, name: &str) -> Result<Self> {
        let beside = |path: &str| match path.rsplit_once('/') {
            Some((folder, _)) => format!("{folder}/{name}"),
            None => name.to_owned(),
        };
        let object = match &self.object {
            None => None,
            Some(object) => {
                let key = beside(&object.key);
                Some(InputObject {
                    fingerprint: object.objects.stat(&key)?,
                    objects: object.objects.clone(),
                    key,
                })
            }
        };
        Ok(Self {
            path: self.path.with_file_name(name),
            name: beside(&self.name),
            superblock: None,
            swmr: self.swmr,
            decode: self.decode,
            object,
            listed: None,
        })
    }
}

/// The files of a request, sorted by name.
#[derive(Debug)]
pub(crate) struct Inputs {
    pub(crate) root: PathBuf,
    pub(crate) files: Vec<InputFile>,
    pub(crate) format: Format,
}

/// Files of a request; true for one that the request names.
pub(crate) type Found = Vec<(InputFile, bool)>;

/// Finds all files of a request. What of them was listed lies in `folder` meanwhile, if one is
/// given.
pub(crate) fn find(
    request: &IndexRequest,
    folder: Option<&mut PartsFolder>,
    progress: &dyn Progress,
) -> Result<Inputs> {
    if request.inputs.is_empty() {
        return Err(IndexerError::Request(
            "there is nothing to index: name files or a folder".to_owned(),
        ));
    }
    let (root, mut files) = match objects::find(request)? {
        Some(found) => found,
        None => walk(request, folder, progress)?,
    };
    sort(&mut files);
    let format = format_of(request, &files)?;
    retain(format, request, &mut files)?;
    format::check_request(format, request)?;
    if files.is_empty() {
        return Err(IndexerError::Request(format!(
            "there is no file to index below `{}`",
            root.display()
        )));
    }
    Ok(Inputs {
        root,
        files: files.into_iter().map(|(file, _)| file).collect(),
        format,
    })
}

/// By name. A file that was found twice stands once, named if it was named once.
fn sort(files: &mut Found) {
    files.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    files.dedup_by(|(again, named_again), (file, named)| {
        let same = again.name == file.name;
        *named |= same && *named_again;
        same
    });
}

fn names(files: &Found) -> impl Iterator<Item = &str> + Clone {
    files.iter().map(|(file, _)| file.name.as_str())
}

/// What the files are, as the request or they themselves say.
fn format_of(request: &IndexRequest, files: &Found) -> Result<Format> {
    match request.format {
        _ if request.files_as_samples => Ok(Format::Files),
        Some(format) => Ok(format),
        None if files.iter().any(|(file, _)| file.superblock.is_some()) => Ok(Format::Hdf5),
        None => format::recognise(names(files)),
    }
}

/// Leaves the files of one format.
fn retain(format: Format, request: &IndexRequest, files: &mut Found) -> Result<()> {
    match format {
        Format::Files => {}
        Format::Hdf5 => {
            refuse_strangers(files)?;
            files.retain(|(file, _)| file.superblock.is_some());
        }
        _ => {
            let kept = format::retained(format, names(files));
            format::refuse_compressed(kept.iter().copied())?;
            let kept: HashSet<String> = kept.into_iter().map(str::to_owned).collect();
            for (file, named) in &*files {
                if *named && !kept.contains(&file.name) {
                    return Err(IndexerError::Request(format!(
                        "`{}` is not a file of format {format}: index it separately",
                        file.path.display()
                    )));
                }
            }
            files.retain(|(file, _)| kept.contains(&file.name));
            if files.is_empty() && request.format.is_some() {
                return Err(IndexerError::Request(format!(
                    "there is no file of format {format} among the inputs: check `--format`"
                )));
            }
        }
    }
    Ok(())
}

/// A file that was named, is not HDF5, and stands among HDF5 files, would be left out unseen.
fn refuse_strangers(files: &Found) -> Result<()> {
    for (file, named) in files {
        if *named && file.superblock.is_none() {
            return Err(IndexerError::Request(format!(
                "`{}` is not an HDF5 file, other inputs are: index them separately, or all as \
                 plain files with `--files`",
                file.path.display()
            )));
        }
    }
    Ok(())
}

/// What a file is now. Later, the same fingerprint means the same bytes.
pub(crate) fn fingerprint(metadata: &Metadata) -> Fingerprint {
    Fingerprint {
        size: metadata.size(),
        mtime_ns: metadata
            .mtime()
            .saturating_mul(1_000_000_000)
            .saturating_add(metadata.mtime_nsec()),
        inode: metadata.ino(),
    }
}

/// Fails if `file` is not what it was.
pub(crate) fn check_unchanged(file: &File, path: &Path, wanted: Fingerprint) -> Result<()> {
    let found = fingerprint(&file.metadata().map_err(IndexerError::io("read", path))?);
    if found == wanted {
        return Ok(());
    }
    let what = if found.size != wanted.size {
        format!("it had {} bytes, it has {}", wanted.size, found.size)
    } else if found.inode != wanted.inode {
        "another file has taken its place".to_owned()
    } else {
        "it was written to".to_owned()
    };
    Err(IndexerError::Stale {
        path: path.to_path_buf(),
        what,
    })
}
