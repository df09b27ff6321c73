//! `forebay bench suite`

use std::process::ExitCode;

use clap::{Args, ValueEnum};
use forebay_bench::names::near;
use forebay_bench::plan::Known;
use forebay_bench::profile::{Choice, Profile};
use forebay_bench::python;
use forebay_bench::spec::{Engine, Interface};
use forebay_bench::{Registry, Stop};
use serde_json::Map;

use super::common::{CommonArguments, of_bench, stop_at_signals, told};
use super::run::{settle, start};
use crate::Failure;

/// Run all benchmarks of the suite with the parameters of a profile.
#[derive(Args)]
pub(crate) struct Arguments {
    /// How much is done
    #[arg(long, value_enum, default_value_t = ProfileName::Standard)]
    profile: ProfileName,
    /// Only these benchmarks of the profile
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    #[command(flatten)]
    common: CommonArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum ProfileName {
    /// About a minute: that everything works, and a first look
    Quick,
    /// Minutes: enough iterations to compare two runs
    Standard,
    /// Hours: the paper's sizes where it gives them
    Full,
}

impl From<ProfileName> for Profile {
    fn from(name: ProfileName) -> Self {
        match name {
            ProfileName::Quick => Self::Quick,
            ProfileName::Standard => Self::Standard,
            ProfileName::Full => Self::Full,
        }
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    told(work(arguments), arguments.common.json)
}

fn work(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let stop = stop_at_signals()?;
    let config = arguments.common.read()?;
    let registry = Registry::standard();
    let choices = choices(arguments)?;
    let engine = config
        .options
        .engine
        .unwrap_or_else(|| engine(&registry, &choices, &stop));
    let python = match engine {
        Engine::Torch => python::list(None, &stop).map_err(of_bench)?,
        Engine::Native | Engine::Python => Vec::new(),
    };
    let known = Known {
        registry: &registry,
        python: &python,
    };
    let mut specs = Vec::new();
    for choice in choices {
        let benchmark = registry.find(choice.benchmark).map_err(of_bench)?;
        let has = |interface: &Interface| benchmark.interfaces.contains(interface);
        if let Some(interface) = config.options.interface.filter(|one| !has(one)) {
            let (name, interface) = (choice.benchmark, interface.word());
            eprintln!("note: `{name}` is left out: it has no interface `{interface}`");
            continue;
        }
        let mut options = config.options.clone().or(choice.options);
        options.engine = (benchmark.engines.len() > 1).then_some(engine);
        let mut params = choice.params;
        params.extend(config.of_benchmark(choice.benchmark));
        let spec = settle(&known, choice.benchmark, &options, params, &Map::new());
        specs.push(spec?);
    }
    let output_dir = config.options.output_dir();
    start(&registry, specs, output_dir, &arguments.common, &stop)
}

/// What is run of the profile.
fn choices(arguments: &Arguments) -> Result<Vec<Choice>, Failure> {
    let mut choices = Profile::from(arguments.profile).choices();
    let only = &arguments.only;
    let is_there = |name: &&String| {
        choices
            .iter()
            .any(|choice| choice.benchmark == name.as_str())
    };
    if let Some(name) = only.iter().find(|name| !is_there(name)) {
        let names: Vec<&str> = choices.iter().map(|choice| choice.benchmark).collect();
        let said = near(name, &names);
        let message = format!("the profile has no benchmark `{name}`: {said}");
        return Err(Failure::usage(message));
    }
    choices.retain(|choice| only.is_empty() || only.iter().any(|name| name == choice.benchmark));
    Ok(choices)
}

/// What does the checkpoints, where nothing is said: PyTorch if it is there.
fn engine(registry: &Registry, choices: &[Choice], stop: &Stop) -> Engine {
    let has_engines = |name: &str| registry.find(name).is_ok_and(|one| one.engines.len() > 1);
    if !choices.iter().any(|choice| has_engines(choice.benchmark)) {
        return Engine::Native;
    }
    if python::has_torch(stop) {
        return Engine::Torch;
    }
    eprintln!(
        "note: no Python with PyTorch and forebay was found: checkpoints by the native engine"
    );
    Engine::Native
}
