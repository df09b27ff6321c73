//! Whether verdicts are true: an operation that became 30 % slower is found, and nothing is
//! found where nothing changed. Times of runs are lognormal with a coefficient of variation of
//! 8 %, as those of shared storage are; ten runs a side.

use super::*;
use crate::random::Random;
use crate::stats::BootstrapPlan;

const TRIALS: u64 = 20;
const RUNS: usize = 10;
const SPREAD: f64 = 0.08;
const OPS: [(&str, f64); 4] = [
    ("open", 2e5),
    ("write", 3e6),
    ("fsync", 9e6),
    ("close", 4e4),
];

fn normal(random: &mut Random) -> f64 {
    let radius = (-2.0 * random.unit().ln()).sqrt();
    radius * (std::f64::consts::TAU * random.unit()).cos()
}

/// Ten runs, in which `slow` takes `factor` times as long.
fn side(random: &mut Random, slow: &str, factor: f64) -> Vec<SuiteRun> {
    (0..RUNS)
        .map(|i| {
            let mut draw = |(op, median): (&'static str, f64)| {
                let factor = if op == slow { factor } else { 1.0 };
                let ns = median * factor * (SPREAD * normal(random)).exp();
                (op, [ns as u64])
            };
            let drawn = OPS.map(&mut draw);
            let ops: Vec<(&str, &[u64])> = drawn.iter().map(|(op, ns)| (*op, &ns[..])).collect();
            run(&format!("r{i}"), &ops)
        })
        .collect()
}

/// The operations that are said to have become slower, of one trial.
fn alarms(seed: u64, factor: f64) -> Vec<String> {
    let mut random = Random::new(seed);
    let (base, candidate) = (
        side(&mut random, "", 1.0),
        side(&mut random, "fsync", factor),
    );
    let options = CompareOptions {
        plan: BootstrapPlan {
            resamples: 2_000,
            ..BootstrapPlan::default()
        },
        ..CompareOptions::default()
    };
    let found = compare(&base, &candidate, &options).expect("both sides are alike");
    let slower = found.groups[0].ops.iter();
    slower
        .filter(|op| op.verdict == Verdict::Regression)
        .map(|op| op.op.clone())
        .collect()
}

#[test]
fn thirty_percent_in_one_operation_are_found_in_19_of_20_trials() {
    let found = (0..TRIALS)
        .filter(|seed| alarms(*seed, 1.3) == ["fsync"])
        .count();
    assert!(found >= 19, "{found} of {TRIALS}");
}

#[test]
fn nothing_is_found_where_nothing_changed_in_19_of_20_trials() {
    let quiet = (0..TRIALS)
        .filter(|seed| alarms(*seed, 1.0).is_empty())
        .count();
    assert!(quiet >= 19, "{quiet} of {TRIALS}");
}
