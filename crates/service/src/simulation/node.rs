//! One node: the daemon's own parts, and an origin that keeps count.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

use forebay_cache::{Cache, CachePlan, Policy};
use forebay_dataset::index::{FieldSpec, IndexBuilder};
use forebay_dataset::{BlockSize, Fingerprint, Member, ShardIndex};
use forebay_origin::{IndexFile, Origin, OriginError, SegmentRef};
use forebay_residency::{MapIdentity, ReadOutcome, ShardPaths, SharedShard};
use forebay_transport::{Secret, SocketPlan};

use super::net::{SILENCE, Shared, lock};
use super::way::SimulatedWay;
use crate::clock::Clock;
use crate::origins::OriginInUse;
use crate::peers::{Owners, Roster, Way};
use crate::pool::Pool;
use crate::settings::{PeersPlan, Transport};
use crate::stage::{OpenDataset, Readers};

pub(super) const BLOCK: u64 = 1 << 16;
/// Two such files do not fit in one region, so each is a shard of its own.
const FILE: u64 = 200 << 20;
pub(super) const FILES: u32 = 4;
/// Blocks of each file that are used.
pub(super) const BLOCKS: u64 = 6;
const HEDGED_READS: usize = 8;

/// What the blocks of the origin hold.
fn contents() -> &'static [Vec<u8>] {
    static CONTENTS: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    CONTENTS.get_or_init(|| {
        let blocks = 0..u64::from(FILES) * BLOCKS;
        let bytes =
            |block: u64| (0..BLOCK).map(move |at| (at * 7 + at / 251 + block * 13) as u8 | 1);
        blocks.map(|block| bytes(block).collect()).collect()
    })
}

pub(super) fn content(file: u32, block: u64) -> &'static [u8] {
    &contents()[(u64::from(file) * BLOCKS + block) as usize]
}

/// The index file that all nodes of all seeds have.
fn index_path() -> &'static Path {
    static INDEX: OnceLock<(tempfile::TempDir, PathBuf)> = OnceLock::new();
    let (_, path) = INDEX.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let field = FieldSpec {
            name: "x".to_owned(),
            dtype: "|u1".parse().unwrap(),
        };
        let size = BlockSize::new(BLOCK as u32).unwrap();
        let mut builder = IndexBuilder::new("/origin", vec![field], size).unwrap();
        for file in 0..FILES {
            let fingerprint = Fingerprint {
                size: FILE,
                mtime_ns: 5,
                inode: u64::from(file),
            };
            builder
                .add_segment(&format!("{file}"), fingerprint)
                .unwrap();
        }
        let path = folder.path().join("index");
        builder
            .write(&mut std::fs::File::create(&path).unwrap())
            .unwrap();
        (folder, path)
    });
    path
}

/// Gives what the origin holds at once: how long that takes is the simulation's to say.
#[derive(Debug, Default)]
pub(super) struct CountingOrigin {
    reads: Mutex<BTreeMap<(u32, u64), u64>>,
    fails: AtomicBool,
}

impl CountingOrigin {
    /// How often this daemon has read each block.
    pub(super) fn reads(&self) -> BTreeMap<(u32, u64), u64> {
        self.reads.lock().unwrap().clone()
    }

    pub(super) fn fail(&self, fails: bool) {
        self.fails.store(fails, Ordering::Relaxed);
    }
}

impl Origin for CountingOrigin {
    fn read_at(
        &self,
        segment: SegmentRef<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        if self.fails.load(Ordering::Relaxed) {
            return Err(OriginError::Read {
                path: segment.path.to_owned(),
                offset,
                end: offset + out.len() as u64,
                source: std::io::Error::other("the simulated origin fails"),
            });
        }
        assert_eq!(offset % BLOCK, 0, "reads are of whole blocks");
        for (block, out) in (offset / BLOCK..).zip(out.chunks_mut(BLOCK as usize)) {
            let file = segment.index.0;
            *self.reads.lock().unwrap().entry((file, block)).or_default() += 1;
            out.copy_from_slice(&content(file, block)[..out.len()]);
        }
        Ok(())
    }
}

/// A daemon that runs.
pub(super) struct Daemon {
    pub(super) roster: Arc<Roster>,
    pub(super) cache: Arc<Cache>,
    pub(super) readers: Readers,
    pub(super) open: OpenDataset,
    pub(super) origin: Arc<CountingOrigin>,
}

impl fmt::Debug for Daemon {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Daemon").finish_non_exhaustive()
    }
}

pub(super) fn name(node: usize) -> String {
    format!("n{node}:1")
}

/// The nodes of a list.
pub(super) fn members(nodes: impl IntoIterator<Item = usize>) -> Vec<Member> {
    nodes
        .into_iter()
        .map(|node| Member::new(name(node)))
        .collect()
}

fn node_of(name: &str) -> usize {
    let number = name
        .strip_prefix('n')
        .and_then(|rest| rest.strip_suffix(":1"));
    number.unwrap().parse().unwrap()
}

impl Daemon {
    /// Starts one over the cache folder, with what an earlier one left there. `members` are those
    /// of its list.
    pub(super) fn start(
        folder: &Path,
        me: usize,
        list: &[usize],
        follows: bool,
        clock: &Clock,
        net: &Shared,
        knows_data: bool,
    ) -> Self {
        let plan = PeersPlan {
            members: members(list.iter().copied()),
            me: list.iter().position(|node| *node == me).unwrap(),
            follows,
            secret_file: None,
            names: None,
            exports: Vec::new(),
            socket: SocketPlan::default(),
            silence: SILENCE,
            transport: Transport::Tcp,
        };
        let net = net.clone();
        let dial = move |_: &PeersPlan, to: &str| {
            let (from, to, net) = (me, node_of(to), net.clone());
            lock(&net).start(from, to);
            Ok(Box::new(SimulatedWay { from, to, net }) as Box<dyn Way>)
        };
        let secret = Secret::from_text("a secret of this test").unwrap();
        let fabric = Err(None);
        let roster = Roster::over(plan, secret, fabric, Box::new(dial), clock.clone()).unwrap();
        let cache = Cache::open(CachePlan {
            folder: folder.to_owned(),
            capacity_bytes: 1 << 40,
            free_floor_bytes: 0,
            policy: Policy::Plan,
        });
        let cache = Arc::new(cache.unwrap());
        cache.set_ownership(roster.clone());
        let dataset = cache
            .attach(IndexFile::open(index_path()).unwrap())
            .unwrap();
        let origin = Arc::new(CountingOrigin::default());
        let owners = Owners::of(&roster, dataset.index(), "/origin".into());
        let open = OpenDataset {
            dataset,
            origin: Arc::new(OriginInUse::simulated(origin.clone(), clock.clone())),
            owners,
        };
        if knows_data {
            roster.now().offer(&open);
        }
        // Nothing is left to the pool: its threads would know nothing of this clock.
        let pool = Arc::new(Pool::start(0).unwrap());
        Self {
            readers: Readers::new(cache.clone(), pool, HEDGED_READS),
            roster,
            cache,
            open,
            origin,
        }
    }
}

/// What a client of a node reads of a block: true if it is there, and then it is the origin's.
pub(super) fn read_block(folder: &Path, generation: u128, file: u32, block: u64) -> bool {
    let shard = ShardIndex(file);
    let identity = MapIdentity {
        generation,
        shard,
        block_size: BlockSize::new(BLOCK as u32).unwrap(),
        shard_len: FILE,
    };
    let folder = ShardPaths::dataset_folder(folder, generation);
    let shared = SharedShard::open(ShardPaths::new(&folder, shard), &identity).unwrap();
    let Some(shared) = shared else { return false };
    let mut out = vec![0xEE; BLOCK as usize];
    let range = forebay_dataset::ByteRange::new(block * BLOCK, BLOCK).unwrap();
    match shared.read(range, &mut out) {
        ReadOutcome::Done => {
            assert!(
                out == content(file, block),
                "wrong bytes in block {block} of file {file}"
            );
            true
        }
        ReadOutcome::Absent => false,
        ReadOutcome::Failed(error) => panic!("the device failed: {error}"),
    }
}

/// Spoils a block on the device, as a crash may.
pub(super) fn spoil_block(folder: &Path, generation: u128, file: u32, block: u64) {
    use std::os::unix::fs::FileExt;
    let folder = ShardPaths::dataset_folder(folder, generation);
    let data = ShardPaths::new(&folder, ShardIndex(file)).data;
    if let Ok(data) = std::fs::OpenOptions::new().write(true).open(data) {
        data.write_all_at(&[0], block * BLOCK + 77).unwrap();
    }
}
