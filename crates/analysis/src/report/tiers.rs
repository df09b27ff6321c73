//! One self-contained HTML page about tiers: the four figures of the hierarchical-I/O study, from
//! the records of a sweep, of Darshan logs or of a run.

mod frontier;
mod gains;
mod rates;
mod stacks;
mod tables;
#[cfg(test)]
mod tests;
mod view;

use super::page::{self, section};
use crate::tiers::Study;
use crate::tiers::whatif::{Axis, WhatIfError};
use view::View;

/// What a page about tiers says besides what the records hold.
#[derive(Clone, Debug, PartialEq)]
pub struct TierReportOptions {
    /// Heading of the page.
    pub title: String,
    /// The epoch of the figures about one epoch; the second where there is one, as in the study,
    /// or else the first.
    pub epoch: Option<u32>,
    /// Gains in throughput to estimate, in percent by class; 50 percent in each of the two classes
    /// with the most time when empty.
    pub gains: Vec<(String, f64)>,
    /// Seconds that the I/O of an epoch may take; three quarters of the best time measured when
    /// `None`.
    pub goal: Option<f64>,
    /// The two classes of the frontier; those with the most time when empty.
    pub frontier: Vec<String>,
    /// The gains that the frontier tries.
    pub axis: Axis,
    /// What a reader must not conclude, one sentence each.
    pub not_shown: Vec<String>,
}

impl Default for TierReportOptions {
    fn default() -> Self {
        Self {
            title: "Forebay: storage tiers".into(),
            epoch: None,
            gains: Vec::new(),
            goal: None,
            frontier: Vec::new(),
            axis: Axis::default(),
            not_shown: Vec::new(),
        }
    }
}

/// Setups that have figures; the others stand in the table.
const MAX_SETUPS: usize = 12;

/// Renders the page.
///
/// # Errors
/// [`WhatIfError`] for a class or epoch that is not in the records, and gains or goals that are
/// absurd.
pub fn render(study: &Study, options: &TierReportOptions) -> Result<String, WhatIfError> {
    let views: Vec<View<'_>> = study
        .setups
        .iter()
        .filter(|setup| {
            setup
                .points
                .iter()
                .any(|point| !point.table.rows().is_empty())
        })
        .map(|setup| View::new(setup, options))
        .collect::<Result<_, _>>()?;
    let mut out = page::head(&options.title);
    page::header(&mut out, &study.manifest, &options.title);
    out.push_str("<main>\n");
    what_was_run(&mut out, study);
    section(&mut out, "At a glance", &tables::glance(&views));
    let drawn = &views[..views.len().min(MAX_SETUPS)];
    figures(&mut out, drawn, options)?;
    if drawn.len() < views.len() {
        let words = format!(
            "<p>{} more setups have no figures.</p>\n",
            views.len() - drawn.len()
        );
        section(&mut out, "Setups without figures", &words);
    }
    section(&mut out, "The numbers", &tables::numbers(study));
    let remarks = study.notes.iter().cloned().chain(study.unread.sentences());
    section(&mut out, "Notes", &super::tables::list(remarks));
    let not_shown = [NOT_SHOWN].into_iter().map(str::to_owned);
    let not_shown = not_shown.chain(options.not_shown.iter().cloned());
    section(
        &mut out,
        "What this does not show",
        &super::tables::list(not_shown),
    );
    section(&mut out, "How the numbers are made", DEFINITIONS);
    out.push_str("</main>\n</body>\n</html>\n");
    Ok(out)
}

fn what_was_run(out: &mut String, study: &Study) {
    let manifest = &study.manifest;
    let body = super::tables::list(manifest.conditions.iter().cloned())
        + &super::tables::details("Inputs", &manifest.inputs)
        + &super::tables::details("Host", &manifest.host);
    section(out, "What was run", &body);
}

fn figures(
    out: &mut String,
    views: &[View<'_>],
    options: &TierReportOptions,
) -> Result<(), WhatIfError> {
    let all = |chart: &dyn Fn(&View<'_>) -> String| views.iter().map(chart).collect::<String>();
    if views.iter().any(View::has_rates) {
        let charts = all(&rates::chart);
        let caption = "Round marks: wall time of an epoch. Triangles: I/O time of its slowest process. Where the two run side by side, the slowest process’s I/O decides the epoch.";
        figure(
            out,
            "1 Execution and I/O time against cache rate",
            &rates::legend(views),
            &charts,
            caption,
        );
    }
    let charts = all(&stacks::chart);
    let caption = "The I/O time of the slowest process by class. The tallest part of a column is the bottleneck there.";
    figure(
        out,
        "2 Where the slowest process’s time goes",
        &stacks::legend(views),
        &charts,
        caption,
    );
    let mut charts = String::new();
    for view in views {
        charts.push_str(&gains::chart(view, options)?);
    }
    let caption = "Each process’s time is computed anew with the gain, and the slowest is found after that: another process may become the slowest. A ring marks the best.";
    figure(out, "3 What gains would give", "", &charts, caption);
    let mut charts = String::new();
    for view in views {
        charts.push_str(&frontier::chart(view, options)?);
    }
    let caption = "A dot for each pair of gains that meets the goal; its colour is the least cache rate that does. The line is the frontier: below and to the left of it the goal is not met.";
    figure(out, "4 Which gains meet the goal", "", &charts, caption);
    Ok(())
}

fn figure(out: &mut String, title: &str, legend: &str, charts: &str, caption: &str) {
    let body = format!("<figure>\n{legend}{charts}<figcaption>{caption}</figcaption>\n</figure>\n");
    section(out, title, &body);
}

const NOT_SHOWN: &str = "What a gain costs elsewhere: an estimate leaves every other class as it was measured, though a faster tier may bring more load on another.";

const DEFINITIONS: &str = "<dl>\n\
    <dt>cache rate</dt><dd>Share of the files that lie on the local tier and stay there. Every file is read once an epoch, so it is the hit rate too.</dd>\n\
    <dt>I/O time</dt><dd>Sum of the classes of one process. Files of no tier are not part of it.</dd>\n\
    <dt>READ, META</dt><dd>Time in reads; time in open, close, seek and stat.</dd>\n\
    <dt>slowest process</dt><dd>The one with the greatest I/O time in an epoch: the others wait for it where ranks synchronise.</dd>\n\
    <dt>gain</dt><dd>N % better throughput of a class: its time × 100 / (100 + N), in every process.</dd>\n\
    <dt>best</dt><dd>The rate with the least I/O time of the slowest process; of equal ones the lowest.</dd>\n\
    </dl>\n";
