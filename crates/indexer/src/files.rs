//! Finds the files to index.

use std::collections::{BTreeMap, HashSet};
use std::fs::{self, File, FileType, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use forebay_dataset::Fingerprint;

use crate::error::Result;
use crate::format::{self, Format};
use crate::scan::parallel;
use crate::source::InputObject;
use crate::superblock::{may_be_hdf5, superblock};
use crate::{IndexRequest, IndexerError, objects};

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

/// By name; true for a file that the request names.
pub(crate) type Found = BTreeMap<String, (InputFile, bool)>;

/// Finds all files of a request.
pub(crate) fn find(request: &IndexRequest) -> Result<Inputs> {
    if request.inputs.is_empty() {
        return Err(IndexerError::Request(
            "there is nothing to index: name files or a folder".to_owned(),
        ));
    }
    let (root, mut files) = match objects::find(request)? {
        Some(found) => found,
        None => walk(request)?,
    };
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
        files: files.into_values().map(|(file, _)| file).collect(),
        format,
    })
}

/// The root and the files of a request whose inputs are paths.
fn walk(request: &IndexRequest) -> Result<(PathBuf, Found)> {
    let inputs: Vec<PathBuf> = request
        .inputs
        .iter()
        .map(|path| fs::canonicalize(path).map_err(IndexerError::io("find", path)))
        .collect::<Result<_>>()?;
    let root = match &request.root {
        Some(root) => fs::canonicalize(root).map_err(IndexerError::io("find", root))?,
        None => common_folder(&inputs)?,
    };
    let mut walk = Walk::new(&root, request);
    for path in &inputs {
        walk.input(path)?;
    }
    walk.linked_folders()?;
    let found = walk.found;
    Ok((root, found))
}

/// What the files are, as the request or they themselves say.
fn format_of(request: &IndexRequest, files: &Found) -> Result<Format> {
    match request.format {
        _ if request.files_as_samples => Ok(Format::Files),
        Some(format) => Ok(format),
        None if files.values().any(|(file, _)| file.superblock.is_some()) => Ok(Format::Hdf5),
        None => format::recognise(files.keys().map(String::as_str)),
    }
}

/// Leaves the files of one format.
fn retain(format: Format, request: &IndexRequest, files: &mut Found) -> Result<()> {
    match format {
        Format::Files => {}
        Format::Hdf5 => {
            refuse_strangers(files)?;
            files.retain(|_, (file, _)| file.superblock.is_some());
        }
        _ => {
            let names = files.keys().map(String::as_str);
            let kept = format::retained(format, names);
            format::refuse_compressed(kept.iter().copied())?;
            let kept: HashSet<String> = kept.into_iter().map(str::to_owned).collect();
            for (name, (file, named)) in &*files {
                if *named && !kept.contains(name) {
                    return Err(IndexerError::Request(format!(
                        "`{}` is not a file of format {format}: index it separately",
                        file.path.display()
                    )));
                }
            }
            files.retain(|name, _| kept.contains(name));
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
    for (file, named) in files.values() {
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

fn common_folder(inputs: &[PathBuf]) -> Result<PathBuf> {
    let folder = |path: &Path| {
        if path.is_dir() {
            path.to_path_buf()
        } else {
            path.parent().unwrap_or(path).to_path_buf()
        }
    };
    let mut common = folder(&inputs[0]);
    for path in &inputs[1..] {
        while !path.starts_with(&common) {
            if !common.pop() {
                return Err(IndexerError::Request(
                    "the inputs have no folder in common: name one with `--root`".to_owned(),
                ));
            }
        }
    }
    Ok(common)
}

struct Walk<'a> {
    root: &'a Path,
    request: &'a IndexRequest,
    output: PathBuf,
    /// Files of the request that are not what is indexed.
    not_inputs: Vec<PathBuf>,
    found: Found,
    /// Folders that were entered, by device and inode.
    entered: HashSet<(u64, u64)>,
    /// Links to folders: entered last, so that a folder is found under its own name.
    links: Vec<PathBuf>,
}

impl<'a> Walk<'a> {
    fn new(root: &'a Path, request: &'a IndexRequest) -> Self {
        let output = &request.output;
        let folder = output.parent().filter(|path| !path.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")));
        Self {
            root,
            request,
            output: match (folder, output.file_name()) {
                (Ok(folder), Some(name)) => folder.join(name),
                _ => output.clone(),
            },
            not_inputs: [&request.manifest, &request.append_to]
                .into_iter()
                .flatten()
                .filter_map(|path| fs::canonicalize(path).ok())
                .collect(),
            found: BTreeMap::new(),
            entered: HashSet::new(),
            links: Vec::new(),
        }
    }

    fn input(&mut self, path: &Path) -> Result<()> {
        let metadata = fs::metadata(path).map_err(IndexerError::io("read", path))?;
        if metadata.is_dir() {
            return self.folder(path, &metadata);
        }
        if !metadata.is_file() {
            return Err(IndexerError::Request(format!(
                "`{}` is neither a file nor a folder",
                path.display()
            )));
        }
        self.file(path, true)
    }

    fn folder(&mut self, start: &Path, metadata: &Metadata) -> Result<()> {
        let mut waiting = vec![start.to_path_buf()];
        if !self.entered.insert((metadata.dev(), metadata.ino())) {
            return Ok(());
        }
        // Level by level, the folders of each at one time.
        while !waiting.is_empty() {
            let level = std::mem::take(&mut waiting);
            for (path, kind) in parallel(level.len(), |number| {
                list(&level[number], self.request.hidden)
            })?
            .into_iter()
            .flatten()
            {
                if kind.is_symlink() {
                    self.link(path)?;
                } else if kind.is_dir() {
                    if path == crate::saved::folder_of(&self.output) {
                        continue;
                    }
                    let found = fs::symlink_metadata(&path);
                    let found = found.map_err(IndexerError::io("read", &path))?;
                    if self.entered.insert((found.dev(), found.ino())) {
                        waiting.push(path);
                    }
                } else if kind.is_file() {
                    self.file(&path, false)?;
                }
            }
        }
        Ok(())
    }

    /// A link is followed if it leads to something below the root.
    fn link(&mut self, path: PathBuf) -> Result<()> {
        let Ok(target) = fs::canonicalize(&path) else {
            return Ok(());
        };
        if !target.starts_with(self.root) {
            return Ok(());
        }
        let metadata = fs::metadata(&target).map_err(IndexerError::io("read", &target))?;
        if metadata.is_dir() {
            self.links.push(path);
        } else if metadata.is_file() {
            self.file(&path, false)?;
        }
        Ok(())
    }

    fn linked_folders(&mut self) -> Result<()> {
        loop {
            // Sorted, so that the name under which a folder is found does not depend on the
            // order in which the file system lists it.
            let mut links = std::mem::take(&mut self.links);
            if links.is_empty() {
                return Ok(());
            }
            links.sort();
            for path in links {
                let metadata = fs::metadata(&path).map_err(IndexerError::io("read", &path))?;
                self.folder(&path, &metadata)?;
            }
        }
    }

    fn file(&mut self, path: &Path, named: bool) -> Result<()> {
        if *path == self.output
            || *path == crate::output::partial_path(&self.output)
            || self.not_inputs.iter().any(|other| other == path)
        {
            return Ok(());
        }
        let below = path.strip_prefix(self.root).map_err(|_| {
            IndexerError::Request(format!(
                "`{}` does not lie below the root `{}`",
                path.display(),
                self.root.display()
            ))
        })?;
        let Some(name) = below.to_str() else {
            return Err(IndexerError::Request(format!(
                "the name of `{}` is not UTF-8",
                path.display()
            )));
        };
        let superblock = if may_be_hdf5(self.request) {
            superblock(path, named)?
        } else {
            None
        };
        let file = InputFile {
            path: path.to_path_buf(),
            name: name.to_owned(),
            superblock,
            object: None,
            swmr: self.request.swmr,
            decode: self.request.decode,
        };
        let entry = self.found.entry(file.name.clone()).or_insert((file, named));
        entry.1 |= named;
        Ok(())
    }
}

/// What lies in a folder; what is hidden only if that is asked for.
fn list(folder: &Path, hidden: bool) -> Result<Vec<(PathBuf, FileType)>> {
    let entries = fs::read_dir(folder).map_err(IndexerError::io("list", folder))?;
    let mut listed = Vec::new();
    for entry in entries {
        let entry = entry.map_err(IndexerError::io("list", folder))?;
        if hidden || !entry.file_name().as_encoded_bytes().starts_with(b".") {
            let path = entry.path();
            let kind = entry.file_type().map_err(IndexerError::io("read", &path))?;
            listed.push((path, kind));
        }
    }
    Ok(listed)
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
