//! From what each process wrote to records and a summary.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use forebay_analysis::record::{FORMAT, Manifest};
use forebay_analysis::table::table;
use forebay_sweep::rank::EpochResult;
use forebay_sweep::results::{self, EpochSummary};
use forebay_sweep::{Sweep, SweepError};
use serde_json::{Map, Value, json};

use super::{Arguments, Only};
use crate::{Failure, output};

/// Where a process writes its epochs.
pub(super) fn file_of(meeting: &Path, rank: u32) -> PathBuf {
    meeting.join(format!("results-{rank:06}.jsonl"))
}

/// Adds an epoch to a process's file.
pub(super) fn add(path: &Path, epoch: &EpochResult) -> Result<(), SweepError> {
    let line = serde_json::to_string(epoch).unwrap_or_default() + "\n";
    let opened = OpenOptions::new().create(true).append(true).open(path);
    opened
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .map_err(|source| SweepError::Io {
            act: "write",
            path: path.to_owned(),
            source,
        })
}

fn read(meeting: &Path, size: u32) -> Result<Vec<EpochResult>, Failure> {
    let mut results = Vec::new();
    for rank in 0..size {
        let path = file_of(meeting, rank);
        let shown = path.display();
        let text = fs::read_to_string(&path).map_err(|error| {
            Failure::new(format!(
                "process {rank} left no results in `{shown}`: {error}"
            ))
        })?;
        for line in text.lines() {
            let result = serde_json::from_str(line);
            results.push(
                result.map_err(|error| Failure::new(format!("`{shown}` is broken: {error}")))?,
            );
        }
    }
    // Setups in the order of the run, which the first process knows.
    Ok(results)
}

/// Writes the records and shows the summary.
pub(super) fn finish(
    arguments: &Arguments,
    sweep: &Sweep,
    meeting: &Path,
    size: u32,
    goal: Option<f64>,
) -> Result<(), Failure> {
    if arguments.only == Some(Only::Make) {
        eprintln!(
            "made the data sets in `{}` and `{}`",
            arguments.gfs.display(),
            arguments.lfs.display()
        );
        return Ok(());
    }
    let epochs = read(meeting, size)?;
    let summaries = results::summaries(&epochs, size)?;
    let notes = summaries.iter().map(sentence).collect();
    let mut records = Vec::new();
    for record in results::records(manifest(arguments, sweep, size), &epochs, notes) {
        record.write_line(&mut records)?;
    }
    output::write_whole(&arguments.output, &records)?;
    eprintln!("wrote `{}`", arguments.output.display());
    if arguments.json {
        println!(
            "{}",
            serde_json::to_string_pretty(&json!({"epochs": summaries, "goal": goal}))?
        );
    } else {
        print!("{}", shown(&summaries));
    }
    if let Some(goal) = goal {
        eprintln!("{}", judged(&summaries, goal));
    }
    Ok(())
}

/// As MLPerf Storage judges: an epoch passes if it kept its accelerators so busy.
fn judged(summaries: &[EpochSummary], goal: f64) -> String {
    let busy = |one: &&EpochSummary| one.accelerator_utilisation.unwrap_or(0.0) >= goal;
    let passed = summaries.iter().filter(busy).count();
    format!(
        "accelerator utilisation of at least {:.0} %: {passed} of {} epochs",
        goal * 100.0,
        summaries.len()
    )
}

fn manifest(arguments: &Arguments, sweep: &Sweep, size: u32) -> Manifest {
    let settings = sweep.settings();
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let object = |value: Value| match value {
        Value::Object(map) => map,
        _ => Map::new(),
    };
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let page_cache = if settings.keep_page_cache {
        "files may be in the page cache from earlier epochs"
    } else {
        "the kernel is advised to drop each file from the page cache after it is read"
    };
    Manifest {
        format: FORMAT,
        tool: "forebay tiers sweep".into(),
        version: env!("CARGO_PKG_VERSION").into(),
        started_unix_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
        host: object(json!({"cpus": cpus})),
        inputs: object(json!({
            "gfs": arguments.gfs, "lfs": arguments.lfs, "processes": size,
            "data_sets": settings.data_sets, "rates": settings.rates, "epochs": settings.epochs,
            "shuffle": settings.shuffle, "batch": settings.batch, "prefetch": settings.prefetch,
            "threads": settings.threads, "compute_s": settings.compute.mean_s,
            "transfer_bytes": settings.transfer_bytes, "seed": settings.seed,
        })),
        conditions: vec![
            "times of open, read and close as each process took them, summed over its threads"
                .into(),
            "every file was checked to be the one that was made, outside of the times".into(),
            page_cache.into(),
        ],
    }
}

fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

fn sentence(one: &EpochSummary) -> String {
    let used = one.accelerator_utilisation.map_or(String::new(), |share| {
        format!(", accelerator utilisation {}", percent(share))
    });
    format!(
        "{}, cache rate {} %, epoch {}: {:.1} samples/s{used}",
        one.setup, one.rate_percent, one.epoch, one.samples_per_s
    )
}

fn shown(summaries: &[EpochSummary]) -> String {
    let heads = [
        "setup",
        "cache rate",
        "epoch",
        "wall",
        "I/O",
        "samples/s",
        "AU",
        "local",
    ];
    let row = |one: &EpochSummary| {
        vec![
            one.setup.clone(),
            format!("{} %", one.rate_percent),
            one.epoch.to_string(),
            format!("{:.3} s", one.wall_s),
            format!("{:.3} s", one.io_s),
            format!("{:.1}", one.samples_per_s),
            one.accelerator_utilisation.map_or("-".into(), percent),
            percent(one.local_share),
        ]
    };
    table(&heads, &summaries.iter().map(row).collect::<Vec<_>>())
}
