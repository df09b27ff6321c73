//! From the files of a folder to the runs of a study.

use std::io::{BufRead, Cursor, Read};

use super::Collectives;
use super::collectives::Reader;
use crate::record::{self, Manifest, Parsed, Record, RecordError, lines};
use crate::run::{Run, RunReader};

/// Runs that one study may hold.
const MAX_RUNS: usize = 1_024;

/// All runs of a study: at least one.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Study {
    /// Those of `forebay fabric allreduce`, in the order of their start.
    pub collectives: Vec<Collectives>,
    /// Those of training loops, in the order of their start.
    pub trainings: Vec<Run>,
    /// Sentences about runs that hold nothing, because they ended before their first iteration.
    pub empty: Vec<String>,
}

impl Study {
    /// What was run, of each run.
    pub fn manifests(&self) -> impl Iterator<Item = &Manifest> {
        let collectives = self.collectives.iter().map(|run| &run.manifest);
        collectives.chain(self.trainings.iter().map(Run::manifest))
    }
}

/// Reads a study file by file. Files whose manifest names the same `run` are of one run.
#[derive(Default)]
pub struct StudyReader(Vec<Group>);

struct Group {
    run: String,
    started: u64,
    reader: Kind,
}

enum Kind {
    Collectives(Box<Reader>),
    Training(Box<RunReader>),
}

impl StudyReader {
    /// Reads one more file.
    ///
    /// # Errors
    /// The first line that breaks a rule of `docs/RECORDS.md`, by number; a file with no manifest;
    /// more runs than a study may hold.
    pub fn read(&mut self, mut records: impl BufRead) -> Result<(), RecordError> {
        let (head, manifest) = head(&mut records)?;
        let text = |name: &str| manifest.inputs.get(name).and_then(|value| value.as_str());
        let (run, kind) = (text("run").unwrap_or(""), text("kind").unwrap_or(""));
        let place = self.0.iter().position(|group| group.run == run);
        if place.is_none() && self.0.len() == MAX_RUNS {
            let (line, limit, what) = (1, MAX_RUNS, "runs");
            return Err(RecordError::TooMany { line, limit, what });
        }
        let place = place.unwrap_or_else(|| {
            self.0.push(Group {
                run: run.to_owned(),
                started: manifest.started_unix_ns,
                reader: match kind {
                    "allreduce" => Kind::Collectives(Box::default()),
                    _ => Kind::Training(Box::default()),
                },
            });
            self.0.len() - 1
        });
        let group = &mut self.0[place];
        group.started = group.started.min(manifest.started_unix_ns);
        let whole = Cursor::new(head).chain(records);
        match &mut group.reader {
            Kind::Collectives(reader) => reader.read(whole),
            Kind::Training(reader) => reader.read(whole),
        }
    }

    /// The study.
    ///
    /// # Errors
    /// No file, or none that holds anything measured.
    pub fn finish(mut self) -> Result<Study, RecordError> {
        self.0.sort_by_key(|group| group.started);
        let mut study = Study::default();
        let mut fault = RecordError::Empty;
        for group in self.0 {
            let ended = match group.reader {
                Kind::Collectives(reader) => reader.finish().map(|run| study.collectives.push(run)),
                Kind::Training(reader) => reader.finish().map(|run| study.trainings.push(run)),
            };
            match ended {
                Ok(()) => {}
                Err(error @ RecordError::NoIterations { .. }) => {
                    study.empty.push(format!(
                        "the run `{}` started {} holds nothing: it ended before its first iteration",
                        group.run,
                        crate::text::moment(group.started)
                    ));
                    fault = error;
                }
                Err(error) => return Err(error),
            }
        }
        if study.collectives.is_empty() && study.trainings.is_empty() {
            return Err(fault);
        }
        Ok(study)
    }
}

/// The lines to the manifest, and the manifest.
fn head(records: &mut impl BufRead) -> Result<(Vec<u8>, Manifest), RecordError> {
    let (mut head, mut bytes, mut line) = (Vec::new(), Vec::new(), 1);
    while lines::next(records, &mut bytes, line)? {
        head.extend_from_slice(&bytes);
        let words = String::from_utf8_lossy(&bytes);
        if !words.trim().is_empty() {
            return match record::parse(&words).map_err(|fault| fault.at(line))? {
                Parsed::Known(Record::Manifest(manifest), _) => Ok((head, manifest)),
                _ => Err(RecordError::NoManifest { line }),
            };
        }
        line += 1;
    }
    Err(RecordError::Empty)
}
