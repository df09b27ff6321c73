//! From what was asked for to runs that can start.

mod options;

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

pub use options::{Config, Options};

use crate::python::PythonBenchmark;
use crate::spec::{self, Backend, DropCache, Engine, Fsync, Interface, Launcher, RunSpec};
use crate::work::WorkFolder;
use crate::workload::{Registration, Registry};
use crate::{BenchError, Kind, Param, Params, Result};

/// The most samples that one rank keeps: some 64 MB of memory and twice as much in its manifest.
pub const MAX_SAMPLES: u64 = 8_000_000;

/// The most ranks that one machine starts.
pub const MAX_LOCAL_RANKS: u32 = 1_024;

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

    /// Whether there is a benchmark of this name.
    #[must_use]
    pub fn is_known(&self, benchmark: &str) -> bool {
        self.registry.find(benchmark).is_ok() || self.python(benchmark).is_some()
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
            (None, None) => return Err(self.registry.unknown(benchmark, self.python)),
        };
        let fsync = native.map_or(Fsync::None, |native| native.fsync);
        let mut spec = common(benchmark, options, argv)?;
        (spec.engine, spec.interface) = (engine, interface);
        spec.fsync = options.fsync.unwrap_or(fsync);
        spec.params = params;
        if let Some(native) = native {
            absolute_paths(native, given, &mut spec.params)?;
            must_name_what_is_read(native, &spec)?;
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
    if !known.interfaces.contains(&interface) {
        let words: Vec<&str> = known.interfaces.iter().map(|one| one.word()).collect();
        let why = match interface {
            Interface::Mount | Interface::Client if known.reads.is_empty() => {
                ", which is there to read and not to write"
            }
            _ => "",
        };
        return refuse(format!(
            "interface `{}`{why}: it has {}",
            interface.word(),
            words.join(", ")
        ));
    }
    if interface == Interface::Fsspec {
        return Ok(Engine::Python);
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

/// A mount shows what was there before it, so that nothing can be made on it to be read.
fn must_name_what_is_read(known: &Registration, spec: &RunSpec) -> Result<()> {
    let is_named = |name: &&str| spec.params.get(*name).is_some_and(|value| value != "");
    if spec.interface != Interface::Mount || known.reads.iter().any(is_named) {
        return Ok(());
    }
    Err(BenchError::Usage(format!(
        "`{}` can make nothing on a mount of Forebay, which is read-only: name what it reads there with `{}`",
        known.name,
        known.reads.join("` or `")
    )))
}

/// Refuses more samples than memory holds.
///
/// # Errors
/// [`BenchError::Usage`] with the ways out.
pub(crate) fn must_fit(spec: &RunSpec, samples_of_iteration: u64) -> Result<()> {
    let samples = samples_of_iteration.saturating_mul(spec.iterations.into());
    if spec.time_ops && samples > MAX_SAMPLES {
        return Err(BenchError::Usage(format!(
            "some {samples} samples of a rank would not fit memory, at most {MAX_SAMPLES} do: take fewer iterations or files, or time iterations only with --no-op-times"
        )));
    }
    Ok(())
}

/// What can be known before a run starts: parameters that cannot be, and too many samples.
fn check(known: &Registration, spec: &RunSpec) -> Result<()> {
    let params = Params::resolve(known.params, &spec.params)?;
    (known.build)(&params)?;
    must_fit(spec, (known.samples)(&params)?)
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
        assert_eq!(
            said("creat_files", "", "{}"),
            "there is no benchmark `creat_files`: did you mean `create_files`?"
        );
        assert_eq!(
            said("create_files", "ranks = 0", "{}"),
            "`ranks` must be from 1 to 1024: 0"
        );
        assert_eq!(
            said("folder_bench", "interface = 'fsspec'", "{}"),
            "benchmark `folder_bench` has no interface `fsspec`: it has native"
        );
        assert_eq!(
            said("create_files", "interface = 'client'", "{}"),
            "benchmark `create_files` has no interface `client`, which is there to read and not to write: it has native, fsspec"
        );
        assert_eq!(
            said("md5_check", "interface = 'mount'", "{}"),
            "`md5_check` can make nothing on a mount of Forebay, which is read-only: name what it reads there with `dataset`"
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
