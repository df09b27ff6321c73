//! `forebay bench`: runs of the storage suite, and what they say.

mod compare;
mod history;
mod report;
mod runs;
mod show;

use std::process::ExitCode;

use clap::{Args, Subcommand};

use crate::Failure;

/// Measure storage as AI research uses it, and say whether it became slower.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Show(show::Arguments),
    Compare(compare::Arguments),
    History(history::Arguments),
    Report(report::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::Show(arguments) => show::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::History(arguments) => history::run(arguments),
        Command::Report(arguments) => report::run(arguments),
    }
}
