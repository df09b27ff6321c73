//! What can go wrong with a mount, outside a request.

use std::io;
use std::path::PathBuf;

/// A mount that cannot be made or removed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MountError {
    /// The mount point can't be used.
    #[error("cannot mount on `{}`: {why}", path.display())]
    MountPoint {
        /// The mount point.
        path: PathBuf,
        /// What is wrong and the way out.
        why: String,
    },
    /// A mount is left of a process that died.
    #[error(
        "`{0}` is a mount left by a process that died: remove it with \
         `fusermount3 -u {0}` (or `umount {0}` as root), then try again"
    )]
    StaleMount(String),
    /// The kernel refused to mount.
    #[error("cannot mount on `{}`", path.display())]
    Mount {
        /// The mount point.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The mount could not be removed.
    #[error("cannot unmount `{}`", path.display())]
    Unmount {
        /// The mount point.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A thread or a signal handler could not be set up.
    #[error("cannot start a mount")]
    Start(#[source] io::Error),
}
