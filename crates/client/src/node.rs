//! Which daemon serves a data set, and how one is started.

use std::ffi::OsString;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use forebay_residency::NodePaths;
use forebay_wire::Request;

use crate::link::{check_signals, is_interrupted};

/// How long a daemon may take from its start to its first answer.
const START_LIMIT: Duration = Duration::from_secs(35);

/// How long a daemon may say nothing before it is asked whether it is there.
pub(crate) const SILENCE: Duration = Duration::from_secs(2);
/// How long it may take to answer that.
const ANSWER: Duration = Duration::from_secs(1);

/// Why a daemon was given up.
#[derive(Debug, thiserror::Error)]
#[error("the daemon does not answer: it was stopped, or has locked up")]
pub(crate) struct Silent;

/// How a client starts a daemon where it finds none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DaemonCommand {
    /// The `forebay` program; `None` means that daemons are started by others.
    pub program: Option<OsString>,
    /// Further arguments of `forebay serve`, such as `--capacity 500GiB`.
    pub arguments: Vec<OsString>,
}

/// Starts a daemon and waits until it listens, or until `deadline`.
pub(crate) fn start(
    paths: &NodePaths,
    command: &DaemonCommand,
    deadline: Instant,
) -> io::Result<()> {
    let Some(program) = &command.program else {
        return Err(io::Error::new(
            io::ErrorKind::NotFound,
            "none is running; opening a data set, or `forebay serve`, starts one",
        ));
    };
    paths.create_folder()?;
    // The command leaves the daemon behind and ends at once, so no child is left to be reaped and
    // no signal to the trainer's group reaches the daemon.
    let status = Command::new(program)
        .arg("serve")
        .arg("--cache")
        .arg(paths.folder())
        .arg("--detach")
        .args(&command.arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()?;
    if !status.success() {
        let log = paths.log();
        let message = format!(
            "`forebay serve` ended with {status}; see `{}`",
            log.display()
        );
        return Err(io::Error::other(message));
    }
    wait_until_listening(paths, deadline.min(Instant::now() + START_LIMIT))
}

/// Connects to the daemon, waiting a little where many others do.
pub(crate) fn connect(paths: &NodePaths, deadline: Instant) -> io::Result<UnixStream> {
    let deadline = deadline.min(Instant::now() + SILENCE);
    loop {
        match paths.connect() {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if Instant::now() >= deadline {
                    return Err(io::Error::other(Silent));
                }
                check_signals()?;
                std::thread::sleep(Duration::from_millis(5));
            }
            connected => return connected,
        }
    }
}

/// False if the daemon does not even take up a new connection and answer there: it was stopped, or
/// has locked up. One that is only busy answers.
pub(crate) fn answers(paths: &NodePaths) -> bool {
    let asked = || -> io::Result<usize> {
        let mut stream = connect(paths, Instant::now() + ANSWER)?;
        stream.set_read_timeout(Some(ANSWER))?;
        stream.set_write_timeout(Some(ANSWER))?;
        stream.write_all(&Request::Ping.encode())?;
        // A daemon with too many connections closes this one, which is an answer too.
        stream.read(&mut [0])
    };
    // A signal says nothing about it; whoever waits goes on to look at that.
    match asked() {
        Err(error) => error.kind() == io::ErrorKind::Interrupted || is_interrupted(&error),
        Ok(_) => true,
    }
}

fn wait_until_listening(paths: &NodePaths, deadline: Instant) -> io::Result<()> {
    let mut pause = Duration::from_millis(1);
    loop {
        match paths.connect() {
            Ok(_) => return Ok(()),
            Err(_) if Instant::now() < deadline => {
                check_signals()?;
                std::thread::sleep(pause);
            }
            Err(error) => {
                let message = format!(
                    "the daemon did not start ({error}); see `{}`",
                    paths.log().display()
                );
                return Err(io::Error::new(io::ErrorKind::TimedOut, message));
            }
        }
        pause = (pause * 2).min(Duration::from_millis(50));
    }
}
