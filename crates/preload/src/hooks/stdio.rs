//! Streams of C's `stdio`.

use std::ffi::{c_char, c_int};

use libc::{AT_FDCWD, FILE, O_RDONLY};

use crate::attach::may_be_staged;
use crate::real;
use crate::streams;
use crate::table;

macro_rules! fopen {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(path: *const c_char, mode: *const c_char) -> *mut FILE {
            // SAFETY: the program's own arguments, both strings.
            unsafe {
                if may_be_staged(AT_FDCWD, path, O_RDONLY)
                    && streams::only_reads(mode)
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
