//! `forebay emulate`

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand};
use forebay_emulate::simulate::{Loop, simulate};
use forebay_emulate::{Control, EmulateOptions, FaultKind, FaultRule, ProfileSettings, serve};

use crate::Failure;

/// Mount a folder read-only as a slow tier: drawn latencies, a bandwidth cap, faults.
#[derive(Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Runs until a signal or an unmount. docs/EMULATE.md describes profiles and faults."
)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    control: Option<Ctl>,
    #[command(flatten)]
    mount: Option<Mount>,
}

#[derive(Args)]
struct Mount {
    /// The folder to serve
    source: PathBuf,
    /// The folder to mount on
    mount: PathBuf,
    /// lustre, vast, nvme, or a TOML file
    #[arg(long, default_value = "lustre")]
    profile: String,
    /// Multiply all times
    #[arg(long, default_value_t = 1.0)]
    scale: f64,
    /// Another seed for every draw
    #[arg(long)]
    seed: Option<u64>,
    /// Let the kernel cache file bytes
    #[arg(long)]
    page_cache: bool,
    /// Seconds for which the kernel may keep names and attributes
    #[arg(long, default_value_t = 1.0)]
    ttl: f64,
    /// Let other users in
    #[arg(long)]
    allow_other: bool,
    /// Write a JSON line for each request here
    #[arg(long)]
    trace: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Ctl {
    /// Adjust a mount while it runs
    Ctl {
        /// The folder that is mounted on
        mount: PathBuf,
        #[command(subcommand)]
        action: Action,
    },
    /// Work out what a profile does to a training loop, without a mount
    Simulate {
        /// lustre, vast, nvme, or a TOML file
        profile: String,
        /// Multiply all times
        #[arg(long, default_value_t = 1.0)]
        scale: f64,
        /// Iterations to draw
        #[arg(long, default_value_t = 5120)]
        iterations: u32,
    },
}

#[derive(Subcommand)]
enum Action {
    /// Set values, such as read.median_ms=5
    Set {
        /// `NAME=VALUE`; `status` shows the names
        #[arg(required = true)]
        assignments: Vec<String>,
    },
    /// Add a fault: eio, short, hang or changed
    Fault {
        /// `eio`: reads fail, `short`: they end early, `hang`: they wait, `changed`: the file is another
        #[arg(value_parser = fault_kind)]
        kind: FaultKind,
        /// Only for paths below the source that match
        #[arg(long)]
        path: Option<String>,
        /// Share of the requests that are struck
        #[arg(long)]
        probability: Option<f64>,
        /// Only the nth matching request
        #[arg(long)]
        nth: Option<u64>,
        /// hang: seconds until the request goes on by itself
        #[arg(long)]
        max_hang: Option<f64>,
    },
    /// Remove every fault and release what hangs
    Clear,
    /// Release what hangs
    Release,
    /// Show counts, delays and settings as JSON
    Status,
}

fn fault_kind(text: &str) -> Result<FaultKind, String> {
    serde_json::from_value(text.into()).map_err(|_| "must be eio, short, hang or changed".into())
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match (arguments.control, arguments.mount) {
        (Some(Ctl::Ctl { mount, action }), _) => control(&Control::connect(&mount)?, action),
        (
            Some(Ctl::Simulate {
                profile,
                scale,
                iterations,
            }),
            _,
        ) => {
            let profile = ProfileSettings::load(&profile)?.scaled(scale).resolve()?;
            let found = simulate(
                &profile,
                &Loop {
                    iterations,
                    ..Loop::default()
                },
            );
            println!("{}", serde_json::to_string_pretty(&found)?);
            Ok(())
        }
        (None, Some(mount)) => serve_mount(mount),
        (None, None) => Err(Failure::usage(
            "name the folder to serve and the folder to mount on",
        )),
    }
}

fn serve_mount(mount: Mount) -> Result<(), Failure> {
    let mut settings = ProfileSettings::load(&mount.profile)?.scaled(mount.scale);
    settings.seed = mount.seed.unwrap_or(settings.seed);
    let mut options = EmulateOptions::new(mount.source, mount.mount, settings);
    options.page_cache = mount.page_cache;
    options.attribute_ttl = Duration::try_from_secs_f64(mount.ttl).map_err(|_| {
        Failure::usage(format!(
            "`--ttl` must be a number of seconds, 0 or more: {}",
            mount.ttl
        ))
    })?;
    options.allow_other = mount.allow_other;
    options.trace = mount.trace;
    serve(&options, |mounted| {
        eprintln!("mounted on {}", mounted.mount_point().display())
    })?;
    Ok(())
}

fn control(control: &Control, action: Action) -> Result<(), Failure> {
    let status = match action {
        Action::Set { assignments } => control.set(&assignments)?,
        Action::Fault {
            kind,
            path,
            probability,
            nth,
            max_hang,
        } => control.fault(FaultRule {
            path,
            probability,
            nth,
            max_hang_s: max_hang,
            ..FaultRule::new(kind)
        })?,
        Action::Clear => control.clear()?,
        Action::Release => control.release()?,
        Action::Status => control.status()?,
    };
    println!("{}", serde_json::to_string_pretty(&status)?);
    Ok(())
}
