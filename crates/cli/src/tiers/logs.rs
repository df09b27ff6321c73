//! Darshan logs from files.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use forebay_darshan::Log;

use crate::Failure;

/// The largest log that is read. Darshan's own are below a few hundred MiB.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// Reads a log whole; `None` where the file does not begin as one.
pub(super) fn read_if_log(path: &Path) -> Result<Option<Log>, Failure> {
    let (mut file, len) = open(path)?;
    let mut bytes = Vec::with_capacity(len.min(MAX_LOG_BYTES) as usize + 1);
    let mut take = |limit: u64, bytes: &mut Vec<u8>| {
        let taken = file.by_ref().take(limit).read_to_end(bytes);
        taken.map_err(|error| cannot("read", path, &error))
    };
    take(16, &mut bytes)?;
    if !forebay_darshan::is_log(&bytes) {
        return Ok(None);
    }
    take(MAX_LOG_BYTES, &mut bytes)?;
    decode(path, &bytes).map(Some)
}

/// Reads a log whole.
pub(super) fn read(path: &Path) -> Result<Log, Failure> {
    let (file, len) = open(path)?;
    let mut bytes = Vec::with_capacity(len.min(MAX_LOG_BYTES) as usize + 1);
    file.take(MAX_LOG_BYTES + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| cannot("read", path, &error))?;
    decode(path, &bytes)
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Log, Failure> {
    let shown = path.display();
    if bytes.len() as u64 > MAX_LOG_BYTES {
        let message = format!("`{shown}` is larger than 1 GiB: that is no Darshan log");
        return Err(Failure::new(message));
    }
    Log::read(bytes).map_err(|error| Failure::from(error).of(&format!("cannot read `{shown}`")))
}

/// The file and its length.
fn open(path: &Path) -> Result<(File, u64), Failure> {
    let shown = path.display();
    // Looked at before it is opened: a named pipe would hold the opener.
    let found = std::fs::metadata(path).map_err(|error| cannot("open", path, &error))?;
    if !found.is_file() {
        let message = format!("`{shown}` is no plain file");
        return Err(Failure::usage(message).hint("name the logs or records themselves"));
    }
    let file = File::open(path).map_err(|error| cannot("open", path, &error))?;
    Ok((file, found.len()))
}

fn cannot(act: &str, path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot {act} `{}`: {error}", path.display()))
}
