//! One daemon for each cache folder.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use forebay_residency::NodePaths;
use rustix::fs::{FlockOperation, flock};

/// How long a daemon that a client started waits for one that is just leaving.
const HANDOVER: Duration = Duration::from_secs(30);

/// Held for as long as the daemon lives; the kernel lets go of it whatever ends the process.
#[derive(Debug)]
pub(crate) struct DaemonLock {
    _file: File,
}

impl DaemonLock {
    /// Takes the folder, or `None` if another daemon has it.
    pub(crate) fn try_take(paths: &NodePaths) -> io::Result<Option<Self>> {
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(paths.lock())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        file.set_len(0)?;
        writeln!(file, "{}", std::process::id())?;
        Ok(Some(Self { _file: file }))
    }

    /// Takes the folder, waiting for a daemon that is leaving; `None` if one is there to stay.
    pub(crate) fn take_over(paths: &NodePaths) -> io::Result<Option<Self>> {
        let deadline = Instant::now() + HANDOVER;
        loop {
            if let Some(lock) = Self::try_take(paths)? {
                return Ok(Some(lock));
            }
            if paths.connect().is_ok() || Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}
