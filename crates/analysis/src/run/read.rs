//! From lines to a run.

use std::collections::BTreeMap;
use std::io::BufRead;

use super::{MAX_ITERATIONS, MAX_SERIES, Run, Series, Unread};
use crate::record::lines::{self, count};
use crate::record::{EpochEnd, Iteration, Manifest, Parsed, Record, RecordError, Timing};

impl Run {
    /// Reads a record file, line by line. Blank lines are passed over.
    ///
    /// # Errors
    /// The first line that breaks a rule of `docs/RECORDS.md`, by number; a file with no
    /// manifest or with no iteration.
    pub fn read(records: impl BufRead) -> Result<Self, RecordError> {
        let mut building = Building::default();
        building.lines = lines::each(records, |parsed, line| building.add(parsed, line))?;
        building.finish()
    }
}

/// Place of a path in the order of first appearance, and the epoch.
type Key = (usize, u32);

#[derive(Default)]
struct Building {
    lines: u64,
    manifest: Option<Manifest>,
    paths: Vec<String>,
    timings: BTreeMap<Key, Vec<(Timing, u64)>>,
    iterations: usize,
    ends: Vec<(EpochEnd, u64)>,
    notes: Vec<String>,
    unread: Unread,
}

impl Building {
    fn add(&mut self, parsed: Parsed, line: u64) -> Result<(), RecordError> {
        let is_manifest = matches!(parsed, Parsed::Known(Record::Manifest(_), _));
        if self.manifest.is_none() && !is_manifest {
            return Err(RecordError::NoManifest { line });
        }
        let (record, unknown_fields) = match parsed {
            Parsed::Known(record, unknown_fields) => (record, unknown_fields),
            Parsed::Unknown(kind) => {
                count(&mut self.unread.kinds, &kind);
                return Ok(());
            }
        };
        let kind = record.kind();
        match record {
            Record::Manifest(manifest) => self.add_manifest(manifest, line)?,
            Record::Iteration(iteration) => self.add_iteration(iteration, line)?,
            Record::Epoch(end) => self.add_end(end, line)?,
            Record::Note(note) => self.unread.keep(&mut self.notes, note.text),
            Record::Io(_) | Record::Execution(_) => {
                count(&mut self.unread.others, kind);
                return Ok(());
            }
        }
        for field in unknown_fields {
            count(&mut self.unread.fields, &format!("{kind}.{field}"));
        }
        Ok(())
    }

    fn add_manifest(&mut self, manifest: Manifest, line: u64) -> Result<(), RecordError> {
        match self.manifest.replace(manifest) {
            None => Ok(()),
            Some(_) => Err(RecordError::Duplicate {
                line,
                what: "the `manifest`".into(),
            }),
        }
    }

    fn add_iteration(&mut self, iteration: Iteration, line: u64) -> Result<(), RecordError> {
        let place = match self.paths.iter().position(|path| *path == iteration.path) {
            Some(place) => place,
            None => {
                self.paths.push(iteration.path);
                self.paths.len() - 1
            }
        };
        let key = (place, iteration.epoch);
        if self.iterations == MAX_ITERATIONS {
            return Err(too_many(line, MAX_ITERATIONS, "iterations"));
        }
        if !self.timings.contains_key(&key) && self.timings.len() == MAX_SERIES {
            return Err(too_many(line, MAX_SERIES, "epochs"));
        }
        self.timings
            .entry(key)
            .or_default()
            .push((iteration.timing, line));
        self.iterations += 1;
        Ok(())
    }

    fn add_end(&mut self, end: EpochEnd, line: u64) -> Result<(), RecordError> {
        if self.ends.len() == MAX_SERIES {
            return Err(too_many(line, MAX_SERIES, "epochs"));
        }
        self.ends.push((end, line));
        Ok(())
    }

    fn finish(self) -> Result<Run, RecordError> {
        let Some(manifest) = self.manifest else {
            return Err(RecordError::Empty);
        };
        if self.iterations == 0 {
            return Err(RecordError::NoIterations { lines: self.lines });
        }
        let mut series = self
            .timings
            .into_iter()
            .map(|((place, epoch), timings)| in_order(&self.paths[place], epoch, timings))
            .collect::<Result<Vec<_>, _>>()?;
        for (end, line) in self.ends {
            attach(&mut series, end, line)?;
        }
        Ok(Run {
            manifest,
            paths: self.paths,
            series,
            notes: self.notes,
            unread: self.unread,
        })
    }
}

fn in_order(
    path: &str,
    epoch: u32,
    mut timings: Vec<(Timing, u64)>,
) -> Result<Series, RecordError> {
    timings.sort_by_key(|(timing, line)| (timing.iteration, timing.rank, *line));
    for pair in timings.windows(2) {
        let ((first, _), (second, line)) = (pair[0], pair[1]);
        if (first.iteration, first.rank) == (second.iteration, second.rank) {
            let (iteration, rank) = (second.iteration, second.rank);
            let what =
                format!("iteration {iteration} of rank {rank}, path `{path}`, epoch {epoch}");
            return Err(RecordError::Duplicate { line, what });
        }
    }
    Ok(Series {
        path: path.to_owned(),
        epoch,
        timings: timings.into_iter().map(|(timing, _)| timing).collect(),
        end: None,
    })
}

fn attach(series: &mut [Series], end: EpochEnd, line: u64) -> Result<(), RecordError> {
    let of_end = |one: &&mut Series| one.path == end.path && one.epoch == end.epoch;
    match series.iter_mut().find(of_end) {
        None => Err(RecordError::EpochWithoutIterations {
            line,
            path: end.path,
            epoch: end.epoch,
        }),
        Some(one) if one.end.is_some() => Err(RecordError::Duplicate {
            line,
            what: format!("the end of epoch {}, path `{}`", end.epoch, end.path),
        }),
        Some(one) => {
            one.end = Some(end);
            Ok(())
        }
    }
}

fn too_many(line: u64, limit: usize, what: &'static str) -> RecordError {
    RecordError::TooMany { line, limit, what }
}
