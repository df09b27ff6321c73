//! Time of an iteration against the number of ranks.

use std::collections::BTreeMap;

use super::View;
use crate::report::scale::{Axis, Frame, time_label};
use crate::report::svg::{Anchor, Svg};
use crate::stats::Sorted;
use crate::suite::{Metric, WALL};
use crate::text;

/// Numbers of ranks that get a label of their own.
const MAX_LABELS: usize = 12;

/// For each number of ranks the values of all iterations, in seconds.
type ByRanks = BTreeMap<u32, Vec<f64>>;

/// A panel for each benchmark that was run on more than one number of ranks.
pub(super) fn charts(view: &View<'_>) -> String {
    let drawn = view
        .benchmarks()
        .into_iter()
        .filter_map(|name| panel(view, name));
    drawn.collect()
}

fn panel(view: &View<'_>, benchmark: &str) -> Option<String> {
    let of = |metric| -> Vec<ByRanks> {
        let systems = 0..view.systems.len();
        systems
            .map(|nth| values(view, nth, benchmark, metric))
            .collect()
    };
    let (slowest, means) = (of(Metric::MaxRank), of(Metric::Mean));
    let mut ranks: Vec<u32> = slowest.iter().flat_map(|one| one.keys().copied()).collect();
    ranks.sort_unstable();
    ranks.dedup();
    if ranks.len() < 2 {
        return None;
    }
    let all = slowest
        .iter()
        .chain(&means)
        .flat_map(|one| one.values().flatten());
    let frame = Frame {
        left: 72.0,
        top: 44.0,
        width: 880.0,
        height: 240.0,
        x: Axis::linear(f64::from(*ranks.last()?) * 1.05),
        y: Axis::log(all.copied()),
    };
    let mut svg = Svg::new(1000.0, 340.0, &format!("Time against ranks, {benchmark}"));
    frame.draw_title(&mut svg, benchmark);
    frame.draw_y(&mut svg, time_label);
    axis(&mut svg, &frame, &ranks);
    for (nth, system) in view.systems.iter().enumerate() {
        let colour = View::colour(nth);
        for (dashes, series) in [(0, &slowest[nth]), (1, &means[nth])] {
            let points = medians(series);
            let places: Vec<(f64, f64)> = points.iter().map(|(x, y)| frame.at(*x, *y)).collect();
            svg.curve(&format!("curve s{colour} e{dashes}"), &places, &system.name);
        }
        for (ranks, values) in &slowest[nth] {
            let Some(middle) = median(values) else {
                continue;
            };
            let title = format!(
                "{}, {ranks} ranks: {}, n {}",
                system.name,
                text::duration(middle),
                values.len()
            );
            let at = frame.at(f64::from(*ranks), middle);
            svg.ring(&format!("ring s{colour}"), at, &title);
        }
    }
    Some(format!(
        "<div class=\"wide panel\">{}</div>\n",
        svg.finish()
    ))
}

/// The numbers of ranks that were run, below the area.
fn axis(svg: &mut Svg, frame: &Frame, ranks: &[u32]) {
    let every = ranks.len().div_ceil(MAX_LABELS);
    for ranks in ranks.iter().step_by(every) {
        let at = (frame.x_at(f64::from(*ranks)), frame.bottom() + 18.0);
        svg.text("label", at, Anchor::Middle, &ranks.to_string());
    }
    let bottom = frame.bottom();
    svg.line("axis", (frame.left, bottom), (frame.right(), bottom));
    let at = (frame.left + frame.width / 2.0, bottom + 40.0);
    svg.text("label", at, Anchor::Middle, "ranks");
}

fn values(view: &View<'_>, nth: usize, benchmark: &str, metric: Metric) -> ByRanks {
    let mut found = ByRanks::new();
    for run in view.passed(nth).filter(|run| run.benchmark() == benchmark) {
        let seconds = run.values(WALL, metric).into_iter().map(|ns| ns / 1e9);
        found.entry(run.world_size()).or_default().extend(seconds);
    }
    found
}

fn medians(series: &ByRanks) -> Vec<(f64, f64)> {
    let point = |(ranks, values): (&u32, &Vec<f64>)| Some((f64::from(*ranks), median(values)?));
    series.iter().filter_map(point).collect()
}

fn median(values: &[f64]) -> Option<f64> {
    Some(Sorted::new(values.iter().copied()).ok()?.median())
}
