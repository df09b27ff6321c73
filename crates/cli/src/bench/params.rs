//! Parameters of all benchmarks as options of one command.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use forebay_bench::{Kind, Registry};
use serde_json::{Map, Value};

/// Values of parameters by name, as they were written.
#[derive(Default)]
pub(super) struct ParamArguments(pub(super) Map<String, Value>);

/// Every parameter with the benchmarks that have it, and what it is in the first of them.
fn all() -> BTreeMap<&'static str, (Vec<&'static str>, &'static str, bool)> {
    let registry = Registry::standard();
    let mut all: BTreeMap<&'static str, (Vec<&'static str>, &'static str, bool)> = BTreeMap::new();
    for benchmark in registry.iter() {
        for param in benchmark.params {
            let is_flag = param.kind == Kind::Flag;
            let entry = all
                .entry(param.name)
                .or_insert((Vec::new(), param.help, is_flag));
            entry.0.push(benchmark.name);
        }
    }
    all
}

impl Args for ParamArguments {
    fn augment_args(command: Command) -> Command {
        let arg = |(name, (benchmarks, help, is_flag)): (&'static str, (Vec<&str>, &str, bool))| {
            let shown = if benchmarks.len() > 3 {
                format!(
                    "{} and {} more",
                    benchmarks[..2].join(", "),
                    benchmarks.len() - 2
                )
            } else {
                benchmarks.join(", ")
            };
            // Made once in the life of a process, and clap keeps words for as long.
            let long: &'static str = Box::leak(name.replace('_', "-").into_boxed_str());
            let arg = Arg::new(name)
                .long(long)
                .value_name("VALUE")
                .help(format!("{help} [{shown}]"))
                .help_heading(
                    "Parameters of benchmarks (`forebay bench list NAME` has their defaults)",
                );
            // A flag may stand alone.
            if is_flag {
                arg.num_args(0..=1)
                    .default_missing_value("true")
                    .require_equals(true)
            } else {
                arg
            }
        };
        let more = Arg::new("param")
            .short('p')
            .long("param")
            .value_name("NAME=VALUE")
            .action(ArgAction::Append)
            .help("Any parameter, also of a benchmark written in Python")
            .help_heading(
                "Parameters of benchmarks (`forebay bench list NAME` has their defaults)",
            );
        command.args(all().into_iter().map(arg)).arg(more)
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for ParamArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut found = Self::default();
        found.update_from_arg_matches(matches)?;
        Ok(found)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for name in all().into_keys() {
            if let Some(value) = matches.get_one::<String>(name) {
                self.0.insert(name.to_owned(), Value::from(value.as_str()));
            }
        }
        for pair in matches.get_many::<String>("param").into_iter().flatten() {
            let Some((name, value)) = pair.split_once('=') else {
                let message = format!("`{pair}` must be NAME=VALUE\n");
                return Err(clap::Error::raw(
                    clap::error::ErrorKind::ValueValidation,
                    message,
                ));
            };
            self.0.insert(name.replace('-', "_"), Value::from(value));
        }
        Ok(())
    }
}
