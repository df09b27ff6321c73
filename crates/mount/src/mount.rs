//! A mount from its options to its end.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use forebay_client::{ClientError, DaemonCommand, Dataset, OpenOptions, answered};
use forebay_fuse::{EndSignals, MountError, MountSettings, Mounted, check_mount_point, mount};
use forebay_indexer::{IndexerError, Progress};
use forebay_origin::{OriginError, open_tree};

use crate::face::Face;
use crate::manifest::{Manifest, find_manifest};
use crate::pool::Pool;
use crate::shown::{SharedShown, Shown};

/// The name in the mount table.
const NAME: &str = "forebay";
/// Threads that take the kernel's requests, at most: they only wait for memory.
const MOST_THREADS: usize = 8;

/// What to mount where, and how.
#[derive(Clone, Debug)]
pub struct MountOptions {
    /// A folder, or an index.
    pub source: PathBuf,
    /// The folder to mount on. It must exist and lie outside the source.
    pub mount_point: PathBuf,
    /// Cache folder of the node, absolute.
    pub cache: PathBuf,
    /// Where the manifest of a folder is kept: used if it is there, written if not; none: in the
    /// cache, and written anew each time.
    pub manifest: Option<PathBuf>,
    /// Folder or URL of the origin files of an index, if not the one that it records.
    pub root: Option<PathBuf>,
    /// Longest wait of a read for the daemon.
    pub deadline: Duration,
    /// How to start a daemon where there is none.
    pub daemon: DaemonCommand,
    /// Let other users in, as far as the files' permissions allow.
    pub allow_other: bool,
    /// Let the kernel read files itself that are resident as a whole.
    pub passthrough: bool,
    /// Reads that may wait at one time, each on a thread of its own.
    pub readers: usize,
}

impl MountOptions {
    /// The usual options: this user alone, a minute for a read.
    pub fn new(
        source: impl Into<PathBuf>,
        mount_point: impl Into<PathBuf>,
        cache: impl Into<PathBuf>,
    ) -> Self {
        Self {
            source: source.into(),
            mount_point: mount_point.into(),
            cache: cache.into(),
            manifest: None,
            root: None,
            deadline: Duration::from_secs(60),
            daemon: DaemonCommand::default(),
            allow_other: false,
            passthrough: true,
            readers: 32,
        }
    }
}

/// A mount that cannot be made, or ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountFault {
    /// The source can't be shown.
    #[error("cannot mount `{}`: {why}", path.display())]
    Source {
        /// The source.
        path: PathBuf,
        /// What is wrong and the way out.
        why: String,
    },
    /// The manifest can't be made.
    #[error("cannot make a manifest of the folder")]
    Manifest(#[source] IndexerError),
    /// The tree of files can't be read.
    #[error(transparent)]
    Tree(#[from] OriginError),
    /// The data set can't be opened.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// It can't be mounted or unmounted.
    #[error(transparent)]
    Mount(#[from] MountError),
}

/// What a mount served so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Times that a file was opened.
    pub opens: u64,
    /// Those of them after which the kernel reads the file itself.
    pub passthrough_opens: u64,
    /// Reads answered here.
    pub reads: u64,
    /// Bytes of those reads.
    pub read_bytes: u64,
    /// Reads that ended with an error.
    pub failed_reads: u64,
    /// Bytes that were resident when they were asked for.
    pub local_bytes: u64,
    /// Bytes that the daemon made resident first.
    pub staged_bytes: u64,
    /// Bytes that this process read from the origin itself.
    pub direct_bytes: u64,
}

/// A mounted folder or data set. Dropping it unmounts.
pub struct Mount {
    mounted: Mounted,
    shown: SharedShown,
    manifest: Manifest,
    warning: Option<String>,
}

/// Mounts and returns; the mount lives until the result is dropped or [`Mount::unmount`].
///
/// # Errors
/// What is wrong with the source, the manifest, the index, the cache folder or the mount point.
pub fn spawn(options: &MountOptions, progress: &dyn Progress) -> Result<Mount, MountFault> {
    let (settings, manifest) = prepare(options, progress)?;
    start(options, &settings, manifest)
}

/// What comes before the mount, and may take long.
fn prepare(
    options: &MountOptions,
    progress: &dyn Progress,
) -> Result<(MountSettings, Manifest), MountFault> {
    let settings = MountSettings {
        mount_point: options.mount_point.clone(),
        source: options.source.is_dir().then(|| options.source.clone()),
        name: NAME,
        allow_other: options.allow_other,
        threads: std::thread::available_parallelism()
            .map_or(2, usize::from)
            .clamp(2, MOST_THREADS),
    };
    check_mount_point(&settings)?;
    let manifest = find_manifest(options, progress)?;
    Ok((settings, manifest))
}

fn start(
    options: &MountOptions,
    settings: &MountSettings,
    manifest: Manifest,
) -> Result<Mount, MountFault> {
    let open = OpenOptions {
        root: options.root.clone(),
        cache: Some(options.cache.clone()),
        deadline: options.deadline,
        daemon: options.daemon.clone(),
    };
    let (dataset, warning) = Dataset::open(&manifest.index, open)?;
    let tree = open_tree(dataset.index())?;
    let shown = Arc::new(Shown::new(dataset, tree, options.passthrough));
    let pool = Pool::start(options.readers).map_err(MountError::Start)?;
    let face = Face::new(Arc::clone(&shown), pool);
    let stopped = Arc::clone(&shown);
    let mounted = mount(settings, face, move || stopped.stop())?;
    Ok(Mount {
        mounted,
        shown,
        manifest,
        warning,
    })
}

/// Mounts, calls `mounted`, and serves until SIGINT, SIGTERM or SIGHUP, or until someone unmounts.
/// Returns what was served.
///
/// # Errors
/// As [`spawn`].
pub fn serve(
    options: &MountOptions,
    progress: &dyn Progress,
    mounted: impl FnOnce(&Mount),
) -> Result<Served, MountFault> {
    let (settings, manifest) = prepare(options, progress)?;
    // Only now: a signal ends a walk at once.
    let signals = EndSignals::catch()?;
    let mut made = start(options, &settings, manifest)?;
    mounted(&made);
    made.mounted.wait(signals)?;
    let shown = Arc::clone(&made.shown);
    made.unmount()?;
    Ok(served(&shown))
}

impl Mount {
    /// Where it is mounted, as an absolute path.
    pub fn mount_point(&self) -> &Path {
        self.mounted.mount_point()
    }

    /// What is shown.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Files shown, and bytes of all of them.
    pub fn files(&self) -> (u64, u64) {
        self.shown.tree.files()
    }

    /// Why the daemon could not be reached, if so: bytes come from the origin then.
    pub fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Whether the kernel reads files itself that are resident as a whole. Before the first of them
    /// was opened, whether it may.
    pub fn passes(&self) -> bool {
        self.shown.passes()
    }

    /// What was served so far. Bytes are those of this process, of all its mounts.
    pub fn served(&self) -> Served {
        served(&self.shown)
    }

    /// Unmounts. Programs that still use the mount get errors.
    ///
    /// # Errors
    /// [`MountFault::Mount`] if the mount can't even be detached.
    pub fn unmount(self) -> Result<(), MountFault> {
        Ok(self.mounted.unmount()?)
    }
}

fn served(shown: &Shown) -> Served {
    let counters = &shown.counters;
    let bytes = answered();
    Served {
        opens: counters.opens.load(Ordering::Relaxed),
        passthrough_opens: counters.passthrough_opens.load(Ordering::Relaxed),
        reads: counters.reads.load(Ordering::Relaxed),
        read_bytes: counters.read_bytes.load(Ordering::Relaxed),
        failed_reads: counters.failed_reads.load(Ordering::Relaxed),
        local_bytes: bytes.local_bytes,
        staged_bytes: bytes.staged_bytes,
        direct_bytes: bytes.direct_bytes,
    }
}
