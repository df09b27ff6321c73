//! `forebay fabric`

mod python;
mod report;

use std::ffi::OsString;

use clap::{Args, Subcommand};

use crate::Failure;

/// Measure what storage traffic does to collectives and to training, on your own nodes.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// All-reduces without and with I/O beside them, tier by tier (`--help` after it tells more)
    #[command(disable_help_flag = true)]
    Allreduce(Words),
    /// The stages of a real training loop, tier by tier (`--help` after it tells more)
    #[command(disable_help_flag = true)]
    Train(Words),
    /// Make the samples that both read in a folder (`--help` after it tells more)
    #[command(disable_help_flag = true)]
    Data(Words),
    Report(report::Arguments),
}

/// Arguments that the Python package checks, since the loops run there.
#[derive(Args)]
struct Words {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    words: Vec<OsString>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.command {
        Command::Allreduce(words) => python::run("allreduce", &words.words),
        Command::Train(words) => python::run("train", &words.words),
        Command::Data(words) => python::run("data", &words.words),
        Command::Report(arguments) => report::run(arguments),
    }
}
