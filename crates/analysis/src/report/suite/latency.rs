//! Tail distributions of each operation, systems over each other.

use super::View;
use crate::report::scale::{Axis, Frame, share_label, time_label};
use crate::report::staircase::staircase;
use crate::report::svg::Svg;
use crate::stats::Sorted;
use crate::suite::{BARRIER_WAIT, SuiteRun, WALL};

/// Points of one curve.
const MAX_POINTS: usize = 300;

/// Operations that are drawn of one benchmark.
const MAX_OPS: usize = 8;

/// Two panels a row.
const PANELS: usize = 2;

/// A drawing for each benchmark.
pub(super) fn charts(view: &View<'_>) -> String {
    let drawn = view.benchmarks().into_iter().map(|name| chart(view, name));
    drawn.collect()
}

fn chart(view: &View<'_>, benchmark: &str) -> String {
    let systems = 0..view.systems.len();
    let runs: Vec<Vec<&SuiteRun>> = systems.map(|nth| widest(view, nth, benchmark)).collect();
    let mut ops: Vec<&str> = runs.iter().flatten().flat_map(|run| run.ops()).collect();
    ops.sort_unstable();
    ops.dedup();
    ops.retain(|op| *op != BARRIER_WAIT);
    // The parts say more than the whole; it stands in the figure of scaling.
    if ops.len() > 1 {
        ops.retain(|op| *op != WALL);
    }
    ops.truncate(MAX_OPS);
    let rows = ops.len().div_ceil(PANELS);
    if rows == 0 {
        return String::new();
    }
    let label = format!("Share of operations that exceed a time, {benchmark}");
    let mut svg = Svg::new(1000.0, 300.0 * rows as f64, &label);
    for (place, op) in ops.iter().enumerate() {
        let at = (
            72.0 + 500.0 * (place % PANELS) as f64,
            44.0 + 300.0 * (place / PANELS) as f64,
        );
        let title = format!("{benchmark}: {op}");
        let samples: Vec<Option<Sorted>> = runs.iter().map(|runs| pooled(runs, op)).collect();
        panel(&mut svg, view, at, &title, &samples);
    }
    format!("<div class=\"wide panel\">{}</div>\n", svg.finish())
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
