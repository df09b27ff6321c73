//! Two sides, and for each operation whether it became slower.

mod groups;

use serde::Serialize;
use serde_json::{Map, Value};

use super::run::{BARRIER_WAIT, GANG_START, Metric, SuiteRun};
use super::{CompareError, Difference, adjusted, alike, mann_whitney};
use crate::stats::{BootstrapPlan, Sorted, Statistic, StatsError, ratio_interval};
use groups::Pair;

/// How to judge.
#[derive(Clone, Debug, PartialEq)]
pub struct CompareOptions {
    /// What an iteration is reduced to.
    pub metric: Metric,
    /// Chance of a false alarm that is accepted, over all operations together.
    pub alpha: f64,
    /// The least relative change that matters, as 0.05 for 5 %.
    pub least_effect: f64,
    /// Runs or iterations that each side must have. Below 5, no difference can be significant
    /// among many operations.
    pub least_n: usize,
    /// How the interval of the ratio is found.
    pub plan: BootstrapPlan,
    /// Only these operations; all when empty.
    pub ops: Vec<String>,
    /// Compare runs that are not alike, and leave failed ones out, in place of refusing.
    pub force: bool,
}

impl Default for CompareOptions {
    /// The slowest rank, 5 % false alarms, 5 % least effect, 5 a side, 10,000 resamples.
    fn default() -> Self {
        Self {
            metric: Metric::MaxRank,
            alpha: 0.05,
            least_effect: 0.05,
            least_n: 5,
            plan: BootstrapPlan {
                resamples: 10_000,
                ..BootstrapPlan::default()
            },
            ops: Vec::new(),
            force: false,
        }
    }
}

/// What is said of an operation, or of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing was tested; the reason stands beside it.
    Untested,
    /// A change that matters is ruled out by the interval.
    NoChange,
    /// It became faster: significant, and by at least the least effect.
    Improvement,
    /// Neither a change that matters nor its absence is shown: more runs are needed.
    Inconclusive,
    /// It became slower: significant, the interval above 1, and by at least the least effect.
    Regression,
}

/// What one observation of a side is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Observed {
    /// The median iteration of a run.
    Run,
    /// An iteration of the only run.
    Iteration,
}

/// One operation on both sides. Times are of the median observation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OpComparison {
    /// Its name.
    pub op: String,
    /// Observations of the base.
    pub base_n: usize,
    /// Observations of the candidate.
    pub candidate_n: usize,
    /// Median of the base, in nanoseconds.
    pub base_ns: f64,
    /// Median of the candidate, in nanoseconds.
    pub candidate_ns: f64,
    /// Candidate over base: above 1 is slower. Absent where it was not tested.
    pub ratio: Option<f64>,
    /// Lower end of the ratio's interval.
    pub low: Option<f64>,
    /// Upper end of the ratio's interval.
    pub high: Option<f64>,
    /// Chance of such a difference without a cause, for this operation alone.
    pub p: Option<f64>,
    /// The same, adjusted for all operations of the comparison.
    pub p_adjusted: Option<f64>,
    /// What is said of it.
    pub verdict: Verdict,
    /// Why it was not tested.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub untested: Option<&'static str>,
}

/// One benchmark at one number of ranks, on both sides.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct GroupComparison {
    /// Name of the benchmark.
    pub benchmark: String,
    /// Ranks of the base's runs.
    pub world_size: u32,
    /// Parameters of the base's first run.
    pub params: Map<String, Value>,
    /// What was counted.
    pub unit: Observed,
    /// Runs of the base.
    pub base_runs: Vec<String>,
    /// Runs of the candidate.
    pub candidate_runs: Vec<String>,
    /// What should be equal and is not; empty unless the comparison was forced.
    pub unlike: Vec<Difference>,
    /// What may differ and does, such as the kernel.
    pub differences: Vec<Difference>,
    /// Each operation that both sides have.
    pub ops: Vec<OpComparison>,
}

/// Two sides, compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Comparison {
    /// What an iteration was reduced to.
    pub metric: Metric,
    /// Chance of a false alarm that was accepted.
    pub alpha: f64,
    /// The least relative change that matters.
    pub least_effect: f64,
    /// The worst that is said of any operation.
    pub verdict: Verdict,
    /// Each benchmark that both sides ran.
    pub groups: Vec<GroupComparison>,
    /// What only one side ran, and failed runs that were left out, in words.
    pub left_out: Vec<String>,
}

/// Judges each operation of the candidate against the base.
///
/// # Errors
/// [`CompareError`] where there is nothing to compare or too little, where runs failed or are not
/// alike and `force` is not set, and for options that make no sense.
pub fn compare(
    base: &[SuiteRun],
    candidate: &[SuiteRun],
    options: &CompareOptions,
) -> Result<Comparison, CompareError> {
    check(options)?;
    let mut left_out = Vec::new();
    let pairs = groups::pair(base, candidate, options, &mut left_out)?;
    let mut groups = pairs
        .iter()
        .map(|pair| group(pair, options))
        .collect::<Result<Vec<_>, _>>()?;
    judge(&mut groups, options);
    let said = groups.iter().flat_map(|group| &group.ops);
    let verdict = said.map(|op| op.verdict).max().unwrap_or(Verdict::Untested);
    if verdict == Verdict::Untested {
        return Err(CompareError::Option(
            "no operation that both sides have could be tested".into(),
        ));
    }
    Ok(Comparison {
        metric: options.metric,
        alpha: options.alpha,
        least_effect: options.least_effect,
        verdict,
        groups,
        left_out,
    })
}

fn check(options: &CompareOptions) -> Result<(), CompareError> {
    let refuse = |words: String| Err(CompareError::Option(words));
    if !(options.alpha > 0.0 && options.alpha < 1.0) {
        return refuse(format!(
            "the chance of a false alarm must be between 0 and 1: {}",
            options.alpha
        ));
    }
    if !(0.0..=10.0).contains(&options.least_effect) {
        return refuse(format!(
            "the least effect must be between 0 and 10 (1000 %): {}",
            options.least_effect
        ));
    }
    if options.least_n < 2 {
        return refuse(format!(
            "at least 2 observations a side are needed: {}",
            options.least_n
        ));
    }
    Ok(())
}

fn group(pair: &Pair<'_>, options: &CompareOptions) -> Result<GroupComparison, CompareError> {
    let (first, other) = (pair.base[0], pair.candidate[0]);
    let unit = pair.unit(options)?;
    let theirs = other.ops();
    let wanted = |op: &&str| {
        theirs.contains(op) && (options.ops.is_empty() || options.ops.iter().any(|name| name == op))
    };
    let ops = first
        .ops()
        .into_iter()
        .filter(wanted)
        .map(|op| {
            let sides = (
                observed(&pair.base, op, unit, options.metric),
                observed(&pair.candidate, op, unit, options.metric),
            );
            one(op, &sides, options).map_err(|source| CompareError::Stats {
                benchmark: first.benchmark().into(),
                op: op.into(),
                source,
            })
        })
        .collect::<Result<Vec<_>, _>>()?;
    let names = |runs: &[&SuiteRun]| runs.iter().map(|run| run.run_id().to_owned()).collect();
    Ok(GroupComparison {
        benchmark: first.benchmark().into(),
        world_size: first.world_size(),
        params: first.params().clone(),
        unit,
        base_runs: names(&pair.base),
        candidate_runs: names(&pair.candidate),
        unlike: alike::differences(first, other),
        differences: alike::notes(first, other),
        ops,
    })
}

/// One number for each run, or for each iteration of the only one.
fn observed(runs: &[&SuiteRun], op: &str, unit: Observed, metric: Metric) -> Vec<f64> {
    let median = |run: &&SuiteRun| {
        let sorted = Sorted::new(run.values(op, metric)).ok()?;
        Some(sorted.median())
    };
    match unit {
        Observed::Run => runs.iter().filter_map(median).collect(),
        Observed::Iteration => runs[0].values(op, metric),
    }
}

/// Everything but the verdict, which needs the other operations.
fn one(
    op: &str,
    (base, candidate): &(Vec<f64>, Vec<f64>),
    options: &CompareOptions,
) -> Result<OpComparison, StatsError> {
    let median =
        |values: &[f64]| Sorted::new(values.iter().copied()).map_or(0.0, |sorted| sorted.median());
    let mut found = OpComparison {
        op: op.into(),
        base_n: base.len(),
        candidate_n: candidate.len(),
        base_ns: median(base),
        candidate_ns: median(candidate),
        ratio: None,
        low: None,
        high: None,
        p: None,
        p_adjusted: None,
        verdict: Verdict::Untested,
        untested: None,
    };
    found.untested = if op == BARRIER_WAIT {
        Some("a rank waits the longer the faster it is")
    } else if op == GANG_START {
        Some("it is the launcher's time")
    } else if base.len().min(candidate.len()) < options.least_n {
        Some("too few iterations did it")
    } else if found.base_ns <= 0.0 {
        Some("it took no time on the base side")
    } else {
        None
    };
    if found.untested.is_some() {
        return Ok(found);
    }
    let interval = ratio_interval(candidate, base, Statistic::Median, &options.plan)?;
    found.ratio = Some(interval.ratio);
    found.low = Some(interval.low);
    found.high = Some(interval.high);
    found.p = Some(mann_whitney(candidate, base)?.p);
    Ok(found)
}

/// Adjusts the p-values over all operations of all groups, and gives the verdicts.
fn judge(groups: &mut [GroupComparison], options: &CompareOptions) {
    let mut tested: Vec<&mut OpComparison> = groups
        .iter_mut()
        .flat_map(|group| &mut group.ops)
        .filter(|op| op.p.is_some())
        .collect();
    let p: Vec<f64> = tested.iter().filter_map(|op| op.p).collect();
    for (op, p) in tested.iter_mut().zip(adjusted(&p)) {
        op.p_adjusted = Some(p);
        op.verdict = verdict(op, p, options);
    }
}

fn verdict(op: &OpComparison, p: f64, options: &CompareOptions) -> Verdict {
    let (Some(ratio), Some(low), Some(high)) = (op.ratio, op.low, op.high) else {
        return Verdict::Untested;
    };
    let slower = 1.0 + options.least_effect;
    let faster = 1.0 / slower;
    let significant = p < options.alpha;
    if significant && low > 1.0 && ratio >= slower {
        Verdict::Regression
    } else if significant && high < 1.0 && ratio <= faster {
        Verdict::Improvement
    } else if low < faster || high > slower {
        Verdict::Inconclusive
    } else {
        Verdict::NoChange
    }
}
