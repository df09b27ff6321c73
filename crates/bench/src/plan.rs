//! From what was asked for to runs that can start.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::python::PythonBenchmark;
use crate::spec::{self, Backend, DropCache, Engine, Fsync, Interface, Launcher, RunSpec};
use crate::work::WorkFolder;
use crate::workload::{Registration, Registry};
use crate::{BenchError, Kind, Param, Params, Result, files};

/// The most samples that one rank keeps: some 64 MB of memory and twice as much in its manifest.
pub const MAX_SAMPLES: u64 = 8_000_000;

/// The most ranks that one machine starts.
pub const MAX_LOCAL_RANKS: u32 = 1_024;

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

/// What is known of benchmarks.
pub struct Known<'a> {
    /// Those of this program.
    pub registry: &'a Registry,
    /// Those that Python has; empty where nobody asked it.
    pub python: &'a [PythonBenchmark],
}

impl Known<'_> {
    /// Whether a benchmark of this name has such a parameter.
    #[must_use]
    pub fn has(&self, benchmark: &str, param: &str) -> bool {
        let native = self.registry.iter().find(|known| known.name == benchmark);
        native.is_some_and(|known| known.params.iter().any(|one| one.name == param))
            || self.python(benchmark).is_some_and(|known| known.has(param))
    }

    fn python(&self, name: &str) -> Option<&PythonBenchmark> {
        self.python.iter().find(|known| known.name == name)
    }

    /// A run of `benchmark`, settled.
    ///
    /// # Errors
    /// [`BenchError::Usage`] names what cannot be.
    pub fn settle(
        &self,
        benchmark: &str,
        options: &Options,
        given: &Map<String, Value>,
        argv: Vec<String>,
    ) -> Result<RunSpec> {
        let native = self.registry.iter().find(|known| known.name == benchmark);
        let interface = options.interface.unwrap_or(Interface::Native);
        let (engine, params) = match (native, self.python(benchmark)) {
            (Some(native), python) => {
                let engine = engine(native, options.engine, interface)?;
                let params = match (engine, python) {
                    (Engine::Torch, Some(python)) => python.resolve(given)?,
                    _ => Params::resolve(native.params, given)?.values().clone(),
                };
                (engine, params)
            }
            (None, Some(python)) => (Engine::Python, python.resolve(given)?),
            (None, None) => return Err(self.registry.unknown(benchmark)),
        };
        let fsync = native.map_or(Fsync::None, |native| native.fsync);
        let mut spec = common(benchmark, options, argv)?;
        (spec.engine, spec.interface) = (engine, interface);
        spec.fsync = options.fsync.unwrap_or(fsync);
        spec.params = params;
        if let Some(native) = native {
            absolute_paths(native, given, &mut spec.params)?;
            if engine == Engine::Native {
                check(native, &spec)?;
            }
        }
        Ok(spec)
    }
}

fn engine(known: &Registration, asked: Option<Engine>, interface: Interface) -> Result<Engine> {
    let refuse = |what: String| {
        Err(BenchError::Usage(format!(
            "benchmark `{}` has no {what}",
            known.name
        )))
    };
    if interface == Interface::Fsspec {
        return match known.interfaces.contains(&Interface::Fsspec) {
            true => Ok(Engine::Python),
            false => refuse("interface `fsspec`".to_owned()),
        };
    }
    let engine = asked.unwrap_or(known.engines[0]);
    if known.engines.contains(&engine) {
        return Ok(engine);
    }
    let words: Vec<&str> = known.engines.iter().map(|one| one.word()).collect();
    refuse(format!(
        "engine `{}`: it has {}",
        engine.word(),
        words.join(", ")
    ))
}

/// A run with all that does not depend on the benchmark.
fn common(benchmark: &str, options: &Options, argv: Vec<String>) -> Result<RunSpec> {
    let dataset_path = options.dataset_path.as_ref().ok_or_else(|| {
        BenchError::Usage("name a folder on the file system to test with --dataset-path".into())
    })?;
    let dataset_path = absolute(dataset_path)?;
    let started_unix_ns = spec::unix_ns();
    let run_id = spec::run_id(benchmark, started_unix_ns);
    let settled = RunSpec {
        schema: spec::SCHEMA,
        benchmark: benchmark.to_owned(),
        engine: Engine::Native,
        work_dir: WorkFolder::place(&dataset_path, &run_id),
        run_id,
        argv,
        params: Map::new(),
        iterations: options.iterations.unwrap_or(10),
        warmup: options.warmup.unwrap_or(1),
        seed: options.seed.unwrap_or(0),
        interface: Interface::Native,
        drop_cache: options.drop_cache.unwrap_or(DropCache::None),
        fsync: Fsync::None,
        ranks: options.ranks.unwrap_or(1),
        launcher: options.launcher.unwrap_or(Launcher::Local),
        dist_init: dist_init(options.dist_init.as_deref())?,
        backend: options.backend.unwrap_or(Backend::Auto),
        module: options.module.as_deref().map(absolute).transpose()?,
        keep_data: options.keep_data.unwrap_or(false),
        fail_on_error: options.fail_on_error.unwrap_or(false),
        time_ops: options.time_ops.unwrap_or(true),
        timeout_s: options.timeout_s.unwrap_or(3_600),
        dataset_path,
        started_unix_ns,
    };
    let within = |name: &str, value: u64, least: u64, most: u64| {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(BenchError::Usage(format!(
            "`{name}` must be from {least} to {most}: {value}"
        )))
    };
    within("iterations", settled.iterations.into(), 1, 1_000_000)?;
    within("warmup", settled.warmup.into(), 0, 1_000_000)?;
    within("ranks", settled.ranks.into(), 1, MAX_LOCAL_RANKS.into())?;
    within("timeout_s", settled.timeout_s, 1, 366 * 86_400)?;
    Ok(settled)
}

/// `env`, or `file:` with an absolute path.
fn dist_init(asked: Option<&str>) -> Result<String> {
    match asked {
        None | Some("env") => Ok("env".to_owned()),
        Some(asked) => match asked.strip_prefix("file:").filter(|path| !path.is_empty()) {
            Some(path) => Ok(format!("file:{}", absolute(Path::new(path))?.display())),
            None => Err(BenchError::Usage(format!(
                "`dist_init` must be `env` or `file:PATH`: `{asked}`"
            ))),
        },
    }
}

/// Paths are as this process sees them: ranks may have another working folder.
fn absolute_paths(
    known: &Registration,
    given: &Map<String, Value>,
    params: &mut Map<String, Value>,
) -> Result<()> {
    // A default is no path of the user's: Python's is `.` where none is meant.
    let is_given = |param: &&Param| param.kind == Kind::Path && given.contains_key(param.name);
    for param in known.params.iter().filter(is_given) {
        let Some(Value::String(path)) = params.get_mut(param.name) else {
            continue;
        };
        if !path.is_empty() {
            *path = absolute(Path::new(&path))?.to_string_lossy().into_owned();
        }
    }
    Ok(())
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(BenchError::io("find", path))
}

/// What can be known before a run starts: parameters that cannot be, and too many samples.
fn check(known: &Registration, spec: &RunSpec) -> Result<()> {
    let params = Params::resolve(known.params, &spec.params)?;
    (known.build)(&params)?;
    let samples = (known.samples)(&params)?.saturating_mul(spec.iterations.into());
    if spec.time_ops && samples > MAX_SAMPLES {
        return Err(BenchError::Usage(format!(
            "some {samples} samples of a rank would not fit memory, at most {MAX_SAMPLES} do: take fewer iterations or files, or time iterations only with --no-op-times"
        )));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settle(benchmark: &str, options: &str, given: &str) -> Result<RunSpec> {
        let registry = Registry::standard();
        let known = Known {
            registry: &registry,
            python: &[],
        };
        let options: Options = toml::from_str(options).unwrap();
        known.settle(
            benchmark,
            &options,
            &serde_json::from_str(given).unwrap(),
            vec![],
        )
    }

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

    #[test]
    fn a_run_has_every_parameter_and_absolute_paths() {
        let spec = settle("md5_check", "dataset_path = 'x'", r#"{"dataset":"y"}"#).unwrap();
        assert!(spec.dataset_path.is_absolute() && spec.work_dir.starts_with(&spec.dataset_path));
        assert_eq!(spec.params["chunk_size"], 8192);
        assert!(Path::new(spec.params["dataset"].as_str().unwrap()).is_absolute());
        assert_eq!((spec.iterations, spec.warmup), (10, 1));
        let ckpt = settle("fsdp_save", "dataset_path = 'x'\nengine = 'native'", "{}").unwrap();
        assert_eq!((ckpt.fsync, ckpt.engine), (Fsync::File, Engine::Native));
    }

    #[test]
    fn what_cannot_be_is_refused_before_it_starts() {
        let data = "dataset_path = 'x'\n";
        let said = |benchmark: &str, options: &str, given: &str| {
            settle(benchmark, &format!("{data}{options}"), given)
                .unwrap_err()
                .to_string()
        };
        assert!(said("creat_files", "", "{}").starts_with("there is no benchmark `creat_files`"));
        assert_eq!(
            said("create_files", "ranks = 0", "{}"),
            "`ranks` must be from 1 to 1024: 0"
        );
        assert_eq!(
            said("folder_bench", "interface = 'fsspec'", "{}"),
            "benchmark `folder_bench` has no interface `fsspec`"
        );
        assert_eq!(
            said("list_files", "engine = 'torch'", "{}"),
            "benchmark `list_files` has no engine `torch`: it has native"
        );
        assert!(
            said("create_files", "", r#"{"num_copies":1000000}"#).contains("would not fit memory")
        );
        settle(
            "create_files",
            &format!("{data}time_ops = false"),
            r#"{"num_copies":1000000}"#,
        )
        .unwrap();
        assert!(said("folder_bench", "", r#"{"depth":7,"breadth":10}"#).contains("need `force`"));
        assert!(
            settle("create_files", "", "{}")
                .unwrap_err()
                .to_string()
                .contains("--dataset-path")
        );
        assert!(said("create_files", "dist_init = 'tcp:x'", "{}").contains("`env` or `file:PATH`"));
    }
}
