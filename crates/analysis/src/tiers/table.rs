//! `T[process][class]`.

use std::collections::{BTreeMap, HashMap};

use serde::{Serialize, Serializer};

use super::Class;
use crate::record::MAX_SECONDS;

/// Rows that one table may hold: processes times epochs.
pub const MAX_ROWS: usize = 2_000_000;

/// Classes that one table may hold.
pub const MAX_CLASSES: usize = 32;

/// Seconds of I/O by process, epoch and class, in order of epoch, then process.
///
/// Every number in it is finite, at least 0 and at most [`MAX_SECONDS`].
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ClassTable {
    classes: Vec<Class>,
    rows: Vec<Row>,
}

/// One process in one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    process: String,
    epoch: Option<u32>,
    seconds: Vec<f64>,
    other_s: f64,
}

/// Why something cannot stand in a table.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// A time that is negative, absurd or no number.
    #[error("process `{process}` has {seconds} s of {class}: it must be from 0 to {MAX_SECONDS} s")]
    Seconds {
        /// The process.
        process: String,
        /// The class, or `other`.
        class: String,
        /// What was given, or what it would add up to.
        seconds: f64,
    },
    /// There are too many processes and epochs.
    #[error("a table holds at most {MAX_ROWS} processes times epochs: analyse a part of them")]
    TooManyRows,
    /// There are too many classes.
    #[error("a table holds at most {MAX_CLASSES} classes of I/O")]
    TooManyClasses,
}

impl Row {
    /// The process: a log, a rank, a worker.
    #[must_use]
    pub fn process(&self) -> &str {
        &self.process
    }

    /// The training epoch, where epochs could be told apart.
    #[must_use]
    pub fn epoch(&self) -> Option<u32> {
        self.epoch
    }

    /// Seconds of each class, in the order of [`ClassTable::classes`].
    #[must_use]
    pub fn seconds(&self) -> &[f64] {
        &self.seconds
    }

    /// The I/O time of the process in seconds: the sum of its classes, without `other`.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        self.seconds.iter().sum()
    }

    /// Seconds of I/O on files that belong to none of the tiers.
    #[must_use]
    pub fn other_s(&self) -> f64 {
        self.other_s
    }
}

impl ClassTable {
    /// A table to fill.
    #[must_use]
    pub fn builder() -> TableBuilder {
        TableBuilder::default()
    }

    /// The classes, in their order; each has a number in every row.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// Every row, by epoch, then by process.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Every epoch that has a row, ascending; `None` comes first.
    #[must_use]
    pub fn epochs(&self) -> Vec<Option<u32>> {
        let mut epochs: Vec<_> = self.rows.iter().map(Row::epoch).collect();
        epochs.dedup();
        epochs
    }

    /// The rows of one epoch, by process.
    #[must_use]
    pub fn of_epoch(&self, epoch: Option<u32>) -> &[Row] {
        let start = self.rows.partition_point(|row| row.epoch < epoch);
        let end = self.rows.partition_point(|row| row.epoch <= epoch);
        &self.rows[start..end]
    }

    /// The row of an epoch with the greatest I/O time; of equal ones the first.
    #[must_use]
    pub fn slowest(&self, epoch: Option<u32>) -> Option<&Row> {
        self.by_time(epoch).into_iter().next()
    }

    /// The rows of an epoch, the slowest first.
    #[must_use]
    pub fn by_time(&self, epoch: Option<u32>) -> Vec<&Row> {
        let mut rows: Vec<&Row> = self.of_epoch(epoch).iter().collect();
        rows.sort_by(|a, b| b.total_s().total_cmp(&a.total_s()));
        rows
    }

    /// The same processes over all epochs: one row each, of epoch `None`.
    ///
    /// # Errors
    /// [`TableError::Seconds`] where a sum goes over the limit.
    pub fn whole(&self) -> Result<Self, TableError> {
        let mut whole = Self::builder();
        for row in &self.rows {
            whole.add_row(self, row, None)?;
        }
        Ok(whole.finish())
    }

    /// Place of a class in the rows.
    #[must_use]
    pub fn place(&self, class: &Class) -> Option<usize> {
        self.classes.binary_search(class).ok()
    }
}

/// A table under construction. What is added for the same process, epoch and class adds up.
#[derive(Clone, Debug, Default)]
pub struct TableBuilder {
    classes: BTreeMap<Class, usize>,
    places: HashMap<(String, Option<u32>), usize>,
    rows: Vec<Row>,
}

impl TableBuilder {
    /// Adds seconds of a class. 0 makes the class and the row exist.
    ///
    /// # Errors
    /// [`TableError`] when a number or the table would break its limits.
    pub fn add(
        &mut self,
        process: &str,
        epoch: Option<u32>,
        class: &Class,
        seconds: f64,
    ) -> Result<(), TableError> {
        let next = self.classes.len();
        let place = match self.classes.get(class) {
            Some(place) => *place,
            None if next == MAX_CLASSES => return Err(TableError::TooManyClasses),
            None => {
                self.classes.insert(class.clone(), next);
                next
            }
        };
        let row = self.row(process, epoch)?;
        if row.seconds.len() <= place {
            row.seconds.resize(place + 1, 0.0);
        }
        accumulate(&mut row.seconds[place], seconds, process, class.name())
    }

    /// Adds seconds of I/O on files that belong to none of the tiers.
    ///
    /// # Errors
    /// [`TableError`] when a number or the table would break its limits.
    pub fn add_other(
        &mut self,
        process: &str,
        epoch: Option<u32>,
        seconds: f64,
    ) -> Result<(), TableError> {
        let row = self.row(process, epoch)?;
        accumulate(&mut row.other_s, seconds, process, "other")
    }

    /// Adds a row of another table, as one of `epoch`.
    pub(super) fn add_row(
        &mut self,
        table: &ClassTable,
        row: &Row,
        epoch: Option<u32>,
    ) -> Result<(), TableError> {
        for (class, seconds) in table.named(row).pairs() {
            self.add(&row.process, epoch, class, seconds)?;
        }
        self.add_other(&row.process, epoch, row.other_s)
    }

    /// The table, in order.
    #[must_use]
    pub fn finish(self) -> ClassTable {
        let (classes, places): (Vec<Class>, Vec<usize>) = self.classes.into_iter().unzip();
        let in_order = |mut row: Row| {
            let seconds = |place: &usize| row.seconds.get(*place).copied().unwrap_or(0.0);
            row.seconds = places.iter().map(seconds).collect();
            row
        };
        let mut rows: Vec<Row> = self.rows.into_iter().map(in_order).collect();
        rows.sort_by(|a, b| (a.epoch, &a.process).cmp(&(b.epoch, &b.process)));
        ClassTable { classes, rows }
    }

    fn row(&mut self, process: &str, epoch: Option<u32>) -> Result<&mut Row, TableError> {
        let key = (process.to_owned(), epoch);
        let place = match self.places.get(&key) {
            Some(place) => *place,
            None if self.rows.len() == MAX_ROWS => return Err(TableError::TooManyRows),
            None => {
                self.rows.push(Row {
                    process: process.to_owned(),
                    epoch,
                    seconds: Vec::new(),
                    other_s: 0.0,
                });
                self.places.insert(key, self.rows.len() - 1);
                self.rows.len() - 1
            }
        };
        Ok(&mut self.rows[place])
    }
}

fn accumulate(sum: &mut f64, more: f64, process: &str, class: &str) -> Result<(), TableError> {
    let found = *sum + more;
    let wrong = |seconds| TableError::Seconds {
        process: process.to_owned(),
        class: class.to_owned(),
        seconds,
    };
    if !(0.0..=MAX_SECONDS).contains(&more) {
        return Err(wrong(more));
    }
    if found > MAX_SECONDS {
        return Err(wrong(found));
    }
    *sum = found;
    Ok(())
}

impl Serialize for ClassTable {
    /// A list of rows, each with its seconds by name of class.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows.iter().map(|row| RowJson {
            process: &row.process,
            epoch: row.epoch,
            total_s: row.total_s(),
            seconds: self.named(row),
            other_s: row.other_s,
        }))
    }
}

#[derive(Serialize)]
struct RowJson<'a> {
    process: &'a str,
    epoch: Option<u32>,
    total_s: f64,
    seconds: Named<'a>,
    other_s: f64,
}

/// Seconds under the names of their classes, in the order of the classes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Named<'a>(&'a [Class], &'a [f64]);

impl<'a> Named<'a> {
    pub(super) fn new(classes: &'a [Class], seconds: &'a [f64]) -> Self {
        Self(classes, seconds)
    }

    /// Each class with its seconds.
    pub fn pairs(self) -> impl Iterator<Item = (&'a Class, f64)> {
        self.0.iter().zip(self.1.iter().copied())
    }
}

impl Serialize for Named<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.pairs())
    }
}
