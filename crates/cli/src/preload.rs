//! `forebay run --preload`: the command's files of the staged roots are served by the node's cache.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;
use forebay_indexer::{TreeRequest, index_tree};
use forebay_origin::IndexFile;
use forebay_residency::NodePaths;

use crate::Failure;
use crate::progress::Bar;

const LIBRARY: &str = "libforebay_preload.so";

/// How a command that knows nothing of Forebay is served.
#[derive(Args)]
pub(crate) struct PreloadArguments {
    /// Serve the command's own reads of files below the roots: it opens paths as ever
    #[arg(long)]
    preload: bool,
    /// Folders whose files are staged, parted by colons: ROOT, which is indexed at the start, ROOT=INDEX or INDEX [default: $FOREBAY_ROOTS]
    #[arg(long, value_name = "ROOTS", requires = "preload")]
    roots: Option<OsString>,
    /// Publish what the command writes below this folder when it closes it, by its path from there [default: $FOREBAY_PUBLISH]
    #[arg(long, value_name = "FOLDER", requires = "preload")]
    publish: Option<PathBuf>,
    /// Wait for what the command opens below this folder and is not there until it is published, and put it there [default: $FOREBAY_CONSUME]
    #[arg(long, value_name = "FOLDER", requires = "preload")]
    consume: Option<PathBuf>,
}

/// What the command's environment says.
#[derive(Debug)]
pub(crate) struct Preload {
    library: PathBuf,
    roots: Vec<(PathBuf, PathBuf)>,
    /// Variables with a folder each.
    folders: Vec<(&'static str, PathBuf)>,
}

impl PreloadArguments {
    /// Finds the library and the roots; `None` if the command is run as it is.
    pub(crate) fn find(&self, paths: &NodePaths) -> Result<Option<Preload>, Failure> {
        if !self.preload {
            return Ok(None);
        }
        let mut folders = Vec::new();
        for (name, folder) in [
            ("FOREBAY_PUBLISH", &self.publish),
            ("FOREBAY_CONSUME", &self.consume),
        ] {
            let folder = folder.clone().or_else(|| value(name).map(PathBuf::from));
            if let Some(folder) = folder {
                folders.push((name, std::path::absolute(folder)?));
            }
        }
        let named = self.roots.clone().or_else(|| value("FOREBAY_ROOTS"));
        let named = named.or_else(|| (!folders.is_empty()).then(OsString::new));
        let named = named.ok_or_else(|| {
            Failure::usage("--preload needs the folders whose files are staged")
                .hint("name them with --roots, or set FOREBAY_ROOTS")
        })?;
        let mut roots = Vec::new();
        for part in named.as_bytes().split(|byte| *byte == b':') {
            if !part.is_empty() {
                add_root(&mut roots, Path::new(OsStr::from_bytes(part)), paths)?;
            }
        }
        let library = library()?;
        Ok(Some(Preload {
            library,
            roots,
            folders,
        }))
    }
}

fn value(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|value| !value.is_empty())
}

/// Adds a root with its index, under its name and, where that has symbolic links, under the name that
/// the kernel has for it.
fn add_root(
    roots: &mut Vec<(PathBuf, PathBuf)>,
    part: &Path,
    paths: &NodePaths,
) -> Result<(), Failure> {
    let text = part.as_os_str().as_bytes();
    let parted = text.iter().position(|byte| *byte == b'=');
    let (root, index) = match parted {
        Some(at) => {
            let (root, index) = (&text[..at], &text[at + 1..]);
            let path = |bytes| Path::new(OsStr::from_bytes(bytes));
            (path(root).to_path_buf(), Some(path(index).to_path_buf()))
        }
        None if part.is_file() => {
            let index = IndexFile::open(part)?;
            (index.resolve_root(None), Some(part.to_path_buf()))
        }
        None => (part.to_path_buf(), None),
    };
    let root = std::path::absolute(root)?;
    let canonical = root
        .canonicalize()
        .map_err(|error| Failure::new(format!("cannot use root `{}`: {error}", root.display())))?;
    let index = match index {
        Some(index) => {
            IndexFile::open(&index)?;
            std::path::absolute(index)?
        }
        None => paths.folder_index(&canonical),
    };
    for folder in [&root, &canonical] {
        if folder
            .as_os_str()
            .as_bytes()
            .iter()
            .any(|byte| b":=".contains(byte))
        {
            let folder = folder.display();
            return Err(
                Failure::usage(format!("root `{folder}` has a `:` or `=` in its name"))
                    .hint("stage a symbolic link to it, by a name without them"),
            );
        }
    }
    roots.push((canonical.clone(), index.clone()));
    if root != canonical {
        roots.push((root, index));
    }
    Ok(())
}

/// Beside this program, or where the Python package has it.
fn library() -> Result<PathBuf, Failure> {
    let program = std::env::current_exe()?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let places = match value("FOREBAY_PRELOAD_LIBRARY") {
        Some(named) => vec![PathBuf::from(named)],
        None => vec![
            folder.join(LIBRARY),
            folder.join("../lib/forebay").join(LIBRARY),
        ],
    };
    let found = places.iter().find_map(|place| place.canonicalize().ok());
    let found = found.ok_or_else(|| {
        Failure::new(format!(
            "there is no `{LIBRARY}` beside `{}`",
            program.display()
        ))
        .hint("set FOREBAY_PRELOAD_LIBRARY to where it is")
    })?;
    // The loader takes them for the end of a name.
    if found
        .as_os_str()
        .as_bytes()
        .iter()
        .any(|byte| b": ".contains(byte))
    {
        let found = found.display();
        return Err(Failure::new(format!(
            "the loader cannot load `{found}`: its name has a space or colon"
        )));
    }
    Ok(found)
}

impl Preload {
    /// Indexes the roots that name no index of their own: by the first process of a node, before its
    /// daemon is up.
    pub(crate) fn index_roots(&self, paths: &NodePaths) -> Result<(), Failure> {
        for (root, output) in &self.roots {
            if *output != paths.folder_index(root) {
                continue;
            }
            if let Some(folder) = output.parent() {
                std::fs::create_dir_all(folder)?;
            }
            let request = TreeRequest {
                exclude: vec![paths.folder().to_path_buf()],
                ..TreeRequest::new(root.clone(), output.clone())
            };
            index_tree(&request, &Bar::default())?;
        }
        Ok(())
    }

    /// Sets the command's environment.
    pub(crate) fn set(&self, command: &mut Command) {
        let mut roots = OsString::new();
        for (root, index) in &self.roots {
            if !roots.is_empty() {
                roots.push(":");
            }
            roots.push(root);
            roots.push("=");
            roots.push(index);
        }
        let mut libraries = self.library.clone().into_os_string();
        if let Some(others) = value("LD_PRELOAD") {
            libraries.push(":");
            libraries.push(others);
        }
        command.env("FOREBAY_ROOTS", roots);
        command.env("LD_PRELOAD", libraries);
        command.envs(self.folders.iter().map(|(name, folder)| (name, folder)));
    }
}
