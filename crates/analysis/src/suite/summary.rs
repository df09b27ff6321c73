//! One run over all its ranks.

use serde::Serialize;
use serde_json::{Map, Value};

use super::run::{Metric, SuiteRun, WALL};
use super::timing::nearest_rank;
use super::{Cache, FileSystem, Host, Manifest, Status, Verify};
use crate::stats::Sorted;

/// Faults that are shown of one run; the others are counted.
const MAX_FAULTS: usize = 20;

/// A rank that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct RankFault {
    /// The rank.
    pub rank: u32,
    /// Why.
    pub error: String,
}

/// One operation over all ranks and measured iterations. Times are in nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OpSummary {
    /// Its name.
    pub op: String,
    /// Samples of all ranks.
    pub count: u64,
    /// The mean of each rank, averaged over ranks.
    pub mean_ns: f64,
    /// The shortest sample.
    pub min_ns: u64,
    /// The longest sample.
    pub max_ns: u64,
    /// 50th percentile of all samples; absent where several ranks kept none.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// Of each iteration the mean time on its slowest rank: the straggler.
    pub straggler_ns: Vec<f64>,
    /// Of each iteration the mean over ranks.
    pub mean_over_ranks_ns: Vec<f64>,
    /// Greatest mean of a rank over the median of all ranks' means: 1 is even.
    pub skew: f64,
    /// The rank with the greatest mean.
    pub slowest_rank: u32,
    /// Its host.
    pub slowest_host: String,
}

/// One run over all its ranks.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunSummary {
    /// Name of the run.
    pub run_id: String,
    /// Name of the benchmark.
    pub benchmark: String,
    /// Whether every rank came and passed.
    pub status: Status,
    /// When the first iteration began, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// Ranks that the run should have.
    pub world_size: u32,
    /// Ranks that left no manifest.
    pub missing_ranks: u32,
    /// Ranks that failed.
    pub failed_ranks: u32,
    /// The first of them.
    pub faults: Vec<RankFault>,
    /// Iterations that count.
    pub iterations: usize,
    /// Iterations before them that do not.
    pub warmups: usize,
    /// Parameters of the first rank.
    pub params: Map<String, Value>,
    /// Machine of the first rank.
    pub host: Host,
    /// Number of different hosts.
    pub hosts: usize,
    /// File system of the first rank.
    pub fs: FileSystem,
    /// Cache state of the first rank; its bytes are of all ranks together.
    pub cache: Cache,
    /// What was compared, of all ranks together.
    pub verify: Verify,
    /// Of each iteration, when the first rank was done.
    pub first_done_ns: Vec<f64>,
    /// Of each iteration, when the last rank was done.
    pub last_done_ns: Vec<f64>,
    /// Bytes a second of all ranks together until the last was done: the median iteration.
    pub bytes_per_s: Option<f64>,
    /// Operations a second, likewise.
    pub ops_per_s: Option<f64>,
    /// Each operation: `wall` first, then by name.
    pub ops: Vec<OpSummary>,
}

impl RunSummary {
    /// Puts the ranks of a run together.
    #[must_use]
    pub fn of(run: &SuiteRun) -> Self {
        let first = run.first();
        let failed = run.ranks().iter().filter(|one| one.status == Status::Fail);
        let faults: Vec<RankFault> = failed.map(fault).collect();
        let mut hosts: Vec<&str> = run.ranks().iter().map(|one| &*one.host.hostname).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let last_done_ns = run.values(WALL, Metric::Max);
        Self {
            run_id: run.run_id().into(),
            benchmark: run.benchmark().into(),
            status: run.status(),
            started_unix_ns: run.started_unix_ns(),
            world_size: run.world_size(),
            missing_ranks: run.missing(),
            failed_ranks: faults.len() as u32,
            faults: faults.into_iter().take(MAX_FAULTS).collect(),
            iterations: first.measured().count(),
            warmups: first.iterations.iter().filter(|one| one.warmup).count(),
            params: first.params.clone(),
            host: first.host.clone(),
            hosts: hosts.len(),
            fs: first.fs.clone(),
            cache: cache(run),
            verify: verify(run),
            first_done_ns: first_done(run),
            bytes_per_s: rate(run, &last_done_ns, |one| one.io_bytes),
            ops_per_s: rate(run, &last_done_ns, |one| one.ops),
            last_done_ns,
            ops: run.ops().iter().map(|op| of_op(run, op)).collect(),
        }
    }
}

fn fault(rank: &Manifest) -> RankFault {
    RankFault {
        rank: rank.dist.rank,
        error: rank
            .error
            .clone()
            .unwrap_or_else(|| "no reason was given".into()),
    }
}

fn cache(run: &SuiteRun) -> Cache {
    let sum = |of: fn(&Cache) -> Option<u64>| {
        let told = run.ranks().iter().filter_map(|rank| of(&rank.cache));
        told.reduce(u64::saturating_add)
    };
    Cache {
        resident_before_bytes: sum(|cache| cache.resident_before_bytes),
        looked_at_bytes: sum(|cache| cache.looked_at_bytes),
        ..run.first().cache.clone()
    }
}

fn verify(run: &SuiteRun) -> Verify {
    run.ranks()
        .iter()
        .fold(Verify::default(), |sum, rank| Verify {
            checked: sum.checked.saturating_add(rank.verify.checked),
            bad: sum.bad.saturating_add(rank.verify.bad),
        })
}

/// Of each iteration the least wall time of a rank.
fn first_done(run: &SuiteRun) -> Vec<f64> {
    let ranks: Vec<Vec<u64>> = run
        .ranks()
        .iter()
        .map(|rank| rank.measured().map(|one| one.wall_ns).collect())
        .collect();
    let iterations = ranks.iter().map(Vec::len).max().unwrap_or(0);
    (0..iterations)
        .filter_map(|i| ranks.iter().filter_map(|rank| rank.get(i)).min())
        .map(|least| *least as f64)
        .collect()
}

/// What all ranks did in an iteration over the time until the last was done, in a second: the
/// median over iterations, where anything was done.
fn rate(
    run: &SuiteRun,
    last_done_ns: &[f64],
    done: impl Fn(&super::Iteration) -> u64,
) -> Option<f64> {
    let mut sums = vec![0.0; last_done_ns.len()];
    for rank in run.ranks() {
        for (sum, one) in sums.iter_mut().zip(rank.measured()) {
            *sum += done(one) as f64;
        }
    }
    let rates = sums
        .iter()
        .zip(last_done_ns)
        .filter(|(sum, wall)| **sum > 0.0 && **wall > 0.0)
        .map(|(sum, wall)| sum / wall * 1e9);
    Some(Sorted::new(rates).ok()?.median())
}

fn of_op(run: &SuiteRun, op: &str) -> OpSummary {
    let mut means = Vec::new();
    for rank in run.ranks() {
        if let Some(mean) = mean(rank, op) {
            means.push((mean, rank));
        }
    }
    let slowest = means.iter().max_by(|x, y| x.0.total_cmp(&y.0));
    let (slowest_mean, slowest_rank, slowest_host) = match slowest {
        Some((mean, rank)) => (*mean, rank.dist.rank, rank.host.hostname.clone()),
        None => (0.0, 0, String::new()),
    };
    let median = Sorted::new(means.iter().map(|(mean, _)| *mean)).map_or(0.0, |all| all.median());
    let pooled = Pooled::of(run, op);
    OpSummary {
        op: op.into(),
        count: pooled.count,
        mean_ns: means.iter().map(|(mean, _)| mean).sum::<f64>() / means.len().max(1) as f64,
        min_ns: pooled.min,
        max_ns: pooled.max,
        p50_ns: pooled.percentiles[0],
        p90_ns: pooled.percentiles[1],
        p99_ns: pooled.percentiles[2],
        p999_ns: pooled.percentiles[3],
        straggler_ns: run.values(op, Metric::MaxRank),
        mean_over_ranks_ns: run.values(op, Metric::Mean),
        skew: if median > 0.0 {
            slowest_mean / median
        } else {
            1.0
        },
        slowest_rank,
        slowest_host,
    }
}

/// Mean of an operation on a rank that did it.
fn mean(rank: &Manifest, op: &str) -> Option<f64> {
    if let Some(timing) = rank.timing.get(op) {
        return (timing.count > 0).then_some(timing.mean);
    }
    let all = rank.samples(op).concat();
    let sum: u128 = all.iter().map(|one| u128::from(*one)).sum();
    (!all.is_empty()).then(|| sum as f64 / all.len() as f64)
}

/// All samples of all ranks.
struct Pooled {
    count: u64,
    min: u64,
    max: u64,
    percentiles: [Option<u64>; 4],
}

impl Pooled {
    fn of(run: &SuiteRun, op: &str) -> Self {
        let mut all: Vec<u64> = Vec::new();
        let mut told: Vec<&super::Timing> = Vec::new();
        for rank in run.ranks() {
            match rank.timing.get(op) {
                Some(timing) if timing.count > 0 => told.push(timing),
                _ => {}
            }
            all.extend(rank.samples(op).into_iter().flatten());
        }
        all.sort_unstable();
        let kept = told.iter().all(|timing| !timing.samples.is_empty());
        let percentiles = match told.as_slice() {
            // A program that kept no samples told its percentiles; those of several ranks have
            // no common one.
            [one] if !kept => [one.p50, one.p90, one.p99, one.p999].map(Some),
            _ if !kept => [None; 4],
            _ => [0.5, 0.9, 0.99, 0.999].map(|share| nearest_rank(&all, share)),
        };
        let of_told = |of: fn(&super::Timing) -> u64| told.iter().map(move |timing| of(timing));
        let (least, most) = (all.first().copied(), all.last().copied());
        Self {
            count: if told.is_empty() {
                all.len() as u64
            } else {
                of_told(|timing| timing.count).sum()
            },
            min: of_told(|timing| timing.min).min().or(least).unwrap_or(0),
            max: of_told(|timing| timing.max).max().or(most).unwrap_or(0),
            percentiles,
        }
    }
}
