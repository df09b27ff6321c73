//! Calls that have the kernel map or copy bytes: they are given the device's file, held in place, where
//! it has them.

use std::ffi::{c_int, c_void};
use std::os::fd::AsRawFd;
use std::ptr;

use libc::{off64_t, size_t, ssize_t};

use crate::real;
use crate::serve;
use crate::table::is_known;

macro_rules! mmap {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            at: *mut c_void,
            len: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off64_t,
        ) -> *mut c_void {
            if flags & libc::MAP_ANONYMOUS == 0
                && is_known(fd)
                && let Some((file, start)) = serve::to_map(fd, len, protection, flags, offset)
            {
                let held = file.as_raw_fd();
                // SAFETY: the program's own arguments, but for a file that has the same bytes there.
                let mapped = unsafe { real::$name(at, len, protection, flags, held, start) };
                if mapped != libc::MAP_FAILED {
                    return mapped;
                }
            }
            // SAFETY: the program's own arguments.
            unsafe { real::$name(at, len, protection, flags, fd, offset) }
        }
    )*};
}

mmap!(mmap mmap64);

/// Has `copy` copy from the device's file, and moves the program's offset as far. `None` if its own
/// call is to be made.
///
/// # Safety
/// `offset` is null or the program's own offset.
unsafe fn copied(
    from: c_int,
    offset: *mut off64_t,
    count: size_t,
    copy: impl FnOnce(c_int, &mut off64_t, size_t) -> ssize_t,
) -> Option<ssize_t> {
    if !is_known(from) {
        return None;
    }
    // SAFETY: the caller's promise.
    let begins = unsafe { offset.as_ref() }.copied();
    let (held, mut start, len) = serve::to_copy(from, begins, count)?;
    let done = copy(held.as_raw_fd(), &mut start, len);
    if done <= 0 {
        // Between other file systems it may work.
        return None;
    }
    // SAFETY: the caller's promise; lseek takes only integers.
    unsafe {
        match offset.as_mut() {
            Some(offset) => *offset += done as off64_t,
            None => {
                libc::lseek64(from, done as off64_t, libc::SEEK_CUR);
            }
        }
    }
    Some(done)
}

macro_rules! sendfile {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            to: c_int,
            from: c_int,
            offset: *mut off64_t,
            count: size_t,
        ) -> ssize_t {
            // SAFETY: the program's own arguments, but for a file that has the same bytes there.
            let done = unsafe {
                copied(from, offset, count, |held, start, len| {
                    real::$name(to, held, ptr::from_mut(start), len)
                })
            };
            // SAFETY: the program's own arguments.
            done.unwrap_or_else(|| unsafe { real::$name(to, from, offset, count) })
        }
    )*};
}

sendfile!(sendfile sendfile64);

#[unsafe(no_mangle)]
unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_offset: *mut off64_t,
    to: c_int,
    to_offset: *mut off64_t,
    count: size_t,
    flags: u32,
) -> ssize_t {
    // SAFETY: the program's own arguments, but for a file that has the same bytes there.
    let done = unsafe {
        copied(from, from_offset, count, |held, start, len| {
            real::copy_file_range(held, ptr::from_mut(start), to, to_offset, len, flags)
        })
    };
    // SAFETY: the program's own arguments.
    done.unwrap_or_else(|| unsafe {
        real::copy_file_range(from, from_offset, to, to_offset, count, flags)
    })
}
