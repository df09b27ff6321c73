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
    let (paths, epochs) = (view.paths.len(), view.epochs.len());
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
    let axis = frame.bottom();
    let room = frame.width / epochs as f64;
    let gap = (room * 0.2).min(24.0);
    let width = ((room - gap) / paths as f64).min(64.0);
    let used = width * paths as f64;
    for (place, epoch) in view.epochs.iter().enumerate() {
        let middle = frame.x_at(place as f64 + 0.5);
        if room >= 48.0 || (place % (epochs / 6).max(1) == 0) {
            let words = if room >= 48.0 {
                format!("epoch {epoch}")
            } else {
                epoch.to_string()
            };
            svg.text("label", (middle, axis + 18.0), Anchor::Middle, &words);
        }
        for (nth, path) in view.paths.iter().enumerate() {
            if place * paths + nth >= MAX_BARS {
                continue;
            }
            let Some(series) = view.run.find(path, *epoch) else {
                continue;
            };
            let wall = series.wall_s();
            let (x, y) = (middle - used / 2.0 + width * nth as f64, frame.y_at(wall));
            let words = text::duration(wall);
            let class = format!("bar s{}", view.colour(path));
            let title = format!("{path}, epoch {epoch}: {words}");
            let inset = (width * 0.06).min(3.0);
            svg.rect(
                &class,
                (x + inset, y),
                (width - 2.0 * inset, axis - y),
                &title,
            );
            if width >= 40.0 {
                let at = (x + width / 2.0, y - 6.0);
                svg.text("value", at, Anchor::Middle, &words);
            }
        }
    }
    svg.line("axis", (frame.left, axis), (frame.right(), axis));
}
