//! Darshan logs from files.

use std::fs::File;
use std::io::Read;
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use forebay_darshan::Log;

use crate::Failure;

/// The largest log that is read. Darshan's own are below a few hundred MiB.
const MAX_LOG_BYTES: u64 = 1 << 30;

/// Reads logs on all cores and gives each to `take`, in their order. A few are in memory at a time.
pub(super) fn each(
    paths: &[PathBuf],
    mut take: impl FnMut(&Path, Result<Option<Log>, Failure>) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
    // Several for each core, so that a large log holds up its own core alone.
    for batch in paths.chunks(8 * cores) {
        let next = AtomicUsize::new(0);
        let read = || {
            let place = || Some(next.fetch_add(1, Ordering::Relaxed));
            let mut own = Vec::new();
            while let Some((place, path)) = place().and_then(|n| Some((n, batch.get(n)?))) {
                own.push((place, path, read_if_log(path)));
            }
            own
        };
        let mut logs = std::thread::scope(|scope| {
            let others: Vec<_> = (1..cores.min(batch.len()))
                .map(|_| scope.spawn(read))
                .collect();
            let mut logs = read();
            for other in others {
                // A panic of a reader is one of ours.
                logs.extend(
                    other
                        .join()
                        .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                );
            }
            logs
        });
        logs.sort_by_key(|(place, ..)| *place);
        for (_, path, log) in logs {
            take(path, log)?;
        }
    }
    Ok(())
}

/// Whether a file begins as a Darshan log does.
pub(super) fn is_log(path: &Path) -> Result<bool, Failure> {
    let mut start = Vec::new();
    let taken = open(path)?.0.take(16).read_to_end(&mut start);
    taken.map_err(|error| cannot("read", path, &error))?;
    Ok(forebay_darshan::is_log(&start))
}

/// Reads a log whole; `None` where the file does not begin as one.
fn read_if_log(path: &Path) -> Result<Option<Log>, Failure> {
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
