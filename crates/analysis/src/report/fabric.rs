//! One self-contained HTML page about the fabric study: the tables and figures of the paper, from
//! the records of `forebay fabric` and of loops with a step timer.

mod paper;
mod tables;
mod turns;

use std::fmt::Write;

use super::page::{self, section};
use super::{ReportOptions, scatter, stages, tails, view::View};
use crate::fabric::{NO_IO, Study, StudySummary};
use crate::run::Run;
use crate::table;
use crate::text::{clip, escape};

/// What a page about the fabric says besides what the records hold.
#[derive(Clone, Debug, PartialEq)]
pub struct FabricReportOptions {
    /// Heading of the page.
    pub title: String,
    /// What a reader must not conclude, one sentence each.
    pub not_shown: Vec<String>,
}

impl Default for FabricReportOptions {
    fn default() -> Self {
        Self {
            title: "Forebay: storage and collectives on one fabric".into(),
            not_shown: Vec::new(),
        }
    }
}

/// Renders the page.
#[must_use]
pub fn render(study: &Study, options: &FabricReportOptions) -> String {
    let summary = study.summary();
    let mut out = page::head(&options.title);
    if let Some(manifest) = study.manifests().next() {
        page::header(&mut out, manifest, &options.title);
    }
    out.push_str("<main>\n");
    out.push_str(&tables::headlines(&summary));
    what_was_run(&mut out, study);
    collectives(&mut out, study, &summary);
    training(&mut out, study, &summary);
    let remarks = super::tables::list(table::reasons(&summary));
    section(&mut out, "Noise, gaps and missing factors", &remarks);
    let own = NOT_SHOWN.into_iter().map(str::to_owned);
    let not_shown = own.chain(options.not_shown.iter().cloned());
    let not_shown = super::tables::list(not_shown);
    section(&mut out, "What this does not show", &not_shown);
    section(&mut out, "How the numbers are made", DEFINITIONS);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn what_was_run(out: &mut String, study: &Study) {
    let mut said: Vec<String> = Vec::new();
    for manifest in study.manifests() {
        for condition in &manifest.conditions {
            if !said.contains(condition) {
                said.push(condition.clone());
            }
        }
    }
    let notes = study.collectives.iter().flat_map(|run| &run.notes);
    for note in notes.chain(study.trainings.iter().flat_map(Run::notes)) {
        if !said.contains(note) {
            said.push(note.clone());
        }
    }
    let mut body = super::tables::list(said);
    for (number, manifest) in study.manifests().enumerate() {
        let name = format!("Inputs of run {}: {}", number + 1, escape(&manifest.tool));
        body += &super::tables::details(&name, &manifest.inputs);
    }
    if let Some(manifest) = study.manifests().next() {
        body += &super::tables::details("Host", &manifest.host);
    }
    section(out, "What was run", &body);
}

fn collectives(out: &mut String, study: &Study, summary: &StudySummary) {
    if summary.allreduce.is_empty() {
        return;
    }
    let body = tables::contention(summary) + paper::INTERFERENCE_NOTE + &tables::times(summary);
    section(out, "All-reduce interference", &body);
    let waits = tables::waits(summary);
    section(out, "Waits for the loader beside the all-reduces", &waits);
    let mut body = String::from("<figure>\n");
    body += LEGEND;
    for run in &study.collectives {
        for one in &run.contentions {
            let _ = writeln!(
                body,
                "<div class=\"wide panel\">{}</div>",
                turns::chart(one)
            );
        }
    }
    body += "<figcaption>Each dot is one all-reduce, from when its last rank came, in the order measured. \
             Phases without and with I/O take turns, so that a drift of the machine shows in both. The \
             dashed line is the baseline’s median.</figcaption>\n</figure>\n";
    section(out, "Every all-reduce, without and with I/O", &body);
}

fn training(out: &mut String, study: &Study, summary: &StudySummary) {
    if summary.training.is_empty() {
        return;
    }
    section(
        out,
        "Stages of an iteration",
        &(tables::stages(summary) + paper::STAGES_NOTE),
    );
    section(
        out,
        "Waits and all-reduce over all iterations",
        &tables::tails(summary),
    );
    section(out, "Wall time and throughput", &tables::walls(summary));
    if let Some(merged) = Run::merged(&study.trainings) {
        training_figures(out, &merged);
    }
}

fn training_figures(out: &mut String, merged: &Run) {
    let options = ReportOptions {
        baseline: Some(NO_IO.into()),
        ..ReportOptions::default()
    };
    let view = View::new(merged, &options);
    let mut figure = |title: &str, legend: &str, chart: String, caption: &str| {
        let body = format!(
            "<figure>\n{legend}<div class=\"wide\">{chart}</div>\n<figcaption>{caption}</figcaption>\n</figure>\n"
        );
        section(out, title, &body);
    };
    let legend = paths(&view);
    figure(
        "Every iteration",
        &legend,
        scatter::both(&view),
        "Each dot is one iteration on one rank; rounds stand end to end.",
    );
    let curves = page::curve_legend(&view);
    figure(
        "Tail distributions",
        &curves,
        tails::wait_and_backward(&view),
        "The share of iterations whose time exceeds x: waits on the left, backward + all-reduce on the right.",
    );
    if let Some(chart) = stages::chart(&view) {
        figure(
            "Where an iteration’s time goes",
            &page::stage_legend(),
            chart,
            "The mean of each stage over a round. A stage that was not recorded is part of the rest.",
        );
    }
}

fn paths(view: &View<'_>) -> String {
    let entry = |path: &&str| {
        let (colour, name) = (view.colour(path), escape(&clip(path, 40)));
        format!("<li><i class=\"swatch s{colour}\"></i>{name}</li>")
    };
    let entries: String = view.paths.iter().map(entry).collect();
    format!("<ul class=\"legend\">{entries}<li><i class=\"dash\"></i>compute window</li></ul>\n")
}

const LEGEND: &str = "<ul class=\"legend\"><li><i class=\"swatch s1\"></i>without I/O</li>\
    <li><i class=\"swatch s0\"></i>with I/O</li><li><i class=\"dash\"></i>baseline’s median</li></ul>\n";

const NOT_SHOWN: [&str; 3] = [
    "How another fabric behaves: what a stall costs depends on its queues, credits and congestion control, not only on what is asked of it.",
    "Whether a difference smaller than the baseline’s own spread is one: it is not told apart from noise.",
    "What another run would give: intervals cover the scatter of this run’s own iterations.",
];

const DEFINITIONS: &str = "<dl>\n\
    <dt>all-reduce</dt><dd>From when its last rank came: the shortest time that any rank measured, since that rank waited for no other. Backward passes are compared likewise.</dd>\n\
    <dt>factor</dt><dd>With I/O over without: by the median, the 99th percentile, or the maximum of each side. Worst: the maximum with I/O over the median without.</dd>\n\
    <dt>interval</dt><dd>Of median and p99: 95 % of 1,000 seeded resamples, iterations drawn as if independent. Of a maximum, of which resampling says nothing: the least and greatest ratio of any one round.</dd>\n\
    <dt>own spread</dt><dd>The greatest over the least median, and maximum, of the baseline’s own rounds.</dd>\n\
    <dt>no factor</dt><dd>Fewer than 10 values of a side (100 for p99), sides of unequal n for a maximum, or a baseline whose median changed more than twice between its rounds: the reason stands under the tables.</dd>\n\
    <dt>stall</dt><dd>An all-reduce of more than 10 times the baseline’s median.</dd>\n\
    <dt>wait</dt><dd>Time for which an iteration was blocked on its loader, on each rank.</dd>\n\
    <dt>window</dt><dd>Time that an iteration computes: as set, or the median of whole iteration minus wait.</dd>\n\
    <dt>excess</dt><dd>For every time above the stage’s median, its distance from it, summed. A stage’s share of the penalty is its part of the excess of all stages.</dd>\n\
    <dt>p95, p99</dt><dd>Quantiles, linear between neighbouring values (type 7, as numpy computes them).</dd>\n\
    <dt>n</dt><dd>All-reduces count once; waits and stages once for each rank.</dd>\n\
    </dl>\n";
