//! Which runs of the base stand against which of the candidate.

use std::collections::BTreeMap;

use super::{CompareOptions, Observed};
use crate::suite::{CompareError, Status, SuiteRun, alike};

/// The same work on both sides.
pub(super) struct Pair<'a> {
    /// At least one run.
    pub(super) base: Vec<&'a SuiteRun>,
    /// At least one run.
    pub(super) candidate: Vec<&'a SuiteRun>,
}

impl Pair<'_> {
    /// Runs where there are enough, iterations where there is one run a side.
    pub(super) fn unit(&self, options: &CompareOptions) -> Result<Observed, CompareError> {
        let runs = (self.base.len(), self.candidate.len());
        if runs.0.min(runs.1) >= options.least_n {
            return Ok(Observed::Run);
        }
        let too_few = |unit, (base, candidate)| CompareError::TooFew {
            benchmark: self.base[0].benchmark().into(),
            unit,
            base,
            candidate,
            least: options.least_n,
        };
        if runs != (1, 1) {
            return Err(too_few("runs", runs));
        }
        let measured = |run: &SuiteRun| run.first().measured().count();
        let iterations = (measured(self.base[0]), measured(self.candidate[0]));
        if iterations.0.min(iterations.1) < options.least_n {
            return Err(too_few("iterations", iterations));
        }
        Ok(Observed::Iteration)
    }
}

/// Runs that are alike, by what they must agree in.
type Groups<'a> = BTreeMap<Vec<(String, String)>, Vec<&'a SuiteRun>>;

/// Pairs the groups of both sides. What stands alone is named in `left_out`.
pub(super) fn pair<'a>(
    base: &'a [SuiteRun],
    candidate: &'a [SuiteRun],
    options: &CompareOptions,
    left_out: &mut Vec<String>,
) -> Result<Vec<Pair<'a>>, CompareError> {
    let base = usable(base, "base", options, left_out)?;
    let candidate = usable(candidate, "candidate", options, left_out)?;
    let mut pairs = Vec::new();
    let (base, candidate) = (by_benchmark(&base), by_benchmark(&candidate));
    for (benchmark, ours) in &base {
        match candidate.get(benchmark) {
            Some(theirs) => of_benchmark(ours, theirs, options, left_out, &mut pairs)?,
            None => left_out.push(format!("`{benchmark}` was run on the base side only")),
        }
    }
    for benchmark in candidate.keys().filter(|name| !base.contains_key(*name)) {
        left_out.push(format!("`{benchmark}` was run on the candidate side only"));
    }
    if pairs.is_empty() {
        let names = |side: &BTreeMap<&str, Vec<&SuiteRun>>| {
            let names: Vec<String> = side.keys().map(|name| format!("`{name}`")).collect();
            names.join(", ")
        };
        return Err(CompareError::NothingInCommon {
            base: names(&base),
            candidate: names(&candidate),
        });
    }
    Ok(pairs)
}

fn usable<'a>(
    runs: &'a [SuiteRun],
    side: &'static str,
    options: &CompareOptions,
    left_out: &mut Vec<String>,
) -> Result<Vec<&'a SuiteRun>, CompareError> {
    let mut usable = Vec::new();
    for run in runs {
        if run.status() == Status::Pass {
            usable.push(run);
            continue;
        }
        let why = run.fault().unwrap_or_default();
        if !options.force {
            return Err(CompareError::Failed {
                side,
                run_id: run.run_id().into(),
                why,
            });
        }
        left_out.push(format!(
            "run `{}` of the {side} side failed: {why}",
            run.run_id()
        ));
    }
    if usable.is_empty() {
        return Err(CompareError::Nothing { side });
    }
    Ok(usable)
}

fn by_benchmark<'a>(runs: &[&'a SuiteRun]) -> BTreeMap<&'a str, Vec<&'a SuiteRun>> {
    let mut found: BTreeMap<&str, Vec<&SuiteRun>> = BTreeMap::new();
    for run in runs {
        found.entry(run.benchmark()).or_default().push(run);
    }
    found
}

fn of_benchmark<'a>(
    base: &[&'a SuiteRun],
    candidate: &[&'a SuiteRun],
    options: &CompareOptions,
    left_out: &mut Vec<String>,
    pairs: &mut Vec<Pair<'a>>,
) -> Result<(), CompareError> {
    let mut theirs = grouped(candidate, options.force);
    let mut alone = Vec::new();
    for (key, base) in grouped(base, options.force) {
        match theirs.remove(&key) {
            Some(candidate) => pairs.push(Pair { base, candidate }),
            None => alone.push(base),
        }
    }
    let mut theirs = theirs.into_values();
    for base in alone {
        match theirs.next() {
            None => left_out.push(only("base", base[0])),
            Some(candidate) if options.force => pairs.push(Pair { base, candidate }),
            Some(candidate) => {
                return Err(CompareError::Unlike {
                    benchmark: base[0].benchmark().into(),
                    differences: alike::differences(base[0], candidate[0]),
                });
            }
        }
    }
    left_out.extend(theirs.map(|candidate| only("candidate", candidate[0])));
    Ok(())
}

/// Groups of runs that are alike. Where unlike runs are to be compared, only the number of ranks
/// parts them.
fn grouped<'a>(runs: &[&'a SuiteRun], force: bool) -> Groups<'a> {
    let mut groups = Groups::new();
    for run in runs {
        let fields = alike::must_match(run).into_iter();
        let key = fields.filter(|(name, _)| !force || name == "dist.world_size");
        groups.entry(key.collect()).or_default().push(*run);
    }
    groups
}

fn only(side: &str, run: &SuiteRun) -> String {
    format!(
        "`{}` with {} ranks and parameters as in `{}` was run on the {side} side only",
        run.benchmark(),
        run.world_size(),
        run.run_id()
    )
}
