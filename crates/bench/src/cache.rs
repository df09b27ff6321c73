//! The page cache: taking files out of it, and looking whether they are.

use std::fs::File;
use std::path::Path;

use forebay_analysis::suite::Cache;
use rustix::fs::{Advice, fadvise, fsync};

use crate::spec::DropCache;
use crate::{BenchError, Result, sys};

/// The share of a file's bytes that may stay where `verify` asks for cold files: read-ahead and
/// other readers are not this program's to stop.
const STAYING: f64 = 0.01;

/// What was found of files on their way out of the page cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Found {
    /// Bytes of all files.
    pub(crate) bytes: u64,
    /// Those still in the page cache.
    pub(crate) resident: u64,
}

/// Takes a file out of the page cache of this node. It is written back first: the kernel drops
/// clean pages only.
pub(crate) fn drop_file(path: &Path) -> Result<()> {
    let file = open(path)?;
    fsync(&file).map_err(BenchError::os("write back", path))?;
    fadvise(&file, 0, None, Advice::DontNeed)
        .map_err(BenchError::os("drop from the page cache", path))
}

/// Bytes of a file, and those in the page cache of this node.
pub(crate) fn look(path: &Path) -> Result<Found> {
    let file = open(path)?;
    let io = BenchError::io("ask the page cache about", path);
    let bytes = file
        .metadata()
        .map_err(BenchError::io("look at", path))?
        .len();
    let pages = sys::cached_pages(&file, bytes).map_err(io)?;
    let resident = pages * rustix::param::page_size() as u64;
    Ok(Found {
        bytes,
        resident: resident.min(bytes),
    })
}

fn open(path: &Path) -> Result<File> {
    File::open(path).map_err(BenchError::io("open", path))
}

/// Brings files to the state that is asked for, and adds what was found to the record.
pub(crate) fn prepare<'a>(
    policy: DropCache,
    files: impl Iterator<Item = &'a Path> + Clone,
    record: &mut Cache,
    mut go_on: impl FnMut() -> Result<()>,
) -> Result<()> {
    record.policy = policy.word().to_owned();
    if policy != DropCache::None {
        for file in files.clone() {
            go_on()?;
            drop_file(file)?;
        }
    }
    let mut found = Found::default();
    for file in files {
        go_on()?;
        let one = look(file)?;
        found.bytes += one.bytes;
        found.resident += one.resident;
    }
    add(record, found);
    let may_stay = (found.bytes as f64 * STAYING) as u64;
    if policy == DropCache::Verify && found.resident > may_stay {
        return Err(BenchError::Content(format!(
            "{} of {} bytes are still in the page cache after --drop-cache verify: another process holds them, or the file system keeps its data in memory",
            found.resident, found.bytes
        )));
    }
    Ok(())
}

/// The largest residency of all iterations stands: it is the one that spoils a figure.
fn add(record: &mut Cache, found: Found) {
    let resident = record
        .resident_before_bytes
        .unwrap_or(0)
        .max(found.resident);
    let looked_at = record.looked_at_bytes.unwrap_or(0).max(found.bytes);
    record.resident_before_bytes = Some(resident);
    record.looked_at_bytes = Some(looked_at);
    let cold = resident == 0 && looked_at > 0;
    record.cold = if cold {
        vec!["file data in this node's page cache".to_owned()]
    } else {
        vec![]
    };
    let warm = "file data in this node's page cache, so far as it was resident";
    let unknown = [
        "directory entries and inodes in this node's memory",
        "attributes that a network file system keeps",
        "caches of servers and devices",
    ];
    let warm = (!cold && looked_at > 0).then_some(warm);
    record.not_cold = warm.into_iter().chain(unknown).map(str::to_owned).collect();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_record_keeps_the_worst_iteration() {
        let mut record = Cache::default();
        add(
            &mut record,
            Found {
                bytes: 100,
                resident: 0,
            },
        );
        assert_eq!(record.cold.len(), 1);
        add(
            &mut record,
            Found {
                bytes: 100,
                resident: 40,
            },
        );
        add(
            &mut record,
            Found {
                bytes: 100,
                resident: 0,
            },
        );
        assert_eq!(record.resident_before_bytes, Some(40));
        assert!(record.cold.is_empty());
        assert!(record.not_cold[0].contains("page cache"));
    }

    #[test]
    fn a_missing_file_is_named() {
        let error = drop_file(Path::new("/nonexistent/x")).unwrap_err();
        assert_eq!(error.to_string(), "cannot open `/nonexistent/x`");
    }
}
