//! How a run is laid out: which colour a path has, and where each epoch begins.

use super::ReportOptions;
use crate::epochs::{Summary, Window};
use crate::record::Timing;
use crate::run::{Run, Series};

/// Colours of the style; later paths share them.
const COLOURS: usize = 6;

pub(super) struct View<'a> {
    pub(super) run: &'a Run,
    pub(super) summary: Summary,
    /// The baseline first, then the others in the order of the run.
    pub(super) paths: Vec<&'a str>,
    pub(super) baseline: Option<&'a str>,
    /// Every epoch that any path has, ascending.
    pub(super) epochs: Vec<u32>,
    /// Where each epoch begins when all are laid end to end; one more for the end.
    pub(super) starts: Vec<usize>,
    window: Window,
}

impl<'a> View<'a> {
    pub(super) fn new(run: &'a Run, options: &ReportOptions) -> Self {
        let baseline = run.baseline(options.baseline.as_deref());
        let mut paths: Vec<&str> = run.paths().iter().map(String::as_str).collect();
        paths.sort_by_key(|path| Some(*path) != baseline);
        let mut epochs: Vec<u32> = run.series().iter().map(Series::epoch).collect();
        epochs.sort_unstable();
        epochs.dedup();
        Self {
            run,
            summary: run.summary(&options.window, options.baseline.as_deref()),
            paths,
            baseline,
            starts: starts(run, &epochs),
            epochs,
            window: options.window,
        }
    }

    /// Number of the colour of a path.
    pub(super) fn colour(&self, path: &str) -> usize {
        self.paths.iter().position(|one| *one == path).unwrap_or(0) % COLOURS
    }

    /// The series in drawing order: the baseline at the back.
    pub(super) fn drawn(&self) -> Vec<&'a Series> {
        let mut series: Vec<&Series> = self.run.series().iter().collect();
        series.sort_by_key(|one| self.paths.iter().position(|path| *path == one.path()));
        series
    }

    /// The epochs of one path.
    pub(super) fn of_path(&self, path: &str) -> Vec<&'a Series> {
        let series = self.run.series().iter();
        series.filter(|one| one.path() == path).collect()
    }

    /// The path that the figures of a single path show: the last one compared.
    pub(super) fn subject(&self) -> &'a str {
        self.paths.last().copied().unwrap_or_default()
    }

    /// The least and the greatest compute window of the series, in seconds.
    pub(super) fn windows(&self, series: &[&Series]) -> (f64, f64) {
        let seconds = series.iter().map(|one| self.window.seconds(one));
        seconds.fold((f64::MAX, 0.0), |(low, high), window| {
            (low.min(window), high.max(window))
        })
    }

    /// Every iteration of a series with its place on the axis of all epochs end to end. Places
    /// count iterations that were recorded, so a gap in their numbers takes no room.
    pub(super) fn placed(
        &self,
        series: &'a Series,
        value: impl Fn(&Timing) -> f64,
    ) -> Vec<(f64, f64)> {
        let epoch = self.epochs.partition_point(|one| *one < series.epoch());
        let start = self.starts[epoch];
        let steps = series
            .timings()
            .chunk_by(|a, b| a.iteration == b.iteration)
            .enumerate();
        steps
            .flat_map(|(i, ranks)| ranks.iter().map(move |timing| (start + i, timing)))
            .map(|(place, timing)| (place as f64 + 0.5, value(timing)))
            .collect()
    }

    /// All iterations of the longest path through every epoch.
    pub(super) fn length(&self) -> usize {
        self.starts.last().copied().unwrap_or(0)
    }
}

fn starts(run: &Run, epochs: &[u32]) -> Vec<usize> {
    let mut longest = vec![0; epochs.len()];
    for series in run.series() {
        let epoch = epochs.partition_point(|one| *one < series.epoch());
        longest[epoch] = series.iterations().max(longest[epoch]);
    }
    let mut start = 0;
    let mut starts = vec![0];
    for length in longest {
        start += length;
        starts.push(start);
    }
    starts
}
