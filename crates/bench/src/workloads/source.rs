//! Files that are read by system calls, or through a client of Forebay.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use forebay_dataset::SegmentIndex;
use rustix::fs::{Advice, Mode, OFlags, fadvise};

use crate::client::Client;
use crate::spec::Interface;
use crate::workload::Stage;
use crate::{BenchError, Result, sys};

/// The files below a folder.
pub(super) enum Source {
    /// By the system's own calls; a mount of Forebay is reached so too.
    Calls(PathBuf),
    /// By a client.
    Client(Box<Client>),
}

impl Source {
    /// By the run's interface. `of_all` says that all ranks read this folder.
    pub(super) fn open(at: &mut Stage<'_>, root: &Path, of_all: bool) -> Result<Self> {
        Ok(match at.spec.interface {
            Interface::Client => Self::Client(Box::new(Client::open(at, root, of_all)?)),
            Interface::Native | Interface::Mount | Interface::Fsspec => Self::Calls(root.into()),
        })
    }

    /// Opens a file by its path below the folder.
    pub(super) fn file(&self, path: &Path) -> Result<Opened<'_>> {
        match self {
            Self::Calls(root) => {
                let path = root.join(path);
                let flags = OFlags::RDONLY | OFlags::CLOEXEC;
                let file = rustix::fs::open(&path, flags, Mode::empty())
                    .map_err(BenchError::os("open", &path))?;
                Ok(Opened::File(file, path))
            }
            Self::Client(client) => Ok(Opened::Client {
                client,
                file: client.file(path)?,
                path: path.to_owned(),
                offset: 0,
            }),
        }
    }

    /// A path below the folder, as an error names it.
    pub(super) fn shown(&self, path: &Path) -> PathBuf {
        match self {
            Self::Calls(root) => root.join(path),
            Self::Client(_) => path.to_owned(),
        }
    }

    /// The client, where there is one.
    pub(super) fn client(&self) -> Option<&Client> {
        match self {
            Self::Calls(_) => None,
            Self::Client(client) => Some(client),
        }
    }
}

/// One open file, and how far it was read.
pub(super) enum Opened<'a> {
    File(OwnedFd, PathBuf),
    Client {
        client: &'a Client,
        file: SegmentIndex,
        path: PathBuf,
        offset: u64,
    },
}

impl Opened<'_> {
    /// Reads on; 0 at the end.
    pub(super) fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        match self {
            Self::File(file, path) => loop {
                match rustix::io::read(&*file, &mut *out) {
                    Err(rustix::io::Errno::INTR) => {}
                    read => return read.map_err(BenchError::os("read", path)),
                }
            },
            Self::Client {
                client,
                file,
                path,
                offset,
            } => {
                let count = client.read(path, *file, *offset, out)?;
                *offset += count as u64;
                Ok(count)
            }
        }
    }

    /// Drops what was read from the page cache.
    pub(super) fn forget(&self) -> Result<()> {
        match self {
            Self::File(file, path) => fadvise(file, 0, None, Advice::DontNeed)
                .map_err(BenchError::os("drop from the page cache", path)),
            // Refused before the run: see `Md5Check::prepare`.
            Self::Client { .. } => Ok(()),
        }
    }

    /// Closes it. A client has nothing to close.
    pub(super) fn close(self) -> Result<()> {
        match self {
            Self::File(file, path) => sys::close(file).map_err(BenchError::io("close", &path)),
            Self::Client { .. } => Ok(()),
        }
    }
}

impl io::Read for Opened<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        Opened::read(self, out).map_err(io::Error::other)
    }
}
