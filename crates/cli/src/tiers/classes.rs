//! `forebay tiers classes`

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use forebay_analysis::table;
use forebay_analysis::tiers::{Study, Summary};
use serde_json::{Value, json};

use super::input::{Found, Input};
use crate::Failure;
use crate::ls::written;
use crate::output;

/// Show the I/O time of each process by tier and kind of operation, and the slowest process
#[derive(Args)]
#[command(
    after_help = "READ is time in reads; META in open, close, seek and stat. Files of no tier are \
                  `other`: listed, and no part of a total. docs/TIERS.md says more."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Slowest processes of each epoch, and other files, to list
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// Print every process, the slowest of each epoch and all warnings as JSON
    #[arg(long, conflicts_with_all = ["csv", "top"])]
    json: bool,
    /// Print the slowest process of each epoch as CSV, a line for each class
    #[arg(long)]
    csv: bool,
    /// Write the table as records, for `forebay tiers whatif` and `report`
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let found = arguments.input.read()?;
    if let Some(path) = &arguments.records {
        output::must_not_replace(path, &arguments.input.files)?;
        let mut records = Vec::new();
        found.study.write(&mut records)?;
        output::write_whole(path, &records)?;
        eprintln!("wrote `{}`", path.display());
    }
    let text = if arguments.json {
        serde_json::to_string_pretty(&as_json(&found))? + "\n"
    } else if arguments.csv {
        Summary::new(&found.study).csv()
    } else {
        let classes = table::classes(&found.study, arguments.top);
        classes + &table::other(&found.other, arguments.top)
    };
    written(io::stdout().lock().write_all(text.as_bytes()))
}

fn as_json(found: &Found) -> Value {
    json!({
        "slowest": Summary::new(&found.study),
        "points": points(&found.study),
        "other": found.other,
        "warnings": found.warnings,
    })
}

fn points(study: &Study) -> Vec<Value> {
    let points = study.setups.iter().flat_map(|setup| {
        setup.points.iter().map(|point| {
            json!({
                "setup": setup.name,
                "rate_percent": point.rate,
                "classes": point.table.classes(),
                "processes": point.table,
            })
        })
    });
    points.collect()
}
