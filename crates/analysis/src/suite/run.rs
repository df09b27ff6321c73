//! All ranks of one run, and one number an iteration.

use std::fmt;
use std::str::FromStr;

use serde::Serialize;
use serde_json::{Map, Value};

use super::timing::nearest_rank;
use super::{Manifest, Status, SuiteError, Timing};

/// The operation that stands for a whole iteration of a rank: its `wall_ns`.
pub const WALL: &str = "wall";

/// The operation in which a rank waits for others. It is shown and never judged: the faster a
/// rank is, the longer it waits.
pub const BARRIER_WAIT: &str = "barrier_wait";

/// From the start of a run until all its ranks had come: once a rank. It is shown and never judged:
/// it is the launcher's time and not storage's.
pub const GANG_START: &str = "gang_start";

/// What one iteration of an operation is reduced to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// The mean time on the slowest rank: what a job that waits for all its ranks feels.
    #[default]
    MaxRank,
    /// The mean time on a rank, averaged over ranks.
    Mean,
    /// The median of all samples of all ranks.
    P50,
    /// Their 90th percentile.
    P90,
    /// Their 99th percentile.
    P99,
    /// The longest of them.
    Max,
}

impl Metric {
    /// Every metric.
    pub const ALL: [Self; 6] = [
        Self::MaxRank,
        Self::Mean,
        Self::P50,
        Self::P90,
        Self::P99,
        Self::Max,
    ];

    /// Its name on the command line and in JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MaxRank => "max_rank",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P90 => "p90",
            Self::P99 => "p99",
            Self::Max => "max",
        }
    }

    /// One iteration's value, of the samples of each rank; `None` where there is no sample.
    fn of(self, ranks: &[&[u64]]) -> Option<f64> {
        let means = || {
            let with_samples = ranks.iter().filter(|samples| !samples.is_empty());
            with_samples.map(|samples| {
                let sum: u128 = samples.iter().map(|one| u128::from(*one)).sum();
                sum as f64 / samples.len() as f64
            })
        };
        let pooled = |share| {
            let mut all = ranks.concat();
            all.sort_unstable();
            nearest_rank(&all, share).map(|value| value as f64)
        };
        match self {
            Self::MaxRank => means().reduce(f64::max),
            Self::Mean => {
                let n = means().count();
                (n > 0).then(|| means().sum::<f64>() / n as f64)
            }
            Self::P50 => pooled(0.5),
            Self::P90 => pooled(0.9),
            Self::P99 => pooled(0.99),
            Self::Max => pooled(1.0),
        }
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|metric| metric.name() == text);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("`{text}` is no metric: it must be one of {names}")
        })
    }
}

/// All ranks of one run.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteRun {
    /// Ascending by rank, none twice, at least one.
    ranks: Vec<Manifest>,
}

impl SuiteRun {
    /// Puts the manifests of a run together, in any order. Ranks may be missing: the run has
    /// failed then.
    ///
    /// # Errors
    /// [`SuiteError`] for no manifest, for two of one rank, and for manifests of several runs.
    pub fn new(mut ranks: Vec<Manifest>) -> Result<Self, SuiteError> {
        ranks.sort_by_key(|manifest| manifest.dist.rank);
        let first = ranks.first().ok_or(SuiteError::NoRank)?;
        for other in &ranks {
            same_run(first, other)?;
        }
        if let Some(pair) = ranks
            .windows(2)
            .find(|pair| pair[0].dist.rank == pair[1].dist.rank)
        {
            return Err(SuiteError::RankTwice {
                rank: pair[0].dist.rank,
                run_id: pair[0].run_id.clone(),
            });
        }
        Ok(Self { ranks })
    }

    /// The manifests, ascending by rank.
    #[must_use]
    pub fn ranks(&self) -> &[Manifest] {
        &self.ranks
    }

    /// The manifest of the lowest rank that is there.
    #[must_use]
    pub fn first(&self) -> &Manifest {
        // `new` refuses a run without ranks.
        &self.ranks[0]
    }

    /// Name of the benchmark.
    #[must_use]
    pub fn benchmark(&self) -> &str {
        &self.first().benchmark
    }

    /// Name of the run.
    #[must_use]
    pub fn run_id(&self) -> &str {
        &self.first().run_id
    }

    /// Ranks that the run should have.
    #[must_use]
    pub fn world_size(&self) -> u32 {
        self.first().dist.world_size
    }

    /// Parameters of the first rank.
    #[must_use]
    pub fn params(&self) -> &Map<String, Value> {
        &self.first().params
    }

    /// Number of ranks that left no manifest.
    #[must_use]
    pub fn missing(&self) -> u32 {
        self.world_size() - self.ranks.len() as u32
    }

    /// When the first iteration of any rank began, in nanoseconds since 1970-01-01 UTC; 0 where
    /// none did.
    #[must_use]
    pub fn started_unix_ns(&self) -> u64 {
        let starts = self.ranks.iter().filter_map(Manifest::started_unix_ns);
        starts.min().unwrap_or(0)
    }

    /// [`Status::Pass`] if every rank is there and passed.
    #[must_use]
    pub fn status(&self) -> Status {
        let passed = self.ranks.iter().all(|rank| rank.status == Status::Pass);
        if passed && self.missing() == 0 {
            Status::Pass
        } else {
            Status::Fail
        }
    }

    /// The first fault in words, of a run that failed.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        let failed = self.ranks.iter().find(|rank| rank.status == Status::Fail);
        match failed {
            Some(rank) => Some(format!(
                "rank {}: {}",
                rank.dist.rank,
                rank.error.as_deref().unwrap_or("no reason was given")
            )),
            None if self.missing() > 0 => {
                Some(format!("{} ranks left no manifest", self.missing()))
            }
            None => None,
        }
    }

    /// Names of all operations: [`WALL`] first, then those of any rank in order.
    #[must_use]
    pub fn ops(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self
            .ranks
            .iter()
            .flat_map(|rank| rank.timing.keys().map(String::as_str))
            .collect();
        names.sort_unstable();
        names.dedup();
        let walls = self.ranks.iter().any(|rank| rank.measured().count() > 0);
        if walls || names.contains(&WALL) {
            names.retain(|name| *name != WALL);
            names.insert(0, WALL);
        }
        names
    }

    /// One value for each measured iteration of an operation, in nanoseconds. Iterations in
    /// which no rank did it are left out.
    #[must_use]
    pub fn values(&self, op: &str, metric: Metric) -> Vec<f64> {
        let ranks: Vec<Vec<Vec<u64>>> = self.ranks.iter().map(|rank| rank.samples(op)).collect();
        let iterations = ranks.iter().map(Vec::len).max().unwrap_or(0);
        let value = |i: usize| {
            let these: Vec<&[u64]> = ranks
                .iter()
                .filter_map(|rank| rank.get(i).map(Vec::as_slice))
                .collect();
            metric.of(&these)
        };
        (0..iterations).filter_map(value).collect()
    }

    /// The run with one sample for each iteration of an operation: its value by this metric, to
    /// the nanosecond. A thousand runs fit the memory of a login node that way.
    #[must_use]
    pub fn reduced(mut self, metric: Metric) -> Self {
        let ops: Vec<String> = self.ops().into_iter().map(str::to_owned).collect();
        let values: Vec<(String, Timing)> = ops
            .into_iter()
            .map(|op| {
                let values = self.values(&op, metric).into_iter();
                let iterations: Vec<Vec<u64>> = values.map(|ns| vec![ns.round() as u64]).collect();
                (op, Timing::from_iterations(&iterations))
            })
            .collect();
        for rank in &mut self.ranks {
            rank.timing.clear();
        }
        for rank in &mut self.ranks[1..] {
            rank.iterations.clear();
        }
        self.ranks[0].timing.extend(values);
        self
    }
}

fn same_run(first: &Manifest, other: &Manifest) -> Result<(), SuiteError> {
    let differs = |field, found: String, first: String| SuiteError::TwoRuns {
        rank: other.dist.rank,
        field,
        found,
        first,
    };
    if other.run_id != first.run_id {
        return Err(differs(
            "run_id",
            format!("`{}`", other.run_id),
            format!("`{}`", first.run_id),
        ));
    }
    if other.benchmark != first.benchmark {
        return Err(differs(
            "benchmark",
            format!("`{}`", other.benchmark),
            format!("`{}`", first.benchmark),
        ));
    }
    let (found, wanted) = (other.dist.world_size, first.dist.world_size);
    if found != wanted {
        return Err(differs("world_size", found.to_string(), wanted.to_string()));
    }
    Ok(())
}
