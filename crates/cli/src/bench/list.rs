//! `forebay bench list`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_bench::python::{self, PythonBenchmark};
use forebay_bench::{Kind, Registration, Registry};
use serde_json::{Value, json};

use super::common::{of_bench, stop_at_signals};
use crate::Failure;

/// List the benchmarks, or the parameters of one.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Show the parameters of this benchmark
    name: Option<String>,
    /// A Python file with benchmarks of your own
    #[arg(long, value_name = "FILE")]
    module: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    json: bool,
}

/// One benchmark, as it is listed.
struct Listed {
    name: String,
    category: String,
    help: String,
    engines: Vec<&'static str>,
    interfaces: Vec<&'static str>,
    params: Vec<[String; 4]>,
}

impl Listed {
    fn row(&self) -> [&str; 3] {
        [&self.name, &self.category, &self.help]
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let registry = Registry::standard();
    let stop = stop_at_signals()?;
    let in_python = match python::list(arguments.module.as_deref(), &stop) {
        Ok(found) => found,
        // Without Python there are the native ones; who names a file wants what is in it.
        Err(error) if arguments.module.is_some() => return Err(of_bench(error)),
        Err(_) => {
            eprintln!("note: no Python with forebay was found: its benchmarks are not listed");
            Vec::new()
        }
    };
    let mut listed: Vec<Listed> = registry.iter().map(native).collect();
    for one in &in_python {
        if listed.iter().all(|known| known.name != one.name) {
            listed.push(of_python(one.clone()));
        }
    }
    if let Some(name) = &arguments.name {
        if listed.iter().all(|one| one.name != *name) {
            return Err(of_bench(registry.unknown(name, &in_python)));
        }
        listed.retain(|one| one.name == *name);
    }
    if arguments.json {
        let all: Vec<Value> = listed.iter().map(as_json).collect();
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else if let (Some(_), [one]) = (&arguments.name, listed.as_slice()) {
        println!("{}: {}", one.name, one.help);
        println!(
            "engines: {}; interfaces: {}\n",
            one.engines.join(", "),
            one.interfaces.join(", ")
        );
        let rows: Vec<[&str; 4]> = one
            .params
            .iter()
            .map(|param| param.each_ref().map(|text| &**text))
            .collect();
        print!("{}", columns(&rows));
    } else {
        let rows: Vec<[&str; 3]> = listed.iter().map(Listed::row).collect();
        print!("{}", columns(&rows));
    }
    Ok(ExitCode::SUCCESS)
}

/// Rows of words, each column as wide as its widest.
fn columns<const N: usize>(rows: &[[&str; N]]) -> String {
    let width = |column: usize| {
        rows.iter()
            .map(|row| row[column].chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: [usize; N] = std::array::from_fn(width);
    let line = |row: &[&str; N]| {
        let padded = row
            .iter()
            .zip(widths)
            .map(|(word, width)| format!("{word:<width$}"));
        padded.collect::<Vec<_>>().join("  ").trim_end().to_owned() + "\n"
    };
    rows.iter().map(line).collect()
}

fn native(known: &Registration) -> Listed {
    let params = known.params.iter().map(|param| {
        let kind = match param.kind {
            Kind::Count => "count".to_owned(),
            Kind::Size => "size".to_owned(),
            Kind::Sizes => "sizes".to_owned(),
            Kind::Number => "number".to_owned(),
            Kind::Flag => "flag".to_owned(),
            Kind::Text => "text".to_owned(),
            Kind::Path => "path".to_owned(),
            Kind::Choice(words) => words.join("|"),
        };
        [
            param.name.to_owned(),
            kind,
            param.default.to_owned(),
            param.help.to_owned(),
        ]
    });
    Listed {
        name: known.name.to_owned(),
        category: known.category.to_owned(),
        help: known.help.to_owned(),
        engines: known.engines.iter().map(|one| one.word()).collect(),
        interfaces: known.interfaces.iter().map(|one| one.word()).collect(),
        params: params.collect(),
    }
}

fn of_python(found: PythonBenchmark) -> Listed {
    let params = found.params.into_iter().map(|param| {
        let default = match param.default {
            Value::Null => String::new(),
            Value::String(text) => text,
            other => other.to_string(),
        };
        [param.name, param.kind, default, param.help]
    });
    Listed {
        name: found.name,
        category: found.category,
        help: found.help,
        engines: vec!["python"],
        interfaces: vec!["native"],
        params: params.collect(),
    }
}

fn as_json(one: &Listed) -> Value {
    let params: Vec<Value> = one
        .params
        .iter()
        .map(|[name, kind, default, help]| {
            json!({"name": name, "type": kind, "default": default, "help": help})
        })
        .collect();
    json!({
        "name": one.name, "category": one.category, "help": one.help,
        "engines": one.engines, "interfaces": one.interfaces, "params": params,
    })
}
