//! `forebay report`

use std::path::PathBuf;

use clap::Args;
use forebay_analysis::{RunReader, Window, report, table};

use crate::Failure;
use crate::{output, records};

/// Turn the raw records of a run into a table, JSON or a page.
#[derive(Args)]
pub(crate) struct Arguments {
    /// JSON lines, as docs/RECORDS.md describes them: one file, or one of each rank of a run
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// Write a self-contained HTML page here
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Title of the page
    #[arg(long, default_value = "Training with and without Forebay")]
    title: String,
    /// Compute window in seconds [default: of each epoch, the median of total minus wait]
    #[arg(long, value_parser = seconds)]
    window: Option<f64>,
    /// Path that the others are compared with [default: direct]
    #[arg(long)]
    baseline: Option<String>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds = text.parse::<f64>().ok();
    let positive = seconds.filter(|seconds| seconds.is_finite() && *seconds > 0.0);
    positive.ok_or_else(|| format!("`{text}` is no number of seconds above 0"))
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let run = records::read_all(&arguments.records, RunReader::read, RunReader::finish)?;
    let window = arguments.window.map_or(Window::OwnEpoch, Window::Given);
    let summary = run.summary(&window, arguments.baseline.as_deref());
    if let Some(path) = &arguments.output {
        output::must_not_replace(path, &arguments.records)?;
        let options = report::ReportOptions {
            title: arguments.title.clone(),
            window,
            baseline: arguments.baseline.clone(),
            ..report::ReportOptions::default()
        };
        output::write_whole(path, report::render(&run, &options).as_bytes())?;
        eprintln!("wrote `{}`", path.display());
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", table::epochs(&summary));
    }
    Ok(())
}
