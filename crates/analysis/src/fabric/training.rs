//! Where the time of training goes: each stage, its tail, and its share of the penalty.

use serde::Serialize;

use super::summary::{Spread, Waits, input};
use super::{Factor, NO_IO, Turns};
use crate::record::Timing;
use crate::run::{Run, Series};
use crate::stats::Sorted;

/// Names of the stages in the order in which an iteration runs, as the tables have them.
pub const STAGES: [&str; 6] = [
    "DataLoader wait",
    "H2D copy",
    "forward",
    "backward + all-reduce",
    "optimizer",
    "rest",
];

const VALUES: [fn(&Timing) -> Option<f64>; 6] = [
    |timing| Some(timing.wait_s),
    |timing| timing.h2d_s,
    |timing| timing.forward_s,
    |timing| timing.backward_s,
    |timing| timing.optimizer_s,
    rest,
];

/// What no stage accounts for, where every stage was measured.
fn rest(timing: &Timing) -> Option<f64> {
    let stages = VALUES[..5].iter().map(|stage| stage(timing));
    let known = stages.sum::<Option<f64>>()?;
    Some((timing.total_s - known).max(0.0))
}

/// One stage of the iterations on one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StageSummary {
    /// Its name, of [`STAGES`].
    pub stage: &'static str,
    /// Its times.
    pub times: Spread,
    /// Mean, in milliseconds.
    pub mean_ms: f64,
    /// Share of the iterations in which it took more than 1 s, from 0 to 1.
    pub over_1s_share: f64,
    /// For every time above the median, its distance from the median, summed, in seconds.
    pub excess_s: f64,
    /// Its part of the excess of all stages, from 0 to 1: the share of the penalty that it
    /// carries. `None` where there is no excess.
    pub share_of_excess: Option<f64>,
}

/// All iterations on one path of one run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct TrainingSummary {
    /// Name of the path: the tier, or [`NO_IO`].
    pub path: String,
    /// Which run of the study it is of, from 0.
    pub run: usize,
    /// Different ranks.
    pub ranks: usize,
    /// Different iterations.
    pub iterations: usize,
    /// Iterations, once for each rank, over which the wait was measured; its compute window.
    pub waits: Waits,
    /// Whole iterations.
    pub total: Spread,
    /// Wall time of all iterations, in seconds.
    pub wall_s: f64,
    /// Samples of all ranks a second, where the run says how many a batch has.
    pub samples_per_s: Option<f64>,
    /// The stages that were measured.
    pub stages: Vec<StageSummary>,
    /// Backward + all-reduce against [`NO_IO`] of the same run, by the median.
    pub backward_median: Option<Factor>,
    /// The same by the maximum.
    pub backward_max: Option<Factor>,
}

/// Every path of a run.
pub(super) fn summaries(run: &Run, number: usize) -> Vec<TrainingSummary> {
    run.paths()
        .iter()
        .filter_map(|path| summary(run, number, path))
        .collect()
}

fn summary(run: &Run, number: usize, path: &str) -> Option<TrainingSummary> {
    let series: Vec<&Series> = of_path(run, path).collect();
    let timings: Vec<&Timing> = series.iter().flat_map(|one| one.timings()).collect();
    let totals = Sorted::new(timings.iter().map(|one| one.total_s)).ok()?;
    let window = Sorted::new(timings.iter().map(|one| one.compute_s())).ok()?;
    let waits = timings.iter().map(|one| one.wait_s);
    let wall_s: f64 = series.iter().map(|one| one.wall_s()).sum();
    let batch = input(run.manifest(), "batch");
    let against = |factor: fn(&Turns, &Turns) -> Factor| {
        (path != NO_IO && run.paths().iter().any(|one| one == NO_IO))
            .then(|| factor(&backward(run, NO_IO), &backward(run, path)))
    };
    Some(TrainingSummary {
        path: path.to_owned(),
        run: number,
        ranks: series.iter().map(|one| one.ranks()).max()?,
        iterations: series.iter().map(|one| one.iterations()).sum(),
        waits: Waits::of(waits, Some(window.median()))?,
        total: Spread::of(&totals),
        wall_s,
        samples_per_s: batch
            .filter(|_| wall_s > 0.0)
            .map(|batch| batch * timings.len() as f64 / wall_s),
        stages: stages(&timings),
        backward_median: against(Factor::by_median),
        backward_max: against(Factor::by_max),
    })
}

fn of_path<'a>(run: &'a Run, path: &'a str) -> impl Iterator<Item = &'a Series> {
    run.series().iter().filter(move |one| one.path() == path)
}

/// Backward + all-reduce by epoch: in each iteration of the rank that came last to it, which waited
/// for no other, so the shortest that any rank measured.
fn backward(run: &Run, path: &str) -> Turns {
    let of_last = |ranks: &[Timing]| {
        let times = ranks.iter().filter_map(|one| one.backward_s);
        times.reduce(f64::min)
    };
    let rounds = of_path(run, path).map(|one| {
        let iterations = one.timings().chunk_by(|a, b| a.iteration == b.iteration);
        let times = iterations.filter_map(of_last);
        times.filter(|time| *time > 0.0).collect()
    });
    Turns::new(rounds.collect())
}

fn stages(timings: &[&Timing]) -> Vec<StageSummary> {
    let mut found = Vec::new();
    for (stage, value) in STAGES.into_iter().zip(VALUES) {
        let values: Option<Vec<f64>> = timings.iter().map(|one| value(one)).collect();
        let Some(Ok(sorted)) = values.map(Sorted::new) else {
            continue;
        };
        found.push(StageSummary {
            stage,
            times: Spread::of(&sorted),
            mean_ms: 1e3 * sorted.mean(),
            over_1s_share: sorted.share_over(1.0).fraction(),
            excess_s: sorted.excess(),
            share_of_excess: None,
        });
    }
    let all: f64 = found.iter().map(|one| one.excess_s).sum();
    for one in &mut found {
        one.share_of_excess = (all > 0.0).then(|| one.excess_s / all);
    }
    found
}
