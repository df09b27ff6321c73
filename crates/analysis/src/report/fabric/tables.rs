//! The tables of the page, with the study's figures shaded among them.

use std::fmt::Write;

use super::paper::{self, EPOCHS, INTERFERENCE};
use crate::fabric::{Spread, StageSummary, StudySummary, TrainingSummary, Waits};
use crate::table::{factor, factor_with_interval};
use crate::text::{self, clip, escape};

/// A table under construction.
struct Table(String);

impl Table {
    fn new(heads: &[&str]) -> Self {
        let heads: String = heads
            .iter()
            .map(|head| format!("<th>{head}</th>"))
            .collect();
        Self(format!(
            "<div class=\"wide\"><table><thead><tr>{heads}</tr></thead>\n<tbody>\n"
        ))
    }

    fn row(&mut self, is_study: bool, name: &str, cells: &[String]) {
        let class = if is_study { " class=\"study\"" } else { "" };
        let name = escape(&clip(name, 60));
        let _ = write!(self.0, "<tr{class}><th scope=\"row\">{name}</th>");
        for cell in cells {
            let _ = write!(self.0, "<td>{}</td>", escape(cell));
        }
        self.0.push_str("</tr>\n");
    }

    fn finish(self) -> String {
        self.0 + "</tbody></table></div>\n"
    }
}

fn ms(value: f64) -> String {
    text::duration(value / 1e3)
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("–".into(), text::duration)
}

fn percent(share: f64) -> String {
    format!("{:.2} %", 100.0 * share)
}

/// The few numbers that a reader came for.
pub(super) fn headlines(summary: &StudySummary) -> String {
    const MOST: usize = 6;
    let mut out = String::from("<div class=\"tiles\">\n");
    for one in summary.allreduce.iter().take(MOST) {
        let base = one.baseline.map_or("–".into(), |base| ms(base.median_ms));
        let (number, name) = (factor(&one.median), clip(&one.tier, 40));
        let under = format!(
            "median over the baseline’s {base}; max over max {}; n {} and {}",
            factor(&one.max),
            one.median.loaded_n,
            one.median.baseline_n
        );
        let _ = writeln!(
            out,
            "<div class=\"tile\"><strong>{}</strong><span>{}</span><small>{}</small></div>",
            escape(&number),
            escape(&format!("all-reduce beside {name}")),
            escape(&under)
        );
    }
    out + "</div>\n"
}

/// Table II.
pub(super) fn contention(summary: &StudySummary) -> String {
    let heads = [
        "storage beside the all-reduce",
        "message",
        "factor by median",
        "by p99",
        "by max",
        "worst",
        "stalls",
        "own spread, median / max",
        "n, ranks, rounds",
    ];
    let mut table = Table::new(&heads);
    for (name, worst) in INTERFERENCE {
        let mut cells = vec!["–".to_owned(); heads.len() - 1];
        cells[4] = format!("{worst:.1}×");
        cells[7] = "100, 16, 1".into();
        table.row(true, name, &cells);
    }
    let drift = |drift: Option<f64>| drift.map_or("–".into(), |drift| format!("{drift:.2}×"));
    for one in &summary.allreduce {
        let cells = [
            text::bytes(one.message_bytes),
            factor_with_interval(&one.median),
            factor_with_interval(&one.p99),
            factor_with_interval(&one.max),
            factor(&one.worst),
            format!("{} (baseline {})", one.stalls, one.baseline_stalls),
            format!(
                "{} / {}",
                drift(one.baseline_drift),
                drift(one.baseline_max_drift)
            ),
            format!(
                "{} / {}, {}, {}",
                one.median.loaded_n, one.median.baseline_n, one.ranks, one.rounds
            ),
        ];
        table.row(false, &one.tier, &cells);
    }
    table.finish()
}

/// The times behind the factors.
pub(super) fn times(summary: &StudySummary) -> String {
    let heads = [
        "storage beside the all-reduce",
        "message",
        "without I/O: median",
        "p95",
        "p99",
        "max",
        "with I/O: median",
        "p95",
        "p99",
        "max",
    ];
    let mut table = Table::new(&heads);
    for one in &summary.allreduce {
        let mut cells = vec![text::bytes(one.message_bytes)];
        cells.extend(quantiles(one.baseline));
        cells.extend(quantiles(one.loaded));
        table.row(false, &one.tier, &cells);
    }
    table.finish()
}

fn quantiles(spread: Option<Spread>) -> [String; 4] {
    let Some(spread) = spread else {
        return ["–"; 4].map(str::to_owned);
    };
    [
        spread.median_ms,
        spread.p95_ms,
        spread.p99_ms,
        spread.max_ms,
    ]
    .map(ms)
}

/// Waits of the loops around the all-reduces.
pub(super) fn waits(summary: &StudySummary) -> String {
    let heads = [
        "tier",
        "median",
        "mean",
        "p95",
        "p99",
        "max",
        "over window",
        "window",
        "over 1 s",
        "read",
        "n",
    ];
    let mut table = Table::new(&heads);
    for one in &summary.allreduce {
        let Some(waits) = &one.waits else {
            table.row(false, &one.tier, &vec!["–".to_owned(); heads.len() - 1]);
            continue;
        };
        let mut cells = waited(waits);
        let n = cells.pop().unwrap_or_default();
        cells.extend([text::bytes(one.read_bytes), n]);
        table.row(false, &one.tier, &cells);
    }
    table.finish()
}

fn waited(waits: &Waits) -> Vec<String> {
    let times = &waits.times;
    vec![
        ms(times.median_ms),
        ms(waits.mean_ms),
        ms(times.p95_ms),
        ms(times.p99_ms),
        ms(times.max_ms),
        waits
            .over_window
            .map_or("–".into(), |over| text::share(over, times.n)),
        waits.window_ms.map_or("–".into(), ms),
        percent(waits.over_1s_share),
        text::count(times.n),
    ]
}

/// Table I, with the excess and the share of the penalty.
pub(super) fn stages(summary: &StudySummary) -> String {
    let heads = [
        "path, stage",
        "median",
        "mean",
        "p95",
        "p99",
        "max",
        "over 1 s",
        "excess",
        "share of the penalty",
        "n",
    ];
    let mut table = Table::new(&heads);
    for (stage, [median, p95, max]) in paper::STAGES {
        let cells = [
            text::duration(median),
            "–".into(),
            text::duration(p95),
            "–".into(),
            text::duration(max),
            "–".into(),
            "–".into(),
            "–".into(),
            text::count(paper::N),
        ];
        table.row(true, &format!("VAST, {stage}"), &cells);
    }
    for one in &summary.training {
        for stage in &one.stages {
            let name = format!("{}, {}", clip(&one.path, 36), stage.stage);
            table.row(false, &name, &staged(stage));
        }
    }
    table.finish()
}

fn staged(stage: &StageSummary) -> Vec<String> {
    let times = &stage.times;
    vec![
        ms(times.median_ms),
        ms(stage.mean_ms),
        ms(times.p95_ms),
        ms(times.p99_ms),
        ms(times.max_ms),
        percent(stage.over_1s_share),
        text::duration(stage.excess_s),
        stage
            .share_of_excess
            .map_or("–".into(), |share| format!("{:.1} %", 100.0 * share)),
        text::count(times.n),
    ]
}

/// Table III.
pub(super) fn tails(summary: &StudySummary) -> String {
    let heads = [
        "path",
        "wait median",
        "mean",
        "p95",
        "max",
        "over 1 s",
        "over window",
        "backward + all-reduce mean",
        "p95",
        "over 1 s",
        "over no I/O, median",
        "max",
        "n",
    ];
    let mut table = Table::new(&heads);
    for epoch in &EPOCHS {
        let cells = [
            seconds(epoch.wait_median),
            text::duration(epoch.wait_mean),
            seconds(epoch.wait_p95),
            text::duration(epoch.wait_max),
            percent(epoch.wait_over_1s),
            "–".into(),
            seconds(epoch.backward_mean),
            seconds(epoch.backward_p95),
            epoch.backward_over_1s.map_or("–".into(), percent),
            "–".into(),
            "–".into(),
            text::count(paper::N),
        ];
        table.row(true, epoch.name, &cells);
    }
    for one in &summary.training {
        table.row(false, &one.path, &tail(one));
    }
    table.finish()
}

fn tail(one: &TrainingSummary) -> Vec<String> {
    let backward = one
        .stages
        .iter()
        .find(|stage| stage.stage == crate::fabric::STAGES[3]);
    let of = |value: fn(&StageSummary) -> String| backward.map_or("–".into(), value);
    let times = &one.waits.times;
    let against = |factor: &Option<crate::fabric::Factor>| {
        factor.as_ref().map_or("–".into(), factor_with_interval)
    };
    vec![
        ms(times.median_ms),
        ms(one.waits.mean_ms),
        ms(times.p95_ms),
        ms(times.max_ms),
        percent(one.waits.over_1s_share),
        text::share(one.waits.over_window.unwrap_or(0), times.n),
        of(|stage| ms(stage.mean_ms)),
        of(|stage| ms(stage.times.p95_ms)),
        of(|stage| percent(stage.over_1s_share)),
        against(&one.backward_median),
        against(&one.backward_max),
        text::count(times.n),
    ]
}

/// Table IV.
pub(super) fn walls(summary: &StudySummary) -> String {
    let heads = ["path", "wall time", "iterations", "ranks", "samples/s"];
    let mut table = Table::new(&heads);
    let rate = |rate: Option<f64>| rate.map_or("–".into(), text::three_digits);
    for epoch in &EPOCHS {
        let cells = [
            text::duration(epoch.wall),
            text::count(paper::N),
            "16".into(),
            rate(epoch.samples_per_s),
        ];
        table.row(true, epoch.name, &cells);
    }
    for one in &summary.training {
        let cells = [
            text::duration(one.wall_s),
            text::count(one.iterations),
            one.ranks.to_string(),
            rate(one.samples_per_s),
        ];
        table.row(false, &one.path, &cells);
    }
    table.finish()
}
