//! `forebay tiers plan`

mod compare;
mod origin;

use std::path::PathBuf;

use clap::Args;
use forebay_analysis::Run;
use forebay_analysis::tiers::plan::{
    self, Device, Direct, Loader, Scenario, Sharing, Staged, text,
};
use forebay_service::parse_bytes;
use serde_json::json;

use crate::Failure;
use compare::Measured;
use origin::Source;

/// Forecast epoch times and stalls, direct and through Forebay, and say what to run with.
#[derive(Args)]
#[command(
    after_help = "An origin is stated as a profile of `forebay emulate` (docs/EMULATE.md) or taken \
                  from the records of a run. docs/TIERS.md describes the model and its limits."
)]
pub(crate) struct Arguments {
    #[command(flatten)]
    source: Source,
    /// Seed of every draw
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    direct: DirectArguments,
    #[command(flatten)]
    staged: StagedArguments,
    /// Take windows and hand-over times from these records, and compare with their epochs
    #[arg(long, value_name = "FILE")]
    records: Option<PathBuf>,
    /// Print the plan as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
#[command(next_help_heading = "The job")]
struct Job {
    /// Samples of the data set
    #[arg(long)]
    samples: u64,
    /// Mean bytes of a sample, such as `286 KB`
    #[arg(long, value_parser = size)]
    sample_bytes: f64,
    /// Samples of a batch of one rank
    #[arg(long, default_value_t = 64)]
    batch: u32,
    /// Seconds that an iteration computes, all-reduce included [default: of the records]
    #[arg(long, allow_negative_numbers = true)]
    window: Option<f64>,
    #[arg(long, default_value_t = 1)]
    nodes: u32,
    /// GPUs (ranks) of each node
    #[arg(long, default_value_t = 1)]
    gpus: u32,
    #[arg(long, default_value_t = 2)]
    epochs: u32,
    /// Loader workers of each rank
    #[arg(long, default_value_t = 8)]
    workers: u32,
    /// Batches that each worker may be ahead
    #[arg(long, default_value_t = 2)]
    prefetch: u32,
    /// All workers load parts of one batch [default: each loads whole ones, as PyTorch does]
    #[arg(long)]
    split_batch: bool,
    /// Milliseconds from a loaded batch to the trainer [default: of the records, or else 0.5]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    handover_ms: Option<f64>,
    /// Milliseconds of a worker for each sample, beside its reads
    #[arg(
        long,
        value_name = "MS",
        default_value_t = 0.0,
        allow_negative_numbers = true
    )]
    cpu_ms: f64,
    /// The same where they are read through Forebay [default: as --cpu-ms]
    #[arg(long, value_name = "MS", allow_negative_numbers = true)]
    staged_cpu_ms: Option<f64>,
}

#[derive(Args)]
#[command(next_help_heading = "Reading directly")]
struct DirectArguments {
    /// Reads of a sample, one after the other
    #[arg(long, default_value_t = 1.0)]
    reads_per_sample: f64,
    /// Metadata operations of a sample: 0 where files stay open
    #[arg(long, default_value_t = 0.0)]
    metadata_per_sample: f64,
}

#[derive(Args)]
#[command(next_help_heading = "Reading through Forebay")]
struct StagedArguments {
    /// Separate ranges of a sample
    #[arg(long, default_value_t = 1.0)]
    ranges_per_sample: f64,
    #[arg(long, value_parser = size, default_value = "64 KiB")]
    block: f64,
    /// Batches of each rank that are staged ahead of need; 0: on demand only
    #[arg(long, default_value_t = 64)]
    look_ahead: u32,
    /// Reads of the origin in progress on a node
    #[arg(long, default_value_t = 48)]
    in_flight: u32,
    /// Late reads of a batch that are begun once more
    #[arg(long, default_value_t = 8)]
    hedged_reads: u32,
    /// Bytes of each node's cache [default: enough]
    #[arg(long, value_parser = size)]
    capacity: Option<f64>,
    /// Microseconds of a read of the local device
    #[arg(long, value_name = "US", default_value_t = 100.0)]
    local_us: f64,
    /// Bytes a second of the local device
    #[arg(long, value_parser = size, default_value = "3 GB")]
    local_rate: f64,
    /// Microseconds of a read from another node
    #[arg(long, value_name = "US", default_value_t = 100.0)]
    peer_us: f64,
    /// Bytes a second of a node from all others
    #[arg(long, value_parser = size, default_value = "10 GB")]
    peer_rate: f64,
}

fn size(text: &str) -> Result<f64, String> {
    let bytes = parse_bytes(text).filter(|bytes| *bytes > 0);
    bytes
        .map(|bytes| bytes as f64)
        .ok_or_else(|| "must be a size such as `286 KB`".into())
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let run = arguments
        .records
        .as_deref()
        .map(compare::read)
        .transpose()?;
    let mut scenario = scenario(arguments, run.as_ref())?;
    let read = origin::read(&arguments.source, &scenario, arguments.seed)?;
    scenario.origin = read.origin;
    let plan = match read.replay {
        Some(mut replay) => plan::plan(&scenario, &mut replay)?,
        None => plan::plan(
            &scenario,
            &mut plan::Seeded::new(scenario.origin, scenario.seed),
        )?,
    };
    let compared = match &run {
        Some(run) => compare::epochs(run, &scenario, read.replay)?,
        None => Vec::new(),
    };
    if arguments.json {
        let all = json!({"plan": plan, "compared": compared});
        println!("{}", serde_json::to_string_pretty(&all)?);
    } else {
        print!(
            "{}{}",
            text::plan(&scenario, &plan),
            compare::text(&compared)
        );
    }
    Ok(())
}

fn scenario(arguments: &Arguments, run: Option<&Run>) -> Result<Scenario, Failure> {
    let (job, direct, staged) = (&arguments.job, &arguments.direct, &arguments.staged);
    let measured = run.and_then(Measured::of_first_path);
    let windows = job.window.map(|window| vec![window]);
    let windows_s = windows.or_else(|| measured.as_ref().map(|run| run.windows_s.clone()));
    let windows_s = windows_s.ok_or_else(|| {
        Failure::usage("the compute window is not known")
            .hint("state it with --window, or name the records of a run with --records")
    })?;
    let handover = job.handover_ms.map(|ms| ms / 1e3);
    let handover = handover.or_else(|| measured.as_ref().map(|run| run.handover_s));
    let cpu_s = job.cpu_ms / 1e3;
    let mut scenario = Scenario {
        origin: plan::Origin::default(),
        nodes: job.nodes,
        ranks_per_node: job.gpus,
        samples: job.samples,
        sample_bytes: job.sample_bytes,
        batch: job.batch,
        windows_s,
        epochs: job.epochs,
        loader: Loader {
            workers: job.workers,
            prefetch: job.prefetch,
            sharing: if job.split_batch {
                Sharing::SplitBatch
            } else {
                Sharing::WholeBatch
            },
            handover_s: handover.unwrap_or(0.0005),
        },
        direct: Direct {
            reads_per_sample: direct.reads_per_sample,
            metadata_per_sample: direct.metadata_per_sample,
            cpu_s,
        },
        staged: staged_plan(staged, job.staged_cpu_ms.map_or(cpu_s, |ms| ms / 1e3)),
        seed: arguments.seed,
    };
    if let Some(capacity) = staged.capacity {
        let all = scenario.dataset_bytes();
        scenario.staged.kept = (capacity * f64::from(job.nodes) / all).min(1.0);
    }
    scenario.check()?;
    Ok(scenario)
}

fn staged_plan(staged: &StagedArguments, cpu_s: f64) -> Staged {
    Staged {
        ranges_per_sample: staged.ranges_per_sample,
        block_bytes: staged.block,
        look_ahead_batches: staged.look_ahead,
        in_flight: staged.in_flight,
        hedged_reads: staged.hedged_reads,
        kept: 1.0,
        cpu_s,
        local: Device {
            latency_s: staged.local_us / 1e6,
            bytes_per_s: staged.local_rate,
        },
        peer: Device {
            latency_s: staged.peer_us / 1e6,
            bytes_per_s: staged.peer_rate,
        },
    }
}
