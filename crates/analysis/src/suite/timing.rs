//! Durations of one operation on one rank.

use serde::{Deserialize, Serialize};

use super::SuiteError;

/// Durations of one operation on one rank, in nanoseconds; warm-ups are not among them.
///
/// A percentile is the *nearest rank*: the smallest sample that at least that share of all
/// samples does not exceed, so it is always a value that was measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Always `ns`.
    pub unit: Unit,
    /// Number of samples.
    pub count: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// The shortest.
    pub min: u64,
    /// The longest.
    pub max: u64,
    /// 50th percentile.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Every sample in the order it was measured. Empty where the program that measured kept
    /// none: its percentiles stand, and no run of it can be compared.
    #[serde(default)]
    pub samples: Vec<u64>,
    /// How many of the samples each measured iteration gave, in order.
    #[serde(default)]
    pub iteration: Vec<u64>,
}

/// The unit of a duration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unit {
    /// Nanoseconds.
    #[default]
    #[serde(rename = "ns")]
    Nanoseconds,
}

impl Timing {
    /// Statistics of the samples of a single iteration; all are 0 where there is none.
    #[must_use]
    pub fn from_samples(samples: &[u64]) -> Self {
        let mut sorted = samples.to_vec();
        sorted.sort_unstable();
        let at = |share| nearest_rank(&sorted, share).unwrap_or(0);
        let sum: u128 = sorted.iter().map(|sample| u128::from(*sample)).sum();
        Self {
            unit: Unit::Nanoseconds,
            count: sorted.len() as u64,
            mean: sum as f64 / sorted.len().max(1) as f64,
            min: at(0.0),
            max: at(1.0),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            iteration: vec![sorted.len() as u64],
            samples: samples.to_vec(),
        }
    }

    /// Statistics over iterations, each with its samples.
    #[must_use]
    pub fn from_iterations(iterations: &[Vec<u64>]) -> Self {
        Self {
            iteration: iterations.iter().map(|one| one.len() as u64).collect(),
            ..Self::from_samples(&iterations.concat())
        }
    }

    /// The samples of each measured iteration.
    pub fn by_iteration(&self) -> impl Iterator<Item = &[u64]> {
        let mut rest = self.samples.as_slice();
        self.iteration.iter().map(move |count| {
            let (these, others) = rest.split_at((*count as usize).min(rest.len()));
            rest = others;
            these
        })
    }

    pub(super) fn check(&self, op: &str, measured: usize) -> Result<(), SuiteError> {
        let broken = |rule: String| Err(SuiteError::Broken(format!("`timing.{op}`: {rule}")));
        if !self.mean.is_finite() || self.mean < 0.0 {
            return broken(format!("`mean` must be a duration: {}", self.mean));
        }
        if self.samples.is_empty() {
            return Ok(());
        }
        let samples = self.samples.len() as u64;
        if self.count != samples {
            return broken(format!(
                "`count` must be the number of samples, {samples}: {}",
                self.count
            ));
        }
        let told: u64 = self.iteration.iter().fold(0, |a, b| a.saturating_add(*b));
        if told != samples {
            return broken(format!(
                "`iteration` must add up to the number of samples, {samples}: {told}"
            ));
        }
        if self.iteration.len() > measured {
            return broken(format!(
                "`iteration` names {} iterations of {measured} measured",
                self.iteration.len()
            ));
        }
        Ok(())
    }
}

/// The nearest rank of ascending values: the smallest that at least `share` of them do not
/// exceed.
pub(super) fn nearest_rank(sorted: &[u64], share: f64) -> Option<u64> {
    let last = sorted.len().checked_sub(1)?;
    let rank = (share * sorted.len() as f64).ceil() as usize;
    Some(sorted[rank.saturating_sub(1).min(last)])
}
