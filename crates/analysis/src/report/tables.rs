//! The parts of a page that are words and numbers.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::view::View;
use crate::epochs::Speedup;
use crate::text::{self, escape};

/// The few numbers that a reader came for, each with its baseline and its n.
pub(super) fn headlines(view: &View<'_>) -> String {
    const MOST: usize = 3;
    let mut out = String::from("<div class=\"tiles\">\n");
    for one in view.summary.speedups.iter().take(MOST) {
        let short = |path: &str| text::clip(path, 28);
        let (path, baseline) = (short(&one.path), short(&one.baseline));
        let words = format!("epoch {}: {path} against {baseline}", one.epoch);
        let under = format!(
            "{} against {}, n {} and {}",
            text::duration(one.wall_s),
            text::duration(one.baseline_wall_s),
            text::count(one.n),
            text::count(one.baseline_n)
        );
        tile(&mut out, &format!("{:.1}×", one.ratio), &words, &under);
    }
    let subject = view.subject();
    let short = text::clip(subject, 28);
    if let Some(last) = view.summary.epochs.iter().rfind(|row| row.path == subject) {
        let words = format!("of waits over the window, {short}, epoch {}", last.epoch);
        let under = format!(
            "{} of {}; window {}",
            text::count(last.over_window),
            text::count(last.n),
            text::duration(last.window_ms / 1e3)
        );
        tile(
            &mut out,
            &text::share(last.over_window, last.n),
            &words,
            &under,
        );
    }
    // The first epoch, in which every block is touched for the first time: the epochs after it
    // would only thin the ratio.
    let first = view.summary.epochs.iter().find(|row| row.path == subject);
    if let Some((origin, asked)) = first.and_then(|row| row.origin_bytes.zip(row.asked_bytes))
        && asked > 0
    {
        let words = format!("origin bytes over asked bytes, {short}, its first epoch");
        let under = format!("{} over {}", text::bytes(origin), text::bytes(asked));
        tile(
            &mut out,
            &format!("{:.2}", origin as f64 / asked as f64),
            &words,
            &under,
        );
    }
    out.push_str("</div>\n");
    out
}

fn tile(out: &mut String, number: &str, words: &str, under: &str) {
    let _ = writeln!(
        out,
        "<div class=\"tile\"><strong>{}</strong><span>{}</span><small>{}</small></div>",
        escape(number),
        escape(words),
        escape(under)
    );
}

/// One row for each epoch of each path.
pub(super) fn epochs(view: &View<'_>) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table><thead><tr><th>path</th><th>epoch</th><th>wall</th>\
         <th>speed-up</th><th>wait median</th><th>mean</th><th>p95</th><th>p99</th><th>max</th>\
         <th>over window</th><th>window</th><th>excess</th><th>n</th></tr></thead>\n<tbody>\n",
    );
    for row in &view.summary.epochs {
        let ms = |value: f64| text::duration(value / 1e3);
        let same = |one: &&Speedup| one.path == row.path && one.epoch == row.epoch;
        let speedup = view.summary.speedups.iter().find(same);
        let cells = [
            row.epoch.to_string(),
            text::duration(row.wall_s) + if row.wall_recorded { "" } else { " *" },
            speedup.map_or("–".into(), |one| format!("{:.2}×", one.ratio)),
            ms(row.wait_median_ms),
            ms(row.wait_mean_ms),
            ms(row.wait_p95_ms),
            ms(row.wait_p99_ms),
            ms(row.wait_max_ms),
            text::share(row.over_window, row.n),
            ms(row.window_ms),
            text::duration(row.wait_excess_s),
            text::count(row.n),
        ];
        let (colour, path) = (view.colour(&row.path), escape(&row.path));
        let _ = write!(
            out,
            "<tr><th scope=\"row\"><i class=\"swatch s{colour}\"></i>{path}</th>"
        );
        for cell in cells {
            let _ = write!(out, "<td>{}</td>", escape(&cell));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table></div>\n");
    if view.summary.epochs.iter().any(|row| !row.wall_recorded) {
        out.push_str(
            "<p class=\"fine\">* not recorded: the longest sum of iterations of one rank.</p>\n",
        );
    }
    out
}

/// The intervals of the speed-ups, and why one is missing.
pub(super) fn comparisons(view: &View<'_>) -> String {
    let interval = |one: &Speedup| {
        let found = one.iteration_ratio?;
        Some(format!(
            "Epoch {}: a mean whole iteration of {} takes {:.2} times that of {}, with a 95 % interval of {:.2} to {:.2} (n {} and {}).",
            one.epoch,
            one.baseline,
            found.ratio,
            one.path,
            found.low,
            found.high,
            text::count(found.numerator_n),
            text::count(found.denominator_n)
        ))
    };
    let speedups = view.summary.speedups.iter().take(12).filter_map(interval);
    let mut out = list(speedups.chain(view.summary.not_compared.iter().cloned()));
    if view
        .summary
        .speedups
        .iter()
        .any(|one| one.iteration_ratio.is_some())
    {
        out.push_str(
            "<p class=\"fine\">An interval covers the scatter of this run’s own iterations, not that of further runs.</p>\n",
        );
    }
    out
}

/// A list of sentences; nothing where there is none.
pub(super) fn list(items: impl IntoIterator<Item = String>) -> String {
    let items: String = items
        .into_iter()
        .map(|item| format!("<li>{}</li>\n", escape(&item)))
        .collect();
    match items.as_str() {
        "" => items,
        items => format!("<ul>\n{items}</ul>\n"),
    }
}

/// Names and values of the manifest, folded away.
pub(super) fn details(name: &str, values: &Map<String, Value>) -> String {
    if values.is_empty() {
        return String::new();
    }
    let mut out = format!("<details><summary>{name}</summary><dl>\n");
    for (name, value) in values {
        let value = match value {
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let _ = writeln!(out, "<dt>{}</dt><dd>{}</dd>", escape(name), escape(&value));
    }
    out.push_str("</dl></details>\n");
    out
}
