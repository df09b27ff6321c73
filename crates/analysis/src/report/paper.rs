//! Figures of the study that this kind of run is shaped after, beside the run's own.

use std::fmt::Write;

use super::view::View;
use crate::epochs::EpochSummary;
use crate::text::{self, escape};

/// One row of the study: C. Wang et al., arXiv 2609.06506, tables III and IV and section IV.
struct Row {
    name: &'static str,
    mean_ms: f64,
    p95_ms: Option<f64>,
    max_s: f64,
    over_1s: f64,
    wall_s: f64,
}

const ROWS: [Row; 5] = [
    row(
        "Lustre, direct",
        1_987.0,
        Some(11_381.0),
        41.8,
        0.282,
        11_843.9,
    ),
    row("VAST, direct", 324.0, Some(1_782.0), 7.1, 0.115, 1_693.9),
    row(
        "DYAD over Lustre, epoch 1",
        90.4,
        None,
        5.0,
        0.0293,
        1_595.8,
    ),
    row("DYAD over Lustre, epoch 2", 13.8, None, 0.901, 0.0, 1_293.3),
    row("DYAD over Lustre, epoch 3", 14.1, None, 0.827, 0.0, 1_280.1),
];

const fn row(
    name: &'static str,
    mean_ms: f64,
    p95_ms: Option<f64>,
    max_s: f64,
    over_1s: f64,
    wall_s: f64,
) -> Row {
    Row {
        name,
        mean_ms,
        p95_ms,
        max_s,
        over_1s,
        wall_s,
    }
}

/// Iterations of one epoch of the study.
const N: usize = 5_120;

/// The table, with the study's rows first.
pub(super) fn table(view: &View<'_>) -> String {
    let mut out = String::from(
        "<div class=\"wide\"><table><thead><tr><th>run</th><th>wait mean</th><th>p95</th>\
         <th>max</th><th>over 1 s</th><th>epoch wall</th><th>against direct</th><th>n</th></tr></thead>\n<tbody>\n",
    );
    for row in &ROWS {
        let cells = [
            text::duration(row.mean_ms / 1e3),
            row.p95_ms
                .map_or("–".into(), |p95| text::duration(p95 / 1e3)),
            text::duration(row.max_s),
            percent(row.over_1s),
            text::duration(row.wall_s),
            format!("{:.1}×", ROWS[0].wall_s / row.wall_s),
            text::count(N),
        ];
        push(&mut out, "study", row.name, &cells);
    }
    for epoch in &view.summary.epochs {
        let name = format!(
            "this run: {}, epoch {}",
            text::clip(&epoch.path, 32),
            epoch.epoch
        );
        push(&mut out, "", &name, &own(view, epoch));
    }
    out.push_str("</tbody></table></div>\n");
    out
}

fn own(view: &View<'_>, epoch: &EpochSummary) -> [String; 7] {
    let ms = |value: f64| text::duration(value / 1e3);
    let same = |one: &&crate::Speedup| one.path == epoch.path && one.epoch == epoch.epoch;
    let speedup = match view.summary.speedups.iter().find(same) {
        Some(found) => format!("{:.1}×", found.ratio),
        None if view.baseline == Some(epoch.path.as_str()) => "1.0×".into(),
        None => "–".into(),
    };
    [
        ms(epoch.wait_mean_ms),
        ms(epoch.wait_p95_ms),
        ms(epoch.wait_max_ms),
        percent(epoch.over_1s_share),
        text::duration(epoch.wall_s),
        speedup,
        text::count(epoch.n),
    ]
}

fn percent(share: f64) -> String {
    text::share((share * 1e6).round() as usize, 1_000_000)
}

fn push(out: &mut String, class: &str, name: &str, cells: &[String]) {
    let _ = write!(
        out,
        "<tr class=\"{class}\"><th scope=\"row\">{}</th>",
        escape(name)
    );
    for cell in cells {
        let _ = write!(out, "<td>{}</td>", escape(cell));
    }
    out.push_str("</tr>\n");
}
