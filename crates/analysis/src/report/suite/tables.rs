//! The parts of the page that are words and numbers.

use std::fmt::Write;

use super::View;
use crate::report::tables::list;
use crate::suite::{Comparison, GroupComparison, OpComparison, RunSummary, Verdict};
use crate::text::{self, escape};

/// Rows of the table of numbers; the others are named in a sentence.
const MAX_ROWS: usize = 600;

/// Each system with its machine and file system.
pub(super) fn systems(view: &View<'_>) -> String {
    let mut out = table(&[
        "system",
        "runs",
        "type",
        "source",
        "mount",
        "hosts",
        "kernel",
        "processor",
    ]);
    for system in view.systems {
        let Some(run) = system.runs.first() else {
            continue;
        };
        let (first, summary) = (run.first(), RunSummary::of(run));
        let cells = [
            system.runs.len().to_string(),
            first.fs.fstype.clone(),
            text::clip(&first.fs.source, 40),
            text::clip(&first.fs.mount, 40),
            summary.hosts.to_string(),
            first.host.kernel.clone(),
            text::clip(&first.host.cpu, 40),
        ];
        row(&mut out, &system.name, &cells);
    }
    close(out)
}

/// Each other system against the first.
pub(super) fn compared(view: &View<'_>) -> String {
    let mut out = String::new();
    for (system, found) in view.systems.iter().skip(1).zip(&view.compared) {
        let (name, first) = (escape(&system.name), escape(&view.systems[0].name));
        let _ = writeln!(out, "<h3>{name} against {first}</h3>");
        match found {
            Ok(found) => out.push_str(&one(found)),
            Err(error) => {
                let _ = writeln!(out, "<p>Not judged: {}.</p>", escape(&error.to_string()));
            }
        }
    }
    out
}

fn one(found: &Comparison) -> String {
    let heads = [
        "operation",
        "ranks",
        "first",
        "this",
        "ratio",
        "95 % interval",
        "p adjusted",
        "n",
        "verdict",
    ];
    let mut out = table(&heads);
    for group in &found.groups {
        for op in &group.ops {
            let name = format!("{} {}", group.benchmark, op.op);
            row(&mut out, &name, &cells(group, op));
        }
    }
    out = close(out);
    let unlike = found.groups.iter().flat_map(|group| {
        let differences = group.unlike.iter().chain(&group.differences);
        differences.map(|one| format!("{}: {one}", group.benchmark))
    });
    let mut notes: Vec<String> = unlike.chain(found.left_out.iter().cloned()).collect();
    notes.dedup();
    if !notes.is_empty() {
        let _ = writeln!(
            out,
            "<details><summary>What differs besides</summary>{}</details>",
            list(notes)
        );
    }
    out
}

fn cells(group: &GroupComparison, op: &OpComparison) -> [String; 8] {
    let or_dash =
        |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
    let interval = match (op.low, op.high) {
        (Some(low), Some(high)) => format!("{low:.3} to {high:.3}"),
        _ => "–".into(),
    };
    let verdict = match op.verdict {
        Verdict::Untested => "not judged",
        Verdict::NoChange => "no change",
        Verdict::Improvement => "faster",
        Verdict::Inconclusive => "inconclusive",
        Verdict::Regression => "slower",
    };
    [
        group.world_size.to_string(),
        text::duration(op.base_ns / 1e9),
        text::duration(op.candidate_ns / 1e9),
        or_dash(op.ratio),
        interval,
        or_dash(op.p_adjusted),
        format!("{} and {}", op.base_n, op.candidate_n),
        verdict.into(),
    ]
}

/// Every operation of every run that passed.
pub(super) fn numbers(view: &View<'_>) -> String {
    let heads = [
        "operation",
        "system",
        "ranks",
        "n",
        "mean",
        "p50",
        "p99",
        "max",
        "slowest rank",
        "skew",
    ];
    let mut out = table(&heads);
    let (mut rows, mut left) = (0, 0);
    for (nth, system) in view.systems.iter().enumerate() {
        for run in view.passed(nth) {
            let summary = RunSummary::of(run);
            for op in &summary.ops {
                if rows == MAX_ROWS {
                    left += 1;
                    continue;
                }
                rows += 1;
                let or_dash = |ns: Option<u64>| {
                    ns.map_or("–".to_owned(), |ns| text::duration(ns as f64 / 1e9))
                };
                let cells = [
                    text::clip(&system.name, 24),
                    summary.world_size.to_string(),
                    text::count(op.count as usize),
                    text::duration(op.mean_ns / 1e9),
                    or_dash(op.p50_ns),
                    or_dash(op.p99_ns),
                    text::duration(op.max_ns as f64 / 1e9),
                    op.slowest_rank.to_string(),
                    format!("{:.2}", op.skew),
                ];
                row(
                    &mut out,
                    &format!("{} {}", summary.benchmark, op.op),
                    &cells,
                );
            }
        }
    }
    out = close(out);
    if left > 0 {
        let _ = writeln!(out, "<p class=\"fine\">{left} more rows are left out.</p>");
    }
    out
}

/// An operation that happened too seldom for a curve: of each system how often, and the shortest,
/// the median and the longest in seconds.
pub(super) struct Few {
    pub(super) op: String,
    pub(super) samples: Vec<Option<(usize, f64, f64, f64)>>,
}

/// A row for each such operation on each system.
pub(super) fn few(view: &View<'_>, ops: &[Few]) -> String {
    let mut out = table(&["operation", "system", "n", "min", "median", "max"]);
    for op in ops {
        for (system, told) in view.systems.iter().zip(&op.samples) {
            let Some((count, least, median, most)) = told else {
                continue;
            };
            let cells = [
                text::clip(&system.name, 24),
                text::count(*count),
                text::duration(*least),
                text::duration(*median),
                text::duration(*most),
            ];
            row(&mut out, &op.op, &cells);
        }
    }
    close(out)
}

fn table(heads: &[&str]) -> String {
    let heads: String = heads
        .iter()
        .map(|head| format!("<th>{head}</th>"))
        .collect();
    format!("<div class=\"wide\"><table><thead><tr>{heads}</tr></thead>\n<tbody>\n")
}

fn row(out: &mut String, name: &str, cells: &[String]) {
    let _ = write!(out, "<tr><th>{}</th>", escape(&text::clip(name, 48)));
    for cell in cells {
        let _ = write!(out, "<td>{}</td>", escape(cell));
    }
    out.push_str("</tr>\n");
}

fn close(out: String) -> String {
    out + "</tbody></table></div>\n"
}
