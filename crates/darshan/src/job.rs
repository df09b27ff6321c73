//! The job: who ran what, when, and which file systems were mounted.

use serde::{Serialize, Serializer};

use crate::bytes::{Bytes, text};
use crate::header::Version;

/// Bytes of the `key=value` lines.
const METADATA_BYTES: usize = 1024;

/// The job that was profiled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Job {
    /// User id.
    pub uid: i64,
    /// Start, in nanoseconds since 1970-01-01 UTC; whole seconds in logs before 3.41.
    pub start_unix_ns: i64,
    /// End, likewise.
    pub end_unix_ns: i64,
    /// Processes.
    pub nprocs: i64,
    /// Id that the scheduler gave, or else the process id.
    pub jobid: i64,
    /// Facts that Darshan noted: `lib_ver`, `h` (hints) and others, in the order of the log.
    #[serde(serialize_with = "as_map")]
    pub metadata: Vec<(String, String)>,
    /// The command line.
    pub exe: String,
    /// File systems that were mounted, the longest path first.
    pub mounts: Vec<Mount>,
    /// Whether the log states its times in whole seconds, so that its end is the start of the
    /// last one.
    #[serde(skip)]
    in_seconds: bool,
}

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Mount {
    /// Where it is mounted.
    pub path: String,
    /// Its type: `lustre`, `xfs`.
    pub fs_type: String,
}

impl Job {
    /// How long the job ran, in seconds, as Darshan counts it.
    #[must_use]
    pub fn run_s(&self) -> f64 {
        let seconds = self.end_unix_ns.saturating_sub(self.start_unix_ns) as f64 / 1e9;
        if self.in_seconds {
            seconds + 1.0
        } else {
            seconds
        }
    }

    /// The mount that holds a path: the one with the longest path above it.
    #[must_use]
    pub fn mount_of(&self, path: &str) -> Option<&Mount> {
        self.mounts.iter().find(|mount| holds(&mount.path, path))
    }

    /// A value of the metadata.
    #[must_use]
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let found = self.metadata.iter().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str())
    }
}

/// Whether a folder is above a path, or is it: `/a` is above `/a/b` and not above `/ab`.
fn holds(folder: &str, path: &str) -> bool {
    let folder = folder.strip_suffix('/').unwrap_or(folder);
    path.strip_prefix(folder)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

fn as_map<S: Serializer>(pairs: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(key, value)| (key, value)))
}

/// Reads the region of the job; `None` where it is too short.
pub(crate) fn read(bytes: &mut Bytes<'_>, version: Version) -> Option<Job> {
    const NS: i64 = 1_000_000_000;
    let in_seconds = version < Version::V341;
    let uid = bytes.i64()?;
    let mut moment = || {
        let seconds = bytes.i64()?;
        let ns = if in_seconds { 0 } else { bytes.i64()? };
        Some(seconds.saturating_mul(NS).saturating_add(ns))
    };
    let (start_unix_ns, end_unix_ns) = (moment()?, moment()?);
    let (nprocs, jobid) = (bytes.i64()?, bytes.i64()?);
    let metadata = text(bytes.take(METADATA_BYTES)?);
    let rest = text(bytes.take(bytes.len())?);
    let mut lines = rest.split('\n');
    let exe = lines.next().unwrap_or_default().to_owned();
    let mut mounts: Vec<Mount> = lines.filter_map(mount).collect();
    mounts.sort_by_key(|mount| std::cmp::Reverse(mount.path.len()));
    Some(Job {
        uid,
        start_unix_ns,
        end_unix_ns,
        nprocs,
        jobid,
        metadata: metadata.lines().filter_map(pair).collect(),
        exe,
        mounts,
        in_seconds,
    })
}

fn pair(line: &str) -> Option<(String, String)> {
    let (key, value) = line.split_once('=')?;
    Some((key.to_owned(), value.to_owned()))
}

fn mount(line: &str) -> Option<Mount> {
    let (fs_type, path) = line.split_once('\t')?;
    Some(Mount {
        path: path.to_owned(),
        fs_type: fs_type.to_owned(),
    })
}
