//! A run: all records of one file, checked and put in order.

mod read;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

pub use read::RunReader;

use crate::record::{EpochEnd, Manifest, Timing};

/// Notes that are kept of one file.
const MAX_NOTES: usize = 1_000;

/// Iterations that one run may hold; more would not fit the memory of a login node.
pub const MAX_ITERATIONS: usize = 2_000_000;

/// Pairs of path and epoch that one run may hold.
pub const MAX_SERIES: usize = 4_096;

/// All records of one file. It has at least one iteration.
#[derive(Clone, Debug, PartialEq)]
pub struct Run {
    manifest: Manifest,
    paths: Vec<String>,
    series: Vec<Series>,
    notes: Vec<String>,
    unread: Unread,
}

/// The iterations of one epoch by one path, in order of iteration and rank. Never empty.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    path: String,
    epoch: u32,
    timings: Vec<Timing>,
    end: Option<EpochEnd>,
}

/// What a file held that this version does not use: names and how often each was met.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unread {
    /// Kinds of record.
    pub kinds: BTreeMap<String, u64>,
    /// Fields of known records, as `kind.field`.
    pub fields: BTreeMap<String, u64>,
    /// Known kinds of record that another analysis reads.
    pub others: BTreeMap<String, u64>,
    /// Notes beyond the number that is kept.
    pub notes: u64,
}

impl Unread {
    /// Keeps a note, or counts it where there are too many.
    pub(crate) fn keep(&mut self, notes: &mut Vec<String>, note: String) {
        if notes.len() < MAX_NOTES {
            notes.push(note);
        } else {
            self.notes += 1;
        }
    }

    /// Counts what another file held besides.
    pub(crate) fn add(&mut self, other: Self) {
        let sum = |into: &mut BTreeMap<String, u64>, from: BTreeMap<String, u64>| {
            for (name, count) in from {
                *into.entry(name).or_default() += count;
            }
        };
        sum(&mut self.kinds, other.kinds);
        sum(&mut self.fields, other.fields);
        sum(&mut self.others, other.others);
        self.notes += other.notes;
    }

    /// One sentence for each thing that was not used.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        let kinds = self
            .kinds
            .iter()
            .map(|(kind, n)| format!("{n} records of the unknown kind `{kind}` were not used"));
        let fields = self
            .fields
            .iter()
            .map(|(field, n)| format!("the unknown field `{field}`, met {n} times, was not used"));
        let others = self.others.iter().map(|(kind, n)| {
            format!("{n} records of kind `{kind}` are for another analysis and were not used")
        });
        let notes = (self.notes > 0).then(|| format!("{} more notes were not kept", self.notes));
        kinds.chain(fields).chain(others).chain(notes).collect()
    }
}

impl Run {
    /// Several runs as one, for figures: paths of a later run that an earlier one has too carry
    /// the number of their run. The manifest is the first one's; `None` without a run.
    pub(crate) fn merged(runs: &[Self]) -> Option<Self> {
        let mut merged = Self {
            manifest: runs.first()?.manifest.clone(),
            paths: Vec::new(),
            series: Vec::new(),
            notes: Vec::new(),
            unread: Unread::default(),
        };
        for (number, run) in runs.iter().enumerate() {
            for path in &run.paths {
                let mut name = path.clone();
                if merged.paths.contains(&name) {
                    name = format!("{path} (run {})", number + 1);
                }
                let of_path = run.series.iter().filter(|one| one.path == *path);
                merged.series.extend(of_path.map(|one| Series {
                    path: name.clone(),
                    ..one.clone()
                }));
                merged.paths.push(name);
            }
        }
        Some(merged)
    }

    /// What was run.
    #[must_use]
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The paths to the data that were measured, in the order of their first iteration.
    #[must_use]
    pub fn paths(&self) -> &[String] {
        &self.paths
    }

    /// Every epoch of every path, by path in the order of [`Run::paths`], then by epoch.
    #[must_use]
    pub fn series(&self) -> &[Series] {
        &self.series
    }

    /// One epoch of one path.
    #[must_use]
    pub fn find(&self, path: &str, epoch: u32) -> Option<&Series> {
        self.series
            .iter()
            .find(|series| series.path == path && series.epoch == epoch)
    }

    /// Remarks by the code that measured.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    /// What the file held that was not used.
    #[must_use]
    pub fn unread(&self) -> &Unread {
        &self.unread
    }
}

impl Series {
    /// How the samples were read.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The training epoch.
    #[must_use]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Every iteration of every rank, by iteration, then by rank.
    #[must_use]
    pub fn timings(&self) -> &[Timing] {
        &self.timings
    }

    /// The `epoch` record, if the run reached the end of the epoch.
    #[must_use]
    pub fn end(&self) -> Option<&EpochEnd> {
        self.end.as_ref()
    }

    /// Number of different iterations, whatever the number of ranks.
    #[must_use]
    pub fn iterations(&self) -> usize {
        self.timings
            .chunk_by(|a, b| a.iteration == b.iteration)
            .count()
    }

    /// Number of different ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        self.by_rank().len()
    }

    /// Wall time of the epoch in seconds: as recorded, or else the longest sum over one rank.
    #[must_use]
    pub fn wall_s(&self) -> f64 {
        match &self.end {
            Some(end) => end.wall_s,
            None => self.by_rank().values().copied().fold(0.0, f64::max),
        }
    }

    fn by_rank(&self) -> BTreeMap<u32, f64> {
        let mut sums = BTreeMap::new();
        for timing in &self.timings {
            *sums.entry(timing.rank).or_insert(0.0) += timing.total_s;
        }
        sums
    }
}
