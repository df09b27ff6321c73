//! Tail distributions of each operation, systems over each other.

use std::fmt::Write;

use super::{View, tables};
use crate::report::scale::{Axis, Frame, share_label, time_label};
use crate::report::staircase::staircase;
use crate::report::svg::Svg;
use crate::stats::Sorted;
use crate::suite::{BARRIER_WAIT, GANG_START, SuiteRun, WALL};
use crate::text::escape;

/// Points of one curve.
const MAX_POINTS: usize = 300;

/// Operations that are drawn of one benchmark.
const MAX_OPS: usize = 8;

/// Samples from which on a curve says more than its numbers.
const FEW: usize = 8;

/// Two panels a row.
const PANELS: usize = 2;

/// A drawing for each benchmark, and under all of them what has no curve.
pub(super) fn charts(view: &View<'_>) -> String {
    let mut few = Vec::new();
    let names = view.benchmarks().into_iter();
    let drawn: String = names.map(|name| chart(view, name, &mut few)).collect();
    if few.is_empty() {
        return drawn;
    }
    let told = tables::few(view, &few);
    format!("{drawn}<h3>Too few for a curve</h3>\n{told}")
}

/// An operation with its samples on each system.
struct Op<'a> {
    name: &'a str,
    samples: Vec<Option<Sorted>>,
}

impl Op<'_> {
    fn most(&self) -> usize {
        self.samples
            .iter()
            .flatten()
            .map(Sorted::n)
            .max()
            .unwrap_or(0)
    }
}

fn chart(view: &View<'_>, benchmark: &str, few: &mut Vec<tables::Few>) -> String {
    let systems = 0..view.systems.len();
    let runs: Vec<Vec<&SuiteRun>> = systems.map(|nth| widest(view, nth, benchmark)).collect();
    let of_op = |name| Op {
        name,
        samples: runs.iter().map(|runs| pooled(runs, name)).collect(),
    };
    let ops = names(&runs).into_iter().map(of_op);
    let (mut drawn, seldom): (Vec<Op>, Vec<Op>) = ops.partition(|op| op.most() >= FEW);
    few.extend(seldom.iter().map(|op| row(benchmark, op)));
    let left_out = drawn.split_off(drawn.len().min(MAX_OPS));
    let mut out = String::new();
    if !drawn.is_empty() {
        let rows = drawn.len().div_ceil(PANELS);
        let label = format!("Share of operations that exceed a time, {benchmark}");
        let mut svg = Svg::new(1000.0, 300.0 * rows as f64, &label);
        for (place, op) in drawn.iter().enumerate() {
            let at = (
                72.0 + 500.0 * (place % PANELS) as f64,
                44.0 + 300.0 * (place / PANELS) as f64,
            );
            let title = format!("{benchmark}: {}", op.name);
            panel(&mut svg, view, at, &title, &op.samples);
        }
        let _ = writeln!(out, "<div class=\"wide panel\">{}</div>", svg.finish());
    }
    if !left_out.is_empty() {
        let left: Vec<&str> = left_out.iter().map(|op| op.name).collect();
        let left = escape(&left.join(", "));
        let _ = writeln!(
            out,
            "<p class=\"fine\">Not drawn: {left}. They are in the table of numbers.</p>"
        );
    }
    out
}

/// The operations of a benchmark that are drawn or told, in order.
fn names<'a>(runs: &[Vec<&'a SuiteRun>]) -> Vec<&'a str> {
    let mut ops: Vec<&str> = runs.iter().flatten().flat_map(|run| run.ops()).collect();
    ops.sort_unstable();
    ops.dedup();
    ops.retain(|op| *op != BARRIER_WAIT);
    // The parts say more than the whole; it stands in the figure of scaling.
    if ops.iter().any(|op| *op != WALL && *op != GANG_START) {
        ops.retain(|op| *op != WALL);
    }
    ops
}

/// What is told of an operation with few samples: on each system how many, and their range.
fn row(benchmark: &str, op: &Op<'_>) -> tables::Few {
    let told = |sorted: &Sorted| (sorted.n(), sorted.min(), sorted.median(), sorted.max());
    let samples = op.samples.iter().map(|one| one.as_ref().map(told));
    tables::Few {
        op: format!("{benchmark} {}", op.name),
        samples: samples.collect(),
    }
}

fn panel(
    svg: &mut Svg,
    view: &View<'_>,
    (left, top): (f64, f64),
    title: &str,
    samples: &[Option<Sorted>],
) {
    let all = || samples.iter().flatten();
    let most = all().map(Sorted::n).max().unwrap_or(1);
    let ends = all().flat_map(|one| [one.min(), one.max()]);
    let frame = Frame {
        left,
        top,
        width: 390.0,
        height: 200.0,
        x: Axis::log(ends),
        y: Axis::log([1.0 / most.max(2) as f64, 1.0]),
    };
    frame.draw_title(svg, title);
    frame.draw_y(svg, share_label);
    frame.draw_x(svg, time_label);
    for (nth, sorted) in samples.iter().enumerate() {
        let Some(sorted) = sorted else { continue };
        let class = format!("curve s{}", View::colour(nth));
        svg.curve(
            &class,
            &staircase(&frame, sorted, MAX_POINTS),
            &view.systems[nth].name,
        );
    }
}

/// The runs of a benchmark at its greatest number of ranks.
fn widest<'a>(view: &View<'a>, nth: usize, benchmark: &str) -> Vec<&'a SuiteRun> {
    let runs = || view.passed(nth).filter(|run| run.benchmark() == benchmark);
    let most = runs().map(SuiteRun::world_size).max();
    runs()
        .filter(|run| Some(run.world_size()) == most)
        .collect()
}

/// All samples of an operation, in seconds.
fn pooled(runs: &[&SuiteRun], op: &str) -> Option<Sorted> {
    let ranks = runs.iter().flat_map(|run| run.ranks());
    let samples = ranks.flat_map(|rank| rank.samples(op).concat());
    Sorted::new(samples.map(|ns| ns as f64 / 1e9)).ok()
}
