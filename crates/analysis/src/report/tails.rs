//! Tail distributions: the share of iterations that exceed x, on log-log axes.

use super::scale::{Axis, Frame, share_label, time_label};
use super::scatter::Value;
use super::staircase::staircase;
use super::svg::{Anchor, Svg};
use super::view::View;
use crate::epochs::sorted;
use crate::run::Series;
use crate::text;

/// Points of one curve.
const MAX_POINTS: usize = 400;

/// Epochs of one path that are drawn; dashes tell no more apart.
pub(super) const MAX_EPOCHS: usize = 3;

/// Waits on the left, whole iterations on the right.
pub(super) fn both(view: &View<'_>) -> String {
    beside(view, "Whole iteration", |timing| timing.total_s)
}

/// Waits on the left, backward passes with their all-reduce on the right.
pub(super) fn wait_and_backward(view: &View<'_>) -> String {
    beside(view, "Backward + all-reduce", |timing| {
        timing.backward_s.unwrap_or(0.0)
    })
}

fn beside(view: &View<'_>, title: &str, value: Value) -> String {
    let label = format!("Share of iterations that exceed a time: wait, and {title}");
    let mut svg = Svg::new(1000.0, 430.0, &label);
    panel(&mut svg, view, 64.0, "DataLoader wait", |timing| {
        timing.wait_s
    });
    panel(&mut svg, view, 572.0, title, value);
    svg.finish()
}

/// The epochs that are drawn, with the number of their dashes: of each path the first two and
/// the last.
pub(super) fn drawn<'a>(view: &View<'a>) -> Vec<(&'a Series, usize)> {
    let mut drawn = Vec::new();
    for path in &view.paths {
        let mut series = view.of_path(path);
        if series.len() > MAX_EPOCHS {
            let last = series.len() - 1;
            series = vec![series[0], series[1], series[last]];
        }
        drawn.extend(series.into_iter().zip(0..));
    }
    drawn
}

fn panel(svg: &mut Svg, view: &View<'_>, left: f64, title: &str, value: Value) {
    let drawn = drawn(view);
    let series: Vec<&Series> = drawn.iter().map(|(one, _)| *one).collect();
    let most = series.iter().map(|one| one.timings().len()).max();
    let rarest = 1.0 / most.unwrap_or(1).max(2) as f64;
    let all = series.iter().flat_map(|one| one.timings()).map(value);
    let windows = view.windows(&series);
    let frame = Frame {
        left,
        top: 44.0,
        width: 404.0,
        height: 320.0,
        x: Axis::log(all.chain([windows.0])),
        y: Axis::log([rarest, 1.0]),
    };
    frame.draw_title(svg, title);
    frame.draw_y(svg, share_label);
    frame.draw_x(svg, time_label);
    let at = (left + frame.width / 2.0, frame.bottom() + 40.0);
    svg.text("label", at, Anchor::Middle, "time x");
    window_line(svg, &frame, windows);
    for (one, dashes) in &drawn {
        let colour = view.colour(one.path());
        let class = format!("curve s{colour} e{dashes}");
        let title = format!("{}, epoch {}", one.path(), one.epoch());
        svg.curve(&class, &curve(&frame, one, value), &title);
    }
}

/// Of all iterations of a series.
fn curve(frame: &Frame, series: &Series, value: Value) -> Vec<(f64, f64)> {
    staircase(frame, &sorted(series, value), MAX_POINTS)
}

fn window_line(svg: &mut Svg, frame: &Frame, (low, high): (f64, f64)) {
    let x = frame.x_at(high);
    svg.line("window", (x, frame.top), (x, frame.bottom()));
    if high > low * 1.05 {
        let x = frame.x_at(low);
        svg.line("window", (x, frame.top), (x, frame.bottom()));
    }
    let words = format!("compute window {}", text::duration(high));
    // Near the top, where curves are only left of the line; on the side that has room.
    let top = frame.top + 16.0;
    let (at, anchor) = if frame.x.place(high) > 0.55 {
        ((x - 6.0, top), Anchor::End)
    } else {
        ((x + 6.0, top), Anchor::Start)
    };
    svg.text("note halo", at, anchor, &words);
}
