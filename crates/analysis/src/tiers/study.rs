//! What a record file says about tiers: tables by setup and cache rate.

mod write;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::fmt;
use std::io::BufRead;

use serde::{Serialize, Serializer};

use super::table::TableBuilder;
use super::{ClassTable, Row, TableError};
use crate::record::{Execution, Io, Manifest, Parsed, Record, RecordError, lines};
use crate::run::Unread;

/// Pairs of setup and rate that one file may hold.
const MAX_POINTS: usize = 4_096;

/// Share of the data that lies on the local tier, in percent, from 0 to 100.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rate(f64);

impl Rate {
    /// `None` outside of 0 to 100.
    #[must_use]
    pub fn new(percent: f64) -> Option<Self> {
        // Adding 0 makes a negative zero positive, so that equal rates are ordered as equal.
        (0.0..=100.0)
            .contains(&percent)
            .then_some(Self(percent + 0.0))
    }

    /// The share in percent.
    #[must_use]
    pub fn percent(self) -> f64 {
        self.0
    }
}

impl Eq for Rate {}

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} %", self.0)
    }
}

impl Serialize for Rate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.0)
    }
}

/// All tables of one record file. It has at least one setup.
#[derive(Clone, Debug, PartialEq)]
pub struct Study {
    /// What was run.
    pub manifest: Manifest,
    /// The setups, in the order of their first record.
    pub setups: Vec<Setup>,
    /// Remarks by the code that measured.
    pub notes: Vec<String>,
    /// What the file held that was not used.
    pub unread: Unread,
}

/// One data set in one state of the tiers. It has at least one point.
#[derive(Clone, Debug, PartialEq)]
pub struct Setup {
    /// Its name; empty in a file that names none.
    pub name: String,
    /// One point for each cache rate, ascending.
    pub points: Vec<Point>,
}

/// What was measured at one cache rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// The rate; `None` where the file states none.
    pub rate: Option<Rate>,
    /// Seconds by process, epoch and class.
    pub table: ClassTable,
    /// Wall time of each epoch in seconds, where it was recorded.
    pub execution_s: BTreeMap<Option<u32>, f64>,
}

impl Study {
    /// Reads the `io` and `execution` records of a file. Records of iterations are passed over
    /// and counted.
    ///
    /// # Errors
    /// The first line that breaks a rule of `docs/RECORDS.md`, by number; a file with no
    /// manifest or with no `io` record.
    pub fn read(records: impl BufRead) -> Result<Self, RecordError> {
        let mut building = Building::default();
        let lines = lines::each(records, |parsed, line| building.add(parsed, line))?;
        building.finish(lines)
    }
}

/// Why two files are not one study.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// Both measure the same.
    #[error(
        "two files have the I/O of process `{process}` of the same epoch, setup and rate: name one of them"
    )]
    Twice {
        /// The process.
        process: String,
    },
    /// Both together are too much for a table.
    #[error(transparent)]
    Table(#[from] TableError),
}

impl Study {
    /// Both studies as one, as the files of a run's ranks are; the manifest is that of the first.
    ///
    /// # Errors
    /// Both have the same process in the same epoch, setup and rate, or together they are too
    /// large.
    pub fn join(mut self, other: Self) -> Result<Self, JoinError> {
        for setup in other.setups {
            match self.setups.iter_mut().find(|own| own.name == setup.name) {
                Some(own) => own.join(setup)?,
                None => self.setups.push(setup),
            }
        }
        for note in other.notes {
            self.unread.keep(&mut self.notes, note);
        }
        self.unread.add(other.unread);
        Ok(self)
    }
}

impl Setup {
    fn join(&mut self, other: Self) -> Result<(), JoinError> {
        for point in other.points {
            match self.points.iter_mut().find(|own| own.rate == point.rate) {
                Some(own) => own.join(&point)?,
                None => self.points.push(point),
            }
        }
        self.points.sort_by_key(|point| point.rate);
        Ok(())
    }
}

impl Point {
    /// An epoch ends when its last rank does, so the longest wall time counts.
    fn join(&mut self, other: &Self) -> Result<(), JoinError> {
        let key = |row: &Row| (row.process().to_owned(), row.epoch());
        let own: HashSet<_> = self.table.rows().iter().map(key).collect();
        if let Some(row) = other
            .table
            .rows()
            .iter()
            .find(|row| own.contains(&key(row)))
        {
            let process = row.process().to_owned();
            return Err(JoinError::Twice { process });
        }
        let mut table = ClassTable::builder();
        for from in [&self.table, &other.table] {
            for row in from.rows() {
                table.add_row(from, row, row.epoch())?;
            }
        }
        self.table = table.finish();
        for (epoch, wall_s) in &other.execution_s {
            let own = self.execution_s.entry(*epoch).or_insert(*wall_s);
            *own = own.max(*wall_s);
        }
        Ok(())
    }
}

#[derive(Default)]
struct Building {
    manifest: Option<Manifest>,
    names: Vec<String>,
    points: BTreeMap<(usize, Option<Rate>), Filling>,
    notes: Vec<String>,
    unread: Unread,
}

#[derive(Default)]
struct Filling {
    table: TableBuilder,
    /// Whether the rows of a process and epoch are of single iterations.
    by_iteration: HashMap<(String, Option<u32>), bool>,
    execution_s: BTreeMap<Option<u32>, f64>,
}

impl Building {
    fn add(&mut self, parsed: Parsed, line: u64) -> Result<(), RecordError> {
        let (record, unknown_fields) = match parsed {
            Parsed::Known(record, unknown_fields) => (record, unknown_fields),
            Parsed::Unknown(kind) if self.manifest.is_some() => {
                lines::count(&mut self.unread.kinds, &kind);
                return Ok(());
            }
            Parsed::Unknown(_) => return Err(RecordError::NoManifest { line }),
        };
        let kind = record.kind();
        match record {
            Record::Manifest(manifest) => match self.manifest.replace(manifest) {
                None => {}
                Some(_) => return Err(duplicate(line, "the `manifest`".into())),
            },
            _ if self.manifest.is_none() => return Err(RecordError::NoManifest { line }),
            Record::Io(io) => self
                .point(&io.setup, io.rate_percent, line)?
                .io(&io, line)?,
            Record::Execution(execution) => {
                let point = self.point(&execution.setup, execution.rate_percent, line)?;
                point.execution(&execution, line)?;
            }
            Record::Note(note) => self.unread.keep(&mut self.notes, note.text),
            Record::Iteration(_) | Record::Epoch(_) | Record::AllReduce(_) => {
                lines::count(&mut self.unread.others, kind);
                return Ok(());
            }
        }
        for field in unknown_fields {
            lines::count(&mut self.unread.fields, &format!("{kind}.{field}"));
        }
        Ok(())
    }

    fn point(
        &mut self,
        setup: &str,
        rate: Option<Rate>,
        line: u64,
    ) -> Result<&mut Filling, RecordError> {
        let place = match self.names.iter().position(|name| name == setup) {
            Some(place) => place,
            None => {
                self.names.push(setup.to_owned());
                self.names.len() - 1
            }
        };
        let key = (place, rate);
        if self.points.len() == MAX_POINTS && !self.points.contains_key(&key) {
            return Err(RecordError::TooMany {
                line,
                limit: MAX_POINTS,
                what: "pairs of setup and rate",
            });
        }
        Ok(self.points.entry(key).or_default())
    }

    fn finish(self, lines: u64) -> Result<Study, RecordError> {
        let manifest = self.manifest.ok_or(RecordError::Empty)?;
        let named = self.names.into_iter().map(|name| Setup {
            name,
            points: Vec::new(),
        });
        let mut setups: Vec<Setup> = named.collect();
        for ((place, rate), filling) in self.points {
            setups[place].points.push(Point {
                rate,
                table: filling.table.finish(),
                execution_s: filling.execution_s,
            });
        }
        let has_io = |point: &Point| !point.table.rows().is_empty();
        if !setups.iter().flat_map(|setup| &setup.points).any(has_io) {
            return Err(RecordError::NoIo { lines });
        }
        Ok(Study {
            manifest,
            setups,
            notes: self.notes,
            unread: self.unread,
        })
    }
}

impl Filling {
    fn io(&mut self, io: &Io, line: u64) -> Result<(), RecordError> {
        let by_iteration = io.iteration.is_some();
        let key = (io.process.clone(), io.epoch);
        let before = self.by_iteration.insert(key, by_iteration);
        if before.is_some_and(|before| !(before && by_iteration)) {
            let epoch = io
                .epoch
                .map_or(String::new(), |epoch| format!(", epoch {epoch}"));
            let what = format!("the I/O of process `{}`{epoch}, as a whole", io.process);
            return Err(duplicate(line, what));
        }
        self.sum(io)
            .map_err(|source| RecordError::Table { line, source })
    }

    fn sum(&mut self, io: &Io) -> Result<(), TableError> {
        for (class, seconds) in &io.seconds {
            self.table.add(&io.process, io.epoch, class, *seconds)?;
        }
        self.table.add_other(&io.process, io.epoch, io.other_s)
    }

    fn execution(&mut self, execution: &Execution, line: u64) -> Result<(), RecordError> {
        let before = self.execution_s.insert(execution.epoch, execution.wall_s);
        match before {
            None => Ok(()),
            Some(_) => Err(duplicate(line, "the `execution` of one epoch".into())),
        }
    }
}

fn duplicate(line: u64, what: String) -> RecordError {
    RecordError::Duplicate { line, what }
}
