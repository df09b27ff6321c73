//! A folder as it is: every file an entry of an index, and the tree of folders and links beside it.
//! What a mount of the folder needs.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder, Storage};
use forebay_dataset::tree::{Attributes, Content, FileTree, TreeEntry};
use forebay_dataset::{BlockSize, DType, SegmentIndex};
use forebay_origin::{IndexFile, tree_path};

use crate::error::Result;
use crate::files::fingerprint;
use crate::output::write_whole;
use crate::scan::parallel_on;
use crate::{IndexerError, Progress, Stage};

/// Questions that a metadata server has to answer at one time: whoever asks waits for it, and not
/// for a processor.
const QUESTIONS: usize = 32;
/// Files that a thread asks for at a time.
const SHARE: usize = 64;

/// A folder to be indexed as it is.
#[derive(Clone, Debug)]
pub struct TreeRequest {
    /// The folder.
    pub root: PathBuf,
    /// The index file to write; the tree goes beside it, with `.tree` behind its name.
    pub output: PathBuf,
    /// Folders below the root that are left out.
    pub exclude: Vec<PathBuf>,
    /// Unit of caching.
    pub block_size: BlockSize,
    /// Files of at least so many bytes have a file of their own in the cache.
    pub own_shard_bytes: u64,
}

impl TreeRequest {
    /// Smaller files share files of the cache, and so cannot be read by the kernel itself: the map of
    /// a file of its own would be a good part of them.
    const OWN_SHARD_BYTES: u64 = 4 << 20;

    /// All of `root`, with the defaults.
    pub fn new(root: PathBuf, output: PathBuf) -> Self {
        Self {
            root,
            output,
            exclude: Vec::new(),
            block_size: BlockSize::DEFAULT,
            own_shard_bytes: Self::OWN_SHARD_BYTES,
        }
    }
}

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TreeSummary {
    /// Files.
    pub files: u64,
    /// Folders, the root included.
    pub folders: u64,
    /// Symbolic links.
    pub links: u64,
    /// Sockets, pipes and devices, which have no bytes to stage.
    pub left_out: u64,
    /// Bytes of all files.
    pub bytes: u64,
    /// Identity of the index.
    pub generation: u128,
    /// Wall time, in seconds.
    pub seconds: f64,
}

/// Walks the folder, hidden files included and without following links, and writes index and tree.
///
/// # Errors
/// What cannot be listed or read, a name that is not UTF-8, an output that cannot be written. The
/// output is then as it was.
pub fn index_tree(request: &TreeRequest, progress: &dyn Progress) -> Result<TreeSummary> {
    // Only for the summary; nothing depends on it.
    let started = Instant::now();
    let root = fs::canonicalize(&request.root).map_err(IndexerError::io("find", &request.root))?;
    let metadata = fs::metadata(&root).map_err(IndexerError::io("read", &root))?;
    if !metadata.is_dir() {
        return Err(IndexerError::Request(format!(
            "`{}` is not a folder",
            root.display()
        )));
    }
    let mut walk = Walk {
        root: &root,
        exclude: (request.exclude.iter())
            .filter_map(|path| fs::canonicalize(path).ok())
            .collect(),
        found: Vec::new(),
        left_out: 0,
    };
    walk.run(progress)?;
    walk.found.sort_by(|a, b| a.path.cmp(&b.path));
    let segments = write_index(request, &root, &walk.found, progress)?;
    let fault = |source| IndexerError::Index {
        path: request.output.clone(),
        source,
    };
    let index = IndexFile::open(&request.output)?;
    let root_attributes = attributes(&metadata);
    let entries = entries(&walk.found, &segments);
    let tree = FileTree::build(entries, root_attributes, root_attributes).map_err(fault)?;
    let beside = tree_path(&request.output);
    write_whole(&beside, |out| {
        let bytes = tree.encode(index.generation());
        io::Write::write_all(out, &bytes).map_err(IndexerError::io("write", &beside))
    })?;
    let count = |is: fn(&Metadata) -> bool| {
        let found = walk.found.iter().filter(|found| is(&found.metadata));
        found.count() as u64
    };
    let (files, bytes) = tree.files();
    Ok(TreeSummary {
        files,
        folders: 1 + count(Metadata::is_dir),
        links: count(Metadata::is_symlink),
        left_out: walk.left_out,
        bytes,
        generation: index.generation(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

/// One file, folder or link below the root.
struct Found {
    path: String,
    metadata: Metadata,
    /// Where a link leads.
    target: Vec<u8>,
}

struct Walk<'a> {
    root: &'a Path,
    exclude: Vec<PathBuf>,
    found: Vec<Found>,
    left_out: u64,
}

impl Walk<'_> {
    /// Level by level: first the names of all its folders, then what each of them is.
    fn run(&mut self, progress: &dyn Progress) -> Result<()> {
        let mut folders = vec![String::new()];
        while !folders.is_empty() {
            let listed = parallel_on(QUESTIONS, folders.len(), |at| self.list(&folders[at]))?;
            let paths = listed.concat();
            progress.begin(Stage::Scan, paths.len() as u64);
            let shares: Vec<&[String]> = paths.chunks(SHARE).collect();
            let found = parallel_on(QUESTIONS, shares.len(), |at| {
                let share = shares[at].iter().map(|path| self.look(path));
                progress.advance(shares[at].len() as u64);
                share.collect::<Result<Vec<_>>>()
            })?;
            folders.clear();
            for found in found.into_iter().flatten().flatten() {
                let metadata = &found.metadata;
                if metadata.is_dir() {
                    folders.push(found.path.clone());
                } else if !metadata.is_file() && !metadata.is_symlink() {
                    self.left_out += 1;
                    continue;
                }
                self.found.push(found);
            }
        }
        Ok(())
    }

    /// Paths of what lies in a folder.
    fn list(&self, folder: &str) -> Result<Vec<String>> {
        let path = self.root.join(folder);
        let mut paths = Vec::new();
        for entry in fs::read_dir(&path).map_err(IndexerError::io("list", &path))? {
            let name = entry.map_err(IndexerError::io("list", &path))?.file_name();
            if self.exclude.contains(&path.join(&name)) {
                continue;
            }
            let Some(name) = name.to_str() else {
                return Err(IndexerError::not_utf8(&path.join(name)));
            };
            paths.push(match folder {
                "" => name.to_owned(),
                folder => format!("{folder}/{name}"),
            });
        }
        Ok(paths)
    }

    /// What lies there; `None` if it is gone by now.
    fn look(&self, path: &str) -> Result<Option<Found>> {
        let full = self.root.join(path);
        let gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let metadata = match fs::symlink_metadata(&full) {
            Err(error) if gone(&error) => return Ok(None),
            metadata => metadata.map_err(IndexerError::io("read", &full))?,
        };
        let target = if metadata.is_symlink() {
            match fs::read_link(&full) {
                Err(error) if gone(&error) => return Ok(None),
                target => target.map_err(IndexerError::io("read", &full))?,
            }
        } else {
            PathBuf::new()
        };
        Ok(Some(Found {
            path: path.to_owned(),
            metadata,
            target: target.into_os_string().into_vec(),
        }))
    }
}

/// Writes the index: each file is a segment and a sample, as `forebay index --files` has them.
/// Returns the segment of each of `found` that is a file.
fn write_index(
    request: &TreeRequest,
    root: &Path,
    found: &[Found],
    progress: &dyn Progress,
) -> Result<Vec<Option<SegmentIndex>>> {
    let fault = |source| IndexerError::Index {
        path: request.output.clone(),
        source,
    };
    let Some(shown) = root.to_str() else {
        return Err(IndexerError::not_utf8(root));
    };
    let field = FieldSpec {
        name: "data".to_owned(),
        dtype: DType::U8,
    };
    let builder = IndexBuilder::new(shown, vec![field], request.block_size);
    let mut builder = (builder.map_err(fault)?).own_shards_from(request.own_shard_bytes);
    let mut segments = vec![None; found.len()];
    // Those that share come first, so that those that do not do not part them.
    for own in [false, true] {
        for (at, each) in found.iter().enumerate() {
            let is_own = each.metadata.size() >= request.own_shard_bytes;
            if each.metadata.is_file() && is_own == own {
                let added = builder.add_segment(&each.path, fingerprint(&each.metadata));
                segments[at] = Some(added.map_err(fault)?);
            }
        }
    }
    progress.begin(Stage::Write, found.len() as u64);
    for (each, segment) in found.iter().zip(&segments) {
        progress.advance(1);
        let Some(segment) = *segment else { continue };
        let extent = FieldExtent {
            segment,
            shape: vec![each.metadata.size()],
            storage: Storage::Contiguous { offset: 0 },
        };
        let added = builder.add_sample(Some(&each.path), &[extent], None);
        added.map_err(fault)?;
    }
    write_whole(&request.output, |out| {
        let written = builder.write(out);
        written.map_err(IndexerError::io("write", &request.output))
    })?;
    Ok(segments)
}

fn entries<'a>(found: &'a [Found], segments: &[Option<SegmentIndex>]) -> Vec<TreeEntry<'a>> {
    let entries = found
        .iter()
        .zip(segments)
        .map(|(found, segment)| TreeEntry {
            path: &found.path,
            content: match segment {
                Some(segment) => Content::File(*segment),
                None if found.metadata.is_dir() => Content::Folder,
                None => Content::Link(&found.target),
            },
            attributes: attributes(&found.metadata),
        });
    entries.collect()
}

fn attributes(metadata: &Metadata) -> Attributes {
    let nanoseconds = |seconds: i64, part: i64| {
        let whole = seconds.saturating_mul(1_000_000_000);
        whole.saturating_add(part)
    };
    Attributes {
        permissions: (metadata.mode() & 0o7777) as u16,
        uid: metadata.uid(),
        gid: metadata.gid(),
        links: u32::try_from(metadata.nlink()).unwrap_or(u32::MAX),
        size: metadata.size(),
        blocks: metadata.blocks(),
        mtime_ns: nanoseconds(metadata.mtime(), metadata.mtime_nsec()),
        ctime_ns: nanoseconds(metadata.ctime(), metadata.ctime_nsec()),
    }
}
