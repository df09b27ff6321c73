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
        let mut reader = RunReader::default();
        reader.read(records)?;
        reader.finish()
    }
}

/// Reads a run from several files, one of each rank.
#[derive(Default)]
pub struct RunReader(Building);

impl RunReader {
    /// Reads one more file. The manifest of the first one is the run's.
    ///
    /// # Errors
    /// The first line that breaks a rule, by number; a file with no manifest.
    pub fn read(&mut self, records: impl BufRead) -> Result<(), RecordError> {
        let building = &mut self.0;
        building.file += 1;
        building.has_manifest = false;
        building.lines += lines::each(records, |parsed, line| building.add(parsed, line))?;
        if building.has_manifest {
            Ok(())
        } else {
            Err(RecordError::Empty)
        }
    }

    /// The run.
    ///
    /// # Errors
    /// An iteration that occurs twice, an epoch without iterations; no file, or none with an
    /// iteration.
    pub fn finish(self) -> Result<Run, RecordError> {
        self.0.finish()
    }
}

/// Place of a path in the order of first appearance, and the epoch.
type Key = (usize, u32);

#[derive(Default)]
struct Building {
    /// Number of the file being read, from 1.
    file: usize,
    has_manifest: bool,
    lines: u64,
    manifest: Option<Manifest>,
    paths: Vec<String>,
    timings: BTreeMap<Key, Vec<(Timing, u64)>>,
    iterations: usize,
    /// Each with its file and line.
    ends: Vec<(EpochEnd, usize, u64)>,
    notes: Vec<String>,
    unread: Unread,
}

impl Building {
    fn add(&mut self, parsed: Parsed, line: u64) -> Result<(), RecordError> {
        let is_manifest = matches!(parsed, Parsed::Known(Record::Manifest(_), _));
        if !self.has_manifest && !is_manifest {
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
            Record::Io(_) | Record::Execution(_) | Record::AllReduce(_) => {
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
        if std::mem::replace(&mut self.has_manifest, true) {
            return Err(RecordError::Duplicate {
                line,
                what: "the `manifest`".into(),
            });
        }
        self.manifest.get_or_insert(manifest);
        Ok(())
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
        self.ends.push((end, self.file, line));
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
        let mut files = BTreeMap::new();
        for (end, file, line) in self.ends {
            let key = (end.path.clone(), end.epoch);
            let is_other_rank = files.insert(key, file).is_some_and(|before| before != file);
            attach(&mut series, end, is_other_rank, line)?;
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

/// Gives a series its end. That of another rank's file adds its bytes, and the later one counts.
fn attach(
    series: &mut [Series],
    end: EpochEnd,
    is_other_rank: bool,
    line: u64,
) -> Result<(), RecordError> {
    let of_end = |one: &&mut Series| one.path == end.path && one.epoch == end.epoch;
    let Some(one) = series.iter_mut().find(of_end) else {
        return Err(RecordError::EpochWithoutIterations {
            line,
            path: end.path,
            epoch: end.epoch,
        });
    };
    match &mut one.end {
        None => one.end = Some(end),
        Some(sum) if is_other_rank => {
            sum.wall_s = sum.wall_s.max(end.wall_s);
            sum.asked_bytes = sum.asked_bytes.saturating_add(end.asked_bytes);
            let both = sum.origin_bytes.zip(end.origin_bytes);
            sum.origin_bytes = both.map(|(one, other)| one.saturating_add(other));
        }
        Some(_) => {
            return Err(RecordError::Duplicate {
                line,
                what: format!("the end of epoch {}, path `{}`", end.epoch, end.path),
            });
        }
    }
    Ok(())
}

fn too_many(line: u64, limit: usize, what: &'static str) -> RecordError {
    RecordError::TooMany { line, limit, what }
}
