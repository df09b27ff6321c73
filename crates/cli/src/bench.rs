//! `forebay bench`: the storage suite run, and what its runs say.

mod common;
mod compare;
mod history;
mod list;
mod params;
mod rank;
mod report;
mod run;
mod runs;
mod screen;
mod show;
mod suite;

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
    List(list::Arguments),
    Run(Box<run::Arguments>),
    Suite(Box<suite::Arguments>),
    Show(show::Arguments),
    Compare(compare::Arguments),
    History(history::Arguments),
    Report(report::Arguments),
    #[command(hide = true)]
    Rank(rank::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    match &arguments.command {
        Command::List(arguments) => list::run(arguments),
        Command::Run(arguments) => run::run(arguments),
        Command::Suite(arguments) => suite::run(arguments),
        Command::Show(arguments) => show::run(arguments),
        Command::Compare(arguments) => compare::run(arguments),
        Command::History(arguments) => history::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Rank(arguments) => rank::run(arguments),
    }
}
