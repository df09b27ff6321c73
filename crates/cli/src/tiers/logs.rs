//! Darshan logs from files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use forebay_darshan::Log;

use crate::Failure;

/// The largest log that is read. Darshan's own are below a few hundred MiB.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// Whether a file begins as a Darshan log does.
pub(super) fn is_log(path: &Path) -> Result<bool, Failure> {
    let mut start = Vec::new();
    open(path)?
        .take(16)
        .read_to_end(&mut start)
        .map_err(|error| cannot("read", path, &error))?;
    Ok(forebay_darshan::is_log(&start))
}

/// Reads a log whole.
pub(super) fn read(path: &Path) -> Result<Log, Failure> {
    let mut bytes = Vec::new();
    open(path)?
        .take(MAX_LOG_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot("read", path, &error))?;
    let shown = path.display();
    if bytes.len() as u64 > MAX_LOG_BYTES {
        let message = format!("`{shown}` is larger than 1 GiB: that is no Darshan log");
        return Err(Failure::new(message));
    }
    Log::read(&bytes).map_err(|error| Failure::from(error).of(&format!("cannot read `{shown}`")))
}

fn open(path: &Path) -> Result<File, Failure> {
    let shown = path.display();
    // Looked at before it is opened: a named pipe would hold the opener.
    let found = std::fs::metadata(path).map_err(|error| cannot("open", path, &error))?;
    if !found.is_file() {
        let message = format!("`{shown}` is no plain file");
        return Err(Failure::usage(message).hint("name the logs or records themselves"));
    }
    File::open(path).map_err(|error| cannot("open", path, &error))
}

fn cannot(act: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {act} `{}`: {error}", path.display()))
}
