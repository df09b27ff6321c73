//! Files that producers publish by name, and consumers find from any node.
//!
//! A file is published once it is complete, and stays where it lies. What has a name is found by
//! that name from every node of the job, and read by ranges: here where it lies on this node, else
//! through the daemon from the node that has it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_dataset::{ErrorKind, Fingerprint};
use forebay_origin::fingerprint_of;
use forebay_residency::NodePaths;
use forebay_wire::{
    MAX_PUBLISHED_BYTES, NameRequest, PublishedFile, PublishedPart, Reply, Request, check_name,
};

use crate::error::ClientError;
use crate::link::{DaemonCommand, ask, refused};

/// Time that a read of a published file has at least.
const LEAST_READ: Duration = Duration::from_secs(10);

/// A node's daemon, for files that are published.
#[derive(Clone, Debug)]
pub struct Publisher {
    paths: NodePaths,
    daemon: DaemonCommand,
}

/// A published file, open. Reads give the bytes that it had when it was published, or an error.
/// Cheap to share between threads; works in children of `fork`.
#[derive(Debug)]
pub struct Published {
    publisher: Publisher,
    file: PublishedFile,
    /// Where it lies on this node, if it does.
    here: Option<(PathBuf, File)>,
    timeout: Duration,
}

impl Publisher {
    /// The daemon of a cache folder; of the default one where none is named. Starts none yet.
    ///
    /// # Errors
    /// [`ClientError::NoFolder`] if there is no cache folder.
    pub fn new(cache: Option<&Path>, daemon: DaemonCommand) -> Result<Self, ClientError> {
        let named = cache.map(Path::to_path_buf);
        let folder = named.or_else(|| NodePaths::default_folder(|name| std::env::var_os(name)));
        let folder = std::path::absolute(folder.ok_or(ClientError::NoFolder)?)
            .map_err(|_| ClientError::NoFolder)?;
        Ok(Self {
            paths: NodePaths::new(folder),
            daemon,
        })
    }

    /// Publishes a complete file, in place of what had the name before. The file stays where it is
    /// and must be left as it is; only one that is closed may be published.
    ///
    /// # Errors
    /// [`ClientError`] if there is no such file, it is being written to, or the daemon cannot be
    /// reached by `timeout`.
    pub fn publish(
        &self,
        name: &str,
        path: &Path,
        timeout: Duration,
    ) -> Result<PublishedFile, ClientError> {
        checked(name)?;
        let absolute = std::path::absolute(path).ok();
        let text = absolute.as_deref().and_then(Path::to_str);
        let text = text.ok_or_else(|| ClientError::Name {
            name: path.display().to_string(),
            why: "the path is no text, or there is no current folder",
        })?;
        let request = NameRequest::Publish {
            name: name.to_owned(),
            path: text.to_owned(),
            deadline_ms: millis(timeout),
        };
        let reply = self.ask(request, timeout)?;
        only(reply).map(|(file, _)| file)
    }

    /// Lets nobody find a name any more, wherever it was published. The file is left where it is;
    /// who has it open can read no more of it, except on the file's own node.
    ///
    /// # Errors
    /// [`ClientError`] if it is not published, or its node cannot be reached by `timeout`.
    pub fn unpublish(&self, name: &str, timeout: Duration) -> Result<(), ClientError> {
        checked(name)?;
        let request = NameRequest::Unpublish {
            name: name.to_owned(),
            deadline_ms: millis(timeout),
        };
        match self.ask(request, timeout)? {
            Reply::Done => Ok(()),
            reply => Err(refused(reply)),
        }
    }

    /// Opens the file of a name, waiting up to `timeout` until it is published. Reads of it wait as
    /// long, and 10 s at least: who does not wait for a name waits for bytes.
    ///
    /// # Errors
    /// [`ClientError`] of kind [`ErrorKind::Deadline`] if it was not published in time, and of kind
    /// [`ErrorKind::Unavailable`] if its node could not be reached.
    pub fn consume(&self, name: &str, timeout: Duration) -> Result<Published, ClientError> {
        checked(name)?;
        let request = NameRequest::Consume {
            name: name.to_owned(),
            deadline_ms: millis(timeout),
        };
        let (file, path) = only(self.ask(request, timeout)?)?;
        let path = path.map(PathBuf::from);
        Ok(Published {
            publisher: self.clone(),
            here: path.and_then(|path| open_here(path, &file)),
            file,
            timeout: timeout.max(LEAST_READ),
        })
    }

    /// The published files whose names come after `after`, in order; not all at once, so that who
    /// wants all goes on after the last until there are none. A node that cannot be reached within
    /// 2 s is left out.
    ///
    /// # Errors
    /// [`ClientError`] if the daemon cannot be reached by `timeout`.
    pub fn list(&self, after: &str, timeout: Duration) -> Result<Vec<PublishedFile>, ClientError> {
        let after = after.to_owned();
        match self.ask(NameRequest::List { after }, timeout)? {
            Reply::Published { files, .. } => Ok(files),
            reply => Err(refused(reply)),
        }
    }

    fn ask(&self, request: NameRequest, timeout: Duration) -> Result<Reply, ClientError> {
        // The daemon's own words about a deadline arrive a little after it.
        let deadline = Instant::now() + timeout + Duration::from_secs(1);
        let request = Request::Names(request);
        ask(&self.paths, &self.daemon, &request, deadline)
    }
}

/// The file, if it can be opened here and is still the one that was published.
fn open_here(path: PathBuf, file: &PublishedFile) -> Option<(PathBuf, File)> {
    let open = File::open(&path).ok()?;
    let found = fingerprint_of(&open).ok()?;
    (found == fingerprint(file)).then_some((path, open))
}

fn fingerprint(file: &PublishedFile) -> Fingerprint {
    Fingerprint {
        size: file.size,
        mtime_ns: file.mtime_ns,
        inode: file.inode,
    }
}

fn checked(name: &str) -> Result<(), ClientError> {
    check_name(name).map_err(|why| ClientError::Name {
        name: name.to_owned(),
        why,
    })
}

fn millis(timeout: Duration) -> u32 {
    u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX)
}

/// The one file of a reply.
fn only(reply: Reply) -> Result<(PublishedFile, Option<String>), ClientError> {
    match reply {
        Reply::Published { mut files, path } if files.len() == 1 => Ok((files.remove(0), path)),
        reply => Err(refused(reply)),
    }
}

impl Published {
    /// Name, node, generation and size.
    pub fn file(&self) -> &PublishedFile {
        &self.file
    }

    /// Bytes of it.
    pub fn size(&self) -> u64 {
        self.file.size
    }

    /// Reads from byte `start` into `out`, and returns how many bytes those were: fewer than asked
    /// for at the end of the file alone, and none from there on.
    ///
    /// # Errors
    /// [`ClientError`] of kind [`ErrorKind::Stale`] if the file was changed, replaced or unpublished,
    /// and of kind [`ErrorKind::Unavailable`] if its node could not be reached.
    pub fn read_at(&self, start: u64, out: &mut [u8]) -> Result<usize, ClientError> {
        let left = self.file.size.saturating_sub(start);
        let len = usize::try_from(left).unwrap_or(usize::MAX).min(out.len());
        let out = &mut out[..len];
        if out.is_empty() {
            return Ok(0);
        }
        match &self.here {
            Some((path, file)) => self.read_here(path, file, start, out)?,
            None => self.read_through(start, out)?,
        }
        Ok(len)
    }

    fn read_here(
        &self,
        path: &Path,
        file: &File,
        start: u64,
        out: &mut [u8],
    ) -> Result<(), ClientError> {
        let failed = |source: io::Error| ClientError::ReadPublished {
            name: self.file.name.clone(),
            path: path.display().to_string(),
            source,
        };
        let read = file.read_exact_at(out, start);
        // After the read: a file that changed meanwhile shows here, whatever the read returned.
        if fingerprint_of(file).map_err(failed)? != fingerprint(&self.file) {
            return Err(ClientError::Daemon {
                kind: ErrorKind::Stale,
                message: format!(
                    "published file `{}` at `{}` changed since it was published: publish it again",
                    self.file.name,
                    path.display()
                ),
            });
        }
        read.map_err(failed)
    }

    fn read_through(&self, start: u64, out: &mut [u8]) -> Result<(), ClientError> {
        let parts = out.chunks_mut(MAX_PUBLISHED_BYTES as usize);
        for (start, part) in (start..).step_by(MAX_PUBLISHED_BYTES as usize).zip(parts) {
            let request = NameRequest::Read {
                node: self.file.node.clone(),
                part: PublishedPart {
                    name: self.file.name.clone(),
                    generation: self.file.generation,
                    start,
                    len: part.len() as u32,
                },
                deadline_ms: millis(self.timeout),
            };
            match self.publisher.ask(request, self.timeout)? {
                Reply::Bytes(bytes) if bytes.len() == part.len() => part.copy_from_slice(&bytes),
                reply => return Err(refused(reply)),
            }
        }
        Ok(())
    }
}
