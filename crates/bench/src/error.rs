//! What can go wrong.

use std::io;
use std::path::{Path, PathBuf};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, BenchError>;

/// Why a benchmark did not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BenchError {
    /// The request is wrong and will stay wrong.
    #[error("{0}")]
    Usage(String),
    /// A file or folder that cannot be used.
    #[error("cannot {act} `{}`", path.display())]
    Io {
        /// What was tried.
        act: &'static str,
        /// The file.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// What a client of Forebay could not do.
    #[error("the client of Forebay cannot {act} `{}`", path.display())]
    Client {
        /// What was tried.
        act: &'static str,
        /// The file or folder.
        path: PathBuf,
        /// Why not.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// A program that cannot be started, or failed.
    #[error("`{program}` {fault}")]
    Program {
        /// Its name.
        program: String,
        /// What happened, and what it said.
        fault: String,
    },
    /// Something read or made is not what it should be.
    #[error("{0}")]
    Content(String),
    /// Other ranks did not come, or went away.
    #[error("{0}")]
    Ranks(String),
    /// The run took longer than it may.
    #[error("the run took longer than {seconds} s: give it more with --timeout-s")]
    Deadline {
        /// Seconds it may take.
        seconds: u64,
    },
    /// A signal ended the run.
    #[error("interrupted")]
    Interrupted,
    /// A folder that is not this run's to delete.
    #[error("`{}` is left as it is: {fault}", path.display())]
    NotOurs {
        /// The folder.
        path: PathBuf,
        /// What shows that it is not.
        fault: String,
    },
}

impl BenchError {
    pub(crate) fn io(act: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io {
            act,
            path: path.to_owned(),
            source,
        }
    }

    /// The same for calls of rustix.
    pub(crate) fn os(act: &'static str, path: &Path) -> impl FnOnce(rustix::io::Errno) -> Self {
        move |source| Self::Io {
            act,
            path: path.to_owned(),
            source: source.into(),
        }
    }

    /// The same for calls of a client.
    pub(crate) fn client<E>(act: &'static str, path: &Path) -> impl FnOnce(E) -> Self
    where
        E: std::error::Error + Send + Sync + 'static,
    {
        move |source| Self::Client {
            act,
            path: path.to_owned(),
            source: Box::new(source),
        }
    }

    /// Whether the request itself was wrong.
    #[must_use]
    pub fn is_usage(&self) -> bool {
        matches!(self, Self::Usage(_))
    }

    /// The error and its causes on one line, each once.
    #[must_use]
    pub fn line(&self) -> String {
        let mut line = self.to_string();
        let mut cause = std::error::Error::source(self);
        while let Some(error) = cause {
            line.push_str(&format!(": {error}"));
            cause = error.source();
        }
        line
    }
}
