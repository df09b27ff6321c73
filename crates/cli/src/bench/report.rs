//! `forebay bench report`

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use forebay_analysis::report::suite::{SuiteReportOptions, System, render};
use forebay_analysis::suite::Metric;

use super::runs;
use crate::{Failure, output};

/// Systems that are drawn beside each other.
const MAX_SYSTEMS: usize = 6;

/// Draw runs as one self-contained page: scaling, latencies, systems side by side.
#[derive(Args)]
pub(crate) struct Arguments {
    /// A system: `FOLDER`, or `NAME=FOLDER`; the first is what the others are compared with
    #[arg(required = true, value_name = "[NAME=]FOLDER", value_parser = named)]
    systems: Vec<(String, PathBuf)>,
    /// Write the page here
    #[arg(short, long)]
    output: PathBuf,
    /// Title of the page
    #[arg(long, default_value = "Forebay: storage suite")]
    title: String,
    /// What an iteration is reduced to where systems are compared
    #[arg(long, default_value_t)]
    metric: Metric,
    /// Print what was written as JSON
    #[arg(long)]
    json: bool,
}

fn named(text: &str) -> Result<(String, PathBuf), String> {
    if let Some((name, folder)) = text.split_once('=')
        && !name.is_empty()
        && !name.contains('/')
    {
        return Ok((name.into(), folder.into()));
    }
    let folder = Path::new(text);
    let name = folder
        .file_name()
        .map(|name| name.to_string_lossy().into_owned());
    Ok((name.unwrap_or_else(|| text.into()), folder.into()))
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    if arguments.systems.len() > MAX_SYSTEMS {
        let message = format!(
            "a page holds at most {MAX_SYSTEMS} systems: {}",
            arguments.systems.len()
        );
        return Err(Failure::usage(message));
    }
    let mut systems = Vec::new();
    for (name, folder) in &arguments.systems {
        systems.push(System {
            name: name.clone(),
            runs: runs::many(folder, None)?,
        });
    }
    let options = SuiteReportOptions {
        title: arguments.title.clone(),
        metric: arguments.metric,
        not_shown: Vec::new(),
    };
    let page = render(&systems, &options);
    output::write_whole(&arguments.output, page.as_bytes())?;
    if arguments.json {
        let written = serde_json::json!({"output": arguments.output, "bytes": page.len()});
        println!("{}", serde_json::to_string_pretty(&written)?);
    } else {
        eprintln!("wrote `{}`", arguments.output.display());
    }
    Ok(ExitCode::SUCCESS)
}
