//! A mounted tier: what it is made of, and its control socket.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use forebay_fuse::{EndSignals, MountSettings, Mounted, check_mount_point, mount};

use crate::control::{Command, ControlServer, FS_NAME, Status};
use crate::error::{Error, Result};
use crate::fs::{EmulatedFs, KernelOptions};
use crate::profile::ProfileSettings;
use crate::server::{Server, Ttl};
use crate::trace::Trace;
use crate::tree::Tree;

/// What to mount where, and how.
#[derive(Clone, Debug)]
pub struct EmulateOptions {
    /// The folder to serve.
    pub source: PathBuf,
    /// The folder to mount on. It must exist and lie outside the source.
    pub mount_point: PathBuf,
    /// Delays, cap and faults.
    pub profile: ProfileSettings,
    /// Let the kernel cache file bytes and read ahead. Off: every read reaches the tier.
    pub page_cache: bool,
    /// Bytes the kernel may read ahead, with the page cache; none: its own choice.
    pub max_readahead_bytes: Option<u32>,
    /// How long the kernel may keep names and attributes without asking.
    pub attribute_ttl: Duration,
    /// Let other users in, as far as the files' permissions allow.
    pub allow_other: bool,
    /// Write a JSON line for each request to this file.
    pub trace: Option<PathBuf>,
    /// Threads that read and answer. Requests that sleep need none.
    pub workers: usize,
}

impl EmulateOptions {
    /// The usual options: no page cache, attributes kept for a second, this user alone.
    pub fn new(
        source: impl Into<PathBuf>,
        mount_point: impl Into<PathBuf>,
        profile: ProfileSettings,
    ) -> Self {
        Self {
            source: source.into(),
            mount_point: mount_point.into(),
            profile,
            page_cache: false,
            max_readahead_bytes: None,
            attribute_ttl: Duration::from_secs(1),
            allow_other: false,
            trace: None,
            workers: 8,
        }
    }
}

/// A mounted tier. Dropping it unmounts.
pub struct Emulated {
    // Before the mount: nobody is told of a mount that is going.
    control: Option<ControlServer>,
    mounted: Mounted,
    server: Arc<Server>,
}

/// Mount and return; the mount lives until the result is dropped or [`Emulated::unmount`].
///
/// # Errors
/// [`Error::BrokenRules`], [`Error::Source`], [`Error::Mount`], [`Error::Control`],
/// [`Error::Trace`].
pub fn spawn(options: &EmulateOptions) -> Result<Emulated> {
    let source = |source| Error::Source {
        path: options.source.clone(),
        source,
    };
    let tree = Tree::open(&options.source).map_err(source)?;
    let settings = MountSettings {
        mount_point: options.mount_point.clone(),
        source: Some(fs::canonicalize(&options.source).map_err(source)?),
        name: FS_NAME,
        allow_other: options.allow_other,
        threads: 2,
    };
    // What is refused must not leave a trace file behind.
    check_mount_point(&settings)?;
    options.profile.resolve()?;
    let trace = options.trace.as_deref().map(Trace::create).transpose()?;
    let server = Arc::new(Server::start(
        tree,
        options.profile.clone(),
        options.workers,
        trace,
        options.page_cache,
    )?);
    let kernel = KernelOptions {
        page_cache: options.page_cache,
        max_readahead_bytes: options.max_readahead_bytes,
        ttl: Ttl(options.attribute_ttl),
    };
    let face = EmulatedFs::new(Arc::clone(&server), kernel);
    let stopped = Arc::clone(&server);
    let mounted = mount(&settings, face, move || stopped.stop())?;
    let control = ControlServer::start(mounted.device(), Arc::clone(&server))?;
    Ok(Emulated {
        control: Some(control),
        mounted,
        server,
    })
}

/// Mount, call `mounted`, and serve until SIGINT, SIGTERM or SIGHUP, or until someone unmounts.
///
/// # Errors
/// As [`spawn`].
pub fn serve(options: &EmulateOptions, mounted: impl FnOnce(&Emulated)) -> Result<()> {
    let signals = EndSignals::catch()?;
    let mut emulated = spawn(options)?;
    mounted(&emulated);
    emulated.mounted.wait(signals)?;
    emulated.unmount()
}

impl Emulated {
    /// Where it is mounted, as an absolute path.
    pub fn mount_point(&self) -> &Path {
        self.mounted.mount_point()
    }

    /// The control socket.
    pub fn control_socket(&self) -> Option<&Path> {
        self.control.as_ref().map(ControlServer::socket)
    }

    /// Carry out a command, as a client would.
    ///
    /// # Errors
    /// [`Error::BrokenRules`] if it is refused; then nothing changed.
    pub fn apply(&self, command: Command) -> Result<Status> {
        self.server.apply(command)
    }

    /// What was served and what is in force.
    pub fn status(&self) -> Status {
        self.server.status()
    }

    /// Unmount. Programs that still use the mount get errors.
    ///
    /// # Errors
    /// [`Error::Mount`] if the mount can't even be detached.
    pub fn unmount(mut self) -> Result<()> {
        self.control = None;
        Ok(self.mounted.unmount()?)
    }
}
