//! What was asked for: common options, and a configuration that holds them and parameters.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::spec::{Backend, DropCache, Engine, Fsync, Interface, Launcher};
use crate::{BenchError, Result, files};

/// The largest configuration, in bytes.
const CONFIG_BYTES: u64 = 1 << 20;

/// Common options as they were asked for; each may be absent.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Options {
    /// Folder on the file system under test.
    pub dataset_path: Option<PathBuf>,
    /// Folder of results.
    pub output_dir: Option<PathBuf>,
    /// Iterations that are measured.
    pub iterations: Option<u32>,
    /// Iterations before them that are not.
    pub warmup: Option<u32>,
    /// Seed of content and orders.
    pub seed: Option<u64>,
    /// How files are reached.
    pub interface: Option<Interface>,
    /// What does the work.
    pub engine: Option<Engine>,
    /// What is done to the page cache before files are read.
    pub drop_cache: Option<DropCache>,
    /// What is written through.
    pub fsync: Option<Fsync>,
    /// Number of ranks.
    pub ranks: Option<u32>,
    /// What starts them.
    pub launcher: Option<Launcher>,
    /// How they find each other.
    pub dist_init: Option<String>,
    /// What carries PyTorch's collective calls.
    pub backend: Option<Backend>,
    /// File with the benchmarks of a user.
    pub module: Option<PathBuf>,
    /// Whether the files of the last iteration stay.
    pub keep_data: Option<bool>,
    /// Whether the first failure ends a list of benchmarks.
    pub fail_on_error: Option<bool>,
    /// Whether single operations are timed.
    pub time_ops: Option<bool>,
    /// Seconds that a run may take.
    pub timeout_s: Option<u64>,
}

impl Options {
    /// These, and `others` where these say nothing.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            dataset_path: self.dataset_path.or(others.dataset_path),
            output_dir: self.output_dir.or(others.output_dir),
            iterations: self.iterations.or(others.iterations),
            warmup: self.warmup.or(others.warmup),
            seed: self.seed.or(others.seed),
            interface: self.interface.or(others.interface),
            engine: self.engine.or(others.engine),
            drop_cache: self.drop_cache.or(others.drop_cache),
            fsync: self.fsync.or(others.fsync),
            ranks: self.ranks.or(others.ranks),
            launcher: self.launcher.or(others.launcher),
            dist_init: self.dist_init.or(others.dist_init),
            backend: self.backend.or(others.backend),
            module: self.module.or(others.module),
            keep_data: self.keep_data.or(others.keep_data),
            fail_on_error: self.fail_on_error.or(others.fail_on_error),
            time_ops: self.time_ops.or(others.time_ops),
            timeout_s: self.timeout_s.or(others.timeout_s),
        }
    }

    /// Where results go.
    #[must_use]
    pub fn output_dir(&self) -> PathBuf {
        let default = || PathBuf::from("forebay-bench-results");
        self.output_dir.clone().unwrap_or_else(default)
    }
}

/// A configuration: common options, names of benchmarks, and a table of parameters for each.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Common options.
    pub options: Options,
    /// The benchmarks to run, in order.
    pub benchmarks: Vec<String>,
    /// Parameters of each benchmark.
    pub params: Map<String, Value>,
}

impl Config {
    /// Reads TOML, or JSON where the name of the file ends so.
    ///
    /// # Errors
    /// [`BenchError::Usage`] names the file and what is wrong in it.
    pub fn read(path: &Path) -> Result<Self> {
        let wrong = |fault: String| BenchError::Usage(format!("`{}`: {fault}", path.display()));
        let bytes = files::read_bounded(path, CONFIG_BYTES)?;
        let text = String::from_utf8(bytes).map_err(|_| wrong("it is no text".into()))?;
        let is_json = path.extension().is_some_and(|ending| ending == "json");
        let table: Map<String, Value> = if is_json {
            serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
        } else {
            toml::from_str(&text).map_err(|error| wrong(error.to_string()))?
        };
        Self::of(table).map_err(|error| wrong(error.to_string()))
    }

    fn of(table: Map<String, Value>) -> Result<Self> {
        let mut config = Self::default();
        let mut options = Map::new();
        for (name, value) in table {
            if name == "benchmarks" {
                config.benchmarks = serde_json::from_value(value).map_err(|_| {
                    BenchError::Usage("`benchmarks` must be a list of names".to_owned())
                })?;
            } else if value.is_object() {
                config.params.insert(name, value);
            } else {
                options.insert(name, value);
            }
        }
        config.options = serde_json::from_value(Value::Object(options))
            .map_err(|error| BenchError::Usage(error.to_string()))?;
        Ok(config)
    }

    /// The table of one benchmark.
    #[must_use]
    pub fn of_benchmark(&self, name: &str) -> Map<String, Value> {
        let table = self.params.get(name).and_then(Value::as_object);
        table.cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_has_options_names_and_a_table_for_each_benchmark() {
        let temp = tempfile::tempdir().unwrap();
        let toml = temp.path().join("x.toml");
        let text = "benchmarks = ['list_files']\niterations = 3\ndrop_cache = 'verify'\n[list_files]\nnum_copies = 7\n";
        std::fs::write(&toml, text).unwrap();
        let json = temp.path().join("x.json");
        let text = r#"{"benchmarks":["list_files"],"iterations":3,"drop_cache":"verify","list_files":{"num_copies":7}}"#;
        std::fs::write(&json, text).unwrap();
        for path in [toml, json] {
            let config = Config::read(&path).unwrap();
            assert_eq!(config.benchmarks, ["list_files"]);
            assert_eq!(config.options.iterations, Some(3));
            assert_eq!(config.options.drop_cache, Some(DropCache::Verify));
            assert_eq!(config.of_benchmark("list_files")["num_copies"], 7);
            assert!(config.of_benchmark("move_files").is_empty());
        }
    }

    #[test]
    fn an_unknown_word_of_a_configuration_is_refused_by_name() {
        for (text, said) in [
            ("iteration = 3", "unknown field `iteration`"),
            ("drop_cache = 'yes'", "unknown variant `yes`"),
            ("benchmarks = 3", "`benchmarks` must be a list of names"),
        ] {
            let table: Map<String, Value> = toml::from_str(text).unwrap();
            let error = Config::of(table).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn what_was_said_last_comes_first() {
        let over: Options = toml::from_str("seed = 5").unwrap();
        let under: Options = toml::from_str("seed = 4\nranks = 2").unwrap();
        let options = over.or(under);
        assert_eq!((options.seed, options.ranks), (Some(5), Some(2)));
    }
}
