//! Streams of C's `stdio`, which read their descriptor by calls that nothing can stand in front of:
//! a staged file gets a stream whose reads lead here.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicUsize, Ordering};

use libc::{FILE, off64_t, size_t, ssize_t};

use crate::attach;
use crate::guard::{errno, intercept, set_errno};
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
    write: unsafe extern "C" fn(*mut c_void, *const c_char, size_t) -> ssize_t,
    seek: unsafe extern "C" fn(*mut c_void, *mut off64_t, c_int) -> c_int,
    close: unsafe extern "C" fn(*mut c_void) -> c_int,
}

unsafe extern "C" {
    fn fopencookie(cookie: *mut c_void, mode: *const c_char, calls: CookieCalls) -> *mut FILE;
    fn __fpurge(stream: *mut FILE);
    fn __freadable(stream: *mut FILE) -> c_int;
    fn __fwritable(stream: *mut FILE) -> c_int;
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
        let fd = unsafe { real::open64(path, flags_of(mode)?, 0) };
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
        write: write_slot,
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

/// For streams that were opened anew to be written: libc lets no others come here.
unsafe extern "C" fn write_slot(
    cookie: *mut c_void,
    bytes: *const c_char,
    count: size_t,
) -> ssize_t {
    let Some(slot) = slot_of(cookie) else {
        return 0;
    };
    let fd = slot.fd.load(Ordering::Acquire);
    let mut done = 0;
    while done < count {
        // SAFETY: the stream's own descriptor, and what is left of the bytes that it is to write.
        let wrote = unsafe { libc::write(fd, bytes.add(done).cast(), count - done) };
        match usize::try_from(wrote) {
            Ok(wrote) => done += wrote,
            // Fewer than were asked for is how a cookie tells of an error.
            Err(_) => break,
        }
    }
    done as ssize_t
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

/// Makes a stream of [`wrap`] that of another file, or of another mode, which libc's own call would
/// crash on. `None` for all other streams.
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
    let flags = unsafe { flags_of(mode) };
    let fd = flags.and_then(|flags| {
        // SAFETY: the caller's promise: what is not null is a string.
        unsafe { open_anew(slot.fd.load(Ordering::Acquire), path, flags) }
    });
    let Some(fd) = fd else {
        if flags.is_none() {
            set_errno(libc::EINVAL);
        }
        return Some(ptr::null_mut());
    };
    let writes = flags.is_some_and(|flags| flags & libc::O_ACCMODE != libc::O_RDONLY);
    if !writes && !path.is_null() {
        intercept(|| {
            // SAFETY: the caller's promise.
            attach::note(fd, unsafe { CStr::from_ptr(path) }.to_bytes());
            Some(())
        });
    }
    let before = slot.fd.swap(fd, Ordering::AcqRel);
    // SAFETY: the stream is the caller's to change, and its old descriptor was its own.
    unsafe {
        __fpurge(stream);
        libc::close(before);
        Some(begun_anew(stream, flags.unwrap_or(0)))
    }
}

/// A stream of [`wrap`] at the place where these flags of an open begin, with nothing of what it had
/// before.
///
/// # Safety
/// `stream` is such a stream, and the caller's to change.
unsafe fn begun_anew(stream: *mut FILE, flags: c_int) -> *mut FILE {
    // SAFETY: the caller's promise.
    let stream = unsafe { with_mode(stream, flags) };
    if stream.is_null() {
        return stream;
    }
    let before = errno();
    // SAFETY: as above.
    unsafe {
        // A purge leaves in place what the buffer holds, and a seek to there would find it. A seek to
        // the end of what has no `stat` forgets it.
        libc::fseeko(stream, 0, libc::SEEK_END);
        if flags & libc::O_APPEND == 0 {
            libc::fseeko(stream, 0, libc::SEEK_SET);
        }
        clearerr(stream);
    }
    set_errno(before);
    stream
}

/// A descriptor of `path`, or of what `open` is of where there is no path. `None` and an `errno` if
/// there is none.
///
/// # Safety
/// `path` is null or a string that ends in a zero byte.
unsafe fn open_anew(open: c_int, path: *const c_char, flags: c_int) -> Option<c_int> {
    let own = format!("/proc/self/fd/{open}\0");
    let path = if path.is_null() {
        own.as_ptr().cast()
    } else {
        path
    };
    // SAFETY: both end in a zero byte.
    let fd = unsafe { real::open64(path, flags, 0o666) };
    (fd >= 0).then_some(fd)
}

/// Lets a stream of [`wrap`] do what these flags of an open allow.
///
/// # Safety
/// `stream` is such a stream, and the caller's to change.
unsafe fn with_mode(stream: *mut FILE, flags: c_int) -> *mut FILE {
    // What glibc notes of a stream in its first word, which is part of its binary interface: macros
    // of old headers looked at it.
    const NO_READS: c_int = 4;
    const NO_WRITES: c_int = 8;
    let mode = flags & libc::O_ACCMODE;
    let (reads, writes) = (mode != libc::O_WRONLY, mode != libc::O_RDONLY);
    let word = stream.cast::<c_int>();
    // SAFETY: a stream begins with this word, and is the caller's to change.
    unsafe {
        let mut noted = word.read() & !(NO_READS | NO_WRITES);
        if !reads {
            noted |= NO_READS;
        }
        if !writes {
            noted |= NO_WRITES;
        }
        word.write(noted);
        // A libc that says otherwise has another word there: nothing was lost but the stream.
        let agrees = (__freadable(stream) != 0, __fwritable(stream) != 0) == (reads, writes);
        if agrees {
            return stream;
        }
    }
    set_errno(libc::EINVAL);
    ptr::null_mut()
}

/// How a mode opens a file; `None` for one that is none.
///
/// # Safety
/// `mode` is null or a string that ends in a zero byte.
unsafe fn flags_of(mode: *const c_char) -> Option<c_int> {
    if mode.is_null() {
        return None;
    }
    // SAFETY: the caller's promise.
    let (first, rest) = unsafe { CStr::from_ptr(mode) }.to_bytes().split_first()?;
    let both = rest.contains(&b'+');
    let mode = |one| if both { libc::O_RDWR } else { one };
    let opens = match first {
        b'r' => mode(libc::O_RDONLY),
        b'w' => mode(libc::O_WRONLY) | libc::O_CREAT | libc::O_TRUNC,
        b'a' => mode(libc::O_WRONLY) | libc::O_CREAT | libc::O_APPEND,
        _ => return None,
    };
    let each = [(b'e', libc::O_CLOEXEC), (b'x', libc::O_EXCL)];
    let more = each.iter().filter(|(letter, _)| rest.contains(letter));
    Some(more.fold(opens, |flags, (_, flag)| flags | flag))
}
