//! Runs of the storage suite: the manifests of their ranks, what they say together, whether one
//! system is slower than another, and when it became so.
//!
//! A run is one benchmark on one or more ranks. Each rank leaves a [`Manifest`]; a [`SuiteRun`]
//! is all of them. [`RunSummary`] shows one run, [`compare()`] judges two sides, [`history()`]
//! finds the points of a long series where it changed. The statistics and their reasons are in
//! `docs/VERDICTS.md`.
//!
//! Samples of one iteration follow each other in time and are alike: thousands of them make
//! every difference significant. So the unit of a test is the run, or the iteration where there
//! is one run a side, and never the single read or write.

mod alike;
mod compare;
mod divisive;
mod error;
mod history;
mod manifest;
mod rank_test;
mod run;
mod summary;
#[cfg(test)]
mod tests;
mod timing;

pub use alike::Difference;
pub use compare::{
    CompareOptions, Comparison, GroupComparison, Observed, OpComparison, Verdict, compare,
};
pub use divisive::{ChangePoint, DivisiveOptions, change_points};
pub use error::{CompareError, SuiteError};
pub use history::{Change, HistoryOptions, OpHistory, history};
pub use manifest::{
    Cache, Dist, FileSystem, Host, Iteration, MAX_MANIFEST_BYTES, MAX_RANKS, Manifest, SCHEMA,
    Status, Verify,
};
pub use rank_test::{RankTest, adjusted, mann_whitney};
pub use run::{BARRIER_WAIT, GANG_START, Metric, SuiteRun, WALL};
pub use summary::{OpSummary, RankFault, RunSummary};
pub use timing::{Timing, Unit};
