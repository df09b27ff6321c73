//! Calls that give a descriptor, or change where relative paths begin.

use std::ffi::{c_char, c_int, c_long};

use libc::{AT_FDCWD, DIR, mode_t};

use crate::attach::opened;
use crate::config::{config, look_at_working_folder};
use crate::exchange;
use crate::guard::intercept;
use crate::real;
use crate::table::{self, Known};

/// Opens by the call of that name, and looks at what was opened.
macro_rules! open {
    ($name:ident($($argument:ident: $type:ty),*), $folder:expr, $path:expr, $flags:expr) => {
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name($($argument: $type),*) -> c_int {
            // SAFETY: the program's own arguments; once an open has succeeded its path is a string.
            unsafe {
                let open = || real::$name($($argument),*);
                let fd = exchange::opened(open(), $folder, $path, $flags, open);
                opened(fd, $folder, $path, $flags);
                exchange::written(fd, $flags);
                fd
            }
        }
    };
}

open!(open(path: *const c_char, flags: c_int, mode: mode_t), AT_FDCWD, path, flags);
open!(open64(path: *const c_char, flags: c_int, mode: mode_t), AT_FDCWD, path, flags);
open!(__open_2(path: *const c_char, flags: c_int), AT_FDCWD, path, flags);
open!(__open64_2(path: *const c_char, flags: c_int), AT_FDCWD, path, flags);
open!(openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t), folder, path, flags);
open!(openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t), folder, path, flags);
open!(__openat_2(folder: c_int, path: *const c_char, flags: c_int), folder, path, flags);
open!(__openat64_2(folder: c_int, path: *const c_char, flags: c_int), folder, path, flags);

open!(creat(path: *const c_char, mode: mode_t), AT_FDCWD, path, libc::O_WRONLY);
open!(creat64(path: *const c_char, mode: mode_t), AT_FDCWD, path, libc::O_WRONLY);

/// Only for files that are published when they are closed: of staged ones nothing need be known.
#[unsafe(no_mangle)]
unsafe extern "C" fn close(fd: c_int) -> c_int {
    let written = table::is_known(fd).then(|| exchange::closing(fd)).flatten();
    // SAFETY: it takes only an integer.
    let done = unsafe { real::close(fd) };
    if let Some(written) = written.filter(|_| done == 0) {
        exchange::publish(written);
    }
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn opendir(path: *const c_char) -> *mut DIR {
    // SAFETY: the program's own arguments; what opendir returned is open.
    unsafe {
        let folder = real::opendir(path);
        if !folder.is_null() {
            opened(libc::dirfd(folder), AT_FDCWD, path, libc::O_RDONLY);
        }
        folder
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn chdir(path: *const c_char) -> c_int {
    // SAFETY: the program's own argument.
    let done = unsafe { real::chdir(path) };
    moved(done);
    done
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fchdir(folder: c_int) -> c_int {
    // SAFETY: the program's own argument.
    let done = unsafe { real::fchdir(folder) };
    moved(done);
    done
}

fn moved(done: c_int) {
    if done == 0 && config().is_some() {
        intercept(|| {
            look_at_working_folder();
            Some(())
        });
    }
}

/// A copy of a descriptor is of the same file.
fn copied(from: c_int, to: c_int) -> c_int {
    if to >= 0 && to != from && (table::is_known(from) || table::is_known(to)) {
        let known: Option<Known> = table::get(from);
        table::set(to, known);
    }
    to
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup(fd: c_int) -> c_int {
    // SAFETY: it takes only integers.
    copied(fd, unsafe { real::dup(fd) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup2(fd: c_int, to: c_int) -> c_int {
    // SAFETY: it takes only integers.
    copied(fd, unsafe { real::dup2(fd, to) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn dup3(fd: c_int, to: c_int, flags: c_int) -> c_int {
    // SAFETY: it takes only integers.
    copied(fd, unsafe { real::dup3(fd, to, flags) })
}

fn controlled(fd: c_int, command: c_int, done: c_int) -> c_int {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => copied(fd, done),
        _ => done,
    }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the program's own arguments.
    controlled(fd, command, unsafe { real::fcntl(fd, command, argument) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int {
    // SAFETY: the program's own arguments.
    controlled(fd, command, unsafe { real::fcntl64(fd, command, argument) })
}
