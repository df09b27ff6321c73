//! The `forebay` command. Data goes to stdout, words to stderr; exit codes are 0, 1 (failed) and
//! 2 (wrong usage).
#![forbid(unsafe_code)]

mod bench;
mod cat;
mod doctor;
mod emulate;
mod export;
mod fabric;
mod failure;
mod flatten;
mod index;
mod ls;
mod members;
mod mount;
mod names;
mod output;
mod outside;
mod preload;
mod progress;
mod records;
mod report;
mod run;
mod serve;
mod status;
mod stores;
mod tiers;
mod verify;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;

/// Keeps GPUs fed: stages training data block by block on node-local storage.
#[derive(Parser)]
#[command(version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Index(index::Arguments),
    Flatten(flatten::Arguments),
    Ls(ls::Arguments),
    Publish(names::PublishArguments),
    Unpublish(names::UnpublishArguments),
    Consume(names::ConsumeArguments),
    Cat(cat::Arguments),
    Verify(verify::Arguments),
    Export(export::Arguments),
    Serve(serve::Arguments),
    Run(run::Arguments),
    Status(status::Arguments),
    Doctor(doctor::Arguments),
    Stop(status::StopArguments),
    Mount(mount::Arguments),
    Emulate(emulate::Arguments),
    Report(report::Arguments),
    Tiers(tiers::Arguments),
    Bench(bench::Arguments),
    Fabric(fabric::Arguments),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Index(arguments) => index::run(&arguments),
        Command::Flatten(arguments) => flatten::run(&arguments),
        Command::Ls(arguments) => ls::run(&arguments),
        Command::Publish(arguments) => names::run_publish(&arguments),
        Command::Unpublish(arguments) => names::run_unpublish(&arguments),
        Command::Consume(arguments) => names::run_consume(&arguments),
        Command::Cat(arguments) => cat::run(&arguments),
        Command::Verify(arguments) => verify::run(&arguments),
        Command::Export(arguments) => export::run(&arguments),
        Command::Serve(arguments) => serve::run(&arguments),
        Command::Run(arguments) => match run::run(&arguments) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Doctor(arguments) => match doctor::run(&arguments) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Bench(arguments) => match bench::run(&arguments) {
            Ok(code) => return code,
            Err(failure) => Err(failure),
        },
        Command::Status(arguments) => status::run(&arguments),
        Command::Stop(arguments) => status::run_stop(&arguments),
        Command::Mount(arguments) => mount::run(&arguments),
        Command::Emulate(arguments) => emulate::run(arguments),
        Command::Report(arguments) => report::run(&arguments),
        Command::Tiers(arguments) => tiers::run(&arguments),
        Command::Fabric(arguments) => fabric::run(&arguments),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => failure.show(),
    }
}
