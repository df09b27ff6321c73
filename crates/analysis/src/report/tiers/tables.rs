//! The parts of the page that are words and numbers.

use std::fmt::Write;

use super::view::View;
use crate::text::{self, escape};
use crate::tiers::whatif::Gains;
use crate::tiers::{Study, Summary};

/// Rows of the table of all numbers; the CSV has them all.
const MAX_ROWS: usize = 1_000;

/// One row for each setup: what local storage buys there.
pub(super) fn glance(views: &[View<'_>]) -> String {
    let heads = [
        "setup",
        "epoch",
        "best rate",
        "I/O time there",
        "without local",
        "all local",
        "greatest class there",
        "its share",
    ];
    let mut rows = Vec::new();
    for view in views {
        let estimates = view.of_epoch.estimates(&Gains::none(&view.of_epoch));
        let at = |rate: f64| {
            let found = estimates.iter().find(|one| one.cache_rate == Some(rate));
            found.map_or("–".into(), |one| text::duration(one.seconds))
        };
        let slowest = view.best.slowest.first();
        let stack = slowest.map_or(&[][..], |one| &one.stack);
        let most = (0..stack.len()).max_by(|a, b| stack[*a].total_cmp(&stack[*b]));
        let total: f64 = stack.iter().sum();
        rows.push(vec![
            view.name().to_owned(),
            view.epoch.map_or("–".into(), |epoch| epoch.to_string()),
            view.best
                .cache_rate
                .map_or("–".into(), |rate| format!("{rate} %")),
            text::duration(view.best.seconds),
            at(0.0),
            at(100.0),
            most.map_or("–".into(), |place| view.classes()[place].to_string()),
            most.filter(|_| total > 0.0).map_or("–".into(), |place| {
                format!("{:.0} %", 100.0 * stack[place] / total)
            }),
        ]);
    }
    table(&heads, &rows)
}

/// The slowest process of every epoch at every rate.
pub(super) fn numbers(study: &Study) -> String {
    let summary = Summary::new(study);
    let heads = [
        "setup",
        "rate",
        "epoch",
        "execution",
        "slowest",
        "I/O time",
        "classes",
        "next",
        "processes",
    ];
    let row = |one: &crate::tiers::Slowest<'_>| {
        let classes = one
            .seconds
            .pairs()
            .map(|(class, s)| format!("{class} {}", text::duration(s)));
        vec![
            if one.setup.is_empty() {
                "–".into()
            } else {
                one.setup.to_owned()
            },
            one.rate_percent.map_or("–".into(), |rate| rate.to_string()),
            one.epoch.map_or("–".into(), |epoch| epoch.to_string()),
            one.execution_s.map_or("–".into(), text::duration),
            one.process.to_owned(),
            text::duration(one.total_s),
            classes.collect::<Vec<_>>().join(", "),
            one.next_s.map_or("–".into(), text::duration),
            text::count(one.processes),
        ]
    };
    let rows: Vec<Vec<String>> = summary.rows().iter().take(MAX_ROWS).map(row).collect();
    let mut out = format!(
        "<details><summary>The slowest process of every epoch, {} rows</summary>\n{}</details>\n",
        text::count(summary.rows().len()),
        table(&heads, &rows)
    );
    if summary.rows().len() > MAX_ROWS {
        out.push_str(
            "<p class=\"fine\">The first 1,000 are shown; <code>--csv</code> has them all.</p>\n",
        );
    }
    out
}

fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let mut out = String::from("<div class=\"wide\"><table><thead><tr>");
    for head in heads {
        let _ = write!(out, "<th>{head}</th>");
    }
    out.push_str("</tr></thead>\n<tbody>\n");
    for row in rows {
        for (place, cell) in row.iter().enumerate() {
            let cell = escape(&text::clip(cell, 120));
            let _ = match place {
                0 => write!(out, "<tr><th scope=\"row\">{cell}</th>"),
                _ => write!(out, "<td>{cell}</td>"),
            };
        }
        out.push_str("</tr>\n");
    }
    out + "</tbody></table></div>\n"
}
