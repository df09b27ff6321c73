//! The only unsafe code in the crate: shared mappings, open-file-description locks and the fork
//! handler, which neither `std` nor rustix offers safely.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use rustix::mm::{Advice, MapFlags, ProtFlags};

/// A shared mapping of a whole file.
#[derive(Debug)]
pub(crate) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: the mapping is plain memory that stays mapped until drop; every access to words goes
// through atomics, and `bytes` is only for ranges that the read protocol or a hold protects.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Maps `len` bytes of `file`, which must be at least that long.
    pub(crate) fn new(file: &File, len: u64, writable: bool) -> io::Result<Self> {
        if file.metadata()?.len() < len {
            return Err(io::Error::new(
                io::ErrorKind::UnexpectedEof,
                "file is shorter than its map",
            ));
        }
        let len = usize::try_from(len)
            .map_err(|_| io::ErrorKind::OutOfMemory)?
            .max(1);
        let prot = if writable {
            ProtFlags::READ | ProtFlags::WRITE
        } else {
            ProtFlags::READ
        };
        // SAFETY: a fresh mapping at an address the kernel chooses overlaps nothing of ours. The
        // file is as long as the mapping (checked above) and the crate never truncates it.
        let start = unsafe {
            rustix::mm::mmap(std::ptr::null_mut(), len, prot, MapFlags::SHARED, file, 0)
        }?;
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    /// The 8-byte word at `offset`, a multiple of 8 inside the mapping.
    pub(crate) fn word(&self, offset: u64) -> &AtomicU64 {
        let offset = offset as usize;
        assert!(
            offset.is_multiple_of(8) && offset + 8 <= self.len,
            "word outside the map"
        );
        // SAFETY: in bounds and aligned (checked above; mappings are page-aligned), mapped for as
        // long as `self`, and every access by any process is an atomic one. Read-only mappings
        // are only loaded from: stores live in types that own a writable mapping.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// The 4-byte word at `offset`, a multiple of 4 inside the mapping.
    pub(crate) fn half_word(&self, offset: u64) -> &AtomicU32 {
        let offset = offset as usize;
        assert!(
            offset.is_multiple_of(4) && offset + 4 <= self.len,
            "word outside the map"
        );
        // SAFETY: as for `word`.
        unsafe { AtomicU32::from_ptr(self.start.as_ptr().add(offset).cast()) }
    }

    /// Address of the byte at `offset`, where `len` bytes from there are inside the mapping.
    pub(crate) fn address(&self, offset: u64, len: u64) -> Option<NonNull<u8>> {
        let end = offset.checked_add(len)?;
        if end > self.len as u64 {
            return None;
        }
        // SAFETY: `offset` is inside the mapping, so the address is in the same allocation.
        Some(unsafe { self.start.add(offset as usize) })
    }

    /// Copies from `offset` on; false if that is not all inside the mapping.
    pub(crate) fn copy(&self, offset: u64, out: &mut [u8]) -> bool {
        let Some(from) = self.address(offset, out.len() as u64) else {
            return false;
        };
        // SAFETY: the range is inside the mapping (checked above), whose file cannot become
        // shorter (its seals were looked at), and `out` is this process's own memory. Should the
        // daemon write there against its word, the bytes are wrong ones, and nothing else is.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), out.as_mut_ptr(), out.len()) };
        true
    }

    /// Bytes of memory that is handed over. Panics outside of the mapping.
    pub(crate) fn part(&self, start: usize, len: usize) -> &[u8] {
        let from = self
            .address(start as u64, len as u64)
            .expect("a part is inside");
        // SAFETY: inside the mapping; parts do not overlap, and only a part's one owner writes it,
        // which borrows it for that. Clients have it read-only, by the seals.
        unsafe { std::slice::from_raw_parts(from.as_ptr(), len) }
    }

    /// The same, to write. Only for the one owner of the part, in a writable mapping.
    #[expect(clippy::mut_from_ref, reason = "the part's owner is borrowed instead")]
    pub(crate) fn part_mut(&self, start: usize, len: usize) -> &mut [u8] {
        let from = self
            .address(start as u64, len as u64)
            .expect("a part is inside");
        // SAFETY: as for `part`; the owner is borrowed mutably for as long as this is.
        unsafe { std::slice::from_raw_parts_mut(from.as_ptr(), len) }
    }

    /// Tells the kernel that pages are used in no order, so that a fault reads no neighbours.
    pub(crate) fn advise_random(&self) {
        // SAFETY: the range is exactly this mapping, and MADV_RANDOM changes no contents.
        let _ =
            unsafe { rustix::mm::madvise(self.start.as_ptr().cast(), self.len, Advice::Random) };
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `new`, unmapped once; no borrow outlives `self`.
        let _ = unsafe { rustix::mm::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Kind of an open-file-description lock.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LockKind {
    Shared,
    Exclusive,
    Unlock,
}

/// Takes or gives back a lock on bytes `[start, start + len)`, without waiting. `Ok(false)` means
/// that another open file description holds a conflicting one.
pub(crate) fn range_lock(file: &File, kind: LockKind, start: u64, len: u64) -> io::Result<bool> {
    let kind = match kind {
        LockKind::Shared => libc::F_RDLCK,
        LockKind::Exclusive => libc::F_WRLCK,
        LockKind::Unlock => libc::F_UNLCK,
    };
    let to_offset = |value: u64| {
        libc::off_t::try_from(value).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))
    };
    let lock = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: to_offset(start)?,
        l_len: to_offset(len)?,
        l_pid: 0,
    };
    // SAFETY: `file` is open for the whole call and `lock` is a complete flock that the kernel
    // only reads for F_OFD_SETLK.
    let rc = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const lock) };
    if rc == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

/// Raises the soft limit of open files to the hard one, for a process that keeps many shards open.
pub fn raise_open_file_limit() {
    use rustix::process::{Resource, getrlimit, setrlimit};
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    let _ = setrlimit(Resource::Nofile, limit);
}

static FORKS: AtomicU64 = AtomicU64::new(0);

extern "C" fn count_fork() {
    // An atomic add is all that may safely happen in a fork handler.
    FORKS.fetch_add(1, Ordering::Relaxed);
}

/// How many times this process's line of ancestors has forked since the first call.
pub(crate) fn forks() -> u64 {
    static REGISTER: std::sync::Once = std::sync::Once::new();
    REGISTER.call_once(|| {
        // SAFETY: the handler is a plain function that stays loaded with this code and only
        // performs an atomic add.
        unsafe { libc::pthread_atfork(None, None, Some(count_fork)) };
    });
    FORKS.load(Ordering::Relaxed)
}

// SAFETY: a view is a range of a read-only mapping whose blocks a hold keeps in place and which
// nobody writes after they were published; it may be read from any thread.
unsafe impl Send for crate::View {}
// SAFETY: as above.
unsafe impl Sync for crate::View {}

/// The bytes of a view.
pub(crate) fn bytes(view: &crate::View) -> &[u8] {
    // SAFETY: the range was checked to be inside the mapping, which the view keeps mapped; the
    // blocks are published, so nobody writes them, and held, so nobody punches them.
    unsafe { std::slice::from_raw_parts(view.as_ptr(), view.len()) }
}
