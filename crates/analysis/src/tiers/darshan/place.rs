//! Which tier a file lies on: by prefixes of its name, or else by the mounts of the log.

use forebay_darshan::Job;

use super::OptionsError;

/// A tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Tier {
    /// The global file system.
    Gfs,
    /// The local file system.
    Lfs,
}

/// Types of file systems that all nodes share.
const GLOBAL_TYPES: [&str; 17] = [
    "afs",
    "beegfs",
    "ceph",
    "daos",
    "dvs",
    "fefs",
    "fhgfs",
    "fuse.ceph",
    "glusterfs",
    "gpfs",
    "lustre",
    "nfs",
    "nfs4",
    "orangefs",
    "panfs",
    "pvfs2",
    "wekafs",
];

/// Types of file systems that lie on a node's own device or in its memory.
const LOCAL_TYPES: [&str; 9] = [
    "btrfs", "ext2", "ext3", "ext4", "f2fs", "ramfs", "tmpfs", "xfs", "zfs",
];

/// Prefixes of file names, each with its tier, the longest first. A prefix ends where a part of a
/// path does: `/lfs` holds `/lfs/a` and not `/lfs2/a`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes(Vec<(String, Tier)>);

impl Prefixes {
    /// Checks the prefixes of both tiers. With none at all, the mounts of each log decide.
    ///
    /// # Errors
    /// A prefix that is empty or is of both tiers.
    pub fn new(gfs: &[String], lfs: &[String]) -> Result<Self, OptionsError> {
        let of = |prefixes: &[String], tier| {
            let trimmed = |prefix: &String| match prefix.trim_end_matches('/') {
                "" if prefix.is_empty() => Err(OptionsError::EmptyPrefix),
                kept => Ok((kept.to_owned(), tier)),
            };
            prefixes.iter().map(trimmed).collect::<Result<Vec<_>, _>>()
        };
        let mut all = of(gfs, Tier::Gfs)?;
        all.extend(of(lfs, Tier::Lfs)?);
        all.sort_by(|(a, _), (b, _)| b.len().cmp(&a.len()).then(a.cmp(b)));
        for pair in all.windows(2) {
            if pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1 {
                return Err(OptionsError::PrefixOfBoth(pair[0].0.clone()));
            }
        }
        all.dedup();
        Ok(Self(all))
    }

    /// The prefixes.
    #[must_use]
    pub fn all(&self) -> &[(String, Tier)] {
        &self.0
    }

    /// The place in [`Prefixes::all`] of the longest prefix of a name.
    pub(super) fn find(&self, name: &str) -> Option<usize> {
        let holds = |(prefix, _): &(String, Tier)| {
            name.strip_prefix(prefix.as_str())
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.0.iter().position(holds)
    }
}

/// The tier of a file by the type of the file system that it lies on.
pub(super) fn by_mount(job: &Job, name: &str) -> Option<Tier> {
    let kind = job.mount_of(name)?.fs_type.as_str();
    if GLOBAL_TYPES.contains(&kind) {
        Some(Tier::Gfs)
    } else if LOCAL_TYPES.contains(&kind) {
        Some(Tier::Lfs)
    } else {
        None
    }
}
