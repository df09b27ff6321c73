//! Taking a data set into use, and what earlier daemons left in the folder.

use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::SystemTime;

use forebay_dataset::ShardIndex;
use forebay_origin::IndexFile;
use forebay_residency::ShardPaths;

use crate::cache::{Cache, CachedDataset};
use crate::error::AttachError;
use crate::shard::Shard;

/// Blocks of a data set that nobody has opened since the daemon started.
#[derive(Debug)]
pub(crate) struct Dormant {
    pub(crate) folder: PathBuf,
    pub(crate) bytes: u64,
    pub(crate) last_used: SystemTime,
}

impl Dormant {
    /// What lies in the folder of blocks.
    pub(crate) fn scan(blocks: &Path) -> io::Result<Vec<Self>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir(blocks)? {
            let folder = entry?.path();
            if !folder.is_dir() {
                continue;
            }
            let mut dataset = Self {
                folder,
                bytes: 0,
                last_used: SystemTime::UNIX_EPOCH,
            };
            for file in std::fs::read_dir(&dataset.folder)? {
                let meta = file?.metadata()?;
                dataset.bytes += meta.blocks() * 512;
                dataset.last_used = dataset.last_used.max(meta.modified()?);
            }
            found.push(dataset);
        }
        Ok(found)
    }
}

impl Cache {
    /// Takes a data set into use; the same one again is the same one. Blocks that an earlier
    /// daemon left are taken over: at once after a clean stop, else as candidates.
    pub fn attach(&self, index: IndexFile) -> Result<Arc<CachedDataset>, AttachError> {
        let generation = index.generation();
        let _attaching = self
            .attaching
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let datasets = self.datasets.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(dataset) = datasets.get(&generation) {
            return Ok(dataset.clone());
        }
        drop(datasets);
        let folder = ShardPaths::dataset_folder(&self.plan.folder, generation);
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&folder)
            .map_err(|source| AttachError::Folder {
                path: folder.display().to_string(),
                source,
            })?;
        let dataset = Arc::new(CachedDataset {
            shards: (0..index.shard_count()).map(|_| OnceLock::new()).collect(),
            index: Arc::new(index),
            making: Mutex::default(),
            folder,
        });
        let dormant = self.wake(&dataset.folder);
        let adopted = self.adopt_shards(&dataset)?;
        self.budget.adopt(adopted);
        self.budget.release(dormant);
        let mut datasets = self
            .datasets
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        datasets.insert(generation, dataset.clone());
        Ok(dataset)
    }

    /// Bytes that were counted for the folder while nobody used it.
    fn wake(&self, folder: &Path) -> u64 {
        let mut dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner);
        let found = dormant.iter().position(|dataset| dataset.folder == folder);
        found.map_or(0, |at| dormant.swap_remove(at).bytes)
    }

    /// Opens what exists and returns the bytes that it takes; removes what cannot be used.
    fn adopt_shards(&self, dataset: &CachedDataset) -> Result<u64, AttachError> {
        let mut bytes = 0;
        for shard in (0..dataset.index.shard_count()).map(ShardIndex) {
            let paths = ShardPaths::new(&dataset.folder, shard);
            if !paths.map.exists() && !paths.data.exists() {
                continue;
            }
            let identity = dataset.identity(shard)?;
            match Shard::open(dataset.index.clone(), &identity, &paths, false) {
                Ok(Some(opened)) => {
                    bytes += opened.stored_cost()? + dataset.overhead(shard)?;
                    let _ = dataset.slot(shard)?.set(Arc::new(opened));
                }
                _ => remove(&paths),
            }
        }
        Ok(bytes)
    }
}

fn remove(paths: &ShardPaths) {
    for path in [&paths.map, &paths.data, &paths.stamps] {
        // What cannot be removed now is met again when the shard is made anew.
        let _ = std::fs::remove_file(path);
    }
}
