//! Figure 4: the pairs of gains that meet a goal, coloured by the least cache rate that does.

use std::fmt::Write;

use super::TierReportOptions;
use super::view::View;
use crate::report::scale::{Axis, Frame};
use crate::report::svg::{Anchor, Svg};
use crate::text::{self, escape};
use crate::tiers::whatif::{Frontier, Gains, LeastGain, WhatIfError};

/// Colours of rates in the style, from low to high.
const COLOURS: usize = 8;

pub(super) fn chart(view: &View<'_>, options: &TierReportOptions) -> Result<String, WhatIfError> {
    let goal = options.goal.unwrap_or(0.75 * view.best.seconds);
    let classes = if options.frontier.is_empty() {
        view.greatest()
    } else {
        options.frontier.clone()
    };
    let title = format!("{}: goal {}", view.title(), text::duration(goal));
    let least = least_gains(view, goal)?;
    let [across, up] = classes.as_slice() else {
        // One class has no pairs; what it needs alone is said in words.
        return Ok(format!("<h3>{}</h3>\n{least}", escape(&title)));
    };
    let none = Gains::none(&view.of_epoch);
    let found = view
        .of_epoch
        .frontier(&[across.clone(), up.clone()], goal, options.axis, &none)?;
    let body = if found.marks.is_empty() {
        format!(
            "<p>{}: no pair of gains up to {} % meets it. Endless gains in both classes would leave {}.</p>\n",
            escape(&title),
            options.axis.to,
            text::duration(found.limit_seconds)
        )
    } else {
        let rates = rates(&found);
        let drawn = draw(view, &found, &rates, &title);
        format!("{}<div class=\"wide\">{drawn}</div>\n", legend(&rates))
    };
    Ok(format!("<div class=\"panel\">{body}{least}</div>\n"))
}

/// The rates of the marks, ascending; empty where none is known.
fn rates(found: &Frontier) -> Vec<f64> {
    let mut rates: Vec<f64> = found
        .marks
        .iter()
        .filter_map(|mark| mark.cache_rate)
        .collect();
    rates.sort_by(f64::total_cmp);
    rates.dedup();
    rates
}

/// The colour of a rate among the others.
fn colour(rates: &[f64], rate: Option<f64>) -> usize {
    let place = rate
        .and_then(|rate| rates.iter().position(|one| *one == rate))
        .unwrap_or(0);
    match rates.len() {
        0 | 1 => COLOURS / 2,
        many => place * (COLOURS - 1) / (many - 1),
    }
}

fn legend(rates: &[f64]) -> String {
    const MOST: usize = 12;
    let mut out = String::from("<ul class=\"legend\">");
    if rates.is_empty() {
        let _ = write!(
            out,
            "<li><i class=\"swatch f{}\"></i>meets the goal</li>",
            COLOURS / 2
        );
    }
    // Of many rates every so manieth, the first and the last among them.
    let step = rates.len().div_ceil(MOST).max(1);
    let shown = rates
        .iter()
        .enumerate()
        .filter(|(place, _)| place % step == 0 || place + 1 == rates.len());
    for (_, rate) in shown {
        let colour = colour(rates, Some(*rate));
        let _ = write!(
            out,
            "<li><i class=\"swatch f{colour}\"></i>{rate} % on the local tier</li>"
        );
    }
    out + "</ul>\n"
}

fn draw(view: &View<'_>, found: &Frontier, rates: &[f64], title: &str) -> String {
    let label = format!("Pairs of gains that meet the goal for {}", view.name());
    let mut svg = Svg::new(1000.0, 560.0, &label);
    let frame = Frame {
        left: 84.0,
        top: 44.0,
        width: 620.0,
        height: 450.0,
        x: Axis::linear(found.axis.to),
        y: Axis::linear(found.axis.to),
    };
    frame.draw_title(&mut svg, title);
    frame.draw_y(&mut svg, |tick| format!("{tick} %"));
    frame.draw_x(&mut svg, |tick| format!("{tick} %"));
    let below = (frame.left + frame.width / 2.0, frame.bottom() + 44.0);
    let name = |place: usize| format!("gain in throughput of {} (%)", found.classes[place]);
    svg.text("label", below, Anchor::Middle, &name(0));
    svg.upright("label", (20.0, frame.top + frame.height / 2.0), &name(1));
    for shade in 0..COLOURS {
        let of_shade = found
            .marks
            .iter()
            .filter(|mark| colour(rates, mark.cache_rate) == shade);
        let dots: Vec<(f64, f64)> = of_shade
            .map(|mark| frame.at(mark.gains[0], mark.gains[1]))
            .collect();
        if !dots.is_empty() {
            svg.dots(&format!("mark f{shade}"), &dots);
        }
    }
    svg.curve(
        "frontier",
        &staircase(&frame, found),
        "the least pairs of gains that meet the goal",
    );
    svg.finish()
}

/// Along the least pairs, from the top of the area to its right.
fn staircase(frame: &Frame, found: &Frontier) -> Vec<(f64, f64)> {
    let mut pairs: Vec<(f64, f64)> = found
        .points
        .iter()
        .map(|point| (point.gains[0], point.gains[1]))
        .collect();
    pairs.sort_by(|a, b| a.0.total_cmp(&b.0));
    let mut line = Vec::new();
    let mut height = found.axis.to;
    for (x, y) in pairs {
        line.push(frame.at(x, height));
        line.push(frame.at(x, y));
        height = y;
    }
    line.push(frame.at(found.axis.to, height));
    line
}

/// What each class needs alone.
fn least_gains(view: &View<'_>, goal: f64) -> Result<String, WhatIfError> {
    let none = Gains::none(&view.of_epoch);
    let mut sentences = Vec::new();
    for class in view.classes() {
        let at = |rate: Option<f64>| rate.map_or(String::new(), |rate| format!(" at {rate} %"));
        let words = match view.of_epoch.least_gain(class.name(), goal, &none)? {
            LeastGain::Met {
                cache_rate,
                seconds,
            } => {
                sentences.push(format!(
                    "The goal is met as it is: {}{}.",
                    text::duration(seconds),
                    at(cache_rate)
                ));
                break;
            }
            LeastGain::Gain {
                percent,
                cache_rate,
            } => {
                format!(
                    "{class} alone: +{}{}.",
                    percent_words(percent),
                    at(cache_rate)
                )
            }
            LeastGain::Unreachable {
                limit_seconds,
                cache_rate,
            } => format!(
                "{class} alone: unreachable; an endless gain would leave {}{}.",
                text::duration(limit_seconds),
                at(cache_rate)
            ),
        };
        sentences.push(words);
    }
    Ok(crate::report::tables::list(sentences))
}

fn percent_words(percent: f64) -> String {
    format!("{percent:.1} %")
}
