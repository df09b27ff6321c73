//! What can go wrong outside a request. Inside one, the caller gets an `errno`.

use std::io;
use std::path::PathBuf;

use forebay_fuse::MountError;

/// Shorthand for this crate's results.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the emulator itself.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The profile can't be read.
    #[error("cannot use profile `{name}`: {why}")]
    Profile {
        /// Name or path given.
        name: String,
        /// What is wrong.
        why: String,
    },
    /// Settings that don't fit together; every one of them.
    #[error("settings refused: {}", .0.join("; "))]
    BrokenRules(Vec<String>),
    /// The source can't be served.
    #[error("cannot serve source `{}`", path.display())]
    Source {
        /// The source folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// It can't be mounted or unmounted.
    #[error(transparent)]
    Mount(#[from] MountError),
    /// The control socket failed.
    #[error("cannot talk to the emulator at `{}`", path.display())]
    Control {
        /// The socket or mount point.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// No emulator is mounted there.
    #[error("no emulated tier is mounted on `{}`: see `forebay emulate SRC MOUNT`", .0.display())]
    NotMounted(PathBuf),
    /// The emulator refused a command.
    #[error("the emulator refused: {0}")]
    Refused(String),
    /// The trace can't be written.
    #[error("cannot write trace `{}`", path.display())]
    Trace {
        /// The trace file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A thread or a signal handler could not be set up.
    #[error("cannot start the emulator")]
    Start(#[source] io::Error),
}
