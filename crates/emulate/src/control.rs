//! Adjusting a mount while it runs: one JSON line asked, one answered, over a Unix socket.
//!
//! The socket lies in a folder that only its user may enter, under a name made of the mount's
//! device number, so that a client finds it from the mount point without asking the mount itself
//! (which may be slow, or hang: that is its purpose).

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use forebay_fuse::{candidates, device_of};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::fault::FaultRule;
use crate::profile::ProfileSettings;
use crate::server::Server;
use crate::stats::ClassSummary;

/// The mount's name in the mount table.
pub(crate) const FS_NAME: &str = "forebay-emulate";
/// A longer line ends the connection.
const LONGEST_LINE: u64 = 1 << 18;
/// Neither side waits longer than this for the other.
const PATIENCE: Duration = Duration::from_secs(10);

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase", tag = "command", deny_unknown_fields)]
pub enum Command {
    /// Tell what was served and what is in force.
    Status {},
    /// Set fields of the profile: `read.median_ms=5`. A value `none` takes a field out.
    Set {
        /// Dotted key, `=`, TOML value. All hold or none does.
        assignments: Vec<String>,
    },
    /// Add a fault.
    Fault {
        /// The fault.
        rule: FaultRule,
    },
    /// Remove every fault and release what hangs.
    Clear {},
    /// Release what hangs; the faults stay.
    Release {},
}

/// What the emulator did so far and what is in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// Seconds since the start.
    pub uptime_s: f64,
    /// Reads served.
    pub read: ClassSummary,
    /// Metadata operations served.
    pub metadata: ClassSummary,
    /// Requests held by a hang fault now.
    pub held: usize,
    /// Requests waiting for a slot now.
    pub waiting: usize,
    /// Requests in a slot now.
    pub in_service: usize,
    /// Most requests there ever were at once.
    pub most_in_flight: usize,
    /// Files and folders the kernel knows now.
    pub nodes: usize,
    /// The profile in force, before its scale is applied.
    pub profile: ProfileSettings,
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Ok(Box<Status>),
    Refused(String),
}

/// A client of one mount.
#[derive(Debug)]
pub struct Control {
    socket: PathBuf,
}

impl Control {
    /// The emulator mounted on `mount_point`.
    ///
    /// # Errors
    /// [`Error::NotMounted`] if no emulated tier is mounted there.
    pub fn connect(mount_point: &Path) -> Result<Self> {
        let not_mounted = || Error::NotMounted(mount_point.to_owned());
        let device = candidates(mount_point)
            .iter()
            .find_map(|path| device_of(path, FS_NAME).ok().flatten())
            .ok_or_else(not_mounted)?;
        let socket = folder_path().join(socket_name(&device));
        if !socket.exists() {
            return Err(not_mounted());
        }
        Ok(Self { socket })
    }

    /// Set fields of the profile, such as `read.median_ms=5`.
    ///
    /// # Errors
    /// [`Error::Refused`] with every field that is wrong; then nothing changed.
    pub fn set(&self, assignments: &[String]) -> Result<Status> {
        self.ask(&Command::Set {
            assignments: assignments.to_vec(),
        })
    }

    /// Add a fault.
    ///
    /// # Errors
    /// [`Error::Refused`] if its fields don't fit together.
    pub fn fault(&self, rule: FaultRule) -> Result<Status> {
        self.ask(&Command::Fault { rule })
    }

    /// Remove every fault and release what hangs.
    ///
    /// # Errors
    /// [`Error::Control`] if the emulator is gone.
    pub fn clear(&self) -> Result<Status> {
        self.ask(&Command::Clear {})
    }

    /// Release what hangs.
    ///
    /// # Errors
    /// [`Error::Control`] if the emulator is gone.
    pub fn release(&self) -> Result<Status> {
        self.ask(&Command::Release {})
    }

    /// What was served and what is in force.
    ///
    /// # Errors
    /// [`Error::Control`] if the emulator is gone.
    pub fn status(&self) -> Result<Status> {
        self.ask(&Command::Status {})
    }

    fn ask(&self, command: &Command) -> Result<Status> {
        let failed = |source| Error::Control {
            path: self.socket.clone(),
            source,
        };
        let mut stream = UnixStream::connect(&self.socket).map_err(failed)?;
        write_line(&mut stream, command).map_err(failed)?;
        match read_line(&stream).map_err(failed)? {
            Answer::Ok(status) => Ok(*status),
            Answer::Refused(why) => Err(Error::Refused(why)),
        }
    }
}

/// The serving end. Dropping it ends it and removes the socket.
pub(crate) struct ControlServer {
    socket: PathBuf,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl ControlServer {
    pub(crate) fn start(device: &str, server: Arc<Server>) -> Result<Self> {
        let folder = private_folder()?;
        let socket = folder.join(socket_name(device));
        let failed = |source| Error::Control {
            path: socket.clone(),
            source,
        };
        // The device number is ours now, so whatever lies there is left of a mount that is gone.
        match fs::remove_file(&socket) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(failed(e)),
            _ => {}
        }
        let listener = UnixListener::bind(&socket).map_err(failed)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = thread::Builder::new()
            .name("emulate-control".into())
            .spawn(move || serve(&listener, &server, &stopped))
            .map_err(failed)?;
        Ok(Self {
            socket,
            stop,
            thread: Some(thread),
        })
    }

    pub(crate) fn socket(&self) -> &Path {
        &self.socket
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        // Release pairs with the Acquire in `serve`, which the connection below wakes.
        self.stop.store(true, Ordering::Release);
        let woken = UnixStream::connect(&self.socket).is_ok();
        // A listener whose socket was removed by someone can't be woken and must not be waited for.
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
        let _ = fs::remove_file(&self.socket);
    }
}

fn serve(listener: &UnixListener, server: &Server, stop: &AtomicBool) {
    for stream in listener.incoming() {
        if stop.load(Ordering::Acquire) {
            return;
        }
        match stream {
            // A client that talks nonsense or leaves is its own trouble.
            Ok(stream) => drop(answer(stream, server)),
            Err(_) => thread::sleep(Duration::from_millis(10)),
        }
    }
}

fn answer(mut stream: UnixStream, server: &Server) -> io::Result<()> {
    let peer = rustix::net::sockopt::socket_peercred(&stream)?.uid;
    if peer != rustix::process::geteuid() && !peer.is_root() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    let answer = match read_line::<Command>(&stream) {
        Ok(command) => match server.apply(command) {
            Ok(status) => Answer::Ok(Box::new(status)),
            Err(error) => Answer::Refused(error.to_string()),
        },
        Err(error) => Answer::Refused(format!("the command is not understood: {error}")),
    };
    write_line(&mut stream, &answer)
}

fn write_line<T: Serialize>(stream: &mut UnixStream, value: &T) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(&line)
}

fn read_line<T: for<'a> Deserialize<'a>>(stream: &UnixStream) -> io::Result<T> {
    stream.set_read_timeout(Some(PATIENCE))?;
    let mut line = Vec::new();
    BufReader::new(stream.take(LONGEST_LINE)).read_until(b'\n', &mut line)?;
    if !line.ends_with(b"\n") {
        let why = format!("no whole line within {LONGEST_LINE} bytes");
        return Err(io::Error::new(io::ErrorKind::InvalidData, why));
    }
    Ok(serde_json::from_slice(&line)?)
}

fn socket_name(device: &str) -> String {
    format!("{}.sock", device.replace(':', "-"))
}

fn folder_path() -> PathBuf {
    let uid = rustix::process::geteuid().as_raw();
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let usual = PathBuf::from(format!("/run/user/{uid}"));
    match runtime
        .filter(|path| path.is_dir())
        .or(Some(usual).filter(|path| path.is_dir()))
    {
        Some(path) => path.join(FS_NAME),
        None => std::env::temp_dir().join(format!("{FS_NAME}-{uid}")),
    }
}

/// The folder of the sockets, made if needed, that no one else may enter.
fn private_folder() -> Result<PathBuf> {
    let path = folder_path();
    let failed = |source| Error::Control {
        path: path.clone(),
        source,
    };
    match fs::DirBuilder::new().mode(0o700).create(&path) {
        Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(failed(e)),
        _ => {}
    }
    let found = fs::symlink_metadata(&path).map_err(failed)?;
    let ours = found.is_dir() && found.uid() == rustix::process::geteuid().as_raw();
    if !ours || found.mode() & 0o077 != 0 {
        let why = "the folder must belong to this user with mode 0700: remove it and try again";
        return Err(failed(io::Error::new(io::ErrorKind::PermissionDenied, why)));
    }
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_commands_and_fields_are_refused() {
        let parse = serde_json::from_str::<Command>;
        assert_eq!(
            parse("{\"command\":\"status\"}").unwrap(),
            Command::Status {}
        );
        for text in [
            "{\"command\":\"stop\"}",
            "{\"command\":\"clear\",\"all\":1}",
            "{}",
            "[]",
            "5",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_line_without_end_is_refused() {
        let (mut ours, theirs) = UnixStream::pair().unwrap();
        let writer = thread::spawn(move || {
            let _ = ours.write_all(&vec![b'x'; LONGEST_LINE as usize + 1]);
        });
        assert!(read_line::<Command>(&theirs).is_err());
        drop(theirs);
        writer.join().unwrap();
    }
}
