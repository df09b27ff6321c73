//! Streams of C's `stdio`, which read their descriptor by calls that nothing can stand in front of:
//! a staged file gets a stream whose reads lead here.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use libc::{FILE, off64_t, size_t, ssize_t};

use crate::attach;
use crate::guard::{intercept, set_errno};
use crate::real;
use crate::serve;
use crate::table::{self, Known};

/// Streams of staged files that are open at one time; further ones are common streams.
const STREAMS: usize = 1024;
const FREE: c_int = -1;

struct Slot {
    fd: AtomicI32,
    stream: AtomicPtr<FILE>,
}

static SLOTS: [Slot; STREAMS] = [const {
    Slot {
        fd: AtomicI32::new(FREE),
        stream: AtomicPtr::new(ptr::null_mut()),
    }
}; STREAMS];
/// Slots that were ever used: the first so many.
static USED: AtomicUsize = AtomicUsize::new(0);

#[repr(C)]
struct CookieCalls {
    read: unsafe extern "C" fn(*mut c_void, *mut c_char, size_t) -> ssize_t,
    write: Option<unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t>,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, calls: CookieCalls) -> *mut FILE;
    fn __fpurge(stream: *mut FILE);
    fn clearerr(stream: *mut FILE);
}

/// Whether a mode of `fopen` only reads bytes, in a way that is known here.
///
/// # Safety
/// `mode` is null or a string that ends in a zero byte.
pub(crate) unsafe fn only_reads(mode: *const c_char) -> bool {
    // SAFETY: the caller's promise, once it is not null.
    !mode.is_null()
        && matches!(
            unsafe { CStr::from_ptr(mode) }.to_bytes(),
            b"r" | b"rb" | b"re" | b"rbe" | b"reb" | b"rm" | b"rbm"
        )
}

/// Opens a stream to read `path`, which may be staged. `None` if the program's own call is to do it.
///
/// # Safety
/// Both are strings that end in a zero byte.
pub(crate) unsafe fn open(path: *const c_char, mode: *const c_char) -> Option<*mut FILE> {
    intercept(|| {
        // SAFETY: the caller's promise; without O_CREAT no mode is read.
        let fd = unsafe { real::open64(path, open_flags(mode), 0) };
        if fd < 0 {
            return None;
        }
        // SAFETY: the caller's promise.
        attach::note(fd, unsafe { CStr::from_ptr(path) }.to_bytes());
        let staged = matches!(table::get(fd), Some(Known::File(_)));
        let stream = staged.then(|| wrap(fd)).flatten();
        // SAFETY: the descriptor was opened to be read, as the mode says.
        let stream = stream.unwrap_or_else(|| unsafe { real::fdopen(fd, mode) });
        if stream.is_null() {
            // SAFETY: it is this function's own, and nobody else knows of it.
            unsafe { libc::close(fd) };
            return None;
        }
        Some(stream)
    })
}

/// A stream that reads a descriptor of a staged file, and closes it in the end.
pub(crate) fn adopt(fd: c_int) -> Option<*mut FILE> {
    let staged = matches!(table::get(fd), Some(Known::File(_)));
    staged.then(|| intercept(|| wrap(fd))).flatten()
}

fn wrap(fd: c_int) -> Option<*mut FILE> {
    let at = SLOTS.iter().position(|slot| {
        let (taken, order) = (fd, Ordering::AcqRel);
        slot.fd
            .compare_exchange(FREE, taken, order, Ordering::Relaxed)
            .is_ok()
    })?;
    USED.fetch_max(at + 1, Ordering::AcqRel);
    let calls = CookieCalls {
        read: read_slot,
        write: None,
        seek: seek_slot,
        close: close_slot,
    };
    // SAFETY: the calls live as long as the process and take for a cookie what stands here; the mode
    // is a string. Slots are numbered from 1 there, so that no cookie is null.
    let stream = unsafe { fopencookie(ptr::without_provenance_mut(at + 1), c"r".as_ptr(), calls) };
    let slot = &SLOTS[at];
    if stream.is_null() {
        slot.fd.store(FREE, Ordering::Release);
        return None;
    }
    slot.stream.store(stream, Ordering::Release);
    Some(stream)
}

fn slot_of(cookie: *mut c_void) -> Option<&'static Slot> {
    cookie.addr().checked_sub(1).and_then(|at| SLOTS.get(at))
}

unsafe extern "C" fn read_slot(cookie: *mut c_void, buffer: *mut c_char, count: size_t) -> ssize_t {
    let Some(slot) = slot_of(cookie) else {
        return -1;
    };
    let fd = slot.fd.load(Ordering::Acquire);
    match serve::read(fd, buffer.cast(), count) {
        Some(Ok(read)) => read as ssize_t,
        Some(Err(code)) => {
            set_errno(code);
            -1
        }
        // SAFETY: the stream's own descriptor, and the buffer that it is to fill.
        None => unsafe { real::read(fd, buffer.cast(), count) },
    }
}

unsafe extern "C" fn seek_slot(cookie: *mut c_void, offset: *mut off64_t, whence: c_int) -> c_int {
    let Some(slot) = slot_of(cookie) else {
        return -1;
    };
    let fd = slot.fd.load(Ordering::Acquire);
    // SAFETY: libc passes the place of an offset, which it reads after a success.
    unsafe {
        let found = libc::lseek64(fd, *offset, whence);
        if found < 0 {
            return -1;
        }
        *offset = found;
    }
    0
}

unsafe extern "C" fn close_slot(cookie: *mut c_void) -> c_int {
    let Some(fd) = slot_of(cookie).map(release) else {
        return -1;
    };
    // SAFETY: the stream owns the descriptor and is at its end.
    unsafe { libc::close(fd) }
}

fn release(slot: &Slot) -> c_int {
    slot.stream.store(ptr::null_mut(), Ordering::Release);
    slot.fd.swap(FREE, Ordering::AcqRel)
}

/// The descriptor that a stream of [`wrap`] reads.
pub(crate) fn descriptor_of(stream: *mut FILE) -> Option<c_int> {
    find(stream).map(|slot| slot.fd.load(Ordering::Acquire))
}

fn find(stream: *mut FILE) -> Option<&'static Slot> {
    let used = USED.load(Ordering::Acquire);
    let mut slots = SLOTS[..used].iter();
    slots.find(|slot| !stream.is_null() && slot.stream.load(Ordering::Acquire) == stream)
}

/// Makes a stream of [`wrap`] that of another file, which libc's own call would crash on. `None` for
/// all other streams.
///
/// # Safety
/// As of `freopen`.
pub(crate) unsafe fn reopen(
    path: *const c_char,
    mode: *const c_char,
    stream: *mut FILE,
) -> Option<*mut FILE> {
    let slot = find(stream)?;
    // SAFETY: the caller's promise.
    if path.is_null() || !unsafe { only_reads(mode) } {
        // A stream that can only read was made for one that could.
        set_errno(libc::EINVAL);
        return Some(ptr::null_mut());
    }
    // SAFETY: the caller's promise; without O_CREAT no mode is read.
    let fd = unsafe { real::open64(path, open_flags(mode), 0) };
    if fd < 0 {
        return Some(ptr::null_mut());
    }
    intercept(|| {
        // SAFETY: the caller's promise.
        attach::note(fd, unsafe { CStr::from_ptr(path) }.to_bytes());
        Some(())
    });
    let before = slot.fd.swap(fd, Ordering::AcqRel);
    // SAFETY: the stream is the caller's to change, and its old descriptor was its own.
    unsafe {
        __fpurge(stream);
        clearerr(stream);
        libc::close(before);
    }
    Some(stream)
}

/// How a mode that only reads opens a file.
///
/// # Safety
/// `mode` is a string that ends in a zero byte.
unsafe fn open_flags(mode: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    let close_on_exec = unsafe { CStr::from_ptr(mode) }.to_bytes().contains(&b'e');
    libc::O_RDONLY | if close_on_exec { libc::O_CLOEXEC } else { 0 }
}
