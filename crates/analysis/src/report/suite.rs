//! One self-contained HTML page about runs of the storage suite: systems side by side, how they
//! scale with ranks, and how their latencies are distributed.

mod latency;
mod scaling;
mod tables;
#[cfg(test)]
mod tests;

use std::fmt::Write;

use super::page::{self, section};
use super::tables::list;
use crate::suite::{
    CompareError, CompareOptions, Comparison, Metric, Status, SuiteRun, Verdict, compare,
};
use crate::text::{self, escape};

/// The runs of one storage system, or of one state of it.
#[derive(Clone, Debug, PartialEq)]
pub struct System {
    /// How it is called on the page.
    pub name: String,
    /// Its runs, of any benchmarks and numbers of ranks.
    pub runs: Vec<SuiteRun>,
}

/// What a page about the suite says besides what the manifests hold.
#[derive(Clone, Debug, PartialEq)]
pub struct SuiteReportOptions {
    /// Heading of the page.
    pub title: String,
    /// What an iteration is reduced to where systems are compared.
    pub metric: Metric,
    /// What a reader must not conclude, one sentence each.
    pub not_shown: Vec<String>,
}

impl Default for SuiteReportOptions {
    fn default() -> Self {
        Self {
            title: "Forebay: storage suite".into(),
            metric: Metric::MaxRank,
            not_shown: Vec::new(),
        }
    }
}

/// Colours that the style has for systems.
const COLOURS: usize = 6;

/// A system without its failed runs, and each comparison with the first.
struct View<'a> {
    systems: &'a [System],
    /// Of each system after the first.
    compared: Vec<Result<Comparison, CompareError>>,
}

impl<'a> View<'a> {
    fn new(systems: &'a [System], metric: Metric) -> Self {
        let options = CompareOptions {
            metric,
            // Two systems are two file systems: that they are not alike is the point, and every
            // difference stands on the page.
            force: true,
            ..CompareOptions::default()
        };
        let others = systems.iter().skip(1);
        let compared = others.map(|other| compare(&systems[0].runs, &other.runs, &options));
        Self {
            systems,
            compared: compared.collect(),
        }
    }

    /// The runs of a system that passed.
    fn passed(&self, nth: usize) -> impl Iterator<Item = &'a SuiteRun> {
        let runs = self.systems[nth].runs.iter();
        runs.filter(|run| run.status() == Status::Pass)
    }

    /// Names of all benchmarks that passed anywhere, in order.
    fn benchmarks(&self) -> Vec<&'a str> {
        let all = (0..self.systems.len()).flat_map(|nth| self.passed(nth));
        let mut names: Vec<&str> = all.map(SuiteRun::benchmark).collect();
        names.sort_unstable();
        names.dedup();
        names
    }

    fn colour(nth: usize) -> usize {
        nth % COLOURS
    }
}

/// Renders the page. The first system is the one that the others are compared with.
#[must_use]
pub fn render(systems: &[System], options: &SuiteReportOptions) -> String {
    let view = View::new(systems, options.metric);
    let mut out = page::head(&options.title);
    let runs: usize = systems.iter().map(|system| system.runs.len()).sum();
    let _ = writeln!(
        out,
        "<header><h1>{}</h1><p>{}, {}, {}</p></header>",
        escape(&options.title),
        text::plural(systems.len(), "system"),
        text::plural(runs, "run"),
        text::plural(view.benchmarks().len(), "benchmark")
    );
    out.push_str("<main>\n");
    out.push_str(&tiles(&view));
    section(&mut out, "What was run", &tables::systems(&view));
    section(&mut out, "Side by side", &tables::compared(&view));
    figure(
        &mut out,
        "How it scales",
        &scaling::charts(&view),
        &legend(&view),
        "Time of a whole iteration against the number of ranks, on a logarithmic scale: solid the slowest rank, dashed the mean over ranks; the median iteration of all runs. Where the two part, some ranks wait for others.",
    );
    figure(
        &mut out,
        "How latencies are distributed",
        &latency::charts(&view),
        &legend(&view),
        "The share of operations that took longer than x, over all ranks and measured iterations at the greatest number of ranks. A curve further down and to the left is better; the last step of a curve is its longest operation.",
    );
    section(&mut out, "The numbers", &tables::numbers(&view));
    let sentences = NOT_SHOWN.iter().map(|words| (*words).to_owned());
    let sentences = sentences.chain(options.not_shown.iter().cloned());
    section(&mut out, "What this does not show", &list(sentences));
    section(&mut out, "How the numbers are made", DEFINITIONS);
    out.push_str("</main>\n</body>\n</html>\n");
    out
}

fn tiles(view: &View<'_>) -> String {
    let mut out = String::from("<div class=\"tiles\">\n");
    let mut tile = |number: String, words: &str, under: String| {
        let _ = writeln!(
            out,
            "<div class=\"tile\"><strong>{}</strong><span>{}</span><small>{}</small></div>",
            escape(&number),
            escape(words),
            escape(&under)
        );
    };
    for (system, found) in view.systems.iter().skip(1).zip(&view.compared) {
        let Ok(found) = found else { continue };
        let ops = || found.groups.iter().flat_map(|group| &group.ops);
        let of = |verdict| ops().filter(|op| op.verdict == verdict).count();
        let judged = ops().filter(|op| op.p.is_some()).count();
        let (name, first) = (
            text::clip(&system.name, 28),
            text::clip(&view.systems[0].name, 28),
        );
        tile(
            of(Verdict::Regression).to_string(),
            &format!("operations are slower on {name} than on {first}"),
            format!(
                "{} are faster, {judged} were judged",
                of(Verdict::Improvement)
            ),
        );
    }
    for system in view.systems {
        let failed = system
            .runs
            .iter()
            .filter(|run| run.status() == Status::Fail);
        tile(
            failed.count().to_string(),
            &format!("runs failed on {}", text::clip(&system.name, 28)),
            format!("of {}; they are part of nothing below", system.runs.len()),
        );
    }
    out.push_str("</div>\n");
    out
}

fn legend(view: &View<'_>) -> String {
    let entry = |(nth, system): (usize, &System)| {
        let name = escape(&text::clip(&system.name, 40));
        format!(
            "<li><i class=\"swatch s{}\"></i>{name}</li>",
            View::colour(nth)
        )
    };
    let entries: String = view.systems.iter().enumerate().map(entry).collect();
    format!("<ul class=\"legend\">{entries}</ul>\n")
}

fn figure(out: &mut String, title: &str, charts: &str, legend: &str, caption: &str) {
    if charts.is_empty() {
        return;
    }
    let body = format!("<figure>\n{legend}{charts}<figcaption>{caption}</figcaption>\n</figure>\n");
    section(out, title, &body);
}

const NOT_SHOWN: [&str; 2] = [
    "How a system behaves under load that the runs did not make, or at another time of day.",
    "Whether a difference between two systems comes from storage: hosts and mounts that differ are listed above.",
];

const DEFINITIONS: &str = "<dl>\n\
    <dt>max_rank</dt><dd>Mean time of an operation on the slowest rank of an iteration: what a job that waits for all its ranks feels.</dd>\n\
    <dt>wall</dt><dd>One whole iteration on a rank, without its wait for the others.</dd>\n\
    <dt>ratio</dt><dd>Median of the system over median of the first, with a 95 % percentile bootstrap interval of 10,000 draws. Above 1 is slower.</dd>\n\
    <dt>verdict</dt><dd>Slower or faster: Mann-Whitney p below 0.05 after Benjamini and Hochberg, the interval apart from 1, and a change of at least 5 %. Inconclusive: neither a change of 5 % nor its absence is shown.</dd>\n\
    <dt>n</dt><dd>Runs a side, or iterations where there is one run a side.</dd>\n\
    <dt>p50, p99</dt><dd>Nearest rank over the samples of all ranks.</dd>\n\
    </dl>\n";
