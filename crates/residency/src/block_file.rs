//! The sparse file that holds a shard's blocks.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::{Deref, Range};
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use forebay_dataset::BlockSize;
use rustix::fs::FallocateFlags;

use crate::layout::crc32c;
use crate::summed::SummedBlocks;

/// Proof that all bytes of a block are in the block file.
///
/// Only [`BlockFile`] makes one, by writing the block or by matching its checksum, and only
/// [`crate::ResidencyMap::publish`] takes one.
#[derive(Debug)]
#[must_use = "a landed block is invisible until it is published"]
pub struct Landed {
    block: u64,
    checksum: u32,
}

impl Landed {
    pub(crate) fn spend(self) -> (u64, u32) {
        (self.block, self.checksum)
    }
}

/// The block file of one shard.
#[derive(Debug)]
pub struct BlockFile {
    pub(crate) file: File,
    block_size: BlockSize,
}

impl BlockFile {
    /// Makes a file for a shard of `len` bytes that takes no room yet. It ends where the shard ends,
    /// so that a shard of one file is that file, byte for byte, once all of it is resident.
    pub fn create(path: &Path, len: u64, block_size: BlockSize) -> io::Result<Self> {
        // A file of that name may still be read by others through their descriptors, so it is
        // replaced and not emptied.
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)?;
        file.set_len(len)?;
        Ok(Self { file, block_size })
    }

    /// Opens an existing file.
    pub fn open(path: &Path, block_size: BlockSize, writable: bool) -> io::Result<Self> {
        let file = OpenOptions::new().read(true).write(writable).open(path)?;
        Ok(Self { file, block_size })
    }

    /// The file itself, for its inode and its locks.
    pub fn file(&self) -> &File {
        &self.file
    }

    /// Inode number; the residency map names it.
    pub fn inode(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.ino())
    }

    /// Bytes that the file takes on the device.
    pub fn allocated_bytes(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.blocks() * 512)
    }

    /// Writes those of the blocks that are in `run`. On an error none counts as landed.
    pub fn write<B: Deref<Target = [u8]>>(
        &self,
        blocks: &SummedBlocks<B>,
        run: &Range<u64>,
    ) -> io::Result<Vec<Landed>> {
        let (bytes, checksums) = blocks.part(run)?;
        let start = run.start * u64::from(self.block_size.bytes());
        // Room in one piece first: cheaper than page by page, and a full device says so before any
        // byte is written. A file system that cannot do it finds room as it goes.
        let _ = rustix::fs::fallocate(
            &self.file,
            FallocateFlags::KEEP_SIZE,
            start,
            bytes.len() as u64,
        );
        self.file.write_all_at(bytes, start)?;
        let landed = run.clone().zip(checksums);
        Ok(landed
            .map(|(block, checksum)| Landed {
                block,
                checksum: *checksum,
            })
            .collect())
    }

    /// Reads the `len` valid bytes of a block and compares them with its checksum.
    pub fn check(&self, block: u64, len: usize, checksum: u32) -> io::Result<Option<Landed>> {
        let mut bytes = vec![0; len.min(self.block_size.bytes() as usize)];
        self.read_at(block * u64::from(self.block_size.bytes()), &mut bytes)?;
        Ok((crc32c(&bytes) == checksum).then_some(Landed { block, checksum }))
    }

    /// Fills `out` from byte `offset` of the shard.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.file.read_exact_at(out, offset)
    }

    /// Gives the room of `blocks` back to the device. Their bits must be withdrawn first.
    pub fn punch(&self, blocks: &Range<u64>) -> io::Result<()> {
        let size = u64::from(self.block_size.bytes());
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        let len = (blocks.end - blocks.start) * size;
        rustix::fs::fallocate(&self.file, flags, blocks.start * size, len)?;
        Ok(())
    }

    /// Waits until everything written has reached the device.
    pub fn sync(&self) -> io::Result<()> {
        self.file.sync_data()
    }
}
