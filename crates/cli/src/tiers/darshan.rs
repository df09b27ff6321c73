//! `forebay tiers darshan`

use std::io::{self, BufWriter, Write};
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
    let mut out = BufWriter::new(io::stdout().lock());
    let mut failures = Vec::new();
    let mut gap = "";
    logs::each(&arguments.logs, |path, read| {
        let shown = path.display().to_string();
        let log = match read {
            Ok(Some(log)) => log,
            Ok(None) => {
                failures.push(Failure::new(format!("`{shown}` is no Darshan log")));
                return Ok(());
            }
            Err(failure) => {
                failures.push(failure);
                return Ok(());
            }
        };
        let text = if arguments.json {
            for fault in &log.faults {
                eprintln!("note: `{shown}`: {fault}");
            }
            let named = Named {
                file: &shown,
                log: &log,
            };
            serde_json::to_string(&named)? + "\n"
        } else {
            let text = table::darshan(&shown, &log, arguments.top);
            std::mem::replace(&mut gap, "\n").to_owned() + &text
        };
        written(out.write_all(text.as_bytes()))
    })?;
    written(out.flush())?;
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
