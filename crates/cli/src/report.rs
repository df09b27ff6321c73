//! `forebay report`

use std::fs::File;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use forebay_analysis::{Run, RunReader, Window, report, table};

use crate::Failure;

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
    #[arg(long)]
    window: Option<f64>,
    /// Path that the others are compared with [default: direct]
    #[arg(long)]
    baseline: Option<String>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let run = read(&arguments.records)?;
    let window = arguments.window.map_or(Window::OwnEpoch, Window::Given);
    let summary = run.summary(&window, arguments.baseline.as_deref());
    if let Some(path) = &arguments.output {
        let page = path.canonicalize().ok();
        let is_page = |records: &&PathBuf| page.is_some() && records.canonicalize().ok() == page;
        if let Some(records) = arguments.records.iter().find(is_page) {
            let message = format!("the page would replace the records `{}`", records.display());
            return Err(Failure::usage(message).hint("name another file with --output"));
        }
        let options = report::ReportOptions {
            title: arguments.title.clone(),
            window,
            baseline: arguments.baseline.clone(),
            ..report::ReportOptions::default()
        };
        write_whole(path, &report::render(&run, &options))?;
        eprintln!("wrote `{}`", path.display());
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", table::epochs(&summary));
    }
    Ok(())
}

fn read(files: &[PathBuf]) -> Result<Run, Failure> {
    let mut reader = RunReader::default();
    for path in files {
        let shown = path.display();
        let file = File::open(path)
            .map_err(|error| Failure::new(format!("cannot open records `{shown}`: {error}")))?;
        reader
            .read(BufReader::new(file))
            .map_err(|error| Failure::new(format!("cannot use records `{shown}`: {error}")))?;
    }
    let names: Vec<String> = files.iter().map(|path| format!("`{}`", path.display())).collect();
    reader.finish().map_err(|error| {
        Failure::new(format!("cannot use records {}: {error}", names.join(", ")))
    })
}

/// The page is there whole or not at all.
fn write_whole(path: &Path, page: &str) -> Result<(), Failure> {
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let written = File::create(&partial)
        .and_then(|mut file| file.write_all(page.as_bytes()))
        .and_then(|()| std::fs::rename(&partial, path));
    written
        .map_err(|error| Failure::new(format!("cannot write report `{}`: {error}", path.display())))
}
