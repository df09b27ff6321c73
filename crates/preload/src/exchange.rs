//! Files that programs hand to each other: published when they are closed below one folder, waited for
//! when they are opened below another.

use std::ffi::{CStr, OsStr, c_char, c_int};
use std::fs::File;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use forebay_client::{ClientError, DaemonCommand, Published, Publisher};
use forebay_dataset::ErrorKind;
use rustix::fs::{FlockOperation, flock};

use crate::attach::canonical;
use crate::config::config;
use crate::guard::{errno, intercept, set_errno};
use crate::staged::look;
use crate::table::{self, Known};

/// How long a daemon may take to publish a file.
const PUBLISHING: Duration = Duration::from_secs(10);
/// How long until a node is asked once more that could not be reached.
const AGAIN: Duration = Duration::from_millis(100);
/// How often a file is found anew that is replaced while it is copied.
const TRIES: usize = 16;
/// Bytes that are copied at one time.
const CHUNK: usize = 4 << 20;

/// What the environment says about it.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// What is written below it is published, by its path from there.
    pub(crate) publish: Option<PathBuf>,
    /// What is not there below it is consumed, by its path from there.
    pub(crate) consume: Option<PathBuf>,
    /// How long a consumer waits for a file.
    pub(crate) wait: Duration,
}

fn exchange() -> Option<&'static Exchange> {
    config()?.exchange.as_ref()
}

/// Whether files of this process are published when they are closed.
pub(crate) fn is_publishing() -> bool {
    exchange().is_some_and(|exchange| exchange.publish.is_some())
}

fn writes(flags: c_int) -> bool {
    flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// A path of the program, absolute; `None` if it is relative to an open folder, and no file of ours.
///
/// # Safety
/// `path` is null or a string that ends in a zero byte.
unsafe fn named(folder: c_int, path: *const c_char) -> Option<PathBuf> {
    if path.is_null() {
        return None;
    }
    // SAFETY: not null, so a string by the caller's promise.
    let path = Path::new(OsStr::from_bytes(
        unsafe { CStr::from_ptr(path) }.to_bytes(),
    ));
    if folder != libc::AT_FDCWD && path.is_relative() {
        return None;
    }
    std::path::absolute(path).ok()
}

/// After an open to read: waits for a file that is not there, or is being written, and opens it again.
///
/// # Safety
/// As for [`named`].
pub(crate) unsafe fn opened(
    fd: c_int,
    folder: c_int,
    path: *const c_char,
    flags: c_int,
    again: impl FnOnce() -> c_int,
) -> c_int {
    let consume = exchange().and_then(|exchange| exchange.consume.as_deref());
    let Some(consume) = consume.filter(|_| !writes(flags) && flags & libc::O_DIRECTORY == 0) else {
        return fd;
    };
    let is_absent = fd < 0 && errno() == libc::ENOENT;
    if fd < 0 && !is_absent {
        return fd;
    }
    let came = intercept(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { named(folder, path) }?;
        let name = path.strip_prefix(consume).ok()?.to_str()?;
        match is_absent {
            true => fetch(name, &path),
            false => await_writer(fd, name),
        }
    });
    if is_absent && came.is_some() {
        again()
    } else {
        fd
    }
}

/// After a call that asked about a path and ended with `done`: true if it is to be asked again, since
/// a file that was not there has been consumed. What nobody has published is not waited for, so that
/// programs may ask for what need not be there.
///
/// # Safety
/// As for [`named`].
#[inline]
pub(crate) unsafe fn came(done: c_int, folder: c_int, path: *const c_char) -> bool {
    let Some(consume) = exchange().and_then(|exchange| exchange.consume.as_deref()) else {
        return false;
    };
    if done == 0 || errno() != libc::ENOENT {
        return false;
    }
    let fetched = intercept(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { named(folder, path) }?;
        let name = path.strip_prefix(consume).ok()?.to_str()?;
        let published = |publisher: &Publisher| publisher.consume(name, Duration::ZERO).ok();
        put_there(&path, published)
    });
    fetched.is_some()
}

/// The same for what is opened in other ways: before it is.
///
/// # Safety
/// As for [`named`].
pub(crate) unsafe fn before_read(path: *const c_char) {
    let Some(consume) = exchange().and_then(|exchange| exchange.consume.as_deref()) else {
        return;
    };
    intercept(|| {
        // SAFETY: the caller's promise.
        let path = unsafe { named(libc::AT_FDCWD, path) }?;
        let name = path.strip_prefix(consume).ok()?.to_str()?;
        match File::open(&path) {
            Ok(file) => {
                use std::os::fd::AsRawFd;
                await_writer(file.as_raw_fd(), name)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => fetch(name, &path),
            Err(_) => None,
        }
    });
}

fn publisher() -> Option<Publisher> {
    Publisher::new(None, DaemonCommand::default()).ok()
}

/// Waits for a file. A node that cannot be reached yet may be on its way up, and a file that was
/// changed be published anew.
fn consume(publisher: &Publisher, name: &str) -> Option<Published> {
    let end = Instant::now() + exchange()?.wait;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        match publisher.consume(name, left) {
            Ok(published) => return Some(published),
            Err(ClientError::Daemon { kind, .. })
                if matches!(kind, ErrorKind::Unavailable | ErrorKind::Stale) && !left.is_zero() =>
            {
                std::thread::sleep(AGAIN.min(left));
            }
            Err(_) => return None,
        }
    }
}

/// Consumes a file and puts it where it was looked for, complete or not at all.
fn fetch(name: &str, path: &Path) -> Option<()> {
    put_there(path, |publisher| consume(publisher, name))
}

/// Puts a file that is found where it was looked for. One that is replaced meanwhile is found anew.
fn put_there(path: &Path, find: impl Fn(&Publisher) -> Option<Published>) -> Option<()> {
    let publisher = publisher()?;
    for _ in 0..TRIES {
        if copied(&find(&publisher)?, path).ok()? {
            return Some(());
        }
    }
    None
}

/// True if it is there now, false if it was replaced while it was read.
fn copied(published: &Published, path: &Path) -> io::Result<bool> {
    let folder = path.parent().ok_or(io::ErrorKind::NotFound)?;
    std::fs::create_dir_all(folder)?;
    // SAFETY: gettid takes nothing.
    let thread = unsafe { libc::gettid() };
    let part = folder.join(format!(".forebay-{thread}.part"));
    let copied = copy(published, &part);
    let put = match copied {
        Ok(true) => std::fs::rename(&part, path).map(|()| true),
        other => other,
    };
    if !matches!(put, Ok(true)) {
        let _ = std::fs::remove_file(&part);
    }
    put
}

fn copy(published: &Published, part: &Path) -> io::Result<bool> {
    let mut out = File::create(part)?;
    let mut bytes = vec![0; CHUNK];
    let mut at = 0;
    while at < published.size() {
        let read = match published.read_at(at, &mut bytes) {
            Ok(read) => read,
            Err(error) if error.kind() == ErrorKind::Stale => return Ok(false),
            Err(error) => return Err(io::Error::other(error.to_string())),
        };
        out.write_all(&bytes[..read])?;
        at += read as u64;
    }
    Ok(true)
}

/// A file that a producer of this node has locked is complete once it is published.
fn await_writer(fd: c_int, name: &str) -> Option<()> {
    // SAFETY: it has just been opened, and is still to be given to the program.
    let open = unsafe { BorrowedFd::borrow_raw(fd) };
    if !look(open, false)?.is_file {
        return None;
    }
    match flock(open, FlockOperation::NonBlockingLockShared) {
        Ok(()) => flock(open, FlockOperation::Unlock).ok(),
        Err(rustix::io::Errno::WOULDBLOCK) => consume(&publisher()?, name).map(drop),
        Err(_) => None,
    }
}

/// After an open: a file that is written below the folder is published when this process closes it.
pub(crate) fn written(fd: c_int, flags: c_int) {
    let is_ours = fd >= 0 && writes(flags);
    if !is_ours || !is_publishing() {
        return;
    }
    intercept(|| {
        let mut name = [0; libc::PATH_MAX as usize];
        below_publish(canonical(fd, &mut name)?)?;
        // SAFETY: it has just been opened.
        let open = unsafe { BorrowedFd::borrow_raw(fd) };
        if !look(open, false)?.is_file {
            return None;
        }
        // For consumers of this node, who see the file before it is complete.
        let _ = flock(open, FlockOperation::NonBlockingLockExclusive);
        table::set(fd, Some(Known::Written(std::process::id())));
        Some(())
    });
}

fn below_publish(path: &[u8]) -> Option<(String, PathBuf)> {
    let folder = exchange()?.publish.as_ref()?.canonicalize().ok()?;
    let path = Path::new(OsStr::from_bytes(path));
    let name = path.strip_prefix(folder).ok()?.to_str()?;
    (!name.is_empty()).then(|| (name.to_owned(), path.to_path_buf()))
}

/// Before a close: the name and path to publish after it. A child that inherited the descriptor closes
/// its own copy and no more.
pub(crate) fn closing(fd: c_int) -> Option<(String, PathBuf)> {
    let known = table::get(fd)?;
    if known != Known::Written(std::process::id()) {
        return None;
    }
    intercept(|| {
        let mut name = [0; libc::PATH_MAX as usize];
        let found = below_publish(canonical(fd, &mut name)?);
        table::forget(fd, known);
        found
    })
}

/// After the close. What fails is said: the program cannot know, and who waits would not.
pub(crate) fn publish((name, path): (String, PathBuf)) {
    let before = errno();
    intercept(|| {
        let published = publisher()?.publish(&name, &path, PUBLISHING);
        if let Err(error) = published {
            let _ = writeln!(io::stderr(), "forebay: cannot publish `{name}`: {error}");
        }
        Some(())
    });
    set_errno(before);
}
