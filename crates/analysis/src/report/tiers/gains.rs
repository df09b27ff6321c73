//! Figure 3: what the slowest process would take with gains in single classes.

use std::fmt::Write;

use super::TierReportOptions;
use super::rates::{axes, frame};
use super::view::{View, colour};
use crate::report::scale::{Axis, Frame, time_label};
use crate::report::svg::{Anchor, Svg};
use crate::text::{self, escape};
use crate::tiers::whatif::{Estimate, Gains, WhatIfError};

/// One line of the figure.
struct Line {
    name: String,
    colour: usize,
    estimates: Vec<Estimate>,
    best: Estimate,
}

pub(super) fn chart(view: &View<'_>, options: &TierReportOptions) -> Result<String, WhatIfError> {
    let measured = &view.of_epoch;
    let named: Vec<(String, f64)> = if options.gains.is_empty() {
        view.greatest()
            .into_iter()
            .map(|class| (class, 50.0))
            .collect()
    } else {
        options.gains.clone()
    };
    // Twice the same class is a slip even where each is a line of its own.
    Gains::of(measured, &named)?;
    let line = |name: String, colour, gains: &Gains| Line {
        name,
        colour,
        estimates: measured.estimates(gains),
        best: measured.best(gains),
    };
    let mut lines = vec![line("as measured".into(), 5, &Gains::none(measured))];
    for one in &named {
        let gains = Gains::of(measured, std::slice::from_ref(one))?;
        let name = format!("{} +{} %", one.0, one.1);
        lines.push(line(name, colour(measured.class(&one.0)?), &gains));
    }
    let drawn = if view.has_rates() {
        by_rate(view, &lines)
    } else {
        by_gain(view)?
    };
    Ok(format!(
        "<div class=\"wide\">{drawn}</div>\n{}",
        words(&lines, view.has_rates())
    ))
}

fn by_rate(view: &View<'_>, lines: &[Line]) -> String {
    let label = format!("What gains would give for {} by cache rate", view.name());
    let mut svg = Svg::new(1000.0, 350.0, &label);
    let all = lines.iter().flat_map(|line| &line.estimates);
    let frame = frame(all.map(|one| one.seconds).fold(0.0, f64::max));
    frame.draw_title(&mut svg, &view.title());
    axes(&mut svg, &frame, "I/O time");
    for (place, line) in lines.iter().enumerate() {
        let at = |one: &Estimate| frame.at(one.cache_rate.unwrap_or(0.0), one.seconds);
        let points: Vec<(f64, f64)> = line.estimates.iter().map(at).collect();
        let (colour, dashes) = (line.colour, place.min(2));
        svg.curve(&format!("curve s{colour} e{dashes}"), &points, &line.name);
        let title = format!("best of {}: {}", line.name, best(&line.best));
        svg.ring(&format!("ring s{colour}"), at(&line.best), &title);
    }
    svg.finish()
}

/// Without rates: the slowest process's time against the gain, a curve for each class.
fn by_gain(view: &View<'_>) -> Result<String, WhatIfError> {
    const HIGHEST: f64 = 300.0;
    const STEPS: usize = 60;
    let label = format!("What a gain in each class would give for {}", view.name());
    let mut svg = Svg::new(1000.0, 350.0, &label);
    let frame = Frame {
        left: 84.0,
        top: 44.0,
        width: 700.0,
        height: 240.0,
        x: Axis::linear(HIGHEST),
        y: Axis::linear(1.08 * view.best.seconds),
    };
    frame.draw_title(&mut svg, &view.title());
    frame.draw_y(&mut svg, time_label);
    frame.draw_x(&mut svg, |tick| format!("{tick} %"));
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 44.0);
    svg.text(
        "label",
        below,
        Anchor::Middle,
        "gain in throughput of the class (%)",
    );
    svg.upright("label", (20.0, 164.0), "I/O time (s)");
    let mut ends = Vec::new();
    for (place, class) in view.classes().iter().enumerate() {
        let mut points = Vec::with_capacity(STEPS + 1);
        for step in 0..=STEPS {
            let gain = HIGHEST * step as f64 / STEPS as f64;
            let gains = Gains::of(&view.of_epoch, &[(class.to_string(), gain)])?;
            points.push(frame.at(gain, view.of_epoch.best(&gains).seconds));
        }
        ends.extend(points.last().map(|end| (end.1, place, class.name())));
        svg.curve(&format!("curve s{}", colour(place)), &points, class.name());
    }
    // Names at the ends of the curves, moved down where they would lie over each other.
    ends.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut free_from = 0.0f64;
    for (y, place, name) in ends {
        let y = (y + 4.0).max(free_from);
        free_from = y + 16.0;
        let class = format!("value s{}", colour(place));
        svg.text(&class, (frame.right() + 10.0, y), Anchor::Start, name);
    }
    Ok(svg.finish())
}

fn best(estimate: &Estimate) -> String {
    let seconds = text::duration(estimate.seconds);
    match estimate.cache_rate {
        Some(rate) => format!("{seconds} at {rate} %"),
        None => seconds,
    }
}

/// The lines in words: the best of each and what it gains; with keys, the legend of the figure.
fn words(lines: &[Line], has_keys: bool) -> String {
    let mut out = String::from("<ul class=\"legend\">");
    let before = lines.first().map_or(0.0, |line| line.best.seconds);
    for (place, line) in lines.iter().enumerate() {
        let less = if place > 0 && before > 0.0 {
            format!(" ({:+.1} %)", 100.0 * (line.best.seconds / before - 1.0)).replace('-', "−")
        } else {
            String::new()
        };
        let key = format!(
            "<svg class=\"key\" viewBox=\"0 0 30 10\" aria-hidden=\"true\"><path class=\"curve s{} e{}\" d=\"M0 5h30\"/></svg>",
            line.colour,
            place.min(2)
        );
        let key = if has_keys { key.as_str() } else { "" };
        let (name, best) = (escape(&line.name), escape(&best(&line.best)));
        let _ = write!(out, "<li>{key}{name}: best {best}{less}</li>");
    }
    out + "</ul>\n"
}
