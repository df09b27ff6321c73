//! Every iteration as a dot, epochs laid end to end.

use super::scale::{Axis, Frame, time_label};
use super::svg::{Anchor, Svg};
use super::thin::{self, MAX_POINTS};
use super::view::View;
use crate::record::Timing;
use crate::run::Series;
use crate::text;

const WIDTH: f64 = 1000.0;

/// Whole iterations above, waits below.
pub(super) fn both(view: &View<'_>) -> String {
    let label = "Time of every iteration, whole and waiting, for each path to the data";
    let mut svg = Svg::new(WIDTH, 650.0, label);
    let series = view.drawn();
    let panels: [(f64, &str, Value); 2] = [
        (56.0, "Whole iteration", |timing| timing.total_s),
        (376.0, "DataLoader wait", |timing| timing.wait_s),
    ];
    for (top, title, value) in panels {
        let area = (64.0, top, 806.0, 220.0);
        panel(&mut svg, view, &series, area, title, value);
    }
    let at = (64.0 + 403.0, 638.0);
    svg.text("label", at, Anchor::Middle, "iteration, epochs end to end");
    svg.finish()
}

pub(super) type Value = fn(&Timing) -> f64;

/// One panel: `area` is left, top, width and height.
pub(super) fn panel(
    svg: &mut Svg,
    view: &View<'_>,
    series: &[&Series],
    area: (f64, f64, f64, f64),
    title: &str,
    value: Value,
) {
    let all = series.iter().flat_map(|one| one.timings()).map(value);
    let windows = view.windows(series);
    let frame = Frame {
        left: area.0,
        top: area.1,
        width: area.2,
        height: area.3,
        x: Axis::linear(view.length() as f64),
        y: Axis::log(all.chain([windows.0])),
    };
    // Above the names of the epochs.
    let at = (frame.left, frame.top - 34.0);
    svg.text("title", at, Anchor::Start, title);
    frame.draw_y(svg, time_label);
    frame.draw_x(svg, |tick| text::count(tick.round() as usize));
    boundaries(svg, view, &frame);
    // Dots that stand far apart may be large.
    let few = view.length() <= 400;
    for one in series {
        let points = view.placed(one, value);
        let heights: Vec<f64> = points.iter().map(|point| point.1).collect();
        let dots: Vec<(f64, f64)> = thin::keep(&heights, MAX_POINTS / series.len())
            .into_iter()
            .map(|place| frame.at(points[place].0, points[place].1))
            .collect();
        let size = if few { " few" } else { "" };
        let class = format!("dots s{}{size}", view.colour(one.path()));
        svg.dots(&class, &dots);
    }
    window_lines(svg, &frame, windows);
    worst(svg, view, &frame, series, value);
}

/// Dashed lines between epochs and their names, where there is room.
fn boundaries(svg: &mut Svg, view: &View<'_>, frame: &Frame) {
    const MOST: usize = 60;
    const NAME_ROOM: f64 = 56.0;
    if view.epochs.len() > MOST {
        return;
    }
    for (epoch, ends) in view.epochs.iter().zip(view.starts.windows(2)) {
        let (start, end) = (frame.x_at(ends[0] as f64), frame.x_at(ends[1] as f64));
        if ends[0] > 0 {
            svg.line("boundary", (start, frame.top), (start, frame.bottom()));
        }
        if end - start >= NAME_ROOM {
            let at = ((start + end) / 2.0, frame.top - 12.0);
            svg.text("label", at, Anchor::Middle, &format!("epoch {epoch}"));
        }
    }
}

/// The compute window: one line, or two when epochs differ by more than a line is wide.
fn window_lines(svg: &mut Svg, frame: &Frame, (low, high): (f64, f64)) {
    const SAME: f64 = 1.05;
    let y = frame.y_at(high);
    across(svg, frame, y);
    let at = (frame.right() + 8.0, y + 4.0);
    if high <= low * SAME {
        svg.text("note", (at.0, at.1 - 8.0), Anchor::Start, "compute window");
        let words = text::duration(high);
        svg.text("note", (at.0, at.1 + 7.0), Anchor::Start, &words);
        return;
    }
    let y = frame.y_at(low);
    across(svg, frame, y);
    let middle = (at.1 + y + 4.0) / 2.0;
    svg.text(
        "note",
        (at.0, middle - 8.0),
        Anchor::Start,
        "compute window",
    );
    let words = format!("{} to {}", text::duration(low), text::duration(high));
    svg.text("note", (at.0, middle + 7.0), Anchor::Start, &words);
}

/// A dashed line on a pale one, so that it shows on top of dots.
fn across(svg: &mut Svg, frame: &Frame, y: f64) {
    for class in ["under", "window"] {
        svg.line(class, (frame.left, y), (frame.right(), y));
    }
}

/// A ring round the longest time of each path.
fn worst(svg: &mut Svg, view: &View<'_>, frame: &Frame, series: &[&Series], value: Value) {
    for path in &view.paths {
        let of_path = series.iter().filter(|one| one.path() == *path);
        let points = of_path.flat_map(|one| {
            let epoch = one.epoch();
            view.placed(one, value).into_iter().map(move |p| (p, epoch))
        });
        let Some(((x, y), epoch)) = points.max_by(|a, b| a.0.1.total_cmp(&b.0.1)) else {
            continue;
        };
        let (words, colour) = (text::duration(y), view.colour(path));
        let title = format!("longest of {path}: {words}, in epoch {epoch}");
        let at = frame.at(x, y);
        svg.ring(&format!("ring s{colour}"), at, &title);
        // On the side with more room, so that it does not leave the area.
        let (dx, anchor) = if at.0 > frame.left + frame.width * 0.9 {
            (-9.0, Anchor::End)
        } else {
            (9.0, Anchor::Start)
        };
        let class = format!("value s{colour}");
        svg.text(&class, (at.0 + dx, at.1 + 4.0), anchor, &words);
    }
}
