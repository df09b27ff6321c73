//! Finds out, once a file is open, whether its reads can be served.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;

use forebay_client::prepare_thread;

use crate::config::{Config, config, is_near};
use crate::guard::intercept;
use crate::roots::Place;
use crate::staged::look;
use crate::table::{self, FileId, Known};

/// Flags of an open that are left to the origin: they write, want no bytes, or want no cache.
const LEFT_ALONE: c_int = libc::O_ACCMODE | libc::O_PATH | libc::O_DIRECT | libc::O_TRUNC;

/// Whether an open of `path` with `flags`, relative to `folder`, may be of interest: no allocation, no
/// lock, and no call.
///
/// # Safety
/// `path` is null or a string that ends in a zero byte.
#[inline]
pub(crate) unsafe fn may_be_staged(folder: c_int, path: *const c_char, flags: c_int) -> bool {
    let Some(config) = config() else { return false };
    if path.is_null() || flags & LEFT_ALONE != libc::O_RDONLY {
        return false;
    }
    // SAFETY: not null, so a string by the caller's promise.
    let path = unsafe { CStr::from_ptr(path) }.to_bytes();
    match path.first() {
        None => false,
        Some(b'/') => config.roots.place(path) != Place::Elsewhere,
        _ if folder == libc::AT_FDCWD => is_near(path),
        _ => table::get(folder) == Some(Known::Folder),
    }
}

/// After an open that succeeded: notes what the descriptor is.
///
/// # Safety
/// As for [`may_be_staged`].
#[inline]
pub(crate) unsafe fn opened(fd: c_int, folder: c_int, path: *const c_char, flags: c_int) {
    // SAFETY: the caller's promise is handed on.
    if fd >= 0 && unsafe { may_be_staged(folder, path, flags) } {
        intercept(|| {
            // SAFETY: it was looked at before and is not null.
            note(fd, unsafe { CStr::from_ptr(path) }.to_bytes());
            Some(())
        });
    } else if table::is_known(fd) {
        // The number was that of another file, whose close nobody here saw.
        table::set(fd, None);
    }
}

/// Notes what the descriptor is that `path` led to.
pub(crate) fn note(fd: c_int, path: &[u8]) {
    table::set(fd, config().and_then(|config| found(config, fd, path)));
}

fn found(config: &Config, fd: c_int, path: &[u8]) -> Option<Known> {
    // SAFETY: the program's open has just returned it, and is still to be told of it.
    let open = unsafe { BorrowedFd::borrow_raw(fd) };
    let seen = look(open, true)?;
    if seen.is_folder {
        let mut name = [0; libc::PATH_MAX as usize];
        let place = config.roots.place(canonical(fd, &mut name)?);
        let near = place != Place::Elsewhere || config.roots.place(path) != Place::Elsewhere;
        return near.then_some(Known::Folder);
    }
    if !seen.is_file {
        return None;
    }
    let staged = |path: &[u8]| {
        let Place::Below(root, rest) = config.roots.place(path) else {
            return None;
        };
        let (segment, fingerprint) = config.staged.get(root)?.find(rest)?;
        prepare_thread();
        (fingerprint == seen.fingerprint).then_some(Known::File(FileId {
            root: u8::try_from(root).ok()?,
            device: seen.device,
            segment,
        }))
    };
    // The text of the path first; by links, dots or the working folder, it may be another's.
    staged(path).or_else(|| {
        let mut name = [0; libc::PATH_MAX as usize];
        staged(canonical(fd, &mut name)?)
    })
}

/// The kernel's own name of what is under a descriptor.
pub(crate) fn canonical(fd: c_int, name: &mut [u8]) -> Option<&[u8]> {
    let link = format!("/proc/self/fd/{fd}\0");
    // SAFETY: the path ends in a zero byte, and readlink writes at most as much as is said.
    let len = unsafe { libc::readlink(link.as_ptr().cast(), name.as_mut_ptr().cast(), name.len()) };
    // One that fills the buffer may be cut off.
    let len = usize::try_from(len).ok().filter(|len| *len < name.len())?;
    Some(&name[..len])
}
