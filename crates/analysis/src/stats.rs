//! Statistics of durations: pure functions of finite numbers, each with a written definition.

mod bootstrap;
mod interference;
mod sorted;
mod tail;
#[cfg(test)]
mod tests;

pub use bootstrap::{BootstrapPlan, RatioInterval, Statistic, ratio_interval};
pub use interference::Interference;
pub use sorted::{Share, Sorted};
pub use tail::TailPoint;

/// Why a statistic cannot be computed.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum StatsError {
    /// There is no value.
    #[error("no value was measured: a statistic needs at least one")]
    Empty,
    /// A value is infinite or not a number.
    #[error("value {place} is not finite: {value}")]
    NotFinite {
        /// Place of the value in the order given, from 0.
        place: usize,
        /// The value.
        value: f64,
    },
    /// The baseline is 0, so nothing can be divided by it.
    #[error("the baseline is 0, so there is no ratio to it")]
    ZeroBaseline,
    /// A plan for resampling asks for nothing or for too much.
    #[error(
        "resampling needs 1 to {limit} resamples and a confidence between 0 and 1: {resamples} and {confidence}"
    )]
    Plan {
        /// The greatest number of resamples.
        limit: usize,
        /// The number asked for.
        resamples: usize,
        /// The confidence asked for.
        confidence: f64,
    },
}
