//! The life of a mount: checks, start, signals, and an end that never waits for good.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use fuser::{Config, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::mount::UnmountFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::control::{Command, ControlServer, FS_NAME, Status};
use crate::error::{Error, Result};
use crate::fs::{EmulatedFs, KernelOptions};
use crate::mount_table::device_of;
use crate::profile::ProfileSettings;
use crate::server::{Server, Ttl};
use crate::trace::Trace;
use crate::tree::Tree;

/// How long an unmount waits for programs that still use the mount before it cuts them off.
const GRACE: Duration = Duration::from_secs(1);

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
    mount_point: PathBuf,
    server: Arc<Server>,
    control: Option<ControlServer>,
    unmounter: SessionUnmounter,
    device: String,
    ended: mpsc::Receiver<Event>,
    events: mpsc::Sender<Event>,
    over: bool,
}

enum Event {
    /// The kernel ended the session: someone unmounted.
    Ended,
    /// A signal asks to stop.
    Stop,
}

/// Mount and return; the mount lives until the result is dropped or [`Emulated::unmount`].
///
/// # Errors
/// [`Error::BrokenRules`], [`Error::Source`], [`Error::MountPoint`], [`Error::StaleMount`],
/// [`Error::Mount`], [`Error::Control`], [`Error::Trace`].
pub fn spawn(options: &EmulateOptions) -> Result<Emulated> {
    let tree = Tree::open(&options.source).map_err(|source| Error::Source {
        path: options.source.clone(),
        source,
    })?;
    let mount_point = check_mount_point(options)?;
    // Rules first: a wrong profile must not leave a trace file behind.
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
    let mut session = Session::new(face, &mount_point, &session_config(options.allow_other))
        .map_err(|source| Error::Mount {
            path: mount_point.clone(),
            source,
        })?;
    let unmounter = session.unmount_callable();
    let (events, ended) = mpsc::channel();
    let event = events.clone();
    thread::Builder::new()
        .name("emulate-session".into())
        .spawn(move || {
            // Its only errors are the kernel's, and they end the session like an unmount.
            let _ = session.run();
            let _ = event.send(Event::Ended);
        })
        .map_err(Error::Start)?;
    let device = device_of(&mount_point).ok().flatten().unwrap_or_default();
    let mut emulated = Emulated {
        mount_point,
        server,
        control: None,
        unmounter,
        device,
        ended,
        events,
        over: false,
    };
    emulated.control = Some(ControlServer::start(
        &emulated.device,
        Arc::clone(&emulated.server),
    )?);
    Ok(emulated)
}

/// Mount, call `mounted`, and serve until SIGINT, SIGTERM or SIGHUP, or until someone unmounts.
///
/// # Errors
/// As [`spawn`], and [`Error::Unmount`].
pub fn serve(options: &EmulateOptions, mounted: impl FnOnce(&Emulated)) -> Result<()> {
    // Before the mount, so that a signal at any moment after it is seen.
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(Error::Start)?;
    let emulated = spawn(options)?;
    let stop = emulated.events.clone();
    let handle = signals.handle();
    let watcher = thread::Builder::new()
        .name("emulate-signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                let _ = stop.send(Event::Stop);
            }
        })
        .map_err(Error::Start)?;
    mounted(&emulated);
    let result = emulated.wait();
    handle.close();
    let _ = watcher.join();
    result
}

impl Emulated {
    /// Where it is mounted, as an absolute path.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
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
    /// [`Error::Unmount`] if the mount can't even be detached.
    pub fn unmount(mut self) -> Result<()> {
        self.end()
    }

    /// Wait until someone unmounts or a signal asks to stop, then clean up.
    fn wait(mut self) -> Result<()> {
        match self.ended.recv() {
            Ok(Event::Stop) => self.end(),
            Ok(Event::Ended) | Err(_) => {
                self.over = true;
                self.server.stop();
                Ok(())
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        self.control = None;
        // First answer what waits: programs that hang on a read can then close their files.
        self.server.stop();
        if self.unmounter.unmount().is_err() {
            self.detach()?;
        }
        if self.session_ended() {
            return Ok(());
        }
        // Someone keeps a file open. Cut the connection, so that they get errors and not silence.
        if let Some((_, minor)) = self.device.split_once(':') {
            let _ = fs::write(format!("/sys/fs/fuse/connections/{minor}/abort"), "1");
            self.session_ended();
        }
        Ok(())
    }

    fn session_ended(&self) -> bool {
        loop {
            match self.ended.recv_timeout(GRACE) {
                Ok(Event::Stop) => {}
                Ok(Event::Ended) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Take the mount out of the tree although it is in use.
    fn detach(&self) -> Result<()> {
        let failed = |source| Error::Unmount {
            path: self.mount_point.clone(),
            source,
        };
        if device_of(&self.mount_point).map_err(failed)?.as_deref() != Some(self.device.as_str()) {
            // Someone else unmounted it.
            return Ok(());
        }
        if rustix::mount::unmount(&self.mount_point, UnmountFlags::DETACH).is_ok() {
            return Ok(());
        }
        let helper = std::process::Command::new("fusermount3")
            .args(["-u", "-z", "--"])
            .arg(&self.mount_point)
            .output()
            .map_err(failed)?;
        if helper.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&helper.stderr).trim().to_owned();
        Err(failed(io::Error::other(said)))
    }
}

impl Drop for Emulated {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("warning: {error}");
        }
    }
}

fn session_config(allow_other: bool) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::FSName(FS_NAME.into()),
        MountOption::Subtype(FS_NAME.into()),
        MountOption::NoDev,
        MountOption::NoSuid,
        // The emulator may be root: without this it would read files for users who may not.
        MountOption::DefaultPermissions,
    ];
    config.acl = if allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(2);
    config.clone_fd = true;
    config
}

/// The mount point as an absolute path, if a mount there can work.
fn check_mount_point(options: &EmulateOptions) -> Result<PathBuf> {
    let path = &options.mount_point;
    let refuse = |why: String| Error::MountPoint {
        path: path.clone(),
        why,
    };
    match fs::metadata(path) {
        Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => {
            return Err(Error::StaleMount(path.display().to_string()));
        }
        Err(e) => return Err(refuse(format!("{e}; make the folder first"))),
        Ok(found) if !found.is_dir() => return Err(refuse("it is not a folder".into())),
        Ok(_) => {}
    }
    let absolute = fs::canonicalize(path).map_err(|e| refuse(e.to_string()))?;
    let source = fs::canonicalize(&options.source).map_err(|source| Error::Source {
        path: options.source.clone(),
        source,
    })?;
    if absolute.starts_with(&source) {
        let why = format!(
            "it lies inside the source `{}`, which would then contain itself",
            source.display()
        );
        return Err(refuse(why));
    }
    if device_of(&absolute).ok().flatten().is_some() {
        return Err(refuse(
            "an emulated tier is mounted there already: unmount it first".into(),
        ));
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(refuse(
            "this machine has no /dev/fuse: load the kernel module with `modprobe fuse`".into(),
        ));
    }
    Ok(absolute)
}
