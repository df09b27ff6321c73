//! Figure 2: the slowest process's time by class, stacked.

use std::fmt::Write;

use super::view::{Column, View, colour};
use crate::report::scale::{Axis, Frame, time_label};
use crate::report::svg::{Anchor, Svg};
use crate::text::{self, escape};

pub(super) fn legend(views: &[View<'_>]) -> String {
    let mut seen = Vec::new();
    let mut out = String::from("<ul class=\"legend\">");
    for view in views {
        for (place, class) in view.classes().iter().enumerate() {
            let entry = (colour(place), class.name());
            if !seen.contains(&entry) {
                seen.push(entry);
                let (colour, name) = (entry.0, escape(entry.1));
                let _ = write!(out, "<li><i class=\"swatch s{colour}\"></i>{name}</li>");
            }
        }
    }
    out + "</ul>\n"
}

pub(super) fn chart(view: &View<'_>) -> String {
    let columns = view.columns();
    let label = format!(
        "I/O time of the slowest process of {} by class",
        view.name()
    );
    let mut svg = Svg::new(1000.0, 350.0, &label);
    let highest = columns
        .iter()
        .map(|one| one.stack.iter().sum::<f64>())
        .fold(0.0, f64::max);
    let last = columns.last().map_or(1.0, |column| column.x);
    let first = columns.first().map_or(0.0, |column| column.x);
    let (left, width) = (84.0, 880.0);
    let room = width / (columns.len().max(1) as f64);
    let outer = Frame {
        left,
        top: 44.0,
        width,
        height: 240.0,
        x: Axis::linear(1.0),
        y: Axis::linear(1.08 * highest),
    };
    outer.draw_title(&mut svg, &view.title());
    outer.draw_y(&mut svg, time_label);
    // Half a column stands out on both sides of the first and the last value.
    let span = (last - first).max(f64::MIN_POSITIVE);
    let at = |x: f64| left + room / 2.0 + (width - room) * (x - first) / span;
    let places: Vec<f64> = columns.iter().map(|column| at(column.x)).collect();
    let gaps = places.windows(2).map(|pair| pair[1] - pair[0]);
    let bar = (0.78 * gaps.fold(room, f64::min)).clamp(1.0, 56.0);
    for (column, middle) in columns.iter().zip(&places) {
        stack(&mut svg, view, &outer, column, (*middle, bar));
    }
    labels(&mut svg, &outer, &columns, &places);
    let axis = outer.bottom();
    svg.line("axis", (outer.left, axis), (outer.right(), axis));
    let below = (left + width / 2.0, outer.bottom() + 44.0);
    svg.text("label", below, Anchor::Middle, view.axis());
    svg.upright("label", (20.0, 164.0), "I/O time (s)");
    format!("<div class=\"wide\">{}</div>\n", svg.finish())
}

fn stack(
    svg: &mut Svg,
    view: &View<'_>,
    frame: &Frame,
    column: &Column,
    (middle, bar): (f64, f64),
) {
    let mut below = 0.0;
    for (place, seconds) in column.stack.iter().enumerate() {
        let (top, bottom) = (frame.y_at(below + seconds), frame.y_at(below));
        below += seconds;
        if *seconds > 0.0 {
            let class = &view.classes()[place];
            let title = format!("{}: {class} {}", column.title, text::duration(*seconds));
            let class = format!("bar s{}", colour(place));
            svg.rect(
                &class,
                (middle - bar / 2.0, top),
                (bar, bottom - top),
                &title,
            );
        }
    }
}

/// Names of the columns, as many as have room.
fn labels(svg: &mut Svg, frame: &Frame, columns: &[Column], places: &[f64]) {
    const ROOM: f64 = 34.0;
    let mut free_from = f64::MIN;
    for (column, place) in columns.iter().zip(places) {
        if *place >= free_from {
            let at = (*place, frame.bottom() + 18.0);
            svg.text("label", at, Anchor::Middle, &column.label);
            free_from = place + ROOM;
        }
    }
}
