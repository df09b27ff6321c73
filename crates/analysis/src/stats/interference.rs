//! How much worse a phase is than its baseline.

use serde::Serialize;

use super::{Sorted, StatsError};

/// The interference factor: a loaded phase over its baseline. It cannot be made without one,
/// and it carries the number of values of both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Interference {
    /// Median of the loaded phase over the median of the baseline.
    pub median_ratio: f64,
    /// Greatest value of the loaded phase over the greatest of the baseline.
    pub max_ratio: f64,
    /// Greatest value of the loaded phase over the median of the baseline: the worst case.
    pub worst_ratio: f64,
    /// Values in the baseline.
    pub baseline_n: usize,
    /// Values in the loaded phase.
    pub loaded_n: usize,
}

impl Interference {
    /// Compares a loaded phase with its baseline.
    ///
    /// # Errors
    /// [`StatsError::ZeroBaseline`] when the median of the baseline is not above 0.
    pub fn between(baseline: &Sorted, loaded: &Sorted) -> Result<Self, StatsError> {
        let base = baseline.median();
        if base <= 0.0 {
            return Err(StatsError::ZeroBaseline);
        }
        Ok(Self {
            median_ratio: loaded.median() / base,
            max_ratio: loaded.max() / baseline.max(),
            worst_ratio: loaded.max() / base,
            baseline_n: baseline.n(),
            loaded_n: loaded.n(),
        })
    }
}
