//! `forebay tiers darshan`

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use forebay_analysis::table;
use forebay_darshan::Log;
use serde::Serialize;

use super::logs;
use crate::Failure;
use crate::ls::written;

/// Show what Darshan logs hold: job, mounts, modules and the records of files
#[derive(Args)]
pub(crate) struct Arguments {
    /// Darshan logs
    #[arg(required = true, value_name = "LOG")]
    logs: Vec<PathBuf>,
    /// Files of each log to list, those with the most I/O time first
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
    /// Print everything: one JSON object a line for each log
    #[arg(long, conflicts_with = "top")]
    json: bool,
}

/// Reads and shows one log after the other. A log that cannot be read fails the command after
/// the others were shown.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let mut failures = Vec::new();
    for (place, path) in arguments.logs.iter().enumerate() {
        let log = match logs::read(path) {
            Ok(log) => log,
            Err(failure) => {
                failures.push(failure);
                continue;
            }
        };
        let shown = path.display().to_string();
        for fault in &log.faults {
            eprintln!("note: `{shown}`: {fault}");
        }
        let text = if arguments.json {
            let named = Named {
                file: &shown,
                log: &log,
            };
            serde_json::to_string(&named)? + "\n"
        } else {
            let gap = if place > 0 { "\n" } else { "" };
            format!("{gap}{}", table::darshan(&shown, &log, arguments.top))
        };
        if let Err(error) = out.write_all(text.as_bytes()) {
            return written(Err(error));
        }
    }
    let last = failures.pop();
    for failure in failures {
        failure.show();
    }
    last.map_or(Ok(()), Err)
}

/// A log with the name of its file.
#[derive(Serialize)]
struct Named<'a> {
    file: &'a str,
    #[serde(flatten)]
    log: &'a Log,
}
