//! Mounts an emulated tier and adjusts it, over the library's public items alone.
//!
//! ```text
//! emulate mount SRC MOUNT --profile lustre --scale 0.1
//! emulate ctl MOUNT set read.median_ms=5
//! emulate ctl MOUNT fault eio --path '*.h5' --probability 0.1
//! emulate ctl MOUNT status
//! emulate simulate --profile lustre
//! ```

use std::error::Error as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use forebay_emulate::simulate::{Loader, Loop, simulate};
use forebay_emulate::{Control, EmulateOptions, FaultRule, ProfileSettings, Result, serve};

#[derive(Parser)]
enum Cli {
    /// Mount SRC on MOUNT and serve until a signal or an unmount.
    Mount {
        source: PathBuf,
        mount: PathBuf,
        /// A built-in profile (lustre, vast, nvme) or a TOML file.
        #[arg(long, default_value = "nvme")]
        profile: String,
        /// Multiply all times.
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Another seed for every draw.
        #[arg(long)]
        seed: Option<u64>,
        /// Let the kernel cache file bytes.
        #[arg(long)]
        page_cache: bool,
        /// Seconds the kernel may keep names and attributes.
        #[arg(long, default_value_t = 1.0)]
        ttl: f64,
        /// Let other users in.
        #[arg(long)]
        allow_other: bool,
        /// Write a JSON line for each request.
        #[arg(long)]
        trace: Option<PathBuf>,
    },
    /// Adjust a mount while it runs.
    Ctl {
        mount: PathBuf,
        #[command(subcommand)]
        command: Ctl,
    },
    /// Work out what a profile does to a training loop.
    Simulate {
        #[arg(long, default_value = "lustre")]
        profile: String,
        /// Reads of a sample.
        #[arg(long, default_value_t = 30)]
        reads: u32,
        #[arg(long, default_value_t = 8)]
        workers: u32,
        #[arg(long, default_value_t = 5120)]
        iterations: u32,
        /// A worker loads a whole batch, as PyTorch's do, this many batches ahead.
        #[arg(long)]
        prefetch: Option<u32>,
    },
}

#[derive(Subcommand)]
enum Ctl {
    /// Set fields: `read.median_ms=5`.
    Set { assignments: Vec<String> },
    /// Add a fault: eio, short, hang or changed.
    Fault {
        kind: String,
        #[arg(long)]
        path: Option<String>,
        #[arg(long)]
        probability: Option<f64>,
        #[arg(long)]
        nth: Option<u64>,
    },
    /// Remove every fault, release what hangs.
    Clear,
    /// Release what hangs.
    Release,
    /// Show counts and settings.
    Status,
}

fn main() -> ExitCode {
    match run(Cli::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprint!("error: {error}");
            let mut cause = error.source();
            while let Some(next) = cause {
                eprint!(": {next}");
                cause = next.source();
            }
            eprintln!();
            ExitCode::FAILURE
        }
    }
}

fn run(cli: Cli) -> Result<()> {
    match cli {
        Cli::Mount {
            source,
            mount,
            profile,
            scale,
            seed,
            page_cache,
            ttl,
            allow_other,
            trace,
        } => {
            let mut settings = ProfileSettings::load(&profile)?.scaled(scale);
            settings.seed = seed.unwrap_or(settings.seed);
            let mut options = EmulateOptions::new(source, mount, settings);
            options.page_cache = page_cache;
            options.attribute_ttl = Duration::try_from_secs_f64(ttl).unwrap_or_default();
            options.allow_other = allow_other;
            options.trace = trace;
            serve(&options, |mounted| {
                eprintln!("mounted on {}", mounted.mount_point().display())
            })
        }
        Cli::Ctl { mount, command } => control(&Control::connect(&mount)?, command),
        Cli::Simulate {
            profile,
            reads,
            workers,
            iterations,
            prefetch,
        } => {
            let profile = ProfileSettings::load(&profile)?.resolve()?;
            let loader =
                prefetch.map_or(Loader::SplitBatch, |batches| Loader::WholeBatch { batches });
            let training = Loop {
                iterations,
                reads_per_sample: reads,
                workers,
                loader,
                ..Loop::default()
            };
            let found = simulate(&profile, &training);
            println!(
                "{}",
                serde_json::to_string_pretty(&found).unwrap_or_default()
            );
            Ok(())
        }
    }
}

fn control(control: &Control, command: Ctl) -> Result<()> {
    let status = match command {
        Ctl::Set { assignments } => control.set(&assignments)?,
        Ctl::Fault {
            kind,
            path,
            probability,
            nth,
        } => {
            let kind = serde_json::from_value(kind.as_str().into())
                .map_err(|_| forebay_emulate::Error::Refused(format!("no fault kind `{kind}`")))?;
            control.fault(FaultRule {
                path,
                probability,
                nth,
                ..FaultRule::new(kind)
            })?
        }
        Ctl::Clear => control.clear()?,
        Ctl::Release => control.release()?,
        Ctl::Status => control.status()?,
    };
    println!(
        "{}",
        serde_json::to_string_pretty(&status).unwrap_or_default()
    );
    Ok(())
}
