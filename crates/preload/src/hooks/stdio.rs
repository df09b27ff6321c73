//! Streams of C's `stdio`.

use std::ffi::{c_char, c_int};
use std::path::PathBuf;

use libc::{AT_FDCWD, FILE, O_RDONLY, O_RDWR};

use crate::attach::may_be_staged;
use crate::exchange;
use crate::real;
use crate::streams;
use crate::table;

macro_rules! fopen {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: the program's own arguments, both strings.
            unsafe {
                if !streams::only_reads(mode) {
                    let stream = real::$name(path, mode);
                    if !stream.is_null() {
                        exchange::written(real::fileno(stream), O_RDWR);
                    }
                    return stream;
                }
                exchange::before_read(path);
                if may_be_staged(AT_FDCWD, path, O_RDONLY)
                    && let Some(stream) = streams::open(path, mode)
                {
                    return stream;
                }
                real::$name(path, mode)
            }
        }
    )*};
}

fopen!(fopen fopen64);

/// Only for files that are published when they are closed.
#[unsafe(no_mangle)]
unsafe extern "C" fn fclose(stream: *mut FILE) -> c_int {
    // SAFETY: the program's own argument.
    let written = unsafe { leaving(stream) };
    // SAFETY: the program's own argument.
    let done = unsafe { real::fclose(stream) };
    if let Some(written) = written.filter(|_| done == 0) {
        exchange::publish(written);
    }
    done
}

/// Before a stream lets its descriptor go: what is to be published then.
///
/// # Safety
/// `stream` is null or a stream.
unsafe fn leaving(stream: *mut FILE) -> Option<(String, PathBuf)> {
    let looks = exchange::is_publishing() && !stream.is_null();
    // SAFETY: the caller's promise.
    looks
        .then(|| exchange::closing(unsafe { fileno(stream) }))
        .flatten()
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    // SAFETY: the program's own arguments.
    unsafe {
        if table::is_known(fd)
            && streams::only_reads(mode)
            && let Some(stream) = streams::adopt(fd)
        {
            return stream;
        }
        real::fdopen(fd, mode)
    }
}

macro_rules! freopen {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            path: *const c_char,
            mode: *const c_char,
            stream: *mut FILE,
        ) -> *mut FILE {
            // SAFETY: the program's own arguments.
            unsafe {
                let before = leaving(stream);
                let stream = streams::reopen(path, mode, stream)
                    .unwrap_or_else(|| real::$name(path, mode, stream));
                if let Some(before) = before {
                    exchange::publish(before);
                }
                if !stream.is_null() && !streams::only_reads(mode) {
                    exchange::written(fileno(stream), O_RDWR);
                }
                stream
            }
        }
    )*};
}

freopen!(freopen freopen64);

macro_rules! fileno {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(stream: *mut FILE) -> c_int {
            // SAFETY: the program's own argument.
            streams::descriptor_of(stream).unwrap_or_else(|| unsafe { real::$name(stream) })
        }
    )*};
}

fileno!(fileno fileno_unlocked);
