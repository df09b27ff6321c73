//! Runs of the storage suite, comparisons and histories as text.

use std::fmt::Write;

use super::table;
use crate::suite::{
    Comparison, GroupComparison, Observed, OpComparison, OpHistory, OpSummary, RunSummary, Status,
    SuiteRun, Verdict,
};
use crate::text::{self, plural, printable};

/// One run over all its ranks.
#[must_use]
pub fn suite_run(run: &RunSummary) -> String {
    let mut out = heading(run);
    let heads = [
        "operation",
        "n",
        "mean",
        "min",
        "p50",
        "p90",
        "p99",
        "p99.9",
        "max",
        "slowest rank",
        "skew",
    ];
    let rows: Vec<Vec<String>> = run.ops.iter().map(op_row).collect();
    // A run that failed at once has none.
    if !rows.is_empty() {
        out.push_str(&table(&heads, &rows));
    }
    let middle = |values: &[f64]| {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        sorted.get(sorted.len() / 2).map(|value| duration(*value))
    };
    if let (Some(first), Some(last)) = (middle(&run.first_done_ns), middle(&run.last_done_ns)) {
        let _ = writeln!(
            out,
            "first rank done after {first}, last after {last} (median of {} iterations)",
            run.iterations
        );
    }
    if let Some(rate) = run.bytes_per_s {
        let _ = writeln!(
            out,
            "{}/s of all ranks together",
            text::bytes(rate.round() as u64)
        );
    }
    if let Some(rate) = run.ops_per_s {
        let rate = text::three_digits(rate);
        let _ = writeln!(out, "{rate} operations/s of all ranks together");
    }
    out.push_str(&cache(run));
    let _ = writeln!(
        out,
        "{} compared, {} wrong",
        text::count(run.verify.checked as usize),
        text::count(run.verify.bad as usize)
    );
    for fault in &run.faults {
        let _ = writeln!(
            out,
            "rank {} failed: {}",
            fault.rank,
            printable(&fault.error)
        );
    }
    if run.missing_ranks > 0 {
        let _ = writeln!(out, "{} ranks left no manifest", run.missing_ranks);
    }
    out
}

/// Each operation of a run on each of its ranks.
#[must_use]
pub fn suite_ranks(run: &SuiteRun) -> String {
    let heads = [
        "operation",
        "rank",
        "host",
        "n",
        "mean",
        "min",
        "p50",
        "p99",
        "max",
    ];
    let mut rows = Vec::new();
    for op in run.ops() {
        for rank in run.ranks() {
            let Some(timing) = rank.timing.get(op) else {
                continue;
            };
            let mut row = vec![printable(op), rank.dist.rank.to_string()];
            row.push(printable(&rank.host.hostname));
            row.push(text::count(timing.count as usize));
            row.push(duration(timing.mean));
            let whole = [timing.min, timing.p50, timing.p99, timing.max];
            row.extend(whole.map(|ns| duration(ns as f64)));
            rows.push(row);
        }
    }
    table(&heads, &rows)
}

/// Each operation of a run in each of its iterations: the slowest rank and the mean of all.
#[must_use]
pub fn suite_iterations(run: &RunSummary) -> String {
    let heads = ["operation", "iteration", "slowest rank", "mean over ranks"];
    let mut rows = Vec::new();
    for op in &run.ops {
        let values = op.straggler_ns.iter().zip(&op.mean_over_ranks_ns);
        for (i, (slowest, mean)) in values.enumerate() {
            let i = text::count(i + run.warmups);
            rows.push(vec![
                printable(&op.op),
                i,
                duration(*slowest),
                duration(*mean),
            ]);
        }
    }
    table(&heads, &rows)
}

fn heading(run: &RunSummary) -> String {
    let status = match run.status {
        Status::Pass => "pass",
        Status::Fail => "FAIL",
    };
    let fs = &run.fs;
    let params: Vec<String> = run
        .params
        .iter()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut out = format!(
        "{} {status}: {}, {} on {}, {} iterations after {} warm-up\n",
        printable(&run.benchmark),
        printable(&run.run_id),
        plural(run.world_size as usize, "rank"),
        plural(run.hosts, "host"),
        run.iterations,
        run.warmups
    );
    let _ = writeln!(
        out,
        "on {} ({}, {})",
        printable(&fs.path),
        printable(&fs.fstype),
        printable(&fs.source)
    );
    if !params.is_empty() {
        let _ = writeln!(out, "with {}", printable(&params.join(" ")));
    }
    out.push('\n');
    out
}

fn op_row(op: &OpSummary) -> Vec<String> {
    let whole = |ns: u64| duration(ns as f64);
    let or_dash = |ns: Option<u64>| ns.map_or("-".into(), whole);
    vec![
        printable(&op.op),
        text::count(op.count as usize),
        duration(op.mean_ns),
        whole(op.min_ns),
        or_dash(op.p50_ns),
        or_dash(op.p90_ns),
        or_dash(op.p99_ns),
        or_dash(op.p999_ns),
        whole(op.max_ns),
        op.slowest_rank.to_string(),
        format!("{:.2}", op.skew),
    ]
}

fn cache(run: &RunSummary) -> String {
    let cache = &run.cache;
    let mut out = format!("cache policy {}", printable(&cache.policy));
    if let Some(resident) = cache.resident_before_bytes {
        let _ = write!(out, ", {} resident before reading", text::bytes(resident));
        if let Some(all) = cache.looked_at_bytes {
            let _ = write!(out, " of {}", text::bytes(all));
        }
    }
    // Each may have commas in it.
    for (words, things) in [("cold", &cache.cold), ("not cold", &cache.not_cold)] {
        if !things.is_empty() {
            let _ = write!(out, "\n{words}: {}", printable(&things.join("; ")));
        }
    }
    out + "\n"
}

/// Two sides, compared.
#[must_use]
pub fn comparison(found: &Comparison) -> String {
    let mut out = String::new();
    for group in &found.groups {
        out.push_str(&group_table(group));
        out.push('\n');
    }
    for sentence in &found.left_out {
        let _ = writeln!(out, "note: {}", printable(sentence));
    }
    let _ = writeln!(
        out,
        "{}: metric {}, least effect {:.0} %, {:.0} % false alarms over all operations together",
        verdict(found.verdict),
        found.metric,
        found.least_effect * 100.0,
        found.alpha * 100.0
    );
    out
}

fn group_table(group: &GroupComparison) -> String {
    let (unit, note) = match group.unit {
        Observed::Run => ("run", ""),
        Observed::Iteration => (
            "iteration",
            " of one run a side: how runs differ among themselves is not known",
        ),
    };
    let mut out = format!(
        "{} on {}; each value is a {unit}{note}\n",
        printable(&group.benchmark),
        plural(group.world_size as usize, "rank"),
    );
    for (words, differences) in [
        ("NOT ALIKE", &group.unlike),
        ("differs", &group.differences),
    ] {
        for one in differences {
            let _ = writeln!(out, "{words}: {}", printable(&one.to_string()));
        }
    }
    let heads = [
        "operation",
        "base",
        "candidate",
        "ratio",
        "95 % interval",
        "p",
        "p adjusted",
        "n",
        "verdict",
    ];
    let rows: Vec<Vec<String>> = group.ops.iter().map(comparison_row).collect();
    out + &table(&heads, &rows)
}

fn comparison_row(op: &OpComparison) -> Vec<String> {
    let or_dash = |value: Option<f64>, digits: usize| {
        value.map_or("-".into(), |value| format!("{value:.digits$}"))
    };
    let interval = match (op.low, op.high) {
        (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
        _ => "-".into(),
    };
    let said = match op.untested {
        Some(why) => format!("not judged: {why}"),
        None => verdict(op.verdict).into(),
    };
    vec![
        printable(&op.op),
        duration(op.base_ns),
        duration(op.candidate_ns),
        or_dash(op.ratio, 3),
        interval,
        or_dash(op.p, 4),
        or_dash(op.p_adjusted, 4),
        format!("{}+{}", op.base_n, op.candidate_n),
        said,
    ]
}

fn verdict(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Untested => "not judged",
        Verdict::NoChange => "no change",
        Verdict::Improvement => "improvement",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Regression => "REGRESSION",
    }
}

/// The changes of a series of runs, one a line.
#[must_use]
pub fn history(all: &[OpHistory], failed: usize) -> String {
    let mut rows = Vec::new();
    for one in all {
        for change in &one.changes {
            rows.push(vec![
                printable(&one.benchmark),
                printable(&one.op),
                one.world_size.to_string(),
                text::moment(change.started_unix_ns),
                printable(&change.run_id),
                duration(change.point.before),
                duration(change.point.after),
                format!("{:+.1} %", change.relative * 100.0),
                format!("{:.1e}", change.point.p),
            ]);
        }
    }
    let mut out = String::new();
    if !rows.is_empty() {
        let heads = [
            "benchmark",
            "operation",
            "ranks",
            "when",
            "first run",
            "before",
            "after",
            "change",
            "p",
        ];
        out.push_str(&table(&heads, &rows));
    }
    let runs = all.iter().map(|one| one.runs.len()).max().unwrap_or(0);
    let _ = writeln!(
        out,
        "{} in {} of up to {}",
        plural(rows.len(), "change"),
        format_args!("{} series", text::count(all.len())),
        plural(runs, "run")
    );
    if failed > 0 {
        let _ = writeln!(
            out,
            "note: {} failed and were left out",
            plural(failed, "run")
        );
    }
    out
}

fn duration(ns: f64) -> String {
    text::duration(ns / 1e9)
}
