//! `forebay bench rank`: one rank of a run, which `forebay bench run` starts.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forebay_analysis::suite::Status;
use forebay_bench::{Registry, launch};

use super::common::{of_bench, stop_of_rank};
use crate::Failure;

/// Be one rank of a run.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The run's settings
    run: PathBuf,
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let stop = stop_of_rank()?;
    let manifest =
        launch::run_rank(&Registry::standard(), &arguments.run, &stop).map_err(of_bench)?;
    Ok(match manifest.status {
        Status::Pass => ExitCode::SUCCESS,
        Status::Fail => ExitCode::from(1),
    })
}
