//! Taking a data set into use, and what earlier daemons left in the folder.

use std::collections::HashSet;
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
            found.push(Self::of(folder)?);
        }
        Ok(found)
    }

    fn of(folder: PathBuf) -> io::Result<Self> {
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
        Ok(dataset)
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
        // Woken before its folder is looked at: from here on nobody removes it.
        let dormant = self.wake(&folder);
        let taken = self.take_over(index, folder.clone());
        match &taken {
            Ok((_, adopted)) => self.budget.adopt(*adopted),
            Err(_) => self.sleep(folder),
        }
        self.budget.release(dormant);
        let (dataset, _) = taken?;
        let mut datasets = self
            .datasets
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        datasets.insert(generation, dataset.clone());
        drop(datasets);
        self.shrink_to_capacity();
        Ok(dataset)
    }

    /// Makes or adopts the folder of a data set. Also returns the bytes that its files take.
    fn take_over(
        &self,
        index: IndexFile,
        folder: PathBuf,
    ) -> Result<(Arc<CachedDataset>, u64), AttachError> {
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
        let adopted = self.adopt_shards(&dataset)?;
        Ok((dataset, adopted))
    }

    /// Bytes that were counted for the folder while nobody used it.
    fn wake(&self, folder: &Path) -> u64 {
        let mut dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner);
        let found = dormant.iter().position(|dataset| dataset.folder == folder);
        found.map_or(0, |at| dormant.swap_remove(at).bytes)
    }

    /// Counts a folder again that could not be taken into use.
    fn sleep(&self, folder: PathBuf) {
        if let Ok(dataset) = Dormant::of(folder) {
            self.budget.adopt(dataset.bytes);
            let mut dormant = self.dormant.lock().unwrap_or_else(PoisonError::into_inner);
            dormant.push(dataset);
        }
    }

    /// Opens what exists and returns the bytes that it takes; removes what cannot be used.
    fn adopt_shards(&self, dataset: &CachedDataset) -> Result<u64, AttachError> {
        let mut bytes = 0;
        let mut kept = HashSet::new();
        for shard in (0..dataset.index.shard_count()).map(ShardIndex) {
            let paths = ShardPaths::new(&dataset.folder, shard);
            if !paths.map.exists() {
                continue;
            }
            let identity = dataset.identity(shard)?;
            let Some(opened) = Shard::adopt(dataset.index.clone(), &identity, &paths) else {
                continue;
            };
            bytes += opened.stored_cost()? + dataset.overhead(shard)?;
            let _ = dataset.slot(shard)?.set(Arc::new(opened));
            kept.extend([paths.map, paths.data, paths.stamps]);
        }
        Ok(bytes + sweep(&dataset.folder, &kept))
    }
}

/// Removes every file but those in `kept`: half-made maps, shards that cannot be used. Returns the
/// bytes of what it could not remove.
fn sweep(folder: &Path, kept: &HashSet<PathBuf>) -> u64 {
    let Ok(files) = std::fs::read_dir(folder) else {
        return 0;
    };
    files
        .flatten()
        .filter(|file| !kept.contains(&file.path()))
        .filter(|file| std::fs::remove_file(file.path()).is_err())
        .filter_map(|file| file.metadata().ok())
        .map(|meta| meta.blocks() * 512)
        .sum()
}
