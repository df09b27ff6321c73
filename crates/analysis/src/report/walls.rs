//! Wall time of each epoch as bars, and one path's iterations end to end beside them.

use super::scale::{Axis, Frame, time_label};
use super::scatter;
use super::svg::{Anchor, Svg};
use super::view::View;
use crate::text;

/// Bars that are drawn; beyond it they would be thinner than a line.
const MAX_BARS: usize = 120;

pub(super) fn both(view: &View<'_>) -> String {
    let label = "Wall time of each epoch, and the iterations of one path, epochs end to end";
    let mut svg = Svg::new(1000.0, 356.0, label);
    bars(&mut svg, view);
    let subject = view.subject();
    let series = view.of_path(subject);
    let title = format!("{}: whole iteration", text::clip(subject, 24));
    let area = (520.0, 52.0, 350.0, 250.0);
    scatter::panel(&mut svg, view, &series, area, &title, |timing| {
        timing.total_s
    });
    let at = (520.0 + 175.0, 344.0);
    svg.text("label", at, Anchor::Middle, "iteration, epochs end to end");
    svg.finish()
}

fn bars(svg: &mut Svg, view: &View<'_>) {
    let epochs = view.epochs.len();
    let highest = view.summary.epochs.iter().map(|row| row.wall_s);
    let frame = Frame {
        left: 64.0,
        top: 52.0,
        width: 370.0,
        height: 250.0,
        x: Axis::linear(epochs as f64),
        y: Axis::linear(1.08 * highest.fold(0.0, f64::max)),
    };
    svg.text(
        "title",
        (64.0, 18.0),
        Anchor::Start,
        "Wall time of each epoch",
    );
    frame.draw_y(svg, time_label);
    let room = frame.width / epochs as f64;
    for (place, epoch) in view.epochs.iter().enumerate() {
        let middle = frame.x_at(place as f64 + 0.5);
        let at = (middle, frame.bottom() + 18.0);
        if room >= 48.0 {
            svg.text("label", at, Anchor::Middle, &format!("epoch {epoch}"));
        } else if place % (epochs / 6).max(1) == 0 {
            svg.text("label", at, Anchor::Middle, &epoch.to_string());
        }
        if (place + 1) * view.paths.len() <= MAX_BARS {
            group(svg, view, &frame, *epoch, (middle, room));
        }
    }
    let axis = frame.bottom();
    svg.line("axis", (frame.left, axis), (frame.right(), axis));
}

/// The bars of one epoch side by side, `room` wide around `middle`.
fn group(svg: &mut Svg, view: &View<'_>, frame: &Frame, epoch: u32, (middle, room): (f64, f64)) {
    let paths = view.paths.len() as f64;
    let width = ((room - (room * 0.2).min(24.0)) / paths).min(64.0);
    let inset = (width * 0.06).min(3.0);
    for (nth, path) in view.paths.iter().enumerate() {
        let Some(series) = view.run.find(path, epoch) else {
            continue;
        };
        let wall = series.wall_s();
        let left = middle - width * paths / 2.0 + width * nth as f64;
        let top = frame.y_at(wall);
        let words = text::duration(wall);
        let class = format!("bar s{}", view.colour(path));
        let title = format!("{path}, epoch {epoch}: {words}");
        let size = (width - 2.0 * inset, frame.bottom() - top);
        svg.rect(&class, (left + inset, top), size, &title);
        if width >= 40.0 {
            let at = (left + width / 2.0, top - 6.0);
            svg.text("value", at, Anchor::Middle, &words);
        }
    }
}
