//! What is wrong with manifests, and why two sides cannot be compared.

use super::alike::Difference;
use crate::stats::StatsError;

/// Why manifests cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SuiteError {
    /// The text is no manifest.
    #[error("it is no manifest of a benchmark's rank")]
    Json(#[source] serde_json::Error),
    /// The manifest is of another version.
    #[error(
        "manifest schema {found} is not known: this version reads schema {}",
        super::SCHEMA
    )]
    Schema {
        /// The version that it says it is.
        found: u32,
    },
    /// Figures of the manifest contradict each other.
    #[error("a rule of manifests is broken: {0}")]
    Broken(String),
    /// There is no manifest.
    #[error("a run has at least one rank, and no manifest was given")]
    NoRank,
    /// Manifests of two runs were put together.
    #[error(
        "rank {rank} has `{field}` {found}, the first rank has {first}: these are not of one run"
    )]
    TwoRuns {
        /// The rank that differs.
        rank: u32,
        /// In what it differs.
        field: &'static str,
        /// What it has.
        found: String,
        /// What the first rank has.
        first: String,
    },
    /// Two manifests are of one rank.
    #[error("rank {rank} of run `{run_id}` has two manifests")]
    RankTwice {
        /// The rank.
        rank: u32,
        /// The run.
        run_id: String,
    },
}

/// Why two sides cannot be compared.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompareError {
    /// A side has no run.
    #[error("the {side} side has no run")]
    Nothing {
        /// `base` or `candidate`.
        side: &'static str,
    },
    /// No benchmark was run on both sides.
    #[error("no benchmark was run on both sides: base has {base}, candidate has {candidate}")]
    NothingInCommon {
        /// Benchmarks of the base.
        base: String,
        /// Benchmarks of the candidate.
        candidate: String,
    },
    /// A run failed, so its times may be of less work.
    #[error("run `{run_id}` of the {side} side failed: {why}")]
    Failed {
        /// `base` or `candidate`.
        side: &'static str,
        /// The run.
        run_id: String,
        /// Its first fault.
        why: String,
    },
    /// The two sides did not do the same work on the same kind of machine.
    #[error("the runs of `{benchmark}` are not alike: {}", words(differences))]
    Unlike {
        /// The benchmark.
        benchmark: String,
        /// What differs.
        differences: Vec<Difference>,
    },
    /// There is too little to judge by.
    #[error(
        "`{benchmark}` has {base} {unit} on the base side and {candidate} on the candidate side: a verdict needs at least {least} on each"
    )]
    TooFew {
        /// The benchmark.
        benchmark: String,
        /// What was counted: `runs` or `iterations`.
        unit: &'static str,
        /// Of the base.
        base: usize,
        /// Of the candidate.
        candidate: usize,
        /// How many are needed.
        least: usize,
    },
    /// A setting makes no sense.
    #[error("{0}")]
    Option(String),
    /// A statistic cannot be computed.
    #[error("cannot compare `{op}` of `{benchmark}`")]
    Stats {
        /// The benchmark.
        benchmark: String,
        /// The operation.
        op: String,
        /// Why.
        #[source]
        source: StatsError,
    },
}

fn words(differences: &[Difference]) -> String {
    const SHOWN: usize = 4;
    let mut words: Vec<String> = differences
        .iter()
        .take(SHOWN)
        .map(ToString::to_string)
        .collect();
    if differences.len() > SHOWN {
        words.push(format!("and {} more", differences.len() - SHOWN));
    }
    words.join("; ")
}
