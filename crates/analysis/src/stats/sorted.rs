//! Measured values in order, and what is read off them.

use serde::Serialize;

use super::StatsError;

/// At least one finite value, in ascending order.
#[derive(Clone, Debug, PartialEq)]
pub struct Sorted(Vec<f64>);

/// How many of `n` values are over a threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Share {
    /// Values above the threshold.
    pub over: usize,
    /// All values.
    pub n: usize,
}

impl Share {
    /// The share, from 0 to 1.
    #[must_use]
    pub fn fraction(self) -> f64 {
        self.over as f64 / self.n as f64
    }
}

impl Sorted {
    /// Puts the values in order.
    ///
    /// # Errors
    /// [`StatsError::Empty`] without a value, [`StatsError::NotFinite`] for NaN and infinities.
    pub fn new(values: impl IntoIterator<Item = f64>) -> Result<Self, StatsError> {
        let mut values: Vec<f64> = values.into_iter().collect();
        if let Some(place) = values.iter().position(|value| !value.is_finite()) {
            let value = values[place];
            return Err(StatsError::NotFinite { place, value });
        }
        if values.is_empty() {
            return Err(StatsError::Empty);
        }
        values.sort_unstable_by(f64::total_cmp);
        Ok(Self(values))
    }

    /// The values, ascending.
    #[must_use]
    pub fn values(&self) -> &[f64] {
        &self.0
    }

    /// Number of values.
    #[must_use]
    pub fn n(&self) -> usize {
        self.0.len()
    }

    /// The `q` quantile: the value at the fractional place `q × (n - 1)` of the ascending
    /// values, linear between two of them. This is type 7 of Hyndman and Fan and what
    /// `numpy.quantile` computes by default. `q` below 0 counts as 0, above 1 and NaN as 1.
    #[must_use]
    pub fn quantile(&self, q: f64) -> f64 {
        let q = if q.is_nan() { 1.0 } else { q.clamp(0.0, 1.0) };
        let place = q * (self.n() - 1) as f64;
        let (low, part) = (place.floor() as usize, place.fract());
        let high = (low + 1).min(self.n() - 1);
        let (low, high) = (self.0[low], self.0[high]);
        // Never outside the two, whatever the rounding.
        (low + part * (high - low)).clamp(low, high)
    }

    /// The middle value.
    #[must_use]
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The smallest value.
    #[must_use]
    pub fn min(&self) -> f64 {
        self.0[0]
    }

    /// The greatest value.
    #[must_use]
    pub fn max(&self) -> f64 {
        self.0[self.n() - 1]
    }

    /// The arithmetic mean.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.sum() / self.n() as f64
    }

    /// The sum of all values.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.0.iter().sum()
    }

    /// How many values are strictly above `threshold`.
    #[must_use]
    pub fn share_over(&self, threshold: f64) -> Share {
        let at_most = self.0.partition_point(|value| *value <= threshold);
        Share {
            over: self.n() - at_most,
            n: self.n(),
        }
    }

    /// The excess: for every value above the median, its distance from the median, summed.
    #[must_use]
    pub fn excess(&self) -> f64 {
        let median = self.median();
        self.0.iter().map(|value| (value - median).max(0.0)).sum()
    }
}
