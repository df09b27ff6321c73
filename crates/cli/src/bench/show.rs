//! `forebay bench show`

use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, ValueEnum};
use forebay_analysis::suite::RunSummary;
use forebay_analysis::table;

use super::runs;
use crate::Failure;

/// Show one run over all its ranks.
#[derive(Args)]
pub(crate) struct Arguments {
    /// Folder of the run, with a `rank-*.json` for each rank
    run: PathBuf,
    /// Show every rank, or every iteration, of each operation
    #[arg(long, value_enum)]
    by: Option<By>,
    /// Print the summary as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum By {
    /// Each rank with its host
    Rank,
    /// Each iteration with its slowest rank
    Iteration,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let run = runs::one(&arguments.run)?;
    let summary = RunSummary::of(&run);
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&summary)?);
        return Ok(ExitCode::SUCCESS);
    }
    match arguments.by {
        None => print!("{}", table::suite_run(&summary)),
        Some(By::Rank) => print!("{}", table::suite_ranks(&run)),
        Some(By::Iteration) => print!("{}", table::suite_iterations(&summary)),
    }
    Ok(ExitCode::SUCCESS)
}
