//! The cache of one node: its folder, its budget and the data sets attached to it.

use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use forebay_dataset::{ByteRange, IndexError, ShardIndex};
use forebay_origin::IndexFile;
use forebay_residency::protocol::all_resident;
use forebay_residency::{Counter, MapIdentity, ShardPaths, Stamps};

use crate::attach::Dormant;
use crate::budget::{Budget, Reservation};
use crate::error::AttachError;
use crate::evict::{Shortage, Spare};
use crate::future::Future;
use crate::metrics::Metrics;
use crate::owned::Ownership;
use crate::shard::Shard;

/// What is done when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// Keep what is there and read the rest through: for a reshuffled epoch, the share of hits
    /// equals the share that is cached.
    Pin,
    /// Evict what was used longest ago: for work without a known order.
    Lru,
    /// Evict what the announced orders need last; what none of them needs first of all, and of
    /// that what was used longest ago.
    Plan,
}

impl Policy {
    /// Its name in settings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pin => "pin",
            Self::Lru => "lru",
            Self::Plan => "plan",
        }
    }
}

/// What a cache runs with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CachePlan {
    /// Folder on the node's own device.
    pub folder: PathBuf,
    /// Bytes that may be allocated there.
    pub capacity_bytes: u64,
    /// Bytes of the device that stay free for others.
    pub free_floor_bytes: u64,
    /// What is done when there is no room.
    pub policy: Policy,
}

/// A data set taken into use.
#[derive(Debug)]
pub struct CachedDataset {
    pub(crate) index: Arc<IndexFile>,
    pub(crate) folder: PathBuf,
    pub(crate) shards: Vec<OnceLock<Arc<Shard>>>,
    pub(crate) making: Mutex<()>,
}

/// How full the cache is, and how it was used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Blocks that can be read.
    pub resident_blocks: u64,
    /// Bytes that clients asked for.
    pub asked_bytes: u64,
    /// Of these, resident when first looked at.
    pub local_bytes: u64,
    /// Of these, read from the origin by the clients themselves.
    pub direct_bytes: u64,
}

/// The cache of one node.
#[derive(Debug)]
pub struct Cache {
    pub(crate) plan: CachePlan,
    pub(crate) budget: Arc<Budget>,
    pub(crate) datasets: RwLock<HashMap<u128, Arc<CachedDataset>>>,
    pub(crate) dormant: Mutex<Vec<Dormant>>,
    pub(crate) attaching: Mutex<()>,
    pub(crate) evicting: Mutex<()>,
    pub(crate) short: Shortage,
    pub(crate) metrics: Metrics,
    pub(crate) future: OnceLock<Arc<dyn Future>>,
    pub(crate) ownership: OnceLock<Arc<dyn Ownership>>,
}

impl Cache {
    /// Takes a folder into use. What earlier daemons left there counts towards the capacity.
    /// The caller makes sure that no other process does the same.
    pub fn open(plan: CachePlan) -> Result<Self, AttachError> {
        let blocks = plan.folder.join("blocks");
        let in_folder = |source| AttachError::Folder {
            path: blocks.display().to_string(),
            source,
        };
        std::fs::create_dir_all(&blocks).map_err(in_folder)?;
        let folder = File::open(&blocks).map_err(in_folder)?;
        let dormant = Dormant::scan(&blocks).map_err(in_folder)?;
        let budget = Budget::new(plan.capacity_bytes, plan.free_floor_bytes, folder);
        budget.adopt(dormant.iter().map(|dataset| dataset.bytes).sum());
        Ok(Self {
            plan,
            budget: Arc::new(budget),
            datasets: RwLock::default(),
            dormant: Mutex::new(dormant),
            attaching: Mutex::default(),
            evicting: Mutex::default(),
            short: Shortage::default(),
            metrics: Metrics::default(),
            future: OnceLock::new(),
            ownership: OnceLock::new(),
        })
    }

    /// Lets eviction ask what is needed next. The first call counts.
    pub fn set_future(&self, future: Arc<dyn Future>) {
        let _ = self.future.set(future);
    }

    /// Lets eviction ask what this node keeps for others. The first call counts.
    pub fn set_ownership(&self, ownership: Arc<dyn Ownership>) {
        let _ = self.ownership.set(ownership);
    }

    /// What the cache runs with.
    pub fn plan(&self) -> &CachePlan {
        &self.plan
    }

    /// The counters.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// Bytes in use or reserved.
    pub fn used_bytes(&self) -> u64 {
        self.budget.used()
    }

    /// The data sets that are attached.
    pub fn datasets(&self) -> Vec<Arc<CachedDataset>> {
        self.datasets
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .values()
            .cloned()
            .collect()
    }

    /// True if every block of `range` can be read now.
    pub fn is_resident(
        &self,
        dataset: &CachedDataset,
        shard: ShardIndex,
        range: ByteRange,
    ) -> bool {
        let made = dataset.slot(shard).ok().and_then(OnceLock::get);
        made.is_some_and(|shard| {
            let blocks = shard.map.block_size().covering(range);
            blocks.end <= shard.map.blocks() && all_resident(&shard.map, &blocks)
        })
    }

    /// Room for `bytes`, made by evicting anything but `spare` if need be; `None` if there is none
    /// to be had.
    pub(crate) fn reserve(&self, bytes: u64, spare: Option<Spare<'_>>) -> Option<Reservation> {
        if bytes > self.budget.capacity() {
            // Not even an empty cache could take it, so nothing is evicted for it.
            return None;
        }
        // Others may take the room that was made, so this is tried more than once.
        for _ in 0..4 {
            if let Some(reservation) = self.budget.reserve(bytes) {
                self.note_room();
                return Some(reservation);
            }
            if !self.make_room(bytes, spare) {
                break;
            }
        }
        self.budget.reserve(bytes)
    }

    /// The shard's files, made at first use; `Ok(None)` if there is no room for them.
    pub(crate) fn shard(
        &self,
        dataset: &CachedDataset,
        shard: ShardIndex,
    ) -> Result<Option<Arc<Shard>>, IndexError> {
        let slot = dataset.slot(shard)?;
        if let Some(shard) = slot.get() {
            return Ok(Some(shard.clone()));
        }
        let identity = dataset.identity(shard)?;
        let overhead = dataset.overhead(shard)?;
        // One thread at a time, so that many that want one shard do not set room aside for each.
        let _making = dataset
            .making
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        if let Some(shard) = slot.get() {
            return Ok(Some(shard.clone()));
        }
        let Some(mut room) = self.reserve(overhead, None) else {
            return Ok(None);
        };
        let paths = ShardPaths::new(&dataset.folder, shard);
        match Shard::create(dataset.index.clone(), &identity, &paths) {
            Ok(made) => {
                room.spend(overhead);
                Ok(Some(slot.get_or_init(|| Arc::new(made)).clone()))
            }
            Err(_) => {
                self.metrics.device_errors.add(1);
                Ok(None)
            }
        }
    }

    /// Writes everything to the device and marks the maps as clean. A shard that cannot be synced
    /// is left to recovery. Nothing lands or leaves afterwards, whatever is still in progress.
    pub fn close(&self) {
        for dataset in self.datasets() {
            for shard in dataset.made_shards() {
                if shard.close().is_err() {
                    self.metrics.device_errors.add(1);
                }
            }
        }
    }
}

impl CachedDataset {
    /// The index.
    pub fn index(&self) -> &Arc<IndexFile> {
        &self.index
    }

    /// Folder of the block files.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// How it was used so far.
    pub fn usage(&self) -> Usage {
        self.made_shards()
            .fold(Usage::default(), |sum, shard| Usage {
                resident_blocks: sum.resident_blocks + shard.map.resident_count(),
                asked_bytes: sum.asked_bytes + shard.stamps.read(Counter::AskedBytes),
                local_bytes: sum.local_bytes + shard.stamps.read(Counter::LocalBytes),
                direct_bytes: sum.direct_bytes + shard.stamps.read(Counter::DirectBytes),
            })
    }

    pub(crate) fn made_shards(&self) -> impl Iterator<Item = &Arc<Shard>> {
        self.shards.iter().filter_map(OnceLock::get)
    }

    pub(crate) fn slot(&self, shard: ShardIndex) -> Result<&OnceLock<Arc<Shard>>, IndexError> {
        let count = self.shards.len();
        self.shards.get(shard.0 as usize).ok_or_else(|| {
            IndexError::Damaged(format!("no shard {}: the index has {count}", shard.0))
        })
    }

    pub(crate) fn identity(&self, shard: ShardIndex) -> Result<MapIdentity, IndexError> {
        Ok(MapIdentity {
            generation: self.index.generation(),
            shard,
            block_size: self.index.block_size(),
            shard_len: self.index.shard_len(shard)?,
        })
    }

    /// Bytes that a shard takes besides its blocks: its map, its stamps and what the file system
    /// notes about its block file.
    pub(crate) fn overhead(&self, shard: ShardIndex) -> Result<u64, IndexError> {
        let blocks = self.identity(shard)?.blocks();
        let map = forebay_residency::MapLayout::new(blocks)
            .map_err(|error| IndexError::Damaged(error.to_string()))?;
        let allocated = crate::budget::allocated;
        let files = allocated(map.file_len) + allocated(Stamps::file_len(blocks));
        Ok(files + crate::budget::noted(blocks))
    }
}
