//! `forebay bench history`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_analysis::suite::{
    DivisiveOptions, HistoryOptions, Metric, OpHistory, history as changes_of,
};
use forebay_analysis::table;
use serde_json::json;

use super::runs;
use crate::Failure;

/// Find the runs at which an operation changed, in a folder of many.
#[derive(Args)]
#[command(
    after_help = "Exit codes: 0; 1 with --fail-recent where an operation became slower; 2 where the \
                  runs cannot be used. docs/VERDICTS.md describes the method."
)]
pub(crate) struct Arguments {
    /// Folder that holds the runs
    folder: PathBuf,
    /// What an iteration is reduced to: max_rank, mean, p50, p90, p99 or max
    #[arg(long, default_value_t)]
    metric: Metric,
    /// Runs that are looked at together
    #[arg(long, value_name = "RUNS", default_value_t = DivisiveOptions::default().window)]
    window: usize,
    /// Chance of a change without a cause that is accepted, at each run
    #[arg(long, default_value_t = DivisiveOptions::default().max_p)]
    max_p: f64,
    /// The least change that is shown, in percent
    #[arg(long, value_name = "PERCENT", default_value_t = 5.0)]
    least_effect: f64,
    /// Only these operations; may be repeated
    #[arg(long, value_name = "NAME")]
    op: Vec<String>,
    /// Exit with 1 where an operation became slower within so many last runs
    #[arg(long, value_name = "RUNS")]
    fail_recent: Option<usize>,
    /// Print every series and its changes as JSON
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let runs =
        runs::many(&arguments.folder, Some(arguments.metric)).map_err(Failure::into_usage)?;
    if !(arguments.max_p > 0.0 && arguments.max_p < 1.0) {
        let message = format!("`--max-p` must be between 0 and 1: {}", arguments.max_p);
        return Err(Failure::usage(message));
    }
    if !(0.0..=1_000.0).contains(&arguments.least_effect) {
        let message = format!(
            "`--least-effect` must be between 0 and 1000 percent: {}",
            arguments.least_effect
        );
        return Err(Failure::usage(message));
    }
    let options = HistoryOptions {
        metric: arguments.metric,
        divisive: DivisiveOptions {
            window: arguments.window,
            max_p: arguments.max_p,
            least_effect: arguments.least_effect / 100.0,
        },
    };
    let (mut found, failed) = changes_of(&runs, &options);
    if !arguments.op.is_empty() {
        found.retain(|one| arguments.op.contains(&one.op));
    }
    if arguments.json {
        let all = json!({"metric": arguments.metric, "failed_runs": failed, "series": found});
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print!("{}", table::history(&found, failed));
    }
    let alarm = arguments
        .fail_recent
        .is_some_and(|recent| found.iter().any(|one| became_slower(one, recent)));
    Ok(ExitCode::from(u8::from(alarm)))
}

/// Whether one of the last runs begins a slower level.
fn became_slower(one: &OpHistory, recent: usize) -> bool {
    let first = one.runs.len().saturating_sub(recent);
    let slower = |change: &forebay_analysis::suite::Change| {
        change.point.index >= first && change.relative > 0.0
    };
    one.changes.iter().any(slower)
}
