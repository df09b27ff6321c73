//! What is said of each epoch, and of one path against another.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::record::{Answered, EpochEnd, Timing};
use crate::run::{Run, Series};
use crate::stats::{BootstrapPlan, RatioInterval, Sorted, Statistic, ratio_interval};

/// The wait that counts as a stall in the figures of the literature, in seconds.
pub const LONG_STALL_S: f64 = 1.0;

/// The path that others are compared with where none is named.
pub const DIRECT: &str = "direct";

/// Values that all resamples of one interval may draw together, so that it ends in seconds.
const DRAW_BUDGET: usize = 10_000_000;

/// The compute window: the time that a step computes, in which the next batch can be read.
/// A wait that is longer means that the batch came late by more than a whole step of computing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Window {
    /// For each epoch of each path, the median of its own `total_s - wait_s`.
    #[default]
    OwnEpoch,
    /// One window for all, in seconds.
    Given(f64),
}

impl Window {
    /// The window in seconds for one epoch of one path.
    #[must_use]
    pub fn seconds(&self, series: &Series) -> f64 {
        match self {
            Self::Given(seconds) => *seconds,
            Self::OwnEpoch => sorted(series, Timing::compute_s).median(),
        }
    }
}

/// One epoch by one path. The names of the fields are those of the JSON summary.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct EpochSummary {
    /// How the samples were read.
    pub path: String,
    /// The training epoch.
    pub epoch: u32,
    /// Wall time in seconds: as recorded, or else the longest sum of iterations of one rank.
    pub wall_s: f64,
    /// Whether the run recorded the wall time itself.
    pub wall_recorded: bool,
    /// Different iterations.
    pub iterations: usize,
    /// Different ranks.
    pub ranks: usize,
    /// Values behind each statistic of this row: iterations, once for each rank.
    pub n: usize,
    /// Mean wait, in milliseconds.
    pub wait_mean_ms: f64,
    /// Median wait, in milliseconds.
    pub wait_median_ms: f64,
    /// 95th percentile of the wait, in milliseconds.
    pub wait_p95_ms: f64,
    /// 99th percentile of the wait, in milliseconds.
    pub wait_p99_ms: f64,
    /// Longest wait, in milliseconds.
    pub wait_max_ms: f64,
    /// The compute window, in milliseconds.
    pub window_ms: f64,
    /// Waits longer than the window.
    pub over_window: usize,
    /// Share of the waits that are longer than the window, from 0 to 1.
    pub over_window_share: f64,
    /// Share of the waits that are longer than [`LONG_STALL_S`], from 0 to 1.
    pub over_1s_share: f64,
    /// Sum of the waits above their median, in seconds.
    pub wait_excess_s: f64,
    /// Median of a whole iteration, in milliseconds.
    pub total_median_ms: f64,
    /// Bytes of samples that were asked for, where recorded.
    pub asked_bytes: Option<u64>,
    /// Bytes that were read from the origin for them, where recorded.
    pub origin_bytes: Option<u64>,
    /// The one over the other, where both were recorded and bytes were asked for.
    pub origin_bytes_over_asked: Option<f64>,
    /// Who answered, where every iteration recorded it.
    #[serde(flatten)]
    pub answers: Option<Answers>,
}

/// Who answered the reads of one epoch, as shares of the bytes from 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Answers {
    /// Resident when they were read.
    pub local_share: f64,
    /// Fetched from another node by the daemon while the reader waited.
    pub peer_share: f64,
    /// Fetched from the origin by the node's daemon while the reader waited.
    pub staged_share: f64,
    /// Fetched from the origin by the reader itself.
    pub direct_share: f64,
    /// Batches whose reader waited for bytes that were not resident.
    pub late: usize,
    /// Longest such wait, in milliseconds.
    pub late_max_ms: f64,
    /// Batches that were staged whole before the trainer got them, as far as the records tell.
    pub ahead: usize,
    /// Median of the least times for which those had been staged, in milliseconds.
    pub lead_median_ms: Option<f64>,
}

impl Answers {
    fn of(series: &Series) -> Option<Self> {
        let answers: Option<Vec<Answered>> = series.timings().iter().map(|t| t.answered).collect();
        let answers = answers?;
        let sum = |bytes: fn(&Answered) -> u64| answers.iter().map(bytes).sum::<u64>() as f64;
        let local = sum(|one| one.local_bytes);
        let peer = sum(|one| one.peer_bytes);
        let (staged, direct) = (sum(|one| one.staged_bytes), sum(|one| one.direct_bytes));
        let all = (local + peer + staged + direct).max(1.0);
        let leads: Vec<f64> = answers.iter().filter_map(|one| one.lead_s).collect();
        Some(Self {
            local_share: local / all,
            peer_share: peer / all,
            staged_share: staged / all,
            direct_share: direct / all,
            late: answers.iter().filter(|one| one.late_s > 0.0).count(),
            late_max_ms: 1e3
                * answers
                    .iter()
                    .fold(0.0, |most: f64, one| most.max(one.late_s)),
            ahead: leads.len(),
            lead_median_ms: Sorted::new(leads).ok().map(|leads| 1e3 * leads.median()),
        })
    }
}

/// One epoch by one path against the same epoch by the baseline path.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Speedup {
    /// The training epoch.
    pub epoch: u32,
    /// The path that is compared.
    pub path: String,
    /// The path that it is compared with.
    pub baseline: String,
    /// Wall time of the baseline over wall time of the path: above 1 is faster.
    pub ratio: f64,
    /// Wall time of the path, in seconds.
    pub wall_s: f64,
    /// Wall time of the baseline, in seconds.
    pub baseline_wall_s: f64,
    /// Measured iterations of the path.
    pub n: usize,
    /// Measured iterations of the baseline.
    pub baseline_n: usize,
    /// The same for the mean whole iteration, baseline over path, with its interval.
    pub iteration_ratio: Option<RatioInterval>,
}

/// All that is said of a run, as `--json` prints it.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Summary {
    /// Each epoch of each path.
    pub epochs: Vec<EpochSummary>,
    /// `epoch1`, `epoch2`, … and the speed-up of each, where exactly one path is compared.
    pub speedup: BTreeMap<String, f64>,
    /// Every speed-up with its baseline and both `n`.
    pub speedups: Vec<Speedup>,
    /// Comparisons that were asked for and cannot be made, each with its reason.
    pub not_compared: Vec<String>,
    /// For each path, bytes read from the origin over bytes asked for, over all its epochs.
    pub origin_bytes_over_asked: BTreeMap<String, f64>,
    /// What the records held that was not used.
    pub unread: Vec<String>,
}

impl Run {
    /// One row for each epoch of each path.
    #[must_use]
    pub fn epochs(&self, window: &Window) -> Vec<EpochSummary> {
        let row = |series| EpochSummary::of(series, window.seconds(series));
        self.series().iter().map(row).collect()
    }

    /// The path that the others are compared with: `wanted`, or else [`DIRECT`], or else the
    /// first of the run. `None` if the run has no other path, or not the one wanted.
    #[must_use]
    pub fn baseline(&self, wanted: Option<&str>) -> Option<&str> {
        let paths = self.paths();
        if paths.len() < 2 {
            return None;
        }
        let named = |name: &str| paths.iter().find(|path| *path == name);
        let found = match wanted {
            Some(name) => named(name),
            None => named(DIRECT).or_else(|| paths.first()),
        };
        found.map(String::as_str)
    }

    /// All that is said of the run. `baseline` is chosen as in [`Run::baseline`].
    #[must_use]
    pub fn summary(&self, window: &Window, baseline: Option<&str>) -> Summary {
        let (speedups, not_compared) = self.compare(baseline);
        let others = self.paths().len().saturating_sub(1);
        let named = |one: &Speedup| (format!("epoch{}", one.epoch), one.ratio);
        Summary {
            epochs: self.epochs(window),
            speedup: match others {
                1 => speedups.iter().map(named).collect(),
                _ => BTreeMap::new(),
            },
            speedups,
            not_compared,
            origin_bytes_over_asked: self.origin_over_asked(),
            unread: self.unread().sentences(),
        }
    }

    fn compare(&self, wanted: Option<&str>) -> (Vec<Speedup>, Vec<String>) {
        let (mut speedups, mut not_compared) = (Vec::new(), Vec::new());
        let Some(baseline) = self.baseline(wanted) else {
            let reason = match wanted {
                Some(name) => format!(
                    "no speed-up against path `{name}`: it is not in the run, or is alone in it"
                ),
                None => "no speed-up: the run has only one path, so there is no baseline".into(),
            };
            return (speedups, vec![reason]);
        };
        for series in self.series().iter().filter(|one| one.path() != baseline) {
            match self.find(baseline, series.epoch()) {
                Some(base) => match Speedup::between(base, series) {
                    Ok(speedup) => speedups.push(speedup),
                    Err(reason) => not_compared.push(reason),
                },
                None => not_compared.push(format!(
                    "no speed-up of path `{}` in epoch {}: the baseline `{baseline}` has no such epoch",
                    series.path(),
                    series.epoch()
                )),
            }
        }
        (speedups, not_compared)
    }

    fn origin_over_asked(&self) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<String, (f64, f64)> = BTreeMap::new();
        for end in self.series().iter().filter_map(Series::end) {
            if let Some(origin) = end.origin_bytes {
                let sum = sums.entry(end.path.clone()).or_default();
                sum.0 += origin as f64;
                sum.1 += end.asked_bytes as f64;
            }
        }
        let ratio = |(path, (origin, asked)): (String, (f64, f64))| {
            (asked > 0.0).then(|| (path, origin / asked))
        };
        sums.into_iter().filter_map(ratio).collect()
    }
}

impl EpochSummary {
    fn of(series: &Series, window_s: f64) -> Self {
        let waits = sorted(series, |timing| timing.wait_s);
        let over = waits.share_over(window_s);
        let end = series.end();
        Self {
            path: series.path().to_owned(),
            epoch: series.epoch(),
            wall_s: series.wall_s(),
            wall_recorded: end.is_some(),
            iterations: series.iterations(),
            ranks: series.ranks(),
            n: waits.n(),
            wait_mean_ms: 1e3 * waits.mean(),
            wait_median_ms: 1e3 * waits.median(),
            wait_p95_ms: 1e3 * waits.quantile(0.95),
            wait_p99_ms: 1e3 * waits.quantile(0.99),
            wait_max_ms: 1e3 * waits.max(),
            window_ms: 1e3 * window_s,
            over_window: over.over,
            over_window_share: over.fraction(),
            over_1s_share: waits.share_over(LONG_STALL_S).fraction(),
            wait_excess_s: waits.excess(),
            total_median_ms: 1e3 * sorted(series, |timing| timing.total_s).median(),
            asked_bytes: end.map(|end| end.asked_bytes),
            origin_bytes: end.and_then(|end| end.origin_bytes),
            origin_bytes_over_asked: end.and_then(EpochEnd::origin_over_asked),
            answers: Answers::of(series),
        }
    }
}

impl Speedup {
    /// Fails, with the reason, where the two epochs are not the same work.
    fn between(base: &Series, series: &Series) -> Result<Self, String> {
        let work = |one: &Series| (one.iterations(), one.ranks());
        if work(base) != work(series) {
            let ((base_n, base_ranks), (n, ranks)) = (work(base), work(series));
            return Err(format!(
                "no speed-up of path `{}` in epoch {}: {n} iterations on {ranks} ranks are not the \
                 work of {base_n} on {base_ranks} by the baseline `{}`",
                series.path(),
                series.epoch(),
                base.path()
            ));
        }
        let (wall_s, baseline_wall_s) = (series.wall_s(), base.wall_s());
        Ok(Self {
            epoch: series.epoch(),
            path: series.path().to_owned(),
            baseline: base.path().to_owned(),
            ratio: baseline_wall_s / wall_s,
            wall_s,
            baseline_wall_s,
            n: series.timings().len(),
            baseline_n: base.timings().len(),
            iteration_ratio: iteration_ratio(base, series),
        })
    }
}

fn iteration_ratio(base: &Series, series: &Series) -> Option<RatioInterval> {
    let totals = |one: &Series| -> Vec<f64> { one.timings().iter().map(|t| t.total_s).collect() };
    let (slow, fast) = (totals(base), totals(series));
    let plan = BootstrapPlan {
        resamples: (DRAW_BUDGET / (slow.len() + fast.len())).clamp(20, 1_000),
        ..BootstrapPlan::default()
    };
    ratio_interval(&slow, &fast, Statistic::Mean, &plan).ok()
}

/// One number of every iteration of a series, in order.
pub(crate) fn sorted(series: &Series, value: impl Fn(&Timing) -> f64) -> Sorted {
    // The reader lets through only finite durations and only series that have an iteration.
    #[allow(clippy::expect_used)]
    Sorted::new(series.timings().iter().map(value)).expect("a series has finite values")
}

#[cfg(test)]
mod tests;
