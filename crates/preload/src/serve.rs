//! Reads of staged files. Where `None` is returned the program's own call is to be made.

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::os::fd::BorrowedFd;

use forebay_client::GuestRead;
use libc::{iovec, off64_t};

use crate::config::config;
use crate::guard::{errno, intercept};
use crate::real;
use crate::staged::StagedFile;
use crate::table;

/// Bytes that are asked of the cache at one time.
const PIECE: usize = 16 << 20;
/// Bytes that are staged for a reader that goes through a file from its beginning.
const AHEAD: u64 = 1 << 20;
/// Bytes that one call of the kernel reads at most.
const MOST: usize = 0x7fff_f000;
/// Bytes that one copy inside of the kernel is made of at most: programs ask again.
const MOST_COPIED: u64 = 8 << 20;

/// What a read returns: bytes, or an `errno`.
pub(crate) type Answer = Result<usize, i32>;

/// `read(2)`.
pub(crate) fn read(fd: c_int, buffer: *mut c_void, count: usize) -> Option<Answer> {
    read_parts(fd, &[part(buffer, count)], None)
}

/// `pread(2)`.
pub(crate) fn read_at(
    fd: c_int,
    buffer: *mut c_void,
    count: usize,
    offset: off64_t,
) -> Option<Answer> {
    read_parts(fd, &[part(buffer, count)], Some(offset))
}

fn part(buffer: *mut c_void, count: usize) -> iovec {
    iovec {
        iov_base: buffer,
        iov_len: count,
    }
}

/// `readv(2)` and, with an offset, `preadv(2)`.
pub(crate) fn read_parts(fd: c_int, parts: &[iovec], offset: Option<off64_t>) -> Option<Answer> {
    intercept(|| {
        // SAFETY: the program passed it to a read, so it has it open for the length of the call; if it
        // does not, the first look at it says so.
        let open = unsafe { BorrowedFd::borrow_raw(fd) };
        let file = StagedFile::of(open, fd)?;
        let wanted = parts
            .iter()
            .try_fold(0usize, |sum, part| sum.checked_add(part.iov_len))?;
        let wanted = wanted.min(MOST);
        if wanted == 0 {
            return None;
        }
        let reader = Reader { fd, file };
        match offset {
            Some(offset) => Some(reader.fill(parts, u64::try_from(offset).ok()?, wanted)),
            None => {
                let mut claim = Claim::make(fd, wanted, file.size)?;
                let answer = reader.fill(parts, claim.start, claim.len);
                claim.read(answer.unwrap_or(0));
                Some(answer)
            }
        }
    })
}

/// Bytes at the descriptor's offset that are this reader's alone: the kernel moves the offset in one
/// step for whoever shares it, threads and processes. What is not read is given back on drop.
struct Claim {
    fd: c_int,
    start: u64,
    len: usize,
}

impl Claim {
    fn make(fd: c_int, wanted: usize, size: u64) -> Option<Self> {
        // SAFETY: lseek takes only integers.
        let end = unsafe { libc::lseek64(fd, wanted as off64_t, libc::SEEK_CUR) };
        let end = u64::try_from(end).ok()?;
        let start = end.checked_sub(wanted as u64)?;
        let mut claim = Self {
            fd,
            start,
            len: wanted,
        };
        let inside = size.saturating_sub(start).min(wanted as u64) as usize;
        claim.give_back(wanted - inside);
        claim.len = inside;
        Some(claim)
    }

    /// Keeps the first `len` bytes and gives the others back.
    fn read(&mut self, len: usize) {
        self.give_back(self.len - len);
        self.len = 0;
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            // SAFETY: as in `make`. The offset was that far on, so that it cannot fail.
            unsafe { libc::lseek64(self.fd, -(bytes as off64_t), libc::SEEK_CUR) };
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.give_back(self.len);
    }
}

#[derive(Clone, Copy)]
struct Reader {
    fd: c_int,
    file: StagedFile,
}

impl Reader {
    /// Fills the parts from `offset` on with `wanted` bytes, or as many as the file has.
    fn fill(self, parts: &[iovec], offset: u64, wanted: usize) -> Answer {
        let left = self.file.size.saturating_sub(offset).min(wanted as u64) as usize;
        let mut done = 0;
        for part in parts {
            let len = part.iov_len.min(left - done);
            for at in (0..len).step_by(PIECE) {
                let piece = (len - at).min(PIECE);
                // SAFETY: the program gives these bytes to a read to be written, and nothing else in
                // this process may use them before it has returned.
                let out = unsafe {
                    std::slice::from_raw_parts_mut(part.iov_base.cast::<u8>().add(at), piece)
                };
                if !self.ask_cache(offset + (done + at) as u64, out) {
                    // All of it, so that bytes of two versions never meet in one answer.
                    return self.ask_origin(parts, offset).map(|read| read.min(wanted));
                }
            }
            done += len;
        }
        Ok(done)
    }

    fn ask_cache(self, offset: u64, out: &mut [u8]) -> bool {
        let end = offset + out.len() as u64;
        let goes_on = table::next_miss(self.fd).is_some_and(|next| offset <= next && next <= end);
        let ahead = if goes_on { AHEAD } else { 0 };
        let read = self
            .file
            .dataset
            .read_as_guest(self.file.segment, offset, out, ahead);
        match read {
            Ok(GuestRead::Resident) => true,
            Ok(GuestRead::Staged) => {
                table::expect_miss(self.fd, end.max(offset + ahead).min(self.file.size));
                true
            }
            Ok(GuestRead::Absent) | Err(_) => false,
        }
    }

    /// The program's own read.
    fn ask_origin(self, parts: &[iovec], offset: u64) -> Answer {
        let count = c_int::try_from(parts.len()).map_err(|_| libc::EINVAL)?;
        let offset = off64_t::try_from(offset).map_err(|_| libc::EINVAL)?;
        // SAFETY: these are the program's own descriptor and buffers.
        let read = unsafe { real::preadv64(self.fd, parts.as_ptr(), count, offset) };
        usize::try_from(read).map_err(|_| errno())
    }
}

/// A mapping of a staged file, as `mmap(2)` would make it: the device's file and the offset in it.
/// While it is mapped its bytes stay, descriptor or not.
pub(crate) fn to_map(
    fd: c_int,
    len: usize,
    protection: c_int,
    flags: c_int,
    offset: off64_t,
) -> Option<(File, off64_t)> {
    intercept(|| {
        let writes = protection & libc::PROT_WRITE != 0 && flags & libc::MAP_PRIVATE == 0;
        if writes || protection & libc::PROT_EXEC != 0 {
            return None;
        }
        // SAFETY: as in `read_parts`.
        let file = StagedFile::of(unsafe { BorrowedFd::borrow_raw(fd) }, fd)?;
        let offset = u64::try_from(offset).ok()?;
        // SAFETY: it takes only an integer.
        let page = u64::try_from(unsafe { libc::sysconf(libc::_SC_PAGESIZE) }).ok()?;
        let inside = file.size.checked_sub(offset).filter(|left| *left > 0)?;
        // Pages behind the end of the file are the origin's matter.
        if !offset.is_multiple_of(page) || len as u64 > inside.next_multiple_of(page) {
            return None;
        }
        let len = inside.min(len as u64);
        let (held, start) = hold(file, offset, len, config()?.most_mapped)?;
        (start as u64).is_multiple_of(page).then_some((held, start))
    })
}

/// Where the bytes at `offset` of a descriptor lie, for a copy inside of the kernel: the device's file,
/// the offset in it and how many bytes. `None` for an offset means the descriptor's own.
pub(crate) fn to_copy(
    fd: c_int,
    offset: Option<off64_t>,
    count: usize,
) -> Option<(File, off64_t, usize)> {
    intercept(|| {
        // SAFETY: as in `read_parts`.
        let file = StagedFile::of(unsafe { BorrowedFd::borrow_raw(fd) }, fd)?;
        // SAFETY: lseek takes only integers.
        let offset = offset.unwrap_or_else(|| unsafe { libc::lseek64(fd, 0, libc::SEEK_CUR) });
        let offset = u64::try_from(offset).ok()?;
        let left = file.size.checked_sub(offset).filter(|left| *left > 0)?;
        let len = left.min(count as u64).min(MOST_COPIED);
        if len == 0 {
            return None;
        }
        let (held, start) = hold(file, offset, len, MOST_COPIED)?;
        Some((held, start, len as usize))
    })
}

fn hold(file: StagedFile, offset: u64, len: u64, most: u64) -> Option<(File, off64_t)> {
    let stage = len <= most;
    let held = file.dataset.hold_as_guest(file.segment, offset, len, stage);
    let (held, start) = held.ok()??;
    Some((held, off64_t::try_from(start).ok()?))
}
