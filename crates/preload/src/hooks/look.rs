//! Calls that ask about a path. They are the kernel's to answer; only a file that is not there, and
//! that another program may have published, is looked up first.

use std::ffi::{c_char, c_int, c_void};

use libc::AT_FDCWD;

use crate::exchange;
use crate::real;

/// Asks by the call of that name, and once more if what was not there has come.
macro_rules! look {
    ($name:ident($($argument:ident: $type:ty),*), $folder:expr, $path:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program's own arguments; a path that the kernel did not find is a string.
            unsafe {
                let done = real::$name($($argument),*);
                if done == 0 || !exchange::came(done, $folder, $path) {
                    return done;
                }
                real::$name($($argument),*)
            }
        }
    };
}

look!(stat(path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(stat64(path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(lstat(path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(lstat64(path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(
    fstatat(folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int), folder, path
);
look!(
    fstatat64(folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int), folder, path
);
// What programs call that were built before glibc 2.33.
look!(__xstat(version: c_int, path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(__xstat64(version: c_int, path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(__lxstat(version: c_int, path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(__lxstat64(version: c_int, path: *const c_char, found: *mut c_void), AT_FDCWD, path);
look!(
    __fxstatat(
        version: c_int, folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int
    ),
    folder,
    path
);
look!(
    __fxstatat64(
        version: c_int, folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int
    ),
    folder,
    path
);
look!(
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: u32, found: *mut c_void),
    folder,
    path
);
look!(access(path: *const c_char, mode: c_int), AT_FDCWD, path);
look!(eaccess(path: *const c_char, mode: c_int), AT_FDCWD, path);
look!(euidaccess(path: *const c_char, mode: c_int), AT_FDCWD, path);
look!(faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int), folder, path);
