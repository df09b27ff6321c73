//! A data set as a trainer has it open.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use forebay_dataset::IndexError;
use forebay_origin::{IndexFile, Origin, PosixOrigin, StoreUrl, open_origin};
use forebay_residency::{NodePaths, ShardPaths};

use crate::error::ClientError;
use crate::layout::{FieldPlace, align, places};
use crate::link::{self, DaemonCommand, Target};
use crate::parts::add_parts;
use crate::per_process::PerProcess;
use crate::read::stage_range;
use crate::shards::Shards;

/// How a data set is opened.
#[derive(Clone, Debug)]
pub struct OpenOptions {
    /// Folder of the origin files, if not the one that the index records.
    pub root: Option<PathBuf>,
    /// Cache folder on the node's own device, if not the default one.
    pub cache: Option<PathBuf>,
    /// Longest wait for the daemon.
    pub deadline: Duration,
    /// How to start a daemon where there is none.
    pub daemon: DaemonCommand,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            root: None,
            cache: None,
            deadline: Duration::from_secs(60),
            daemon: DaemonCommand::default(),
        }
    }
}

/// An open data set. Cheap to share between threads; safe to use in children of `fork`.
#[derive(Debug)]
pub struct Dataset {
    pub(crate) index: IndexFile,
    pub(crate) target: Target,
    pub(crate) deadline: Duration,
    root: PathBuf,
    /// Whether the data set lies in a store, which the daemon alone can read.
    pub(crate) in_store: bool,
    process: PerProcess<Process>,
}

/// What belongs to one process.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) shards: Shards,
    pub(crate) origin: Arc<dyn Origin>,
    pub(crate) daemon: DaemonRest,
}

/// Leaves a daemon that cannot be reached alone for a while, so that a trainer that reads the
/// origin itself does not pay for an attempt at every sample.
#[derive(Debug, Default)]
pub(crate) struct DaemonRest {
    until_ms: AtomicU64,
    failures: AtomicU64,
}

impl DaemonRest {
    pub(crate) fn is_resting(&self) -> bool {
        now_ms() < self.until_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn rest(&self) {
        let failures = self.failures.fetch_add(1, Ordering::Relaxed).min(6);
        self.until_ms
            .store(now_ms() + (500 << failures), Ordering::Relaxed);
    }

    /// It answers: what failed before says nothing about the next time.
    pub(crate) fn forgive(&self) {
        if self.failures.load(Ordering::Relaxed) > 0 {
            self.failures.store(0, Ordering::Relaxed);
        }
    }
}

fn now_ms() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    // Never 0, so that "not resting" and "resting until the start" differ.
    START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1
}

impl Dataset {
    /// Opens an index file and takes the data set into use at the node's daemon, starting one if
    /// need be. A daemon that cannot be reached is no error: the reason is
    /// returned beside the data set. In a store it is one, since only the daemon reads stores.
    pub fn open(index: &Path, options: OpenOptions) -> Result<(Self, Option<String>), ClientError> {
        let dataset = Self::open_unannounced(index, options)?;
        let warning = dataset.greet()?;
        Ok((dataset, warning))
    }

    /// Opens an index file without a word to the daemon, which hears of it when it is first needed.
    ///
    /// # Errors
    /// The index cannot be read, or no cache folder is named.
    pub fn open_unannounced(index: &Path, options: OpenOptions) -> Result<Self, ClientError> {
        let index = IndexFile::open(index)?;
        let folder = options
            .cache
            .or_else(|| NodePaths::default_folder(|name| std::env::var_os(name)));
        let folder = std::path::absolute(folder.ok_or(ClientError::NoFolder)?)
            .map_err(|_| ClientError::NoFolder)?;
        let root = index.resolve_root(options.root.as_deref());
        let in_store = root.to_str().is_some_and(StoreUrl::is_url);
        // Refused here, so that it need not be later.
        open_origin(&root, None)?;
        Ok(Self {
            target: Target {
                paths: NodePaths::new(folder),
                command: options.daemon,
                index: index.path().to_path_buf(),
                root: Some(if in_store {
                    root.clone()
                } else {
                    std::path::absolute(&root).unwrap_or_else(|_| root.clone())
                }),
                generation: index.generation(),
            },
            deadline: options.deadline,
            root,
            in_store,
            index,
            process: PerProcess::new(),
        })
    }

    /// Introduces the data set to the daemon; the reason if that was not possible.
    fn greet(&self) -> Result<Option<String>, ClientError> {
        match link::open(&self.target, Instant::now() + self.deadline) {
            Ok(Ok(())) => Ok(None),
            Ok(Err(error))
                if self.in_store || error.kind() == forebay_dataset::ErrorKind::Stale =>
            {
                Err(error)
            }
            Ok(Err(error)) => Ok(Some(error.chain())),
            Err(error) if link::is_interrupted(&error) => Err(ClientError::Interrupted),
            Err(source) if self.in_store => Err(self.needs_daemon(source)),
            Err(error) => {
                self.process().daemon.rest();
                Ok(Some(error.to_string()))
            }
        }
    }

    pub(crate) fn needs_daemon(&self, source: std::io::Error) -> ClientError {
        ClientError::NeedsDaemon {
            root: self.root.display().to_string(),
            source,
        }
    }

    pub(crate) fn process(&self) -> &Process {
        self.process.get(|| Process {
            shards: Shards::new(
                ShardPaths::dataset_folder(self.target.paths.folder(), self.index.generation()),
                self.index.shard_count(),
            ),
            origin: open_origin(&self.root, None)
                .unwrap_or_else(|_| Arc::new(PosixOrigin::new(self.root.clone()))),
            daemon: DaemonRest::default(),
        })
    }

    /// The index.
    pub fn index(&self) -> &IndexFile {
        &self.index
    }

    /// Cache folder in use.
    pub fn cache_folder(&self) -> &Path {
        self.target.paths.folder()
    }

    /// Whether the data set lies in a store, which the daemon alone can read.
    pub fn in_store(&self) -> bool {
        self.in_store
    }

    /// Folder or URL of the origin files in use.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Where the fields of a sample lie in a buffer of [`Self::sample_bytes`] bytes.
    pub fn places(&self, sample: u64) -> Result<Vec<FieldPlace>, IndexError> {
        let sample = self.index.sample(sample)?;
        places(&sample, self.index.fields().len()).collect()
    }

    /// Bytes that a sample takes in a buffer: its fields, each aligned.
    pub fn sample_bytes(&self, sample: u64) -> Result<u64, IndexError> {
        let sample = self.index.sample(sample)?;
        let last = places(&sample, self.index.fields().len())
            .last()
            .transpose()?;
        Ok(last.map_or(0, |place| place.offset + place.len))
    }

    /// Reads one sample into `out`, which is [`Self::sample_bytes`] long.
    pub fn read_into(&self, sample: u64, out: &mut [u8]) -> Result<(), ClientError> {
        self.read_many(&[(sample, 0)], out)
    }

    /// Reads samples, each to its own place in `out`. What is absent is asked of the daemon in
    /// one request.
    pub fn read_many(&self, samples: &[(u64, usize)], out: &mut [u8]) -> Result<(), ClientError> {
        let fields = self.index.fields().len();
        let mut parts = Vec::with_capacity(samples.len() * fields);
        for (number, base) in samples {
            let wanted = usize::try_from(self.sample_bytes(*number)?)
                .ok()
                .and_then(|len| base.checked_add(len));
            if wanted.is_none_or(|end| end > out.len()) {
                let wanted = wanted.unwrap_or(usize::MAX);
                return Err(ClientError::Buffer {
                    found: out.len(),
                    wanted,
                });
            }
            let sample = self.index.sample(*number)?;
            add_parts(&mut parts, &sample, fields, *base, out).map_err(|error| self.name(error))?;
        }
        self.read_parts(parts, out)
    }

    /// Bases of consecutive samples in one buffer, and the length of that buffer.
    pub fn batch_layout(&self, samples: &[u64]) -> Result<(Vec<(u64, usize)>, usize), ClientError> {
        let mut end = 0u64;
        let mut bases = Vec::with_capacity(samples.len());
        for sample in samples {
            let base = align(end)?;
            bases.push((*sample, base as usize));
            end = base
                .checked_add(self.sample_bytes(*sample)?)
                .ok_or(IndexError::Damaged("a batch overflows".into()))?;
        }
        Ok((bases, end as usize))
    }

    /// Lets the daemon stage ahead along a plan file, and the one after it where that is known, for
    /// as long as the calling thread's connection lives. Returns that connection's number for
    /// [`Self::is_linked`]; `None` if the daemon cannot be reached.
    ///
    /// # Errors
    /// [`ClientError::Daemon`] if a file is not a plan for this data set.
    pub fn follow(&self, plan: &Path, next: Option<&Path>) -> Result<Option<u64>, ClientError> {
        match link::follow(&self.target, plan, next, Instant::now() + self.deadline) {
            Ok(followed) => followed.map(Some),
            Err(error) if link::is_interrupted(&error) => Err(ClientError::Interrupted),
            Err(_) => Ok(None),
        }
    }

    /// True while the calling thread's connection of this number lives, as far as can be told
    /// without a word to the daemon.
    pub fn is_linked(&self, number: u64) -> bool {
        link::is_linked(&self.target.paths, number)
    }

    /// Asks the daemon to make samples resident; false if it has no room or cannot be reached.
    pub fn stage(&self, samples: &[u64]) -> Result<bool, ClientError> {
        let mut stored = Vec::new();
        for sample in samples {
            self.index.sample(*sample)?.add_stored_ranges(&mut stored)?;
        }
        let ranges: Vec<_> = (stored.into_iter())
            .map(|(shard, range)| stage_range(shard, range))
            .collect();
        self.stage_ranges(&ranges, Instant::now() + self.deadline)
    }
}
