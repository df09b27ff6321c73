//! The fabric study for the terminal.

use super::table;
use crate::fabric::{ContentionSummary, Factor, Spread, StudySummary, TrainingSummary};
use crate::text;

/// A factor in a cell: its number, or a dash where the data supports none.
#[must_use]
pub fn factor(factor: &Factor) -> String {
    factor.ratio.map_or("–".into(), times)
}

/// A factor with its interval.
#[must_use]
pub fn factor_with_interval(one: &Factor) -> String {
    match (one.ratio, one.low, one.high) {
        (Some(ratio), Some(low), Some(high)) => {
            format!("{} ({} to {})", times(ratio), plain(low), plain(high))
        }
        _ => factor(one),
    }
}

fn times(ratio: f64) -> String {
    format!("{}×", plain(ratio))
}

fn plain(ratio: f64) -> String {
    match ratio {
        ratio if ratio < 9.995 => format!("{ratio:.2}"),
        ratio => text::three_digits(ratio),
    }
}

/// The tables of a study as plain text, ready to print.
#[must_use]
pub fn fabric(summary: &StudySummary) -> String {
    let mut out = String::new();
    if !summary.allreduce.is_empty() {
        out.push_str(&collectives(&summary.allreduce));
    }
    if !summary.training.is_empty() {
        if !out.is_empty() {
            out.push('\n');
        }
        out.push_str(&trainings(&summary.training));
    }
    for reason in reasons(summary) {
        out.push_str(&format!("note: {}\n", text::printable(&reason)));
    }
    out
}

/// Why factors are missing, and the other remarks.
#[must_use]
pub fn reasons(summary: &StudySummary) -> Vec<String> {
    let mut found = Vec::new();
    for one in &summary.allreduce {
        for (name, factor) in [
            ("median", &one.median),
            ("p99", &one.p99),
            ("max", &one.max),
        ] {
            if let Some(reason) = &factor.refused {
                let tier = &one.tier;
                found.push(format!("no factor by {name} for tier `{tier}`: {reason}"));
            }
        }
    }
    for one in &summary.training {
        let factor = one.backward_median.as_ref();
        if let Some(reason) = factor.and_then(|factor| factor.refused.as_ref()) {
            let path = &one.path;
            found.push(format!("no factor of backward for path `{path}`: {reason}"));
        }
    }
    found.extend(summary.remarks.iter().cloned());
    found
}

fn ms(value: f64) -> String {
    text::duration(value / 1e3)
}

fn spread(spread: Option<Spread>, of: fn(&Spread) -> f64) -> String {
    spread.as_ref().map_or("–".into(), |spread| ms(of(spread)))
}

fn collectives(rows: &[ContentionSummary]) -> String {
    let heads = [
        "all-reduce beside",
        "message",
        "median without",
        "with",
        "by median",
        "by p99",
        "by max",
        "worst",
        "stalls",
        "wait median",
        "wait max",
        "over window",
        "n",
    ];
    let row = |one: &ContentionSummary| {
        let waits = one.waits.as_ref();
        vec![
            text::clip(&text::printable(&one.tier), 36),
            text::bytes(one.message_bytes),
            spread(one.baseline, |spread| spread.median_ms),
            spread(one.loaded, |spread| spread.median_ms),
            factor_with_interval(&one.median),
            factor(&one.p99),
            factor_with_interval(&one.max),
            factor(&one.worst),
            one.stalls.to_string(),
            waits.map_or("–".into(), |waits| ms(waits.times.median_ms)),
            waits.map_or("–".into(), |waits| ms(waits.times.max_ms)),
            waits.map_or("–".into(), |waits| {
                let over = waits.over_window;
                over.map_or("–".into(), |over| text::share(over, waits.times.n))
            }),
            text::count(one.median.loaded_n),
        ]
    };
    table(&heads, &rows.iter().map(row).collect::<Vec<_>>())
}

fn trainings(rows: &[TrainingSummary]) -> String {
    let heads = [
        "training on",
        "stage",
        "median",
        "mean",
        "p95",
        "max",
        "over 1 s",
        "excess",
        "of penalty",
        "n",
    ];
    let mut cells = Vec::new();
    for one in rows {
        for stage in &one.stages {
            let share = stage.share_of_excess;
            cells.push(vec![
                text::clip(&text::printable(&one.path), 36),
                stage.stage.to_owned(),
                ms(stage.times.median_ms),
                ms(stage.mean_ms),
                ms(stage.times.p95_ms),
                ms(stage.times.max_ms),
                format!("{:.2} %", 100.0 * stage.over_1s_share),
                text::duration(stage.excess_s),
                share.map_or("–".into(), |share| format!("{:.1} %", 100.0 * share)),
                text::count(stage.times.n),
            ]);
        }
    }
    let mut out = table(&heads, &cells);
    for one in rows {
        let rate = one.samples_per_s.map_or(String::new(), |rate| {
            format!(", {} samples/s", text::three_digits(rate))
        });
        let against = one.backward_median.as_ref().zip(one.backward_max.as_ref());
        let factors = against.map_or(String::new(), |(median, max)| {
            format!(
                "; backward + all-reduce over that without I/O: median {}, max {}",
                factor_with_interval(median),
                factor_with_interval(max)
            )
        });
        let over = one.waits.over_window.unwrap_or(0);
        out.push_str(&format!(
            "{}: {} for {} iterations on {} ranks{rate}; waits over the window ({}) {}{factors}\n",
            text::printable(&one.path),
            text::duration(one.wall_s),
            one.iterations,
            one.ranks,
            ms(one.waits.window_ms.unwrap_or(0.0)),
            text::share(over, one.waits.times.n),
        ));
    }
    out
}
