//! `forebay tiers classes`

use std::io::{self, Write};

use clap::Args;
use forebay_analysis::table;
use forebay_analysis::tiers::{Study, Summary};
use serde_json::{Value, json};

use super::input::Input;
use crate::Failure;
use crate::ls::written;

/// Show the I/O time of each process by tier and kind of operation, and the slowest process
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    input: Input,
    /// Slowest processes of each epoch to list
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// Print every process and the slowest of each epoch as JSON
    #[arg(long, conflicts_with_all = ["csv", "top"])]
    json: bool,
    /// Print the slowest process of each epoch as CSV, a line for each class
    #[arg(long)]
    csv: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let study = arguments.input.study()?;
    let text = if arguments.json {
        serde_json::to_string_pretty(&as_json(&study))? + "\n"
    } else if arguments.csv {
        Summary::new(&study).csv()
    } else {
        table::classes(&study, arguments.top)
    };
    written(io::stdout().lock().write_all(text.as_bytes()))
}

fn as_json(study: &Study) -> Value {
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
    json!({
        "slowest": Summary::new(study),
        "points": points.collect::<Vec<_>>(),
        "unread": study.unread.sentences(),
    })
}
