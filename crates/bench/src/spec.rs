//! What one run does: settled before it starts, and read by every rank.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::{BenchError, Result, files};

/// Version of `run.json`.
pub const SCHEMA: u32 = 1;

/// The greatest size of `run.json` in bytes.
const MAX_BYTES: u64 = 1 << 20;

macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$each:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        pub enum $name { $($(#[$each])* #[serde(rename = $word)] $variant),+ }

        impl $name {
            /// All of its words.
            pub const WORDS: &'static [&'static str] = &[$($word),+];

            /// As it is written.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
            }

            /// Reads a word.
            #[must_use]
            pub fn parse(word: &str) -> Option<Self> {
                match word { $($word => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

words! {
    /// How files are reached.
    Interface {
        /// System calls.
        Native = "native",
        /// The Python library fsspec, in a Python process.
        Fsspec = "fsspec",
        /// System calls through a mount of Forebay.
        Mount = "mount",
        /// A client of Forebay in the rank's process, without the kernel.
        Client = "client",
    }
}

words! {
    /// What is done to the page cache before files are read.
    DropCache {
        /// Nothing; residency is only recorded.
        None = "none",
        /// Files are written back and dropped.
        Fadvise = "fadvise",
        /// The same, and the run fails where they stay.
        Verify = "verify",
    }
}

words! {
    /// What is written through to storage inside the timed part.
    Fsync {
        /// Nothing.
        None = "none",
        /// Each file.
        File = "file",
        /// Each file, and the folder that its name is in.
        FileAndFolder = "file+dir",
    }
}

words! {
    /// What starts the ranks.
    Launcher {
        /// This program, on this machine.
        Local = "local",
        /// `srun`.
        Slurm = "slurm",
        /// `mpirun` or `mpiexec`.
        Mpi = "mpi",
        /// `torchrun`.
        Torchrun = "torchrun",
    }
}

words! {
    /// What does the work.
    Engine {
        /// This program.
        Native = "native",
        /// PyTorch, in a Python process.
        Torch = "torch",
        /// Python without PyTorch: fsspec, and benchmarks written in Python.
        Python = "python",
    }
}

words! {
    /// What carries PyTorch's collective calls.
    Backend {
        /// NCCL where there are GPUs, else Gloo.
        Auto = "auto",
        /// NCCL.
        Nccl = "nccl",
        /// Gloo.
        Gloo = "gloo",
    }
}

/// One run of one benchmark. It stands in `run.json` of the run's folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunSpec {
    /// Version: [`SCHEMA`].
    pub schema: u32,
    /// Name of the benchmark.
    pub benchmark: String,
    /// What does the work.
    pub engine: Engine,
    /// Name of the run; its folder has the same.
    pub run_id: String,
    /// The command line.
    pub argv: Vec<String>,
    /// The benchmark's own parameters, all of them.
    pub params: Map<String, Value>,
    /// Iterations that are measured.
    pub iterations: u32,
    /// Iterations before them that are not.
    pub warmup: u32,
    /// Seed of content and orders.
    pub seed: u64,
    /// How files are reached.
    pub interface: Interface,
    /// What is done to the page cache before files are read.
    pub drop_cache: DropCache,
    /// What is written through to storage.
    pub fsync: Fsync,
    /// Number of ranks.
    pub ranks: u32,
    /// What starts them.
    pub launcher: Launcher,
    /// How they find each other: `env` or `file:PATH`.
    pub dist_init: String,
    /// What carries PyTorch's collective calls.
    pub backend: Backend,
    /// File with the benchmarks of a user.
    pub module: Option<PathBuf>,
    /// Whether the files of the last iteration stay.
    pub keep_data: bool,
    /// Whether the first failure ends a list of benchmarks.
    pub fail_on_error: bool,
    /// Whether single operations are timed.
    pub time_ops: bool,
    /// Seconds that the run may take.
    pub timeout_s: u64,
    /// Folder on the file system under test.
    pub dataset_path: PathBuf,
    /// The run's own folder on it.
    pub work_dir: PathBuf,
    /// When it was started, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
}

impl RunSpec {
    /// Reads `run.json`.
    ///
    /// # Errors
    /// [`BenchError::Usage`] names the file and what is wrong with it.
    pub fn read(file: &Path) -> Result<Self> {
        Self::parse(&files::read_bounded(file, MAX_BYTES)?)
            .map_err(|error| BenchError::Usage(format!("`{}`: {error}", file.display())))
    }

    /// Reads settings that another process sent.
    ///
    /// # Errors
    /// [`BenchError::Usage`] for what are none, or of another version.
    pub fn parse(json: &[u8]) -> Result<Self> {
        let spec: Self = serde_json::from_slice(json).map_err(|error| {
            BenchError::Usage(format!("these are no settings of a run: {error}"))
        })?;
        if spec.schema != SCHEMA {
            return Err(BenchError::Usage(format!(
                "version {} of a run's settings is not known; this program has {SCHEMA}",
                spec.schema
            )));
        }
        Ok(spec)
    }

    /// The settings as they stand in `run.json`.
    #[must_use]
    pub fn json(&self) -> Vec<u8> {
        // It has only keys that are text, and no number that JSON lacks.
        serde_json::to_vec_pretty(self).unwrap_or_default()
    }

    /// When the run must be over.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout_s)
    }

    /// The folder that ranks meet in, if they meet in one.
    #[must_use]
    pub fn meeting_folder(&self) -> Option<&Path> {
        self.dist_init.strip_prefix("file:").map(Path::new)
    }

    /// All that must be equal for two runs to be comparable.
    #[must_use]
    pub fn comparable(&self) -> Map<String, Value> {
        let mut params = self.params.clone();
        let common = [
            ("engine", self.engine.word()),
            ("interface", self.interface.word()),
            ("drop_cache", self.drop_cache.word()),
            ("fsync", self.fsync.word()),
        ];
        for (name, word) in common {
            params.insert(name.to_owned(), word.into());
        }
        params.insert("seed".to_owned(), self.seed.into());
        if !self.time_ops {
            params.insert("time_ops".to_owned(), false.into());
        }
        params
    }
}

/// The name of a rank's manifest in the run's folder.
#[must_use]
pub fn manifest_name(rank: u32) -> String {
    format!("rank-{rank:05}.json")
}

/// Nanoseconds since 1970-01-01 UTC by this machine's clock.
#[must_use]
pub fn unix_ns() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.map_or(0, crate::measure::nanoseconds)
}

/// `BENCHMARK-YYYYmmddTHHMMSSZ-xxxx`, the last part at random.
#[must_use]
pub fn run_id(benchmark: &str, unix_ns: u64) -> String {
    let seconds = unix_ns / 1_000_000_000;
    let (days, of_day) = ((seconds / 86_400) as i64, seconds % 86_400);
    let (year, month, day) = civil(days);
    let mut random = [0u8; 2];
    if crate::content::random(&mut random).is_err() {
        random = (std::process::id() as u16).to_le_bytes();
    }
    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
    format!(
        "{benchmark}-{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z-{:04x}",
        u16::from_le_bytes(random)
    )
}

/// Year, month and day of a number of days since 1970-01-01 (Howard Hinnant's method).
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = (shifted_month + 2) % 12 + 1;
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn spec() -> RunSpec {
        RunSpec {
            schema: SCHEMA,
            benchmark: "create_files".into(),
            engine: Engine::Native,
            run_id: "create_files-x".into(),
            argv: vec![],
            params: Map::new(),
            iterations: 2,
            warmup: 1,
            seed: 0,
            interface: Interface::Native,
            drop_cache: DropCache::None,
            fsync: Fsync::FileAndFolder,
            ranks: 1,
            launcher: Launcher::Local,
            dist_init: "env".into(),
            backend: Backend::Auto,
            module: None,
            keep_data: false,
            fail_on_error: false,
            time_ops: true,
            timeout_s: 60,
            dataset_path: "/data".into(),
            work_dir: "/data/forebay-bench-x".into(),
            started_unix_ns: 1,
        }
    }

    #[test]
    fn settings_are_read_as_written_and_unknown_ones_refused() {
        let spec = spec();
        assert_eq!(RunSpec::parse(&spec.json()).unwrap(), spec);
        let text = String::from_utf8(spec.json()).unwrap();
        assert!(text.contains(r#""fsync": "file+dir""#), "{text}");
        let more = text.replacen("\"schema\": 1", "\"schema\": 1, \"colour\": 3", 1);
        let error = RunSpec::parse(more.as_bytes()).unwrap_err();
        assert!(error.to_string().contains("colour"));
        let later = text.replacen("\"schema\": 1", "\"schema\": 2", 1);
        let error = RunSpec::parse(later.as_bytes()).unwrap_err();
        assert!(error.to_string().starts_with("version 2 of"));
    }

    #[test]
    fn runs_are_named_by_their_time() {
        let name = run_id("list_files", 1_709_210_096_000_000_000);
        assert!(name.starts_with("list_files-20240229T123456Z-"), "{name}");
        assert!(run_id("x", 0).starts_with("x-19700101T000000Z-"));
        assert!(run_id("x", 4_102_444_799_000_000_000).starts_with("x-20991231T235959Z-"));
    }
}
