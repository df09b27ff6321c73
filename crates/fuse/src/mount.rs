//! The life of a mount: checks, start, signals, and an end that never waits for good.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};
use std::time::Duration;

use fuser::{Config, Filesystem, MountOption, Session, SessionACL, SessionUnmounter};
use rustix::mount::UnmountFlags;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::{Handle, Signals};

use crate::error::MountError;
use crate::mount_table::device_of;

/// How long an unmount waits for programs that still use the mount before it cuts them off.
const GRACE: Duration = Duration::from_secs(1);

type Result<T> = std::result::Result<T, MountError>;

/// What to mount where.
#[derive(Clone, Debug)]
pub struct MountSettings {
    /// The folder to mount on. It must exist.
    pub mount_point: PathBuf,
    /// The folder that is served, outside of which the mount point must lie; none if it is no
    /// folder.
    pub source: Option<PathBuf>,
    /// The name in the mount table.
    pub name: &'static str,
    /// Let other users in, as far as the files' permissions allow.
    pub allow_other: bool,
    /// Threads that take the kernel's requests.
    pub threads: usize,
}

enum Event {
    /// The kernel ended the session: someone unmounted.
    Ended,
    /// A signal asks to stop.
    Stop,
}

/// A mounted file system. Dropping it unmounts.
pub struct Mounted {
    mount_point: PathBuf,
    name: &'static str,
    unmounter: SessionUnmounter,
    device: String,
    /// Answers whatever waits, so that no program hangs.
    stop: Box<dyn Fn() + Send>,
    ended: mpsc::Receiver<Event>,
    events: mpsc::Sender<Event>,
    over: bool,
}

/// Mounts `face`. Before it is unmounted `stop` is called: from then on every request has to be
/// answered at once.
///
/// # Errors
/// Those of [`check_mount_point`], [`MountError::Mount`], [`MountError::Start`].
pub fn mount(
    settings: &MountSettings,
    face: impl Filesystem + 'static,
    stop: impl Fn() + Send + 'static,
) -> Result<Mounted> {
    let mount_point = check_mount_point(settings)?;
    let mut session = Session::new(face, &mount_point, &config(settings)).map_err(|source| {
        MountError::Mount {
            path: mount_point.clone(),
            source,
        }
    })?;
    let unmounter = session.unmount_callable();
    let (events, ended) = mpsc::channel();
    let event = events.clone();
    thread::Builder::new()
        .name("fuse-session".into())
        .spawn(move || {
            // Its only errors are the kernel's, and they end the session like an unmount.
            let _ = session.run();
            let _ = event.send(Event::Ended);
        })
        .map_err(MountError::Start)?;
    let device = device_of(&mount_point, settings.name);
    Ok(Mounted {
        device: device.ok().flatten().unwrap_or_default(),
        mount_point,
        name: settings.name,
        unmounter,
        stop: Box::new(stop),
        ended,
        events,
        over: false,
    })
}

/// SIGINT, SIGTERM and SIGHUP, caught from the moment that this is made: before the mount, so that
/// one that comes at any moment after it is seen.
pub struct EndSignals(Signals);

impl EndSignals {
    /// Catches them.
    ///
    /// # Errors
    /// [`MountError::Start`].
    pub fn catch() -> Result<Self> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(MountError::Start)?;
        Ok(Self(signals))
    }
}

impl Mounted {
    /// Where it is mounted, as an absolute path.
    pub fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Its device number, as the mount table has it.
    pub fn device(&self) -> &str {
        &self.device
    }

    /// Waits until a signal asks to stop or someone unmounts. The mount is still to be dropped.
    ///
    /// # Errors
    /// [`MountError::Start`].
    pub fn wait(&mut self, signals: EndSignals) -> Result<()> {
        let (handle, watcher) = self.watch(signals)?;
        if !matches!(self.ended.recv(), Ok(Event::Stop)) {
            self.over = true;
            (self.stop)();
        }
        handle.close();
        let _ = watcher.join();
        Ok(())
    }

    fn watch(&self, EndSignals(mut signals): EndSignals) -> Result<(Handle, JoinHandle<()>)> {
        let (handle, stop) = (signals.handle(), self.events.clone());
        let watcher = thread::Builder::new()
            .name("fuse-signals".into())
            .spawn(move || {
                for _ in signals.forever() {
                    let _ = stop.send(Event::Stop);
                }
            })
            .map_err(MountError::Start)?;
        Ok((handle, watcher))
    }

    /// Unmounts. Programs that still use the mount get errors.
    ///
    /// # Errors
    /// [`MountError::Unmount`] if the mount can't even be detached.
    pub fn unmount(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.over, true) {
            return Ok(());
        }
        // First answer what waits: programs that hang on a read can then close their files.
        (self.stop)();
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
        let failed = |source| MountError::Unmount {
            path: self.mount_point.clone(),
            source,
        };
        let there = device_of(&self.mount_point, self.name).map_err(failed)?;
        if there.as_deref() != Some(self.device.as_str()) {
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

impl Drop for Mounted {
    fn drop(&mut self) {
        if let Err(error) = self.end() {
            eprintln!("warning: {error}");
        }
    }
}

fn config(settings: &MountSettings) -> Config {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::RO,
        MountOption::FSName(settings.name.into()),
        MountOption::Subtype(settings.name.into()),
        MountOption::NoDev,
        MountOption::NoSuid,
        // This process may be root: without this it would read files for users who may not.
        MountOption::DefaultPermissions,
    ];
    config.acl = if settings.allow_other {
        SessionACL::All
    } else {
        SessionACL::Owner
    };
    config.n_threads = Some(settings.threads.max(1));
    config.clone_fd = true;
    config
}

/// The mount point as an absolute path, if a mount there can work.
///
/// # Errors
/// [`MountError::MountPoint`], [`MountError::StaleMount`].
pub fn check_mount_point(settings: &MountSettings) -> Result<PathBuf> {
    let path = &settings.mount_point;
    let refuse = |why: String| MountError::MountPoint {
        path: path.clone(),
        why,
    };
    match fs::metadata(path) {
        Err(e) if e.raw_os_error() == Some(libc::ENOTCONN) => {
            return Err(MountError::StaleMount(path.display().to_string()));
        }
        Err(e) => return Err(refuse(format!("{e}; make the folder first"))),
        Ok(found) if !found.is_dir() => return Err(refuse("it is not a folder".into())),
        Ok(_) => {}
    }
    let absolute = fs::canonicalize(path).map_err(|e| refuse(e.to_string()))?;
    let source = settings
        .source
        .as_ref()
        .and_then(|it| fs::canonicalize(it).ok());
    if let Some(source) = source.filter(|source| absolute.starts_with(source)) {
        let why = format!(
            "it lies inside the source `{}`, which would then contain itself",
            source.display()
        );
        return Err(refuse(why));
    }
    if device_of(&absolute, settings.name).ok().flatten().is_some() {
        let why = format!(
            "`{}` is mounted there already: unmount it first",
            settings.name
        );
        return Err(refuse(why));
    }
    if !Path::new("/dev/fuse").exists() {
        return Err(refuse(
            "this machine has no /dev/fuse: load the kernel module with `modprobe fuse`".into(),
        ));
    }
    Ok(absolute)
}
