//! All that is said of a study, as `--json` prints it.

use serde::Serialize;

use super::{Contention, Factor, STALL_FACTOR, Study, TrainingSummary, Turns, training};
use crate::record::Manifest;
use crate::stats::Sorted;

/// Quantiles of some times.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// Values.
    pub n: usize,
    /// Median, in milliseconds.
    pub median_ms: f64,
    /// 95th percentile, in milliseconds.
    pub p95_ms: f64,
    /// 99th percentile, in milliseconds.
    pub p99_ms: f64,
    /// Greatest, in milliseconds.
    pub max_ms: f64,
}

impl Spread {
    pub(super) fn of(sorted: &Sorted) -> Self {
        Self {
            n: sorted.n(),
            median_ms: 1e3 * sorted.median(),
            p95_ms: 1e3 * sorted.quantile(0.95),
            p99_ms: 1e3 * sorted.quantile(0.99),
            max_ms: 1e3 * sorted.max(),
        }
    }
}

/// Waits for the loader.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Waits {
    /// The waits.
    pub times: Spread,
    /// Mean, in milliseconds.
    pub mean_ms: f64,
    /// The compute window, in milliseconds, where it is known.
    pub window_ms: Option<f64>,
    /// Waits longer than the window.
    pub over_window: Option<usize>,
    /// Their share, from 0 to 1.
    pub over_window_share: Option<f64>,
    /// Share of the waits longer than 1 s, from 0 to 1.
    pub over_1s_share: f64,
}

impl Waits {
    /// `None` without a wait.
    pub(super) fn of(waits: impl IntoIterator<Item = f64>, window_s: Option<f64>) -> Option<Self> {
        let sorted = Sorted::new(waits).ok()?;
        let over = window_s.map(|window| sorted.share_over(window));
        Some(Self {
            times: Spread::of(&sorted),
            mean_ms: 1e3 * sorted.mean(),
            window_ms: window_s.map(|window| 1e3 * window),
            over_window: over.map(|over| over.over),
            over_window_share: over.map(|over| over.fraction()),
            over_1s_share: sorted.share_over(1.0).fraction(),
        })
    }
}

/// One tier with one size of message.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ContentionSummary {
    /// Name of the tier.
    pub tier: String,
    /// Which run of the study it is of, from 0.
    pub run: usize,
    /// Bytes that were reduced.
    pub message_bytes: u64,
    /// Ranks.
    pub ranks: usize,
    /// How often the phases took turns.
    pub rounds: usize,
    /// All-reduces without I/O.
    pub baseline: Option<Spread>,
    /// All-reduces with I/O.
    pub loaded: Option<Spread>,
    /// How much the baseline's own rounds differ: greatest median over least.
    pub baseline_drift: Option<f64>,
    /// The same of the longest of each round.
    pub baseline_max_drift: Option<f64>,
    /// Loaded over baseline by the median.
    pub median: Factor,
    /// By the 99th percentile.
    pub p99: Factor,
    /// By the maximum.
    pub max: Factor,
    /// The longest loaded over the median of the baseline.
    pub worst: Factor,
    /// Loaded all-reduces over [`STALL_FACTOR`] times the baseline's median.
    pub stalls: usize,
    /// Such all-reduces of the baseline itself.
    pub baseline_stalls: usize,
    /// Waits for the loader, where iterations wait for it.
    pub waits: Option<Waits>,
    /// Bytes of samples that were read beside.
    pub read_bytes: u64,
    /// Iterations that not all ranks measured, which are not used.
    pub incomplete: usize,
}

impl ContentionSummary {
    fn of(one: &Contention, run: usize, window_s: Option<f64>) -> Self {
        let (base, loaded) = (one.baseline.sorted(), one.loaded.sorted());
        let limit = base.as_ref().map(|base| STALL_FACTOR * base.median());
        let stalls = |values: &Option<Sorted>| match (values, limit) {
            (Some(values), Some(limit)) => values.share_over(limit).over,
            _ => 0,
        };
        let factor = |by: fn(&Turns, &Turns) -> Factor| by(&one.baseline, &one.loaded);
        Self {
            tier: one.tier.clone(),
            run,
            message_bytes: one.message_bytes,
            ranks: one.ranks,
            rounds: one.loaded.rounds().len(),
            baseline: base.as_ref().map(Spread::of),
            loaded: loaded.as_ref().map(Spread::of),
            baseline_drift: one.baseline.drift(),
            baseline_max_drift: one.baseline.drift_of_max(),
            median: factor(Factor::by_median),
            p99: factor(Factor::by_p99),
            max: factor(Factor::by_max),
            worst: factor(Factor::worst),
            stalls: stalls(&loaded),
            baseline_stalls: stalls(&base),
            waits: Waits::of(one.waits.iter().copied(), window_s),
            read_bytes: one.read_bytes,
            incomplete: one.incomplete,
        }
    }

    /// A sentence where the baseline moved so much that a reader should know.
    #[must_use]
    pub fn noise(&self) -> Option<String> {
        const NOISY: f64 = 1.25;
        let drift = self.baseline_drift.filter(|drift| *drift > NOISY)?;
        Some(format!(
            "tier `{}`: the machine was noisy, the baseline's own median changed {drift:.2} times \
             between its rounds; repeat the run",
            self.tier
        ))
    }
}

/// All that is said of a study.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct StudySummary {
    /// Each tier with each size of message.
    pub allreduce: Vec<ContentionSummary>,
    /// Each path of each training run.
    pub training: Vec<TrainingSummary>,
    /// What a reader must know: noise, iterations that were not used, runs that hold nothing.
    pub remarks: Vec<String>,
}

impl Study {
    /// All that is said of it.
    #[must_use]
    pub fn summary(&self) -> StudySummary {
        let mut allreduce = Vec::new();
        for (number, run) in self.collectives.iter().enumerate() {
            let window = input(&run.manifest, "window_s");
            let rows = run.contentions.iter();
            allreduce.extend(rows.map(|one| ContentionSummary::of(one, number, window)));
        }
        let trainings = self.trainings.iter().enumerate();
        let training = trainings
            .flat_map(|(number, run)| training::summaries(run, number))
            .collect();
        let mut remarks: Vec<String> = allreduce
            .iter()
            .filter_map(ContentionSummary::noise)
            .collect();
        remarks.extend(
            allreduce
                .iter()
                .filter(|one| one.incomplete > 0)
                .map(|one| {
                    format!(
                        "tier `{}`: {} iterations that not all ranks measured are not used",
                        one.tier, one.incomplete
                    )
                }),
        );
        let unread = self.collectives.iter().map(|run| &run.unread);
        let unread = unread.chain(self.trainings.iter().map(crate::Run::unread));
        remarks.extend(unread.flat_map(|unread| unread.sentences()));
        remarks.extend(self.empty.iter().cloned());
        StudySummary {
            allreduce,
            training,
            remarks,
        }
    }
}

/// A number of the run's inputs, if it is above 0.
pub(super) fn input(manifest: &Manifest, name: &str) -> Option<f64> {
    let value = manifest.inputs.get(name)?.as_f64()?;
    (value.is_finite() && value > 0.0).then_some(value)
}
