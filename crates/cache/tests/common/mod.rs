//! Small data sets of known bytes, and what a cache of them takes on the device.
#![allow(dead_code, reason = "each test file uses its part")]

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use forebay_cache::{Cache, CachePlan, CachedDataset, FillError, Filled, Policy, jobs};
use forebay_dataset::index::{FieldSpec, IndexBuilder};
use forebay_dataset::{BlockSize, ByteRange, Fingerprint, SegmentIndex, ShardIndex};
use forebay_origin::testing::MemoryOrigin;
use forebay_origin::{IndexFile, Origin};
use forebay_residency::{MapIdentity, ReadOutcome, ShardPaths, SharedShard};

pub(crate) const BLOCK: u64 = 4096;
pub(crate) const SHARD: ShardIndex = ShardIndex(0);

/// A data set whose segments share one shard.
pub(crate) struct World {
    folder: tempfile::TempDir,
    pub(crate) segments: Vec<Vec<u8>>,
    pub(crate) shard: Vec<u8>,
}

/// The byte at `at` of segment `segment` of data set `salt`; never 0, so that a hole shows.
fn byte(salt: u64, segment: u64, at: u64) -> u8 {
    let mixed = (salt << 40 ^ segment << 32 ^ at).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (mixed >> 40) as u8 | 1
}

impl World {
    pub(crate) fn new(salt: u64, lens: &[u64]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let segments: Vec<Vec<u8>> = (0..)
            .zip(lens)
            .map(|(segment, len)| (0..*len).map(|at| byte(salt, segment, at)).collect())
            .collect();
        let field = FieldSpec {
            name: "x".to_owned(),
            dtype: "|u1".parse().unwrap(),
        };
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let mut builder = IndexBuilder::new(&format!("/origin-{salt}"), vec![field], size).unwrap();
        for (number, len) in lens.iter().enumerate() {
            let fingerprint = Fingerprint {
                size: *len,
                mtime_ns: 1,
                inode: number as u64,
            };
            builder
                .add_segment(&format!("{number}.bin"), fingerprint)
                .unwrap();
        }
        let mut file = std::fs::File::create(folder.path().join("index")).unwrap();
        builder.write(&mut file).unwrap();
        let mut world = Self {
            folder,
            segments,
            shard: Vec::new(),
        };
        world.shard = world.shard_bytes();
        world
    }

    fn shard_bytes(&self) -> Vec<u8> {
        let index = self.index();
        assert_eq!(index.shard_count(), 1);
        let mut bytes = vec![0; index.shard_len(SHARD).unwrap() as usize];
        for (number, segment) in (0..).zip(&self.segments) {
            let start = index.segment(SegmentIndex(number)).unwrap().shard_start as usize;
            bytes[start..start + segment.len()].copy_from_slice(segment);
        }
        bytes
    }

    pub(crate) fn index(&self) -> IndexFile {
        IndexFile::open(&self.folder.path().join("index")).unwrap()
    }

    pub(crate) fn origin(&self) -> MemoryOrigin {
        MemoryOrigin::new(self.segments.clone())
    }

    pub(crate) fn len(&self) -> u64 {
        self.shard.len() as u64
    }

    pub(crate) fn all(&self) -> ByteRange {
        range(0, self.len())
    }

    pub(crate) fn paths(&self, cache: &Path) -> ShardPaths {
        let folder = ShardPaths::dataset_folder(cache, self.index().generation());
        ShardPaths::new(&folder, SHARD)
    }

    pub(crate) fn client(&self, cache: &Path) -> Option<SharedShard> {
        let index = self.index();
        let identity = MapIdentity {
            generation: index.generation(),
            shard: SHARD,
            block_size: index.block_size(),
            shard_len: self.len(),
        };
        SharedShard::open(self.paths(cache), &identity).unwrap()
    }

    /// Reads through a client: true if the bytes came and are the origin's, false if absent.
    pub(crate) fn read(&self, client: &SharedShard, asked: ByteRange) -> bool {
        let mut out = vec![0xEE; asked.len() as usize];
        match client.read(asked, &mut out) {
            ReadOutcome::Done => {
                let wanted = &self.shard[asked.start() as usize..asked.end() as usize];
                assert!(out == wanted, "a read of {asked:?} returned other bytes");
                true
            }
            ReadOutcome::Absent => false,
            ReadOutcome::Failed(error) => panic!("the device failed: {error}"),
        }
    }
}

pub(crate) fn range(start: u64, len: u64) -> ByteRange {
    ByteRange::new(start, len).unwrap()
}

pub(crate) fn plan(folder: &Path, policy: Policy, capacity_bytes: u64) -> CachePlan {
    CachePlan {
        folder: folder.to_owned(),
        capacity_bytes,
        free_floor_bytes: 0,
        policy,
    }
}

/// A cache and one data set attached to it.
pub(crate) struct Node {
    pub(crate) cache: Arc<Cache>,
    pub(crate) dataset: Arc<CachedDataset>,
}

impl Node {
    pub(crate) fn start(world: &World, plan: CachePlan) -> Self {
        let cache = Arc::new(Cache::open(plan).unwrap());
        let dataset = cache.attach(world.index()).unwrap();
        Self { cache, dataset }
    }

    /// Fills every job of the range, as the daemon does. True if all of it was admitted.
    pub(crate) fn stage(&self, origin: &dyn Origin, asked: ByteRange) -> Result<bool, FillError> {
        self.stage_by(origin, asked, Instant::now() + Duration::from_secs(60))
    }

    pub(crate) fn stage_by(
        &self,
        origin: &dyn Origin,
        asked: ByteRange,
        deadline: Instant,
    ) -> Result<bool, FillError> {
        let mut complete = true;
        for job in jobs(&[(SHARD, asked)], self.dataset.index().block_size()) {
            complete &= self.cache.fill(&self.dataset, origin, &job, deadline)? == Filled::Resident;
        }
        Ok(complete)
    }
}

/// Bytes that the files below a folder take on the device.
pub(crate) fn allocated(folder: &Path) -> u64 {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return 0;
    };
    entries
        .flatten()
        .map(|entry| match entry.metadata() {
            Ok(meta) if meta.is_dir() => allocated(&entry.path()),
            Ok(meta) => meta.blocks() * 512,
            Err(_) => 0,
        })
        .sum()
}

/// A folder in memory where there is one, whose files take exactly their pages.
pub(crate) fn exact_folder() -> Option<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").ok()
}

/// A small file system of its own, taken down on drop; `None` where this user may not mount.
pub(crate) struct SmallDevice {
    folder: tempfile::TempDir,
}

impl SmallDevice {
    pub(crate) fn mount(bytes: u64) -> Option<Self> {
        Self::mount_with(&format!("size={bytes}"))
    }

    pub(crate) fn mount_with(options: &str) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let mounted = std::process::Command::new("mount")
            .args(["-t", "tmpfs", "-o", options, "forebay-test"])
            .arg(folder.path())
            .stderr(std::process::Stdio::null())
            .status();
        if mounted.is_ok_and(|status| status.success()) {
            return Some(Self { folder });
        }
        eprintln!("skipped: this user may not mount a small file system");
        None
    }

    pub(crate) fn remount(&self, options: &str) -> bool {
        let remounted = std::process::Command::new("mount")
            .args(["-o", &format!("remount,{options}")])
            .arg(self.folder.path())
            .status();
        remounted.is_ok_and(|status| status.success())
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().to_owned()
    }
}

impl Drop for SmallDevice {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount")
            .arg("-l")
            .arg(self.folder.path())
            .status();
    }
}
