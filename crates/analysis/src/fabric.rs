//! The fabric study: what I/O does to collectives, and where the time of training goes.
//!
//! # Invariants
//! - *No factor without its data*: a ratio that the values cannot support carries the reason in
//!   place of a number.
//! - *Nothing is trimmed*: every iteration that all ranks measured counts; the others are counted
//!   and shown.

mod collectives;
mod factor;
mod study;
mod summary;
#[cfg(test)]
mod tests;
mod training;

pub use collectives::{Collectives, Contention, Turns};
pub use factor::{Factor, MAX_DRIFT, MIN_N};
pub use study::{Study, StudyReader};
pub use summary::{ContentionSummary, Spread, StudySummary, Waits};
pub use training::{STAGES, StageSummary, TrainingSummary};

/// Name of the path whose batches lie in memory.
pub const NO_IO: &str = "no I/O";

/// An all-reduce that takes so many times the baseline's median is a stall.
pub const STALL_FACTOR: f64 = 10.0;
