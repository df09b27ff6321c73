//! Interference factors, and when there is none.

use serde::Serialize;

use super::Turns;
use crate::stats::{BootstrapPlan, Sorted, Statistic, ratio_interval};

/// Fewest values of each side for any factor.
pub const MIN_N: usize = 10;

/// A baseline whose own rounds differ by more than this, greatest median over least, supports no
/// factor: what changed between them would be taken for interference.
pub const MAX_DRIFT: f64 = 2.0;

/// Fewest values of each side for a factor by the 99th percentile: below that it is the maximum.
const MIN_N_P99: usize = 100;

/// A maximum grows with the number of values, so both sides must have about as many.
const SAME_N: f64 = 1.1;

/// Loaded over baseline, or why there is no such number.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Factor {
    /// The ratio.
    pub ratio: Option<f64>,
    /// Lower end of its interval: 95 % of resamples for the median and the 99th percentile; for a
    /// maximum, of which resampling says nothing, the least ratio of any one round.
    pub low: Option<f64>,
    /// Upper end of its interval, likewise.
    pub high: Option<f64>,
    /// Values of the baseline.
    pub baseline_n: usize,
    /// Values under load.
    pub loaded_n: usize,
    /// Why there is no ratio.
    pub refused: Option<String>,
}

impl Factor {
    /// By the median.
    #[must_use]
    pub fn by_median(baseline: &Turns, loaded: &Turns) -> Self {
        Self::resampled(baseline, loaded, Statistic::Median, MIN_N)
    }

    /// By the 99th percentile.
    #[must_use]
    pub fn by_p99(baseline: &Turns, loaded: &Turns) -> Self {
        Self::resampled(baseline, loaded, Statistic::P99, MIN_N_P99)
    }

    /// By the maximum: the longest under load over the longest of the baseline.
    #[must_use]
    pub fn by_max(baseline: &Turns, loaded: &Turns) -> Self {
        let longest = |values: &Sorted| values.max();
        Self::of_longest(baseline, loaded, longest, true)
    }

    /// The longest under load over the median of the baseline: the worst case.
    #[must_use]
    pub fn worst(baseline: &Turns, loaded: &Turns) -> Self {
        Self::of_longest(baseline, loaded, Sorted::median, false)
    }

    fn resampled(base: &Turns, loaded: &Turns, statistic: Statistic, least: usize) -> Self {
        let mut made = Self::none(base, loaded);
        made.refused = made.reason(base, least);
        if made.refused.is_some() {
            return made;
        }
        let plan = BootstrapPlan::default();
        match ratio_interval(&loaded.all(), &base.all(), statistic, &plan) {
            Ok(found) => {
                made.ratio = Some(found.ratio);
                made.low = Some(found.low);
                made.high = Some(found.high);
            }
            Err(error) => made.refused = Some(error.to_string()),
        }
        made
    }

    fn of_longest(base: &Turns, loaded: &Turns, under: fn(&Sorted) -> f64, alike: bool) -> Self {
        let mut made = Self::none(base, loaded);
        let (few, many) = (
            made.baseline_n.min(made.loaded_n),
            made.baseline_n.max(made.loaded_n),
        );
        made.refused = made.reason(base, MIN_N).or_else(|| {
            (alike && many as f64 > SAME_N * few as f64).then(|| {
                format!(
                    "a maximum grows with the number of values, and there are {} against {}",
                    made.loaded_n, made.baseline_n
                )
            })
        });
        if made.refused.is_some() {
            return made;
        }
        made.ratio = ratio(base.sorted(), loaded.sorted(), under);
        let rounds = base.rounds().iter().zip(loaded.rounds());
        let of_rounds: Vec<f64> = rounds
            .filter_map(|(one, other)| ratio(sorted(one), sorted(other), under))
            .collect();
        if of_rounds.len() > 1 {
            made.low = of_rounds.iter().copied().reduce(f64::min);
            made.high = of_rounds.iter().copied().reduce(f64::max);
        }
        made
    }

    fn none(base: &Turns, loaded: &Turns) -> Self {
        Self {
            ratio: None,
            low: None,
            high: None,
            baseline_n: base.n(),
            loaded_n: loaded.n(),
            refused: None,
        }
    }

    fn reason(&self, base: &Turns, least: usize) -> Option<String> {
        let (base_n, loaded_n) = (self.baseline_n, self.loaded_n);
        if base_n.min(loaded_n) < least {
            return Some(format!(
                "it needs {least} values of each side, and there are {loaded_n} against {base_n}"
            ));
        }
        let drift = base.drift().filter(|drift| *drift > MAX_DRIFT)?;
        Some(format!(
            "the baseline itself changed {drift:.1} times between its rounds: repeat the run on an \
             idle machine"
        ))
    }
}

fn sorted(values: &[f64]) -> Option<Sorted> {
    Sorted::new(values.iter().copied()).ok()
}

fn ratio(base: Option<Sorted>, loaded: Option<Sorted>, under: fn(&Sorted) -> f64) -> Option<f64> {
    let (base, loaded) = (under(&base?), loaded?.max());
    (base > 0.0).then(|| loaded / base)
}
