//! Options that every benchmark has, and how a list of runs is done.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use clap::Args;
use clap::builder::PossibleValuesParser;
use forebay_analysis::suite::RunSummary;
use forebay_analysis::table;
use forebay_bench::launch::{self, Outcome, Ranks};
use forebay_bench::plan::{Config, Options};
use forebay_bench::spec::{Backend, DropCache, Engine, Fsync, Interface, Launcher, RunSpec};
use forebay_bench::{Registry, Stop};
use serde_json::{Value, json};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};

use super::screen::Screen;
use crate::Failure;

/// Exit status of a run that a signal ended, as shells have it for Ctrl-C.
const INTERRUPTED: u8 = 130;

#[derive(Args)]
pub(super) struct CommonArguments {
    /// Folder on the file system to test; a work folder is made in it, and removed
    #[arg(long, value_name = "DIR")]
    dataset_path: Option<PathBuf>,
    /// Folder of results [default: forebay-bench-results]
    #[arg(long, value_name = "DIR")]
    output_dir: Option<PathBuf>,
    /// Take options and parameters from this file, TOML or JSON; what is said here comes first
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// Iterations that are measured [default: 10]
    #[arg(long)]
    iterations: Option<u32>,
    /// Iterations before them that are not [default: 1]
    #[arg(long)]
    warmup: Option<u32>,
    /// Seed of content and orders [default: 0]
    #[arg(long)]
    seed: Option<u64>,
    /// How files are reached: native and mount by system calls, client in the rank's own process
    /// [default: native]
    #[arg(long, value_parser = PossibleValuesParser::new(Interface::WORDS))]
    interface: Option<String>,
    /// What does the work of a checkpoint benchmark [default: torch; the suite takes native where
    /// there is no PyTorch]
    #[arg(long, value_parser = PossibleValuesParser::new(&Engine::WORDS[..2]))]
    engine: Option<String>,
    /// Take files out of the page cache before they are read; verify: and fail where they stay
    #[arg(long, value_parser = PossibleValuesParser::new(DropCache::WORDS))]
    drop_cache: Option<String>,
    /// What is written through inside the timed part [default: file for checkpoints, else none]
    #[arg(long, value_parser = PossibleValuesParser::new(Fsync::WORDS))]
    fsync: Option<String>,
    /// Ranks to start on this machine; under a launcher its own count [default: 1]
    #[arg(long)]
    ranks: Option<u32>,
    /// What starts the ranks; for all but local this command is one of them [default: local]
    #[arg(long, value_parser = PossibleValuesParser::new(Launcher::WORDS))]
    launcher: Option<String>,
    /// How ranks find each other: env, or a new folder that all see
    #[arg(long, value_name = "env|file:PATH")]
    dist_init: Option<String>,
    /// What carries PyTorch's collective calls [default: auto]
    #[arg(long, value_parser = PossibleValuesParser::new(Backend::WORDS))]
    backend: Option<String>,
    /// A Python file with benchmarks of your own
    #[arg(long, value_name = "FILE")]
    pub(super) module: Option<PathBuf>,
    /// Leave the files of the last iteration where they are
    #[arg(long)]
    keep_data: bool,
    /// End at the first benchmark that fails
    #[arg(long)]
    fail_on_error: bool,
    /// Time whole iterations only
    #[arg(long)]
    no_op_times: bool,
    /// Seconds that one benchmark may take [default: 3600]
    #[arg(long)]
    timeout_s: Option<u64>,
    /// Print what would be run as JSON, and touch nothing
    #[arg(long)]
    pub(super) dry_run: bool,
    /// Print results as JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl CommonArguments {
    /// What is said on the command line.
    fn options(&self) -> Options {
        let is_set = |flag: bool| flag.then_some(true);
        Options {
            dataset_path: self.dataset_path.clone(),
            output_dir: self.output_dir.clone(),
            iterations: self.iterations,
            warmup: self.warmup,
            seed: self.seed,
            interface: self.interface.as_deref().and_then(Interface::parse),
            engine: self.engine.as_deref().and_then(Engine::parse),
            drop_cache: self.drop_cache.as_deref().and_then(DropCache::parse),
            fsync: self.fsync.as_deref().and_then(Fsync::parse),
            ranks: self.ranks,
            launcher: self.launcher.as_deref().and_then(Launcher::parse),
            dist_init: self.dist_init.clone(),
            backend: self.backend.as_deref().and_then(Backend::parse),
            module: self.module.clone(),
            keep_data: is_set(self.keep_data),
            fail_on_error: is_set(self.fail_on_error),
            time_ops: self.no_op_times.then_some(false),
            timeout_s: self.timeout_s,
        }
    }

    /// The configuration, with what is said on the command line over it.
    pub(super) fn read(&self) -> Result<Config, Failure> {
        let mut config = match &self.config {
            Some(path) => Config::read(path).map_err(of_bench)?,
            None => Config::default(),
        };
        config.options = self.options().or(std::mem::take(&mut config.options));
        Ok(config)
    }
}

/// The failure of a benchmark, with the exit code that it has.
pub(super) fn of_bench(error: forebay_bench::BenchError) -> Failure {
    if error.is_usage() {
        Failure::usage(error.to_string())
    } else {
        Failure::from(error)
    }
}

/// A stop that signals set. The second signal ends this process at once.
pub(super) fn stop_at_signals() -> Result<Stop, Failure> {
    let again = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        let ends = signal_hook::flag::register_conditional_shutdown;
        ends(signal, INTERRUPTED.into(), Arc::clone(&again))?;
        signal_hook::flag::register(signal, Arc::clone(&again))?;
    }
    stop_of_rank()
}

/// The same for a rank, which a terminal and its runner both send a signal.
pub(super) fn stop_of_rank() -> Result<Stop, Failure> {
    let stop = Stop::default();
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        signal_hook::flag::register_usize(signal, stop.flag(), Stop::INTERRUPTED)?;
    }
    Ok(stop)
}

/// Runs a list of benchmarks, one after the other, and prints how they ended.
pub(super) fn run_all(
    registry: &Registry,
    specs: Vec<RunSpec>,
    output_dir: &std::path::Path,
    stop: &Stop,
    json: bool,
) -> Result<ExitCode, Failure> {
    let program = std::env::current_exe()?;
    let mut shown = Vec::new();
    let mut passed = true;
    for (number, spec) in (0u32..).zip(specs) {
        let (fail_on_error, launcher) = (spec.fail_on_error, spec.launcher);
        let mut screen = Screen::new(&spec);
        let mut watch = |event| screen.show(event);
        let outcome = if launcher == Launcher::Local {
            let ranks = Ranks {
                program: program.clone(),
                stop,
            };
            launch::run_local(&spec, output_dir, &ranks, &mut watch)
        } else {
            launch::run_in_job(registry, spec, output_dir, number, stop, &mut watch)
        };
        screen.end();
        let outcome = outcome.map_err(of_bench)?;
        passed &= outcome.error.is_none();
        for note in &outcome.notes {
            eprintln!("note: {note}");
        }
        if let Some(error) = &outcome.error {
            eprintln!("error: {}: {error}", outcome.spec.benchmark);
        }
        if json {
            shown.push(as_json(&outcome));
        } else if outcome.run.is_some() || outcome.error.is_some() {
            print_outcome(&outcome);
        }
        if stop.check(0).is_err() || (fail_on_error && outcome.error.is_some()) {
            break;
        }
    }
    if json {
        let status = if passed { "pass" } else { "fail" };
        let all = json!({"schema": 1, "status": status, "runs": shown});
        println!("{}", serde_json::to_string_pretty(&all)?);
    }
    Ok(match (stop.check(0), passed) {
        (Err(_), _) => ExitCode::from(INTERRUPTED),
        (Ok(()), true) => ExitCode::SUCCESS,
        (Ok(()), false) => ExitCode::from(1),
    })
}

fn as_json(outcome: &Outcome) -> Value {
    let summary = outcome.run.as_ref().map(RunSummary::of);
    json!({
        "benchmark": outcome.spec.benchmark,
        "run_id": outcome.spec.run_id,
        "status": if outcome.error.is_none() { "pass" } else { "fail" },
        "error": outcome.error,
        "folder": outcome.folder,
        "work_dir": outcome.spec.keep_data.then_some(&outcome.spec.work_dir),
        "notes": outcome.notes,
        "summary": summary,
    })
}

fn print_outcome(outcome: &Outcome) {
    if let Some(run) = &outcome.run {
        print!("{}", table::suite_run(&RunSummary::of(run)));
    }
    println!("{}", outcome.folder.display());
    if outcome.spec.keep_data && outcome.error.is_none() {
        println!("data kept in {}", outcome.spec.work_dir.display());
    }
    println!();
}

/// A failure before anything ran, as the document that was asked for.
pub(super) fn told(result: Result<ExitCode, Failure>, json: bool) -> Result<ExitCode, Failure> {
    if json && let Err(failure) = &result {
        let text = failure.to_string();
        let error = text.strip_prefix("error: ").unwrap_or(&text);
        println!(
            "{}",
            json!({"schema": 1, "status": "fail", "error": error, "runs": []})
        );
    }
    result
}
