//! The only unsafe code in the crate: calls that neither `std` nor `rustix` offers safely.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, IntoRawFd, OwnedFd};

/// The number of cachestat(2), the same on every architecture.
const CACHESTAT: libc::c_long = 451;

#[repr(C)]
struct Range {
    offset: u64,
    len: u64,
}

#[repr(C)]
#[derive(Default)]
struct CacheStat {
    cached: u64,
    dirty: u64,
    writeback: u64,
    evicted: u64,
    recently_evicted: u64,
}

/// Closes a descriptor and tells what the file system says to it: over a network, a write that
/// failed late is told here and nowhere else.
pub(crate) fn close(file: OwnedFd) -> io::Result<()> {
    // SAFETY: `into_raw_fd` gives up ownership, so nobody else closes this descriptor, and
    // close(2) takes an integer: no memory of ours is read or written.
    let rc = unsafe { libc::close(file.into_raw_fd()) };
    if rc == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Pages of a file that are in the page cache.
pub(crate) fn cached_pages(file: &File, len: u64) -> io::Result<u64> {
    match cachestat(file.as_fd()) {
        // Kernels before 6.5 have no such call, and some containers refuse it.
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            mincore(file, len)
        }
        found => found,
    }
}

fn cachestat(file: BorrowedFd<'_>) -> io::Result<u64> {
    // A length of 0 means the whole file.
    let range = Range { offset: 0, len: 0 };
    let mut found = CacheStat::default();
    // SAFETY: `file` is borrowed and so stays open; `range` and `found` live through the call,
    // are laid out as cachestat(2) wants them (two and five 64-bit words), and it writes no more
    // than `found`.
    let rc = unsafe {
        libc::syscall(
            CACHESTAT,
            file.as_raw_fd(),
            &raw const range,
            &raw mut found,
            0,
        )
    };
    if rc == 0 {
        Ok(found.cached)
    } else {
        Err(io::Error::last_os_error())
    }
}

fn mincore(file: &File, len: u64) -> io::Result<u64> {
    if len == 0 {
        return Ok(0);
    }
    // SAFETY: the mapping is only asked about and never read, so a file that is cut meanwhile
    // raises no signal, and it is unmapped at the end of this function.
    let map = unsafe { memmap2::Mmap::map(file) }?;
    let page = rustix::param::page_size();
    let mut pages = vec![0u8; map.len().div_ceil(page)];
    // SAFETY: the address and length are those of a live mapping that begins at a page, and
    // `pages` has one byte for each of its pages, which is what mincore(2) writes.
    let rc = unsafe {
        libc::mincore(
            map.as_ptr().cast_mut().cast(),
            map.len(),
            pages.as_mut_ptr(),
        )
    };
    if rc == 0 {
        Ok(pages.iter().filter(|page| **page & 1 == 1).count() as u64)
    } else {
        Err(io::Error::last_os_error())
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn both_ways_to_count_cached_pages_agree() {
        let mut file = tempfile::tempfile().expect("file");
        let page = rustix::param::page_size();
        file.write_all(&vec![7; 5 * page - 1]).expect("written");
        let len = 5 * page as u64 - 1;
        assert_eq!(mincore(&file, len).expect("asked"), 5);
        assert_eq!(mincore(&file, 0).expect("asked"), 0);
        assert_eq!(cached_pages(&file, len).expect("asked"), 5);
    }

    #[test]
    fn closing_tells_of_a_descriptor_that_is_sound() {
        let file = tempfile::tempfile().expect("file");
        close(file.into()).expect("closed");
    }
}
