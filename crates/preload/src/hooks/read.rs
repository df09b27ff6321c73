//! Calls that read bytes of a descriptor into memory.

use std::ffi::{c_int, c_void};

use libc::{iovec, off64_t, size_t, ssize_t};

use crate::guard::set_errno;
use crate::real;
use crate::serve::{self, Answer};
use crate::table::is_known;

/// Parts that one call of the kernel takes at most.
const MOST_PARTS: c_int = 1024;

/// Makes the program's own call unless the cache has answered.
#[inline]
fn answer(decided: Option<Answer>, own: impl FnOnce() -> ssize_t) -> ssize_t {
    match decided {
        Some(Ok(read)) => read as ssize_t,
        Some(Err(code)) => {
            set_errno(code);
            -1
        }
        None => own(),
    }
}

/// The program's parts; `None` for what the kernel is to refuse.
///
/// # Safety
/// As for `readv`: `count` parts lie at `parts`.
unsafe fn listed<'a>(parts: *const iovec, count: c_int) -> Option<&'a [iovec]> {
    let sound = !parts.is_null() && (1..=MOST_PARTS).contains(&count);
    // SAFETY: the caller's promise.
    sound.then(|| unsafe { std::slice::from_raw_parts(parts, count as usize) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t {
    let decided = is_known(fd)
        .then(|| serve::read(fd, buffer, count))
        .flatten();
    // SAFETY: the program's own arguments.
    answer(decided, || unsafe { real::read(fd, buffer, count) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    count: size_t,
    room: size_t,
) -> ssize_t {
    // Without the room it is libc's to end the program.
    let ours = count <= room && is_known(fd);
    let decided = ours.then(|| serve::read(fd, buffer, count)).flatten();
    // SAFETY: the program's own arguments.
    answer(decided, || unsafe {
        real::__read_chk(fd, buffer, count, room)
    })
}

macro_rules! pread {
    ($($name:ident, $checked:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            buffer: *mut c_void,
            count: size_t,
            offset: off64_t,
        ) -> ssize_t {
            let ours = is_known(fd);
            let decided = ours.then(|| serve::read_at(fd, buffer, count, offset)).flatten();
            // SAFETY: the program's own arguments.
            answer(decided, || unsafe { real::$name(fd, buffer, count, offset) })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $checked(
            fd: c_int,
            buffer: *mut c_void,
            count: size_t,
            offset: off64_t,
            room: size_t,
        ) -> ssize_t {
            let ours = count <= room && is_known(fd);
            let decided = ours.then(|| serve::read_at(fd, buffer, count, offset)).flatten();
            // SAFETY: the program's own arguments.
            answer(decided, || unsafe { real::$checked(fd, buffer, count, offset, room) })
        }
    )*};
}

pread! {
    pread, __pread_chk;
    pread64, __pread64_chk;
}

#[unsafe(no_mangle)]
unsafe extern "C" fn readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t {
    let decided = is_known(fd)
        // SAFETY: the program's own arguments.
        .then(|| unsafe { listed(parts, count) })
        .flatten()
        .and_then(|parts| serve::read_parts(fd, parts, None));
    // SAFETY: the program's own arguments.
    answer(decided, || unsafe { real::readv(fd, parts, count) })
}

macro_rules! preadv {
    ($($name:ident, $flagged:ident;)*) => {$(
        #[unsafe(no_mangle)]
        unsafe extern "C" fn $name(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            offset: off64_t,
        ) -> ssize_t {
            let decided = is_known(fd)
                // SAFETY: the program's own arguments.
                .then(|| unsafe { listed(parts, count) })
                .flatten()
                .and_then(|parts| serve::read_parts(fd, parts, Some(offset)));
            // SAFETY: the program's own arguments.
            answer(decided, || unsafe { real::$name(fd, parts, count, offset) })
        }

        #[unsafe(no_mangle)]
        unsafe extern "C" fn $flagged(
            fd: c_int,
            parts: *const iovec,
            count: c_int,
            offset: off64_t,
            flags: c_int,
        ) -> ssize_t {
            // Flags ask the kernel for something that only it can do.
            let decided = (flags == 0 && is_known(fd))
                // SAFETY: the program's own arguments.
                .then(|| unsafe { listed(parts, count) })
                .flatten()
                // -1 is the descriptor's own offset.
                .and_then(|parts| {
                    serve::read_parts(fd, parts, (offset != -1).then_some(offset))
                });
            // SAFETY: the program's own arguments.
            answer(decided, || unsafe { real::$flagged(fd, parts, count, offset, flags) })
        }
    )*};
}

preadv! {
    preadv, preadv2;
    preadv64, preadv64v2;
}
