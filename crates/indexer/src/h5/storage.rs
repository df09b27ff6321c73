//! The bytes of one file, by pages, with a budget.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use hdf5_reader::error::{Error, Result};
use hdf5_reader::storage::{Storage, StorageBuffer};

use crate::source::Source;

/// Metadata comes in pieces of tens to hundreds of bytes that lie near each other.
const PAGE: u64 = 16 << 10;
/// 4 MiB of pages at most.
const SLOTS: usize = 256;

/// Numbered pages; each has one slot that it can be in.
type Pages = Vec<Option<(u64, Arc<[u8]>)>>;

/// Reads a file by pages, addressed from its superblock on.
///
/// A file that is well formed has each of its structures read a few times. One whose structures
/// refer to each other in circles would be read for ever; the budget ends that.
pub(super) struct PagedFile {
    source: Arc<Source>,
    base: u64,
    len: u64,
    pages: Mutex<Pages>,
    reads: AtomicU64,
    bytes: AtomicU64,
}

impl PagedFile {
    pub(super) fn new(source: Arc<Source>, base: u64, len: u64) -> Self {
        Self {
            source,
            base,
            len,
            pages: Mutex::new(vec![None; SLOTS]),
            reads: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
        }
    }

    /// Counts `len` bytes that were read, or copied from what was read.
    pub(super) fn charge(&self, len: u64) -> Result<()> {
        // Relaxed: the counters bound work, they order nothing.
        let reads = self.reads.fetch_add(1, Ordering::Relaxed);
        let bytes = self.bytes.fetch_add(len, Ordering::Relaxed);
        if reads > (1 << 20) + self.len / 2 || bytes > (16 << 20) + self.len.saturating_mul(32) {
            return Err(Error::ResourceLimit(
                "its structures refer to each other in circles".to_owned(),
            ));
        }
        Ok(())
    }

    fn page(&self, number: u64) -> Result<Arc<[u8]>> {
        let slot = (number % SLOTS as u64) as usize;
        let mut pages = self.pages.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((held, page)) = &pages[slot]
            && *held == number
        {
            return Ok(Arc::clone(page));
        }
        let start = number * PAGE;
        let mut bytes = vec![0; PAGE.min(self.len - start) as usize];
        self.source.read_exact_at(&mut bytes, start)?;
        let page: Arc<[u8]> = bytes.into();
        pages[slot] = Some((number, Arc::clone(&page)));
        Ok(page)
    }
}

impl Storage for PagedFile {
    fn len(&self) -> u64 {
        self.len.saturating_sub(self.base)
    }

    fn read_range(&self, offset: u64, len: usize) -> Result<StorageBuffer> {
        let outside = || Error::UnexpectedEof {
            offset,
            needed: len as u64,
            available: Storage::len(self).saturating_sub(offset),
        };
        let start = offset.checked_add(self.base).ok_or_else(outside)?;
        let end = start.checked_add(len as u64).ok_or_else(outside)?;
        if end > self.len {
            return Err(outside());
        }
        self.charge(len as u64)?;
        if len == 0 {
            return Ok(StorageBuffer::from_vec(Vec::new()));
        }
        let number = start / PAGE;
        if (end - 1) / PAGE == number {
            let page = self.page(number)?;
            return StorageBuffer::from_shared(page, (start % PAGE) as usize, len);
        }
        let mut bytes = vec![0; len];
        self.source.read_exact_at(&mut bytes, start)?;
        Ok(StorageBuffer::from_vec(bytes))
    }
}
