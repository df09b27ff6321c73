//! The calls that this library stands in front of, as the next library has them.

use std::ffi::{CStr, c_char, c_int, c_long, c_void};
use std::mem::transmute_copy;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{FILE, iovec, mode_t, off64_t, size_t, ssize_t};

/// Where a call lies; found once. Before that, and without a lock, any thread may find it.
struct Found(AtomicPtr<c_void>);

impl Found {
    const fn nothing() -> Self {
        Self(AtomicPtr::new(ptr::null_mut()))
    }

    fn get(&self, name: &CStr) -> *mut c_void {
        let known = self.0.load(Ordering::Relaxed);
        if known.is_null() {
            self.find(name)
        } else {
            known
        }
    }

    #[cold]
    fn find(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the name ends in a zero byte, and dlsym only reads it.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, name.as_ptr()) };
        self.0.store(found, Ordering::Relaxed);
        found
    }
}

/// Declares calls of libc as functions of this module, and [`find_all`].
macro_rules! real {
    ($($name:ident($($argument:ident: $type:ty),*) -> $result:ty, else $missing:expr;)*) => {
        $(
            /// libc's call of this name.
            ///
            /// # Safety
            /// As of the call itself: arguments are passed on as they are.
            pub(crate) unsafe fn $name($($argument: $type),*) -> $result {
                static FOUND: Found = Found::nothing();
                const NAME: &CStr = match CStr::from_bytes_with_nul(
                    concat!(stringify!($name), "\0").as_bytes(),
                ) {
                    Ok(name) => name,
                    Err(_) => c"",
                };
                let found = FOUND.get(NAME);
                if found.is_null() {
                    // A libc without it: nothing that was linked against it calls it.
                    crate::guard::set_errno(libc::ENOSYS);
                    return $missing;
                }
                type Call = unsafe extern "C" fn($($type),*) -> $result;
                // SAFETY: it is the call of this name, whose C declaration has these types.
                let call: Call = unsafe { transmute_copy(&found) };
                // SAFETY: the caller's promise is handed on.
                unsafe { call($($argument),*) }
            }
        )*
    };
}

// The third argument of `open` and `fcntl` is variadic in C. On the ABIs that Linux has for x86-64
// and AArch64 it is passed as a fixed one would be, and one that was left out is passed on unread.
real! {
    open(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, else -1;
    open64(path: *const c_char, flags: c_int, mode: mode_t) -> c_int, else -1;
    openat(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, else -1;
    openat64(folder: c_int, path: *const c_char, flags: c_int, mode: mode_t) -> c_int, else -1;
    __open_2(path: *const c_char, flags: c_int) -> c_int, else -1;
    __open64_2(path: *const c_char, flags: c_int) -> c_int, else -1;
    __openat_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int, else -1;
    __openat64_2(folder: c_int, path: *const c_char, flags: c_int) -> c_int, else -1;
    creat(path: *const c_char, mode: mode_t) -> c_int, else -1;
    creat64(path: *const c_char, mode: mode_t) -> c_int, else -1;
    close(fd: c_int) -> c_int, else -1;
    stat(path: *const c_char, found: *mut c_void) -> c_int, else -1;
    stat64(path: *const c_char, found: *mut c_void) -> c_int, else -1;
    lstat(path: *const c_char, found: *mut c_void) -> c_int, else -1;
    lstat64(path: *const c_char, found: *mut c_void) -> c_int, else -1;
    fstatat(folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int, else -1;
    fstatat64(folder: c_int, path: *const c_char, found: *mut c_void, flags: c_int) -> c_int,
        else -1;
    __xstat(version: c_int, path: *const c_char, found: *mut c_void) -> c_int, else -1;
    __xstat64(version: c_int, path: *const c_char, found: *mut c_void) -> c_int, else -1;
    __lxstat(version: c_int, path: *const c_char, found: *mut c_void) -> c_int, else -1;
    __lxstat64(version: c_int, path: *const c_char, found: *mut c_void) -> c_int, else -1;
    __fxstatat(version: c_int, folder: c_int, path: *const c_char, found: *mut c_void,
        flags: c_int) -> c_int, else -1;
    __fxstatat64(version: c_int, folder: c_int, path: *const c_char, found: *mut c_void,
        flags: c_int) -> c_int, else -1;
    statx(folder: c_int, path: *const c_char, flags: c_int, mask: u32, found: *mut c_void)
        -> c_int, else -1;
    access(path: *const c_char, mode: c_int) -> c_int, else -1;
    eaccess(path: *const c_char, mode: c_int) -> c_int, else -1;
    euidaccess(path: *const c_char, mode: c_int) -> c_int, else -1;
    faccessat(folder: c_int, path: *const c_char, mode: c_int, flags: c_int) -> c_int, else -1;
    opendir(path: *const c_char) -> *mut libc::DIR, else ptr::null_mut();
    chdir(path: *const c_char) -> c_int, else -1;
    fchdir(folder: c_int) -> c_int, else -1;

    fopen(path: *const c_char, mode: *const c_char) -> *mut FILE, else ptr::null_mut();
    fopen64(path: *const c_char, mode: *const c_char) -> *mut FILE, else ptr::null_mut();
    fclose(stream: *mut FILE) -> c_int, else libc::EOF;
    fdopen(fd: c_int, mode: *const c_char) -> *mut FILE, else ptr::null_mut();
    freopen(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE,
        else ptr::null_mut();
    freopen64(path: *const c_char, mode: *const c_char, stream: *mut FILE) -> *mut FILE,
        else ptr::null_mut();
    fileno(stream: *mut FILE) -> c_int, else -1;
    fileno_unlocked(stream: *mut FILE) -> c_int, else -1;

    read(fd: c_int, buffer: *mut c_void, count: size_t) -> ssize_t, else -1;
    __read_chk(fd: c_int, buffer: *mut c_void, count: size_t, room: size_t) -> ssize_t, else -1;
    pread(fd: c_int, buffer: *mut c_void, count: size_t, offset: off64_t) -> ssize_t, else -1;
    pread64(fd: c_int, buffer: *mut c_void, count: size_t, offset: off64_t) -> ssize_t, else -1;
    __pread_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off64_t, room: size_t)
        -> ssize_t, else -1;
    __pread64_chk(fd: c_int, buffer: *mut c_void, count: size_t, offset: off64_t, room: size_t)
        -> ssize_t, else -1;
    readv(fd: c_int, parts: *const iovec, count: c_int) -> ssize_t, else -1;
    preadv(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t) -> ssize_t, else -1;
    preadv64(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t) -> ssize_t, else -1;
    preadv2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int) -> ssize_t,
        else -1;
    preadv64v2(fd: c_int, parts: *const iovec, count: c_int, offset: off64_t, flags: c_int)
        -> ssize_t, else -1;

    mmap(at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off64_t)
        -> *mut c_void, else libc::MAP_FAILED;
    mmap64(at: *mut c_void, len: size_t, protection: c_int, flags: c_int, fd: c_int, offset: off64_t)
        -> *mut c_void, else libc::MAP_FAILED;
    sendfile(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t, else -1;
    sendfile64(to: c_int, from: c_int, offset: *mut off64_t, count: size_t) -> ssize_t, else -1;
    copy_file_range(from: c_int, from_offset: *mut off64_t, to: c_int, to_offset: *mut off64_t,
        count: size_t, flags: u32) -> ssize_t, else -1;

    dup(fd: c_int) -> c_int, else -1;
    dup2(fd: c_int, to: c_int) -> c_int, else -1;
    dup3(fd: c_int, to: c_int, flags: c_int) -> c_int, else -1;
    fcntl(fd: c_int, command: c_int, argument: c_long) -> c_int, else -1;
    fcntl64(fd: c_int, command: c_int, argument: c_long) -> c_int, else -1;
}
