//! A shard as a client sees it: map, block file and stamps, read without a message to anyone.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use forebay_dataset::ByteRange;

use crate::block_file::BlockFile;
use crate::hold::{Hold, Holds, groups_of};
use crate::layout::{MapIdentity, ShardPaths};
use crate::map::{MapError, ResidencyMap};
use crate::protocol;
use crate::stamps::{Counter, Stamps, now_ticks};
use crate::sys::{LockKind, Mapping, range_lock};

/// Looks at a range before the daemon is asked: evictions between the two looks are rare.
const READ_TRIES: u32 = 4;

/// What came of reading a range locally.
#[derive(Debug)]
#[must_use]
pub enum ReadOutcome {
    /// Every byte is in the output.
    Done,
    /// Some block is not resident; the output holds nothing of use.
    Absent,
    /// The device failed: the range must be treated as absent, and the daemon told.
    Failed(io::Error),
}

/// A shard's files, opened read-only by a client.
#[derive(Debug)]
pub struct SharedShard {
    map: ResidencyMap,
    blocks: BlockFile,
    stamps: Option<Stamps>,
    paths: ShardPaths,
    views: OnceLock<Option<(Arc<Mapping>, Arc<Holds>)>>,
}

impl SharedShard {
    /// Opens the shard; `Ok(None)` where there is nothing that can be trusted yet.
    pub fn open(paths: ShardPaths, identity: &MapIdentity) -> Result<Option<Self>, MapError> {
        let missing = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
        let map = match ResidencyMap::open(&paths.map, identity, false) {
            Ok(map) => map,
            Err(MapError::Io(error)) if missing(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
        let blocks = match BlockFile::open(&paths.data, identity.block_size, false) {
            Ok(blocks) => blocks,
            Err(error) if missing(&error) => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        // The pair can be replaced between the two opens; then the next look finds a good pair.
        if blocks.inode()? != map.data_inode() || !map.is_trusted() {
            return Ok(None);
        }
        let stamps = Stamps::open(&paths.stamps, identity.blocks(), false).ok();
        Ok(Some(Self {
            map,
            blocks,
            stamps,
            paths,
            views: OnceLock::new(),
        }))
    }

    /// Reads `range` into `out`, which has its length, if every block of it is resident.
    pub fn read(&self, range: ByteRange, out: &mut [u8]) -> ReadOutcome {
        debug_assert_eq!(range.len(), out.len() as u64);
        let blocks = self.map.block_size().covering(range);
        if blocks.end > self.map.blocks() {
            return ReadOutcome::Absent;
        }
        for _ in 0..READ_TRIES {
            let Some(snapshot) = protocol::begin(&self.map, &blocks) else {
                return ReadOutcome::Absent;
            };
            let read = self.blocks.read_at(range.start(), out);
            if snapshot.holds(&self.map, &blocks) {
                return match read {
                    Ok(()) => {
                        self.touch(&blocks);
                        ReadOutcome::Done
                    }
                    Err(error) => ReadOutcome::Failed(error),
                };
            }
        }
        ReadOutcome::Absent
    }

    /// True if every block of `range` is resident now.
    pub fn is_resident(&self, range: ByteRange) -> bool {
        let blocks = self.map.block_size().covering(range);
        blocks.end <= self.map.blocks() && protocol::all_resident(&self.map, &blocks)
    }

    /// A view of resident bytes without a copy; `None` if they are absent or being evicted.
    pub fn view(&self, range: ByteRange) -> io::Result<Option<View>> {
        let blocks = self.map.block_size().covering(range);
        if blocks.end > self.map.blocks() {
            return Ok(None);
        }
        let Some((mapping, holds)) = self.views.get_or_init(|| self.open_views().ok()) else {
            return Ok(None);
        };
        // Held first, looked at second: what is resident under a hold stays.
        let Some(hold) = holds.acquire(&blocks)? else {
            return Ok(None);
        };
        if !protocol::all_resident(&self.map, &blocks) {
            return Ok(None);
        }
        let Some(start) = mapping.address(range.start(), range.len()) else {
            return Ok(None);
        };
        self.touch(&blocks);
        Ok(Some(View {
            start,
            len: range.len() as usize,
            _mapping: mapping.clone(),
            _hold: hold,
        }))
    }

    fn open_views(&self) -> io::Result<(Arc<Mapping>, Arc<Holds>)> {
        // Locks belong to an open file description, so holds have one of their own.
        let file = File::open(&self.paths.data)?;
        if file.metadata()?.ino() != self.map.data_inode() {
            return Err(io::ErrorKind::NotFound.into());
        }
        let mapping = Mapping::new(&file, file.metadata()?.len(), false)?;
        mapping.advise_random();
        Ok((Arc::new(mapping), Arc::new(Holds::new(file))))
    }

    /// A descriptor of the block file of its own; `None` unless every block of `range` is resident.
    /// The evictor leaves them alone while anything has its open file description: a copy of the
    /// descriptor, or a mapping, which outlives the descriptor.
    pub fn hold_range(&self, range: ByteRange) -> io::Result<Option<File>> {
        let blocks = self.map.block_size().covering(range);
        if blocks.end > self.map.blocks() {
            return Ok(None);
        }
        let file = File::open(&self.paths.data)?;
        if !is_inode(&file, self.map.data_inode()) {
            return Ok(None);
        }
        // Held first, looked at second, as for a view.
        let groups = groups_of(&blocks);
        let held = range_lock(
            &file,
            LockKind::Shared,
            groups.start,
            groups.end - groups.start,
        )?;
        if !held || !protocol::all_resident(&self.map, &blocks) {
            return Ok(None);
        }
        self.touch(&blocks);
        Ok(Some(file))
    }

    /// False if the program that this code is a guest of has closed the block file's descriptor:
    /// its number may be that of another file by now, which is neither to be read nor to be closed.
    pub fn is_intact(&self) -> bool {
        is_inode(self.blocks.file(), self.map.data_inode())
    }

    /// Adds to a statistic that the daemon shows.
    pub fn count(&self, counter: Counter, amount: u64) {
        if let Some(stamps) = &self.stamps {
            stamps.count(counter, amount);
        }
    }

    /// A statistic as it is now.
    pub fn counted(&self, counter: Counter) -> u64 {
        (self.stamps.as_ref()).map_or(0, |stamps| stamps.read(counter))
    }

    fn touch(&self, blocks: &Range<u64>) {
        if let Some(stamps) = &self.stamps {
            stamps.touch(blocks, now_ticks());
        }
    }
}

fn is_inode(file: &File, inode: u64) -> bool {
    file.metadata().is_ok_and(|found| found.ino() == inode)
}

/// Bytes of a shard without a copy. The evictor leaves them alone while this lives.
///
/// It belongs to the process that made it: a child of `fork` must not use one that it inherited
/// after the parent dropped its own.
#[derive(Debug)]
pub struct View {
    start: NonNull<u8>,
    len: usize,
    _mapping: Arc<Mapping>,
    _hold: Hold,
}

impl View {
    /// Address of the first byte. Valid for [`Self::len`] bytes while the view lives; a device
    /// that fails under it raises SIGBUS, as with any mapped file.
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// Bytes in the view.
    #[expect(clippy::len_without_is_empty, reason = "a view is never empty")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        crate::sys::bytes(self)
    }
}
