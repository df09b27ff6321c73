//! Tables for the terminal.

mod classes;
mod darshan;
mod fabric;
mod suite;

use crate::epochs::{EpochSummary, Summary};
use crate::text;

pub use classes::{classes, other};
pub use darshan::darshan;
pub use fabric::{fabric, factor, factor_with_interval, reasons};
pub use suite::{comparison, history, suite_iterations, suite_ranks, suite_run};

/// The epochs of a run and its speed-ups as plain text, ready to print.
#[must_use]
pub fn epochs(summary: &Summary) -> String {
    let heads = [
        "path",
        "epoch",
        "wall",
        "iterations",
        "wait median",
        "p95",
        "p99",
        "max",
        "over window",
        "window",
        "n",
    ];
    let rows: Vec<Vec<String>> = summary.epochs.iter().map(row).collect();
    let mut out = table(&heads, &rows);
    for one in &summary.speedups {
        let (path, baseline) = (text::printable(&one.path), text::printable(&one.baseline));
        let interval = one.iteration_ratio.map_or(String::new(), |found| {
            format!(
                "; mean iteration {:.2}x, 95 % interval {:.2} to {:.2}",
                found.ratio, found.low, found.high
            )
        });
        out.push_str(&format!(
            "epoch {}: {path} is {:.2}x as fast as {baseline} ({} against {}; n {} and {}{interval})\n",
            one.epoch,
            one.ratio,
            text::duration(one.wall_s),
            text::duration(one.baseline_wall_s),
            one.n,
            one.baseline_n,
        ));
    }
    summary
        .epochs
        .iter()
        .for_each(|epoch| out.extend(answers(epoch)));
    for (path, ratio) in &summary.origin_bytes_over_asked {
        let path = text::printable(path);
        out.push_str(&format!(
            "{path}: origin bytes over asked bytes {ratio:.3}\n"
        ));
    }
    for sentence in summary.not_compared.iter().chain(&summary.unread) {
        out.push_str(&format!("note: {}\n", text::printable(sentence)));
    }
    out
}

/// Who answered the reads of an epoch, as a line.
fn answers(epoch: &EpochSummary) -> Option<String> {
    let found = epoch.answers?;
    let percent = |share: f64| format!("{:.2} %", 100.0 * share);
    let late = match found.late {
        0 => "none late".to_owned(),
        late => format!(
            "{late} of {} batches late, by {} at most",
            epoch.n,
            text::duration(found.late_max_ms / 1e3)
        ),
    };
    let lead = found.lead_median_ms.map_or(String::new(), |lead| {
        format!(
            "; {} staged ahead, half of them by {} or more",
            found.ahead,
            text::duration(lead / 1e3)
        )
    });
    Some(format!(
        "epoch {}: {} answered from the node {}, from other nodes {}, from the origin {} by the \
         daemon and {} by the reader; {late}{lead}\n",
        epoch.epoch,
        text::printable(&epoch.path),
        percent(found.local_share),
        percent(found.peer_share),
        percent(found.staged_share),
        percent(found.direct_share),
    ))
}

fn row(epoch: &EpochSummary) -> Vec<String> {
    let ms = |value: f64| text::duration(value / 1e3);
    vec![
        text::clip(&text::printable(&epoch.path), 32),
        epoch.epoch.to_string(),
        text::duration(epoch.wall_s),
        text::count(epoch.iterations),
        ms(epoch.wait_median_ms),
        ms(epoch.wait_p95_ms),
        ms(epoch.wait_p99_ms),
        ms(epoch.wait_max_ms),
        text::share(epoch.over_window, epoch.n),
        ms(epoch.window_ms),
        text::count(epoch.n),
    ]
}

/// Columns as wide as their widest cell, the first to the left and the others to the right.
#[must_use]
pub fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let head = heads[column].chars().count();
        cells
            .map(|cell| cell.chars().count())
            .fold(head, usize::max)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: &[&str]| {
        let mut out = String::new();
        for (column, (cell, width)) in cells.iter().zip(&widths).enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let padded = match column {
                0 => format!("{cell:<width$}"),
                _ => format!("{cell:>width$}"),
            };
            out.push_str(gap);
            out.push_str(&padded);
        }
        out.trim_end().to_owned() + "\n"
    };
    let rule: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
    let mut out = line(heads);
    out.push_str(&line(&rule.iter().map(String::as_str).collect::<Vec<_>>()));
    for row in rows {
        out.push_str(&line(&row.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    out
}
