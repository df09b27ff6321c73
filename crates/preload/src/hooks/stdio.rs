//! Streams of C's `stdio`.

use std::ffi::{c_char, c_int};

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
    let written = match exchange::is_publishing() && !stream.is_null() {
        // SAFETY: the program's own argument.
        true => exchange::closing(unsafe { real::fileno(stream) }),
        false => None,
    };
    // SAFETY: the program's own argument.
    let done = unsafe { real::fclose(stream) };
    if let Some(written) = written.filter(|_| done == 0) {
        exchange::publish(written);
    }
    done
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
                streams::reopen(path, mode, stream)
                    .unwrap_or_else(|| real::$name(path, mode, stream))
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
