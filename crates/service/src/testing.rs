//! A data set of one file, a cache and plans, for tests of the parts.

use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use forebay_cache::{Cache, CachePlan, Job, Policy};
use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder, Storage};
use forebay_dataset::{BlockSize, Fingerprint, ShardIndex};
use forebay_origin::{IndexFile, fingerprint_of};
use forebay_residency::PlanFile;

use crate::origins::Origins;
use crate::stage::OpenDataset;

pub(crate) const BLOCK: u64 = 4096;
pub(crate) const SAMPLES: u64 = 32;
/// Blocks from one sample to the next, so that no two are read at once.
const STRIDE: u64 = 2;

/// Samples of one block each.
pub(crate) struct World {
    pub(crate) folder: tempfile::TempDir,
    pub(crate) cache: Arc<Cache>,
    pub(crate) open: OpenDataset,
}

impl World {
    pub(crate) fn new(capacity_bytes: u64) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("0.bin");
        std::fs::write(&file, vec![7; (SAMPLES * STRIDE * BLOCK) as usize]).unwrap();
        let fingerprint = fingerprint_of(&std::fs::File::open(file).unwrap()).unwrap();
        Self::of(folder, fingerprint, capacity_bytes)
    }

    /// One whose file hangs whoever opens it, until [`World::let_go`].
    pub(crate) fn that_hangs() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = std::process::Command::new("mkfifo")
            .arg(folder.path().join("0.bin"))
            .status();
        assert!(made.unwrap().success());
        let fingerprint = Fingerprint {
            size: SAMPLES * STRIDE * BLOCK,
            mtime_ns: 0,
            inode: 0,
        };
        Self::of(folder, fingerprint, 1 << 30)
    }

    fn of(folder: tempfile::TempDir, fingerprint: Fingerprint, capacity_bytes: u64) -> Self {
        let field = FieldSpec {
            name: "x".to_owned(),
            dtype: "|u1".parse().unwrap(),
        };
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let mut builder = IndexBuilder::new(".", vec![field], size).unwrap();
        let segment = builder.add_segment("0.bin", fingerprint).unwrap();
        for sample in 0..SAMPLES {
            let extent = FieldExtent {
                segment,
                shape: vec![BLOCK],
                storage: Storage::Contiguous {
                    offset: sample * STRIDE * BLOCK,
                },
            };
            builder.add_sample(None, &[extent], None).unwrap();
        }
        let path = folder.path().join("index");
        let mut file = std::fs::File::create(&path).unwrap();
        builder.write(&mut file).unwrap();
        let cache = Cache::open(CachePlan {
            folder: folder.path().join("cache"),
            capacity_bytes,
            free_floor_bytes: 0,
            policy: Policy::Plan,
        });
        let cache = Arc::new(cache.unwrap());
        let dataset = cache.attach(IndexFile::open(&path).unwrap()).unwrap();
        let origin = Origins::new(None).get(1, folder.path().to_owned());
        let origin = origin.unwrap();
        let open = OpenDataset {
            dataset,
            origin,
            owners: None,
        };
        Self {
            folder,
            cache,
            open,
        }
    }

    /// Lets those go who hang, as often as they come, until `is` is true.
    pub(crate) fn let_go(&self, is: impl Fn() -> bool) {
        let fifo = self.folder.path().join("0.bin");
        while !is() {
            // Not waiting for one who reads: the last may have gone meanwhile.
            let flags = rustix::fs::OFlags::NONBLOCK.bits() as i32;
            let mut write = std::fs::OpenOptions::new();
            drop(write.write(true).custom_flags(flags).open(&fifo));
            std::thread::yield_now();
        }
    }

    /// A plan of these samples, and its file.
    pub(crate) fn plan(&self, order: &[u64], rank: u32) -> (PlanFile, std::fs::File) {
        let generation = self.open.dataset.index().generation();
        let mut bytes = b"FBPLAN\0\0".to_vec();
        bytes.extend([1u32, 8].iter().flat_map(|word| word.to_le_bytes()));
        bytes.extend(generation.to_le_bytes());
        bytes.extend(
            [order.len() as u64, 0]
                .iter()
                .flat_map(|word| word.to_le_bytes()),
        );
        bytes.extend([rank, 1, 0, 0].iter().flat_map(|word| word.to_le_bytes()));
        bytes.resize(4096, 0);
        bytes.extend(order.iter().flat_map(|sample| sample.to_le_bytes()));
        let path = self.folder.path().join("plan");
        std::fs::write(&path, bytes).unwrap();
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).write(true).open(&path).unwrap();
        let plan = PlanFile::open(Path::new(&path), generation).unwrap();
        std::fs::remove_file(path).unwrap();
        (plan, file)
    }
}

pub(crate) fn job(blocks: std::ops::Range<u64>) -> Job {
    let shard = ShardIndex(0);
    Job { shard, blocks }
}

/// Waits until `true`.
pub(crate) fn eventually(what: &str, is: impl Fn() -> bool) {
    let end = std::time::Instant::now() + std::time::Duration::from_secs(30);
    while !is() {
        assert!(std::time::Instant::now() < end, "never came: {what}");
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
}
