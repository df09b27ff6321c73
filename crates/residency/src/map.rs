//! The residency map of one shard.

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::Range;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::Ordering;

use forebay_dataset::BlockSize;
use thiserror::Error;

use crate::block_file::Landed;
use crate::layout::{BOOT_AT, LayoutError, MapIdentity, MapLayout, STATE_AT};
use crate::protocol::{Words, word_masks};
use crate::sys::Mapping;

/// State word: written to by a daemon, or left by one that did not stop cleanly.
const LIVE: u64 = 0;
/// State word: everything resident has reached the device.
const CLEAN: u64 = 1;

/// A map that cannot be opened.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MapError {
    /// The system refused.
    #[error("cannot use residency map")]
    Io(#[from] io::Error),
    /// The file is not the map that was wanted.
    #[error(transparent)]
    Layout(#[from] LayoutError),
}

/// The mapped residency map of one shard. One process (the daemon) opens it writable.
#[derive(Debug)]
pub struct ResidencyMap {
    mapping: Mapping,
    layout: MapLayout,
    file: File,
    writable: bool,
    data_inode: u64,
    block_size: BlockSize,
}

impl ResidencyMap {
    /// Makes a map with no block resident, allocated in full, and puts it in place of any other.
    pub fn create(path: &Path, identity: &MapIdentity, data: &File) -> Result<Self, MapError> {
        let layout = MapLayout::new(identity.blocks())?;
        let partial = crate::layout::partial(path);
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&partial)?;
        // All space now: a reader of a full device must not meet SIGBUS later.
        rustix::fs::fallocate(
            &file,
            rustix::fs::FallocateFlags::empty(),
            0,
            layout.file_len,
        )
        .map_err(io::Error::from)?;
        let data_inode = data.metadata()?.ino();
        file.write_all_at(&identity.encode(data_inode), 0)?;
        let mapping = Mapping::new(&file, layout.file_len, true)?;
        let block_size = identity.block_size;
        let map = Self {
            mapping,
            layout,
            file,
            writable: true,
            data_inode,
            block_size,
        };
        map.attach_boot();
        std::fs::rename(&partial, path)?;
        Ok(map)
    }

    /// Opens an existing map: for writing in the daemon, read-only in a client.
    pub fn open(path: &Path, identity: &MapIdentity, writable: bool) -> Result<Self, MapError> {
        let layout = MapLayout::new(identity.blocks())?;
        let file = OpenOptions::new().read(true).write(writable).open(path)?;
        let mut header = [0; 68];
        file.read_exact_at(&mut header, 0)?;
        let data_inode = identity.check(&header)?;
        if file.metadata()?.len() != layout.file_len {
            return Err(LayoutError::Damaged("wrong length").into());
        }
        let mapping = Mapping::new(&file, layout.file_len, writable)?;
        let block_size = identity.block_size;
        Ok(Self {
            mapping,
            layout,
            file,
            writable,
            data_inode,
            block_size,
        })
    }

    /// Inode of the block file that this map describes; another file's bytes are not its.
    pub fn data_inode(&self) -> u64 {
        self.data_inode
    }

    /// Number of blocks in the shard.
    pub fn blocks(&self) -> u64 {
        self.layout.blocks
    }

    /// Unit of caching.
    pub fn block_size(&self) -> BlockSize {
        self.block_size
    }

    /// Bytes that the map takes on the device.
    pub fn file_len(&self) -> u64 {
        self.layout.file_len
    }

    /// True if the bits can be believed without looking at the blocks: left by a clean stop, or
    /// written under the running kernel, whose page cache still has every published byte.
    pub fn is_trusted(&self) -> bool {
        self.was_clean() || boot_id().is_some_and(|boot| self.boot() == boot)
    }

    /// True if the daemon that had it last stopped cleanly.
    pub fn was_clean(&self) -> bool {
        self.mapping.word(STATE_AT).load(Ordering::Acquire) == CLEAN
    }

    /// Takes the map into use by the daemon of the running kernel.
    pub fn mark_live(&self) -> io::Result<()> {
        let was_clean = self.was_clean();
        // Boot first, so that a client that opens the map meanwhile finds one of them good.
        self.attach_boot();
        self.mapping.word(STATE_AT).store(LIVE, Ordering::Release);
        if was_clean {
            // The kernel writes pages back in any order. Were a later bit on the device before
            // this word, a power cut would leave a map that claims to be clean and is not.
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Says that everything resident has reached the device. The caller has synced the block file.
    pub fn mark_clean(&self) -> io::Result<()> {
        self.file.sync_data()?;
        self.mapping.word(STATE_AT).store(CLEAN, Ordering::Release);
        self.file.sync_data()
    }

    /// Makes a landed block visible to every reader of the node.
    pub fn publish(&self, landed: Landed) {
        debug_assert!(self.writable);
        let (block, checksum) = landed.spend();
        let (word, bit) = (block / 64, 1 << (block % 64));
        self.checksum_word(block).store(checksum, Ordering::Relaxed);
        // Whoever sees it stored sees its checksum, also one that does not lead the block.
        self.stored_word(word).fetch_or(bit, Ordering::Release);
        // Pairs with the acquire load in `Words::resident`: who sees the bit sees the bytes.
        self.resident_word(word).fetch_or(bit, Ordering::Release);
    }

    /// Makes `blocks` absent and returns, word by word, the bits that were resident or stored.
    /// Holes may be punched only after this.
    pub fn withdraw(&self, blocks: &Range<u64>) -> Vec<(u64, u64)> {
        debug_assert!(self.writable);
        word_masks(blocks)
            .map(|(word, mask)| {
                let resident = self.resident_word(word).fetch_and(!mask, Ordering::AcqRel);
                let stored = self.stored_word(word).fetch_and(!mask, Ordering::AcqRel);
                // Pairs with the acquire load in `Words::evictions`.
                self.evictions_word(word).fetch_add(1, Ordering::AcqRel);
                (word, (resident | stored) & mask)
            })
            .collect()
    }

    /// After an unclean stop: nothing is resident, and what was becomes a candidate that is
    /// published again only if its bytes match its checksum.
    pub fn demote_all(&self) {
        debug_assert!(self.writable);
        for word in 0..self.layout.words {
            // Stored bits are set before resident ones, so they already cover them.
            self.resident_word(word).store(0, Ordering::Release);
            // The daemon may have died between clearing a bit and raising the counter, and its
            // successor punches what is not stored: a reader in between must look again.
            self.evictions_word(word).fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Makes a block unreadable but keeps its room: its bytes are to be checked before the next use.
    pub fn demote(&self, block: u64) {
        debug_assert!(self.writable);
        let (word, bit) = (block / 64, 1 << (block % 64));
        self.resident_word(word).fetch_and(!bit, Ordering::AcqRel);
        self.evictions_word(word).fetch_add(1, Ordering::AcqRel);
    }

    /// True if the block's bytes were written at some time and not evicted since.
    pub fn is_stored(&self, block: u64) -> bool {
        self.stored_word(block / 64).load(Ordering::Acquire) >> (block % 64) & 1 == 1
    }

    /// True if the block can be read.
    pub fn is_resident(&self, block: u64) -> bool {
        self.resident_word(block / 64).load(Ordering::Acquire) >> (block % 64) & 1 == 1
    }

    /// Checksum of a stored block.
    pub fn checksum(&self, block: u64) -> u32 {
        self.checksum_word(block).load(Ordering::Acquire)
    }

    /// Word by word: bits of the blocks that take room on the device.
    pub fn stored_words(&self) -> impl Iterator<Item = u64> + '_ {
        (0..self.layout.words).map(|word| {
            // A torn map may name blocks that the shard does not have.
            let blocks = self.layout.blocks.saturating_sub(word * 64);
            let known = if blocks < 64 {
                (1 << blocks) - 1
            } else {
                u64::MAX
            };
            self.stored_word(word).load(Ordering::Acquire) & known
        })
    }

    /// Blocks that can be read.
    pub fn resident_count(&self) -> u64 {
        (0..self.layout.words)
            .map(|word| u64::from(self.resident(word).count_ones()))
            .sum()
    }

    fn boot(&self) -> u128 {
        let low = self.mapping.word(BOOT_AT).load(Ordering::Acquire);
        let high = self.mapping.word(BOOT_AT + 8).load(Ordering::Acquire);
        u128::from(high) << 64 | u128::from(low)
    }

    fn attach_boot(&self) {
        let boot = boot_id().unwrap_or(0);
        self.mapping
            .word(BOOT_AT)
            .store(boot as u64, Ordering::Release);
        self.mapping
            .word(BOOT_AT + 8)
            .store((boot >> 64) as u64, Ordering::Release);
    }

    fn resident_word(&self, word: u64) -> &std::sync::atomic::AtomicU64 {
        self.mapping.word(self.layout.resident_at + word * 8)
    }

    fn stored_word(&self, word: u64) -> &std::sync::atomic::AtomicU64 {
        self.mapping.word(self.layout.stored_at + word * 8)
    }

    fn evictions_word(&self, word: u64) -> &std::sync::atomic::AtomicU64 {
        self.mapping.word(self.layout.evictions_at + word * 8)
    }

    fn checksum_word(&self, block: u64) -> &std::sync::atomic::AtomicU32 {
        self.mapping.half_word(self.layout.checksums_at + block * 4)
    }
}

impl Words for ResidencyMap {
    fn resident(&self, word: u64) -> u64 {
        self.resident_word(word).load(Ordering::Acquire)
    }

    fn evictions(&self, word: u64) -> u64 {
        self.evictions_word(word).load(Ordering::Acquire)
    }
}

/// Identity of the running kernel's boot, read once. `None` where the kernel does not tell.
fn boot_id() -> Option<u128> {
    static BOOT: std::sync::OnceLock<Option<u128>> = std::sync::OnceLock::new();
    *BOOT.get_or_init(|| {
        let text = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
        u128::from_str_radix(&text.trim().replace('-', ""), 16).ok()
    })
}
