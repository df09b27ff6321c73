//! The page from top to bottom.

use std::fmt::Write;

use super::view::View;
use super::{ReportOptions, paper, scatter, stages, tables, tails, walls};
use crate::record::Manifest;
use crate::text::{self, escape};

const STYLE: &str = include_str!("style.css");

/// The browser fetches nothing, whatever the page holds.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

pub(super) fn render(view: &View<'_>, options: &ReportOptions) -> String {
    let mut out = head(&options.title);
    header(&mut out, view.run.manifest(), &options.title);
    out.push_str("<main>\n");
    out.push_str(&tables::headlines(view));
    what_was_run(&mut out, view);
    section(
        &mut out,
        "Epochs",
        &(tables::epochs(view) + &tables::comparisons(view)),
    );
    figures(&mut out, view);
    if options.reference {
        reference(&mut out, view);
    }
    let remarks = view.run.notes().iter().chain(&view.summary.unread).cloned();
    section(&mut out, "Notes of the run", &tables::list(remarks));
    let not_shown = match options.not_shown.as_slice() {
        [] => "<p>The program that made this report named no limits of the run. That does not mean that it has none.</p>\n".into(),
        sentences => tables::list(sentences.iter().cloned()),
    };
    section(&mut out, "What this run does not show", &not_shown);
    section(&mut out, "How the numbers are made", DEFINITIONS);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

pub(super) fn head(title: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\"/>\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n\
         <meta name=\"color-scheme\" content=\"light dark\"/>\n\
         <title>{}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n",
        escape(title)
    )
}

pub(super) fn header(out: &mut String, manifest: &Manifest, title: &str) {
    let by = format!(
        "{} {}, started {}",
        manifest.tool,
        manifest.version,
        text::moment(manifest.started_unix_ns)
    );
    let (title, by) = (escape(title), escape(&by));
    let _ = writeln!(out, "<header><h1>{title}</h1><p>{by}</p></header>");
}

pub(super) fn section(out: &mut String, title: &str, body: &str) {
    if !body.is_empty() {
        let _ = writeln!(out, "<section>\n<h2>{title}</h2>\n{body}</section>");
    }
}

fn what_was_run(out: &mut String, view: &View<'_>) {
    let manifest = view.run.manifest();
    let body = tables::list(manifest.conditions.iter().cloned())
        + &tables::details("Inputs", &manifest.inputs)
        + &tables::details("Host", &manifest.host);
    section(out, "What was run", &body);
}

fn figures(out: &mut String, view: &View<'_>) {
    figure(
        out,
        "Every iteration",
        &path_legend(view),
        &scatter::both(view),
        "Each dot is one iteration on one rank, on a logarithmic scale. A ring marks the longest of each path. \
         The dashed line is the compute window: \
         a wait above it means that the batch came late by more than a whole step of computing. \
         A time below the lowest line is drawn on it.",
    );
    figure(
        out,
        "Tail distributions",
        &curve_legend(view),
        &tails::both(view),
        "The share of iterations whose time exceeds x. A curve further down and to the left is better; \
         the last step of a curve is its longest iteration.",
    );
    figure(
        out,
        "Epochs side by side",
        &path_legend(view),
        &walls::both(view),
        "Left: the wall time of each epoch. Right: the iterations of one path through all its epochs; \
         stalls of the first touch stand in its first epoch.",
    );
    if let Some(chart) = stages::chart(view) {
        figure(
            out,
            "Where an iteration’s time goes",
            &stage_legend(),
            &chart,
            "The mean of each stage over an epoch. A stage that was not recorded is part of the rest.",
        );
    }
}

fn figure(out: &mut String, title: &str, legend: &str, chart: &str, caption: &str) {
    let body = format!(
        "<figure>\n{legend}<div class=\"wide\">{chart}</div>\n<figcaption>{caption}</figcaption>\n</figure>\n"
    );
    section(out, title, &body);
}

fn path_legend(view: &View<'_>) -> String {
    let entry = |path: &&str| {
        let (colour, name) = (view.colour(path), escape(&text::clip(path, 40)));
        format!("<li><i class=\"swatch s{colour}\"></i>{name}</li>")
    };
    let entries: String = view.paths.iter().map(entry).collect();
    format!("<ul class=\"legend\">{entries}<li><i class=\"dash\"></i>compute window</li></ul>\n")
}

pub(super) fn curve_legend(view: &View<'_>) -> String {
    let mut entries = String::new();
    for (series, dashes) in tails::drawn(view) {
        let colour = view.colour(series.path());
        let name = escape(&text::clip(series.path(), 40));
        let _ = write!(
            entries,
            "<li><svg class=\"key\" viewBox=\"0 0 30 10\" aria-hidden=\"true\">\
             <path class=\"curve s{colour} e{dashes}\" d=\"M0 5h30\"/></svg>{name}, epoch {}</li>",
            series.epoch()
        );
    }
    if view.epochs.len() > tails::MAX_EPOCHS {
        entries.push_str("<li>other epochs are left out</li>");
    }
    format!("<ul class=\"legend\">{entries}</ul>\n")
}

pub(super) fn stage_legend() -> String {
    let entry =
        |(name, class): &(&str, &str)| format!("<li><i class=\"swatch {class}\"></i>{name}</li>");
    let entries: String = stages::STAGES.iter().map(entry).collect();
    format!("<ul class=\"legend\">{entries}</ul>\n")
}

fn reference(out: &mut String, view: &View<'_>) {
    let body = paper::table(view)
        + "<p class=\"fine\">Shaded: arXiv 2609.06506, MILAN on Tuolumne, 4 nodes with 16 GPUs, batch 64 a GPU, \
           5,120 iterations an epoch, against direct reads of Lustre. Machine, size and model differ from this run: \
           compare the shape of the tails and the ratios, not the seconds. In both, a stall is a wait over 1 s; \
           where this run’s window is much shorter than the study’s 144 to 214 ms, its share over the window says more.</p>\n";
    section(out, "Beside the reference study", &body);
}

const DEFINITIONS: &str = "<dl>\n\
    <dt>wait</dt><dd>Time for which the trainer was blocked on its data loader in one iteration.</dd>\n\
    <dt>window</dt><dd>Median of whole iteration minus wait over the epoch, unless one was given: the time in which the next batch can be read.</dd>\n\
    <dt>over window</dt><dd>Share of the waits that are longer than the window.</dd>\n\
    <dt>excess</dt><dd>For every wait above the median wait, its distance from the median, summed over the epoch.</dd>\n\
    <dt>p95, p99</dt><dd>Quantiles, linear between neighbouring values (type 7, as numpy computes them).</dd>\n\
    <dt>speed-up</dt><dd>Wall time of the baseline’s epoch over that of the same epoch by the path; only between epochs of equal work.</dd>\n\
    <dt>n</dt><dd>Iterations behind each statistic, one for each rank.</dd>\n\
    <dt>interval</dt><dd>Percentile bootstrap with a fixed seed; iterations are drawn as if independent of their neighbours.</dd>\n\
    </dl>\n";
