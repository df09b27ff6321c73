//! Files through a client of Forebay: names and attributes from an index, bytes from the node's
//! cache, and what is not there yet staged by the node's daemon.

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_client::{Answered, DaemonCommand, Dataset, OpenOptions, answered};
use forebay_dataset::SegmentIndex;
use forebay_dataset::tree::{FileTree, NodeIndex, NodeKind};
use forebay_indexer::{TreeRequest, index_tree};
use forebay_origin::open_tree;

use crate::workload::Stage;
use crate::{BenchError, Result};

/// The index in the folder of the run or of the rank.
const INDEX: &str = "files.forebay";

/// The longest wait for the daemon, where the run itself may last longer.
const PATIENCE: Duration = Duration::from_secs(60);

/// The files below a folder, as a client has them open.
#[derive(Debug)]
pub(crate) struct Client {
    dataset: Dataset,
    tree: FileTree,
    root: PathBuf,
    /// What this process had read when it was opened.
    before: Answered,
}

impl Client {
    /// Opens the files below `root`. With `of_all` it is the same folder for all ranks: the first
    /// makes its index. Else each has a folder of its own.
    pub(crate) fn open(at: &mut Stage<'_>, root: &Path, of_all: bool) -> Result<Self> {
        let folder = if of_all { at.shared } else { at.own };
        let index = folder.path().join(INDEX);
        if !of_all || at.is_first() {
            let request = TreeRequest {
                // Of a data set that the work folder lies in, it is no part.
                exclude: vec![at.spec.work_dir.clone()],
                ..TreeRequest::new(root.to_owned(), index.clone())
            };
            index_tree(&request, &()).map_err(BenchError::client("index", root))?;
        }
        if of_all {
            at.meet()?;
        }
        let options = OpenOptions {
            deadline: PATIENCE.min(at.spec.timeout()),
            daemon: DaemonCommand {
                program: std::env::current_exe().ok().map(Into::into),
                arguments: Vec::new(),
            },
            ..OpenOptions::default()
        };
        let (dataset, warning) =
            Dataset::open(&index, options).map_err(BenchError::client("open", root))?;
        if let Some(why) = warning {
            // It would read the origin itself, and be no measurement of what was asked for.
            let folder = dataset.cache_folder().display().to_string();
            return Err(BenchError::Usage(format!(
                "`--interface client` needs a daemon for the cache folder `{folder}` (FOREBAY_CACHE): {why}"
            )));
        }
        let tree = open_tree(dataset.index()).map_err(BenchError::client("open", root))?;
        Ok(Self {
            dataset,
            tree,
            root: root.to_owned(),
            before: answered(),
        })
    }

    /// The folders, files and links.
    pub(crate) fn tree(&self) -> &FileTree {
        &self.tree
    }

    /// What has this path below the root.
    pub(crate) fn find(&self, path: &Path) -> Result<NodeIndex> {
        let found = path.to_str().and_then(|path| self.tree.find(path));
        found.ok_or_else(|| self.fault("find", path, std::io::ErrorKind::NotFound.into()))
    }

    /// The file of this path.
    pub(crate) fn file(&self, path: &Path) -> Result<SegmentIndex> {
        match self.tree.kind(self.find(path)?) {
            NodeKind::File(segment) => Ok(segment),
            NodeKind::Folder => Err(self.fault("open", path, rustix::io::Errno::ISDIR.into())),
            NodeKind::Link => Err(self.fault("open", path, rustix::io::Errno::LOOP.into())),
        }
    }

    /// Reads from `offset` of a file; fewer bytes than `out` takes at its end alone.
    pub(crate) fn read(
        &self,
        path: &Path,
        file: SegmentIndex,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize> {
        let read = self.dataset.read_file(file, offset, out);
        read.map_err(|error| BenchError::client("read", &self.root.join(path))(error))
    }

    fn fault(&self, act: &'static str, path: &Path, why: std::io::Error) -> BenchError {
        BenchError::client(act, &self.root.join(path))(why)
    }

    /// Who gave the bytes, in words for the manifest.
    pub(crate) fn served(&self) -> String {
        let (now, before) = (answered(), self.before);
        format!(
            "blocks in Forebay's cache `{}`: {} bytes were resident when they were asked for, {} were staged first, {} came from the origin",
            self.dataset.cache_folder().display(),
            now.local_bytes - before.local_bytes,
            now.staged_bytes - before.staged_bytes,
            now.direct_bytes - before.direct_bytes,
        )
    }
}
