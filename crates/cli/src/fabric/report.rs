//! `forebay fabric report`

use std::path::PathBuf;

use clap::Args;
use forebay_analysis::fabric::StudyReader;
use forebay_analysis::{report, table};

use crate::Failure;
use crate::{output, records};

/// Show what the records of a study say, as tables, JSON or a page.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder with the records, as `forebay fabric` leaves them, or single files
    #[arg(required = true)]
    records: Vec<PathBuf>,
    /// Write a self-contained HTML page here
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Title of the page
    #[arg(long)]
    title: Option<String>,
    /// A sentence on what the study does not show; repeat it
    #[arg(long, value_name = "SENTENCE")]
    not_shown: Vec<String>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let files = files(&arguments.records)?;
    let study = records::read_all(&files, StudyReader::read, StudyReader::finish)?;
    let summary = study.summary();
    if let Some(path) = &arguments.output {
        output::must_not_replace(path, &files)?;
        let mut options = report::fabric::FabricReportOptions::default();
        if let Some(title) = &arguments.title {
            options.title.clone_from(title);
        }
        options.not_shown.clone_from(&arguments.not_shown);
        output::write_whole(path, report::fabric::render(&study, &options).as_bytes())?;
        eprintln!("wrote `{}`", path.display());
    }
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
    } else {
        print!("{}", table::fabric(&summary));
    }
    Ok(())
}

/// The files named, and those of records in the folders named.
fn files(named: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut found = Vec::new();
    for path in named {
        if !path.is_dir() {
            found.push(path.clone());
            continue;
        }
        let cannot = |error| Failure::new(format!("cannot list `{}`: {error}", path.display()));
        let before = found.len();
        for entry in std::fs::read_dir(path).map_err(cannot)? {
            let file = entry.map_err(cannot)?.path();
            if file.extension().is_some_and(|ending| ending == "jsonl") {
                found.push(file);
            }
        }
        if found.len() == before {
            let shown = path.display();
            return Err(
                Failure::new(format!("there are no records (`.jsonl`) in `{shown}`"))
                    .hint("`forebay fabric allreduce --out DIR` and `train` leave them in DIR"),
            );
        }
    }
    found.sort();
    Ok(found)
}
