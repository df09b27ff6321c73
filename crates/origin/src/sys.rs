//! The only unsafe code in the crate: the shared map of an index file.

use std::fs::File;
use std::io;

use memmap2::Mmap;

/// Maps an index file read-only.
pub(crate) fn map_index(file: &File) -> io::Result<Mmap> {
    // SAFETY: index files are put in place by rename and never changed afterwards, so the mapped
    // bytes stay as they are. A user who truncates one by hand ends the process by SIGBUS, as
    // with any mapped file; `docs/FORMAT.md` says so.
    unsafe { Mmap::map(file) }
}
