//! The runs of a long time, and where an operation changed.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::{Map, Value};

use super::divisive::{ChangePoint, DivisiveOptions, change_points};
use super::run::{BARRIER_WAIT, Metric, SuiteRun};
use super::{Status, alike};
use crate::stats::Sorted;

/// How to look at a series of runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct HistoryOptions {
    /// What an iteration is reduced to; a run is its median iteration.
    pub metric: Metric,
    /// How to look for changes.
    pub divisive: DivisiveOptions,
}

/// A change and the run at which it begins.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Change {
    /// The change, in nanoseconds.
    #[serde(flatten)]
    pub point: ChangePoint,
    /// After over before, less 1.
    pub relative: f64,
    /// The first run of the new level.
    pub run_id: String,
    /// When that run started, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
}

/// One operation over all runs that are alike.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OpHistory {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Ranks of each run.
    pub world_size: u32,
    /// Parameters of each run.
    pub params: Map<String, Value>,
    /// Name of the operation.
    pub op: String,
    /// The runs, by start.
    pub runs: Vec<String>,
    /// The value of each run, in nanoseconds.
    pub values_ns: Vec<f64>,
    /// Where it changed.
    pub changes: Vec<Change>,
}

/// Every operation of every group of runs that are alike, with its changes. Runs that failed are
/// left out; their number is returned beside it.
#[must_use]
pub fn history(runs: &[SuiteRun], options: &HistoryOptions) -> (Vec<OpHistory>, usize) {
    let mut groups: BTreeMap<Vec<(String, String)>, Vec<&SuiteRun>> = BTreeMap::new();
    let mut failed = 0;
    for run in runs {
        if run.status() == Status::Fail {
            failed += 1;
            continue;
        }
        let mut key: Vec<(String, String)> = alike::must_match(run).into_iter().collect();
        // By benchmark first, so that its groups stand together.
        key.insert(0, (String::new(), run.benchmark().into()));
        groups.entry(key).or_default().push(run);
    }
    let mut all = Vec::new();
    for mut runs in groups.into_values() {
        runs.sort_by_key(|run| (run.started_unix_ns(), run.run_id().to_owned()));
        let mut ops: Vec<&str> = runs.iter().flat_map(|run| run.ops()).collect();
        ops.sort_unstable();
        ops.dedup();
        ops.retain(|op| *op != BARRIER_WAIT);
        all.extend(ops.into_iter().map(|op| of_op(&runs, op, options)));
    }
    (all, failed)
}

fn of_op(runs: &[&SuiteRun], op: &str, options: &HistoryOptions) -> OpHistory {
    let value = |run: &&SuiteRun| {
        let sorted = Sorted::new(run.values(op, options.metric)).ok()?;
        Some(sorted.median())
    };
    let with: Vec<(&SuiteRun, f64)> = runs
        .iter()
        .filter_map(|run| Some((*run, value(run)?)))
        .collect();
    let values_ns: Vec<f64> = with.iter().map(|(_, value)| *value).collect();
    let changes = change_points(&values_ns, &options.divisive)
        .into_iter()
        .map(|point| {
            let run = with[point.index].0;
            Change {
                point,
                relative: point.relative(),
                run_id: run.run_id().into(),
                started_unix_ns: run.started_unix_ns(),
            }
        })
        .collect();
    OpHistory {
        benchmark: runs[0].benchmark().into(),
        world_size: runs[0].world_size(),
        params: runs[0].params().clone(),
        op: op.into(),
        runs: with.iter().map(|(run, _)| run.run_id().into()).collect(),
        values_ns,
        changes,
    }
}
