//! Blocks on their way to the block file.

use std::io;
use std::ops::{Deref, Range};

use forebay_dataset::BlockSize;

use crate::layout::crc32c;

/// CRC32C of a block's valid bytes, as the residency map has it.
pub fn block_checksum(bytes: &[u8]) -> u32 {
    crc32c(bytes)
}

/// Consecutive blocks in memory, of which only the last may be short, with the checksum of each:
/// computed from these very bytes, once.
#[derive(Debug)]
pub struct SummedBlocks<B> {
    first: u64,
    bytes: B,
    size: usize,
    checksums: Vec<u32>,
}

impl<B: Deref<Target = [u8]>> SummedBlocks<B> {
    /// Blocks from `first` on.
    pub fn new(first: u64, bytes: B, size: BlockSize) -> Self {
        let size = size.bytes() as usize;
        let checksums = bytes.chunks(size).map(block_checksum).collect();
        Self {
            first,
            bytes,
            size,
            checksums,
        }
    }

    /// Their bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The checksum of each.
    pub fn checksums(&self) -> &[u32] {
        &self.checksums
    }

    /// All of them.
    pub fn range(&self) -> Range<u64> {
        self.first..self.first + self.checksums.len() as u64
    }

    /// Bytes and checksums of some of them.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`] if these are not among them.
    pub fn part(&self, run: &Range<u64>) -> io::Result<(&[u8], &[u32])> {
        let all = self.range();
        if run.start < all.start || run.end > all.end || run.is_empty() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let (start, end) = (run.start - self.first, run.end - self.first);
        let (start, end) = (start as usize, end as usize);
        let bytes = &self.bytes[start * self.size..self.bytes.len().min(end * self.size)];
        Ok((bytes, &self.checksums[start..end]))
    }
}
