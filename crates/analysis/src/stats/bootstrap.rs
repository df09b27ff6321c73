//! An interval for a ratio, found by resampling.

use serde::Serialize;

use super::{Sorted, StatsError};
use crate::random::Random;

const MAX_RESAMPLES: usize = 100_000;

/// What is computed of each side before the two are divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Statistic {
    /// The arithmetic mean.
    Mean,
    /// The median, as [`Sorted::median`] defines it.
    Median,
    /// The 99th percentile, as [`Sorted::quantile`] defines it.
    P99,
}

/// How to resample.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BootstrapPlan {
    /// How often both sides are drawn anew.
    pub resamples: usize,
    /// Share of the resampled ratios that the interval holds, between 0 and 1.
    pub confidence: f64,
    /// Start of the random numbers: the same seed gives the same interval.
    pub seed: u64,
}

impl BootstrapPlan {
    /// Fails if the plan asks for nothing or for too much.
    pub(crate) fn check(&self) -> Result<(), StatsError> {
        let confident = self.confidence > 0.0 && self.confidence < 1.0;
        if confident && (1..=MAX_RESAMPLES).contains(&self.resamples) {
            return Ok(());
        }
        Err(StatsError::Plan {
            limit: MAX_RESAMPLES,
            resamples: self.resamples,
            confidence: self.confidence,
        })
    }
}

impl Default for BootstrapPlan {
    /// 1,000 resamples, 95 % confidence, seed 1.
    fn default() -> Self {
        Self {
            resamples: 1_000,
            confidence: 0.95,
            seed: 1,
        }
    }
}

/// A ratio with its percentile bootstrap interval.
///
/// The values are drawn as if each were independent of its neighbours. It says how well this
/// run's own values fix the ratio, not how another run would differ.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RatioInterval {
    /// What was divided.
    pub statistic: Statistic,
    /// The ratio of the values as measured.
    pub ratio: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
    /// Share of the resampled ratios in the interval.
    pub confidence: f64,
    /// Values above the line.
    pub numerator_n: usize,
    /// Values below the line.
    pub denominator_n: usize,
}

/// The ratio of a statistic of `values` to that of `baseline`, with its interval.
///
/// # Errors
/// [`StatsError`] when a side is empty or not finite, when the baseline's statistic is 0, or
/// when the plan asks for nothing or for more than 100,000 resamples.
pub fn ratio_interval(
    values: &[f64],
    baseline: &[f64],
    statistic: Statistic,
    plan: &BootstrapPlan,
) -> Result<RatioInterval, StatsError> {
    plan.check()?;
    let measured = Sorted::new(values.iter().copied())?;
    let base = Sorted::new(baseline.iter().copied())?;
    let of = |sorted: &Sorted| match statistic {
        Statistic::Mean => sorted.mean(),
        Statistic::Median => sorted.median(),
        Statistic::P99 => sorted.quantile(0.99),
    };
    if of(&base) <= 0.0 {
        return Err(StatsError::ZeroBaseline);
    }
    let mut random = Random::new(plan.seed);
    let mut drawn = Vec::with_capacity(values.len().max(baseline.len()));
    let mut ratios = Vec::with_capacity(plan.resamples);
    for _ in 0..plan.resamples {
        let above = resampled(measured.values(), statistic, &mut random, &mut drawn);
        let below = resampled(base.values(), statistic, &mut random, &mut drawn);
        // A baseline that is 0 in most places can be drawn as 0 throughout: no ratio there.
        if below > 0.0 {
            ratios.push(above / below);
        }
    }
    let ratios = Sorted::new(ratios)?;
    let outside = (1.0 - plan.confidence) / 2.0;
    Ok(RatioInterval {
        statistic,
        ratio: of(&measured) / of(&base),
        low: ratios.quantile(outside),
        high: ratios.quantile(1.0 - outside),
        confidence: plan.confidence,
        numerator_n: measured.n(),
        denominator_n: base.n(),
    })
}

fn resampled(
    values: &[f64],
    statistic: Statistic,
    random: &mut Random,
    drawn: &mut Vec<f64>,
) -> f64 {
    let n = values.len();
    match statistic {
        Statistic::Mean => (0..n).map(|_| values[random.below(n)]).sum::<f64>() / n as f64,
        Statistic::Median => {
            drawn.clear();
            drawn.extend((0..n).map(|_| values[random.below(n)]));
            let (below, middle, _) = drawn.select_nth_unstable_by(n / 2, f64::total_cmp);
            if n % 2 == 1 {
                return *middle;
            }
            let lower = below.iter().copied().fold(f64::MIN, f64::max);
            lower + (*middle - lower) / 2.0
        }
        Statistic::P99 => {
            drawn.clear();
            drawn.extend((0..n).map(|_| values[random.below(n)]));
            let place = 0.99 * (n - 1) as f64;
            let (_, low, above) = drawn.select_nth_unstable_by(place as usize, f64::total_cmp);
            let high = above.iter().copied().fold(f64::MAX, f64::min).max(*low);
            let high = if above.is_empty() { *low } else { high };
            *low + place.fract() * (high - *low)
        }
    }
}
