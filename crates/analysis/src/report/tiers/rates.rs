//! Figure 1: execution and I/O time of each epoch against the cache rate.

use std::fmt::Write;

use super::view::View;
use crate::report::scale::{Axis, Frame, time_label};
use crate::report::svg::{Anchor, Svg};
use crate::text;
use crate::tiers::Point;

/// Epochs that are drawn.
const MAX_EPOCHS: usize = 3;

pub(super) fn legend(views: &[View<'_>]) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    let _ = write!(
        out,
        "<li><svg class=\"key\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"curve s1\" d=\"M0 5h30\"/><path class=\"dots round s1\" d=\"M15 5h0\"/></svg>execution</li>\
         <li><svg class=\"key\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"curve s0\" d=\"M0 5h30\"/><path class=\"triangles s0\" d=\"M15 1l-4.5 8h9z\"/></svg>I/O of the slowest process</li>"
    );
    let mut epochs: Vec<u32> = views
        .iter()
        .flat_map(|view| epochs(view))
        .flatten()
        .collect();
    epochs.sort_unstable();
    epochs.dedup();
    for (dashes, epoch) in epochs.iter().take(MAX_EPOCHS).enumerate() {
        let _ = write!(
            out,
            "<li><svg class=\"key\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"curve s5 e{dashes}\" d=\"M0 5h30\"/></svg>epoch {epoch}</li>"
        );
    }
    if epochs.len() > MAX_EPOCHS {
        out.push_str("<li>other epochs are left out</li>");
    }
    out + "</ul>\n"
}

/// Every epoch of a setup, ascending.
fn epochs(view: &View<'_>) -> Vec<Option<u32>> {
    let of_point = |point: &Point| point.table.epochs();
    let mut epochs: Vec<_> = view.setup.points.iter().flat_map(of_point).collect();
    epochs.sort_unstable();
    epochs.dedup();
    epochs
}

pub(super) fn chart(view: &View<'_>) -> String {
    if !view.has_rates() {
        return String::new();
    }
    let name = view.name();
    let label = format!("Execution and I/O time of an epoch of {name} by cache rate");
    let mut svg = Svg::new(1000.0, 350.0, &label);
    let epochs: Vec<_> = epochs(view).into_iter().take(MAX_EPOCHS).collect();
    let lines: Vec<_> = epochs
        .iter()
        .map(|epoch| {
            (
                points(view, |point| point.execution_s.get(epoch).copied()),
                points(view, |point| {
                    point.table.slowest(*epoch).map(|row| row.total_s())
                }),
            )
        })
        .collect();
    let values = lines
        .iter()
        .flat_map(|(wall, io)| wall.iter().chain(io))
        .map(|point| point.1);
    let frame = frame(values.fold(0.0, f64::max));
    frame.draw_title(&mut svg, &text::clip(name, 60));
    axes(&mut svg, &frame, "time of an epoch");
    for (dashes, (epoch, (wall, io))) in epochs.iter().zip(lines).enumerate() {
        let of = epoch.map_or(String::new(), |epoch| format!(", epoch {epoch}"));
        let placed = |points: Vec<(f64, f64)>| -> Vec<(f64, f64)> {
            points.into_iter().map(|(x, y)| frame.at(x, y)).collect()
        };
        let (wall, io) = (placed(wall), placed(io));
        svg.curve(
            &format!("curve s1 e{dashes}"),
            &wall,
            &format!("execution{of}"),
        );
        svg.dots("dots round s1", &wall);
        svg.curve(
            &format!("curve s0 e{dashes}"),
            &io,
            &format!("I/O of the slowest process{of}"),
        );
        svg.triangles("triangles s0", &io);
    }
    format!("<div class=\"wide\">{}</div>\n", svg.finish())
}

/// Rate and seconds of every point that has both.
fn points(view: &View<'_>, value: impl Fn(&Point) -> Option<f64>) -> Vec<(f64, f64)> {
    let point = |point: &Point| Some((point.rate?.percent(), value(point)?));
    view.setup.points.iter().filter_map(point).collect()
}

/// The plotting area of a figure by cache rate.
pub(super) fn frame(highest: f64) -> Frame {
    Frame {
        left: 84.0,
        top: 44.0,
        width: 880.0,
        height: 240.0,
        x: Axis::linear(100.0),
        y: Axis::linear(1.08 * highest),
    }
}

/// Both axes with their names and units.
pub(super) fn axes(svg: &mut Svg, frame: &Frame, time: &str) {
    frame.draw_y(svg, time_label);
    frame.draw_x(svg, |tick| format!("{tick} %"));
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 44.0);
    svg.text(
        "label",
        below,
        Anchor::Middle,
        "files on the local tier (%)",
    );
    svg.upright(
        "label",
        (20.0, frame.top + frame.height / 2.0),
        &format!("{time} (s)"),
    );
}
