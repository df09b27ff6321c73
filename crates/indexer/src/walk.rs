//! Walks folders for the files to index.

use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::{self, DirEntry, FileType, Metadata};
use std::path::{Path, PathBuf};

use crate::error::Result;
use crate::files::{Found, InputFile, fingerprint};
use crate::listing::{Entries, FileEntry, FolderState, Listings};
use crate::parts_folder::PartsFolder;
use crate::scan::parallel;
use crate::superblock::{may_be_hdf5, superblock};
use crate::{IndexRequest, IndexerError, Progress, Stage};

/// Folders listed between two looks at what is worth to be kept.
const FOLDERS_A_TIME: usize = 256;

/// The root and the files of a request whose inputs are paths.
pub(crate) fn walk(
    request: &IndexRequest,
    folder: Option<&mut PartsFolder>,
    progress: &dyn Progress,
) -> Result<(PathBuf, Found)> {
    let inputs: Vec<PathBuf> = request
        .inputs
        .iter()
        .map(|path| fs::canonicalize(path).map_err(IndexerError::io("find", path)))
        .collect::<Result<_>>()?;
    let root = match &request.root {
        Some(root) => fs::canonicalize(root).map_err(IndexerError::io("find", root))?,
        None => common_folder(&inputs)?,
    };
    progress.begin(Stage::List, 0);
    let mut walk = Walk {
        lister: Lister::new(&root, request, progress),
        listings: Listings::open(request, folder)?,
        found: Vec::new(),
        entered: HashSet::new(),
        links: Vec::new(),
    };
    for path in &inputs {
        walk.input(path)?;
    }
    walk.linked_folders()?;
    let found = walk.found;
    Ok((root, found))
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
    lister: Lister<'a>,
    listings: Listings<'a>,
    found: Found,
    /// Folders that were entered, by device and inode.
    entered: HashSet<(u64, u64)>,
    /// Links to folders: entered last, so that a folder is found under its own name.
    links: Vec<PathBuf>,
}

impl Walk<'_> {
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
        let state = FolderState::of(metadata);
        if self.entered.contains(&state.identity()) {
            return Ok(());
        }
        let mut waiting = vec![(start.to_path_buf(), state)];
        // Level by level, some folders of each at one time.
        while !waiting.is_empty() {
            let level = std::mem::take(&mut waiting);
            for some in level.chunks(FOLDERS_A_TIME) {
                let (lister, listings) = (&self.lister, &self.listings);
                let listed = parallel(some.len(), |number| {
                    let (path, state) = &some[number];
                    lister.list(path, *state, listings)
                })?;
                for ((path, state), listed) in some.iter().zip(listed) {
                    self.listed(path, *state, listed, &mut waiting)?;
                }
                self.listings.keep()?;
            }
        }
        Ok(())
    }

    fn listed(
        &mut self,
        path: &Path,
        state: FolderState,
        listed: Listed,
        waiting: &mut Vec<(PathBuf, FolderState)>,
    ) -> Result<()> {
        if !self.entered.insert(state.identity()) {
            return Ok(());
        }
        for link in listed.links {
            self.link(link)?;
        }
        waiting.extend(listed.folders);
        let files = listed.files.into_iter().map(|file| (file, false));
        self.found.extend(files);
        if let Some(entries) = listed.entries {
            self.listings.add(path.to_path_buf(), state, entries);
        }
        Ok(())
    }

    /// A link is followed if it leads to something below the root.
    fn link(&mut self, path: PathBuf) -> Result<()> {
        let Ok(target) = fs::canonicalize(&path) else {
            return Ok(());
        };
        if !target.starts_with(self.lister.root) {
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
        let file = self.lister.file(&path.to_path_buf(), named)?;
        self.found.extend(file.map(|file| (file, named)));
        Ok(())
    }
}

/// Lists folders, several at one time.
struct Lister<'a> {
    root: &'a Path,
    request: &'a IndexRequest,
    progress: &'a dyn Progress,
    /// What is not an input, though it may lie among them.
    not_inputs: Vec<PathBuf>,
}

/// What lies in a folder; what is hidden only if that is asked for.
struct Listed {
    links: Vec<PathBuf>,
    folders: Vec<(PathBuf, FolderState)>,
    files: Vec<InputFile>,
    /// The same to be kept, unless it was.
    entries: Option<Entries>,
}

impl<'a> Lister<'a> {
    fn new(root: &'a Path, request: &'a IndexRequest, progress: &'a dyn Progress) -> Self {
        let output = &request.output;
        let folder = output.parent().filter(|path| !path.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new(".")));
        let output = match (folder, output.file_name()) {
            (Ok(folder), Some(name)) => folder.join(name),
            _ => output.clone(),
        };
        let others = [&request.manifest, &request.append_to];
        let others = others.into_iter().flatten();
        let mut not_inputs: Vec<PathBuf> = others
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect();
        not_inputs.push(crate::output::partial_path(&output));
        not_inputs.push(crate::parts_folder::path_of(&output));
        not_inputs.push(output);
        Self {
            root,
            request,
            progress,
            not_inputs,
        }
    }

    fn list(&self, folder: &Path, state: FolderState, known: &Listings<'_>) -> Result<Listed> {
        let listed = match known.find(folder, state) {
            Some(entries) => self.inputs(folder, entries)?,
            None => {
                let entries = self.entries(folder)?;
                let listed = self.inputs(folder, &entries)?;
                Listed {
                    entries: Some(entries),
                    ..listed
                }
            }
        };
        self.progress.advance(listed.files.len() as u64);
        Ok(listed)
    }

    /// Asks the file system.
    fn entries(&self, folder: &Path) -> Result<Entries> {
        let mut entries = Entries::default();
        for entry in fs::read_dir(folder).map_err(IndexerError::io("list", folder))? {
            let entry = entry.map_err(IndexerError::io("list", folder))?;
            let name = entry.file_name();
            if self.request.hidden || !name.as_encoded_bytes().starts_with(b".") {
                self.entry(&entry, name, &mut entries)?;
            }
        }
        // Sorted here, where it is done for many folders at one time.
        entries.files.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        Ok(entries)
    }

    fn entry(&self, entry: &DirEntry, name: OsString, entries: &mut Entries) -> Result<()> {
        let unread = |error| IndexerError::io("read", &entry.path())(error);
        let kind = entry.file_type().map_err(unread)?;
        if !(kind.is_symlink() || kind.is_dir() || kind.is_file()) {
            return Ok(());
        }
        let Ok(name) = name.into_string() else {
            return match self.is_nothing(&entry.path(), kind) {
                true => Ok(()),
                false => Err(IndexerError::not_utf8(&entry.path())),
            };
        };
        if kind.is_symlink() {
            entries.links.push(name);
        } else if kind.is_dir() {
            entries.folders.push(name);
        } else {
            let superblock = match may_be_hdf5(self.request) && self.may_be_input(&entry.path()) {
                true => superblock(&entry.path(), false)?,
                false => None,
            };
            let found = match self.request.files_as_samples {
                // Asked by its name in the open folder, which costs less than by its path.
                true => Some(entry.metadata().map_err(unread)?),
                false => None,
            };
            let found = found.map(|found| fingerprint(&found));
            entries.files.push(FileEntry::new(name, superblock, found));
        }
        Ok(())
    }

    /// Whether no input can lie there under any name: a link out of the root or to nowhere, an
    /// empty folder.
    fn is_nothing(&self, path: &Path, kind: FileType) -> bool {
        if kind.is_symlink() {
            let target = fs::canonicalize(path);
            return !target.is_ok_and(|target| target.starts_with(self.root));
        }
        kind.is_dir() && fs::read_dir(path).is_ok_and(|mut inside| inside.next().is_none())
    }

    fn inputs(&self, folder: &Path, entries: &Entries) -> Result<Listed> {
        let mut listed = Listed {
            links: entries.links.iter().map(|name| folder.join(name)).collect(),
            folders: Vec::with_capacity(entries.folders.len()),
            files: Vec::with_capacity(entries.files.len()),
            entries: None,
        };
        for name in &entries.folders {
            let path = folder.join(name);
            if self.may_be_input(&path) {
                let found = fs::symlink_metadata(&path).map_err(IndexerError::io("read", &path))?;
                listed.folders.push((path, FolderState::of(&found)));
            }
        }
        let below = self.name_of(folder)?;
        for entry in &entries.files {
            let path = folder.join(&entry.name);
            if self.may_be_input(&path) {
                let name = match below {
                    "" => entry.name.clone(),
                    below => format!("{below}/{}", entry.name),
                };
                listed.files.push(InputFile {
                    listed: entry.fingerprint(),
                    ..self.input(path, name, entry.superblock)
                });
            }
        }
        Ok(listed)
    }

    fn may_be_input(&self, path: &PathBuf) -> bool {
        !self.not_inputs.contains(path)
    }

    /// The file as an input, if it may be one.
    fn file(&self, path: &PathBuf, named: bool) -> Result<Option<InputFile>> {
        if !self.may_be_input(path) {
            return Ok(None);
        }
        let name = self.name_of(path)?.to_owned();
        let superblock = match may_be_hdf5(self.request) {
            true => superblock(path, named)?,
            false => None,
        };
        Ok(Some(self.input(path.clone(), name, superblock)))
    }

    fn input(&self, path: PathBuf, name: String, superblock: Option<u64>) -> InputFile {
        InputFile {
            path,
            name,
            superblock,
            object: None,
            listed: None,
            swmr: self.request.swmr,
            decode: self.request.decode,
        }
    }

    /// Relative to the root.
    fn name_of<'p>(&self, path: &'p Path) -> Result<&'p str> {
        let below = path.strip_prefix(self.root).map_err(|_| {
            IndexerError::Request(format!(
                "`{}` does not lie below the root `{}`",
                path.display(),
                self.root.display()
            ))
        })?;
        below.to_str().ok_or_else(|| IndexerError::not_utf8(path))
    }
}
