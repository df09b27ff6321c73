//! `forebay tiers`

mod classes;
mod darshan;
mod input;
mod logs;
mod plan;
mod report;
mod sweep;
mod whatif;

use clap::{Args, Subcommand};

use crate::Failure;

/// Analyse storage tiers: where I/O time goes, what faster storage would give, what to plan.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Darshan(darshan::Arguments),
    Classes(classes::Arguments),
    Whatif(whatif::Arguments),
    Report(report::Arguments),
    Plan(plan::Arguments),
    Sweep(sweep::Arguments),
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Darshan(arguments) => darshan::run(arguments),
        Command::Classes(arguments) => classes::run(arguments),
        Command::Report(arguments) => report::run(arguments),
        Command::Whatif(arguments) => whatif::run(arguments),
        Command::Plan(arguments) => plan::run(arguments),
        Command::Sweep(arguments) => sweep::run(arguments),
    }
}
