//! What one rank of one run of a benchmark leaves behind: one JSON file, schema 1.
//!
//! `docs/schema/bench-manifest.json` describes the same file to other programs.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{SuiteError, Timing, WALL};

/// The version of the manifest that this crate reads and writes.
pub const SCHEMA: u32 = 1;

/// The greatest size of a manifest in bytes; some 20 million samples.
pub const MAX_MANIFEST_BYTES: u64 = 256 << 20;

/// Ranks that one run may have.
pub const MAX_RANKS: u32 = 1 << 20;

/// What one rank did, where, and how long it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Manifest {
    /// Version of the manifest: [`SCHEMA`].
    pub schema: u32,
    /// Name of the benchmark.
    pub benchmark: String,
    /// The run that this rank took part in: the same in all its manifests.
    pub run_id: String,
    /// Whether the rank did all it should and found every byte right.
    pub status: Status,
    /// Why it failed.
    #[serde(default)]
    pub error: Option<String>,
    /// The command line.
    #[serde(default)]
    pub argv: Vec<String>,
    /// All that must be equal for two runs to be comparable: the benchmark's own parameters and
    /// of the common ones `interface`, `drop_cache`, `fsync` and `seed`.
    #[serde(default)]
    pub params: Map<String, Value>,
    /// The machine.
    #[serde(default)]
    pub host: Host,
    /// The file system that was measured.
    #[serde(default)]
    pub fs: FileSystem,
    /// The rank among the others.
    #[serde(default)]
    pub dist: Dist,
    /// Each call of the benchmark in order, warm-ups first.
    #[serde(default)]
    pub iterations: Vec<Iteration>,
    /// Durations by operation, of the iterations that are no warm-up.
    #[serde(default)]
    pub timing: BTreeMap<String, Timing>,
    /// What was done so that reads would come from storage.
    #[serde(default)]
    pub cache: Cache,
    /// What was compared with what it should be.
    #[serde(default)]
    pub verify: Verify,
}

/// How a rank ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// It did all it should.
    Pass,
    /// It did not, died, or never came.
    #[default]
    Fail,
}

/// The machine of a rank. What was not found out is absent.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Host {
    /// Its name.
    pub hostname: String,
    /// Release of the kernel.
    pub kernel: String,
    /// Model of the processor.
    pub cpu: String,
    /// Processors that the rank may use.
    pub cores: u32,
    /// Memory in bytes.
    pub mem_bytes: u64,
    /// Version of Python.
    pub python: Option<String>,
    /// Version of PyTorch.
    pub torch: Option<String>,
    /// Version of CUDA.
    pub cuda: Option<String>,
    /// Model of the rank's accelerator.
    pub gpu: Option<String>,
}

/// The file system below the run's folder.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct FileSystem {
    /// The folder.
    pub path: String,
    /// Where the file system is mounted.
    pub mount: String,
    /// What is mounted: a device, or a server and its export.
    pub source: String,
    /// Type, as in `/proc/self/mountinfo`.
    pub fstype: String,
    /// Options of the mount.
    pub options: String,
    /// Figures of `statfs`, in bytes and numbers: `block_bytes`, `total_bytes`, `free_bytes`,
    /// `files`, `free_files`.
    pub statfs: BTreeMap<String, u64>,
}

/// A rank among the others.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Dist {
    /// Number of the rank in the job, from 0.
    pub rank: u32,
    /// Number of the rank on its node, from 0.
    pub local_rank: u32,
    /// Ranks of the job.
    pub world_size: u32,
    /// What carries the collective calls: `gloo`, `nccl`, or nothing.
    pub backend: Option<String>,
    /// How the ranks found each other: `env` or `file:PATH`.
    pub init: String,
}

/// One call of the benchmark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Iteration {
    /// Its number, from 0, warm-ups among them.
    pub i: u32,
    /// Whether it is left out of all statistics.
    pub warmup: bool,
    /// When its timed part began, in nanoseconds since 1970-01-01 UTC by the rank's own clock.
    pub start_unix_ns: u64,
    /// From the barrier before the timed part to the end of this rank's work, before it waits
    /// for the others.
    pub wall_ns: u64,
    /// Bytes that the benchmark read or wrote.
    pub io_bytes: u64,
    /// Operations that it did, as the benchmark counts them.
    pub ops: u64,
}

/// What was done so that reads would come from storage, and whether it helped.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cache {
    /// `none`, `fadvise` or `verify`.
    pub policy: String,
    /// Bytes of the files that were still in the page cache when reading began; absent where
    /// nobody looked.
    pub resident_before_bytes: Option<u64>,
    /// Bytes of the files that were looked at.
    pub looked_at_bytes: Option<u64>,
    /// What was cold, in words.
    pub cold: Vec<String>,
    /// What was not, or is not known.
    pub not_cold: Vec<String>,
}

/// What was compared with what it should be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Verify {
    /// Things that were compared: files, tensors, entries.
    pub checked: u64,
    /// Those that were not as they should be.
    pub bad: u64,
}

/// Only the version, of a manifest whose other fields may be of another one.
#[derive(Deserialize)]
struct Version {
    schema: u32,
}

impl Manifest {
    /// A manifest with nothing measured yet.
    #[must_use]
    pub fn new(benchmark: impl Into<String>, run_id: impl Into<String>, dist: Dist) -> Self {
        Self {
            schema: SCHEMA,
            benchmark: benchmark.into(),
            run_id: run_id.into(),
            status: Status::Fail,
            error: None,
            argv: Vec::new(),
            params: Map::new(),
            host: Host::default(),
            fs: FileSystem::default(),
            dist,
            iterations: Vec::new(),
            timing: BTreeMap::new(),
            cache: Cache::default(),
            verify: Verify::default(),
        }
    }

    /// Reads a manifest and checks that its parts fit together.
    ///
    /// # Errors
    /// [`SuiteError`] for text that is no manifest, another version, and figures that contradict
    /// each other.
    pub fn read(json: &[u8]) -> Result<Self, SuiteError> {
        let version: Version = serde_json::from_slice(json).map_err(SuiteError::Json)?;
        if version.schema != SCHEMA {
            return Err(SuiteError::Schema {
                found: version.schema,
            });
        }
        let manifest: Self = serde_json::from_slice(json).map_err(SuiteError::Json)?;
        manifest.check()?;
        Ok(manifest)
    }

    /// Checks that its parts fit together.
    ///
    /// # Errors
    /// [`SuiteError::Broken`] names the rule that is broken.
    pub fn check(&self) -> Result<(), SuiteError> {
        let Dist {
            rank, world_size, ..
        } = self.dist;
        if rank >= world_size || world_size > MAX_RANKS {
            return Err(SuiteError::Broken(format!(
                "`dist.rank` must be below `dist.world_size`, and that at most {MAX_RANKS}: {rank} and {world_size}"
            )));
        }
        if self.verify.bad > self.verify.checked {
            return Err(SuiteError::Broken(format!(
                "`verify.bad` must be at most `verify.checked`: {} and {}",
                self.verify.bad, self.verify.checked
            )));
        }
        if self.status == Status::Pass && self.verify.bad > 0 {
            return Err(SuiteError::Broken(format!(
                "`status` must be `fail` where `verify.bad` is {}",
                self.verify.bad
            )));
        }
        let measured = self.measured().count();
        for (op, timing) in &self.timing {
            timing.check(op, measured)?;
        }
        Ok(())
    }

    /// The iterations that are no warm-up, in order.
    pub fn measured(&self) -> impl Iterator<Item = &Iteration> {
        self.iterations.iter().filter(|one| !one.warmup)
    }

    /// The samples of each measured iteration of an operation; of [`WALL`] its `wall_ns`.
    #[must_use]
    pub fn samples(&self, op: &str) -> Vec<Vec<u64>> {
        match self.timing.get(op) {
            Some(timing) => timing.by_iteration().map(<[u64]>::to_vec).collect(),
            None if op == WALL => self.measured().map(|one| vec![one.wall_ns]).collect(),
            None => Vec::new(),
        }
    }

    /// When the rank's first iteration began, in nanoseconds since 1970-01-01 UTC.
    #[must_use]
    pub fn started_unix_ns(&self) -> Option<u64> {
        self.iterations.iter().map(|one| one.start_unix_ns).min()
    }
}
