//! `forebay bench run`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_bench::plan::{Known, Options};
use forebay_bench::python::{self, PythonBenchmark};
use forebay_bench::spec::{Engine, Interface, RunSpec};
use forebay_bench::{Registry, Stop};
use serde_json::{Map, Value};

use super::common::{CommonArguments, of_bench, run_all, stop_at_signals, told};
use super::params::ParamArguments;
use crate::Failure;

/// Run benchmarks, each with its ranks, and leave a manifest for each rank.
#[derive(Args)]
#[command(
    after_help = "Example: forebay bench run create_files list_files --dataset-path /mnt/project \
                  --num-copies 10000 --ranks 4\n\
                  Exit status: 0 passed, 1 failed, 2 wrong usage, 130 interrupted. \
                  docs/BENCHMARKS.md says more."
)]
pub(crate) struct Arguments {
    /// Benchmarks, in order [default: those of the configuration]
    #[arg(value_name = "NAME")]
    names: Vec<String>,
    #[command(flatten)]
    common: CommonArguments,
    #[command(flatten)]
    params: ParamArguments,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    told(work(arguments), arguments.common.json)
}

fn work(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let stop = stop_at_signals()?;
    let config = arguments.common.read()?;
    let names = if arguments.names.is_empty() {
        &config.benchmarks
    } else {
        &arguments.names
    };
    if names.is_empty() {
        return Err(Failure::usage("name a benchmark to run").hint("`forebay bench list` has them"));
    }
    let registry = Registry::standard();
    // A table of a configuration that is for none of them is a slip too.
    let named: Vec<&String> = names.iter().chain(config.params.keys()).collect();
    let python = ask_python(&registry, names, &named, &config.options, &stop)?;
    let known = Known {
        registry: &registry,
        python: &python,
    };
    if let Some(name) = named.into_iter().find(|name| !known.is_known(name)) {
        return Err(of_bench(registry.unknown(name, &python)));
    }
    let given = &arguments.params.0;
    if let Some(name) = given
        .keys()
        .find(|name| !names.iter().any(|one| known.has(one, name)))
    {
        let names = names.join(", ");
        return Err(
            Failure::usage(format!("none of {names} has a parameter `{name}`"))
                .hint("`forebay bench list NAME` has its parameters"),
        );
    }
    let specs = names
        .iter()
        .map(|name| {
            settle(
                &known,
                name,
                &config.options,
                config.of_benchmark(name),
                given,
            )
        })
        .collect::<Result<Vec<_>, _>>()?;
    start(
        &registry,
        specs,
        config.options.output_dir(),
        &arguments.common,
        &stop,
    )
}

/// One run, settled: parameters of the command line over those of the configuration.
pub(super) fn settle(
    known: &Known<'_>,
    name: &str,
    options: &Options,
    mut params: Map<String, Value>,
    given: &Map<String, Value>,
) -> Result<RunSpec, Failure> {
    let fitting = given.iter().filter(|(param, _)| known.has(name, param));
    params.extend(fitting.map(|(param, value)| (param.clone(), value.clone())));
    let argv = std::env::args_os().map(|word| word.to_string_lossy().into_owned());
    known
        .settle(name, options, &params, argv.collect())
        .map_err(of_bench)
}

/// What Python knows, where one of the benchmarks is its, or one that is `named` may be.
fn ask_python(
    registry: &Registry,
    names: &[String],
    named: &[&String],
    options: &Options,
    stop: &Stop,
) -> Result<Vec<PythonBenchmark>, Failure> {
    let by_python = |name: &String| {
        registry.find(name).is_ok_and(|known| {
            options.engine.unwrap_or(known.engines[0]) != Engine::Native
                && options.interface != Some(Interface::Fsspec)
        })
    };
    let unknown = named.iter().find(|name| registry.find(name).is_err());
    let needed = options.module.is_some() || unknown.is_some() || names.iter().any(by_python);
    if !needed {
        return Ok(Vec::new());
    }
    python::list(options.module.as_deref(), stop).map_err(|error| {
        match unknown {
            // Who names a file means what is in it; else the name may be a slip.
            Some(name) if options.module.is_none() => {
                let those = error.line();
                of_bench(registry.unknown(name, &[])).hint(format!(
                    "benchmarks written in Python are not known here: {those}"
                ))
            }
            Some(_) => of_bench(error),
            None => of_bench(error)
                .hint("--engine native writes and reads the same files without PyTorch"),
        }
    })
}

/// Runs what was settled, or shows it.
pub(super) fn start(
    registry: &Registry,
    specs: Vec<RunSpec>,
    output_dir: PathBuf,
    common: &CommonArguments,
    stop: &Stop,
) -> Result<ExitCode, Failure> {
    if common.dry_run {
        println!("{}", serde_json::to_string_pretty(&specs)?);
        return Ok(ExitCode::SUCCESS);
    }
    let output_dir = std::path::absolute(output_dir)?;
    run_all(registry, specs, &output_dir, stop, common.json)
}
