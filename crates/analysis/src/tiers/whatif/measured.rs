//! What was measured, checked once.

use std::collections::BTreeSet;

use super::WhatIfError;
use crate::tiers::{Class, ClassTable, Rate, Row, Setup};

/// Times of one process, one for each class of its study, in seconds.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessTimes {
    /// Its name: rank, log or host and process.
    pub process: String,
    /// Seconds of each class.
    pub seconds: Vec<f64>,
}

/// Times of all processes in one epoch.
#[derive(Clone, Debug, PartialEq)]
pub struct EpochTimes {
    /// The epoch, from 1; none where the measurement is of a whole run.
    pub epoch: Option<u32>,
    /// The processes.
    pub processes: Vec<ProcessTimes>,
}

/// What was measured at one cache rate.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Share of the data set on the local tier, in percent; none where it is not known.
    pub cache_rate: Option<f64>,
    /// The epochs, or the whole run as one.
    pub epochs: Vec<EpochTimes>,
}

/// Measurements that belong together: the same classes at one or more cache rates.
///
/// It exists only if every case has an epoch, every epoch a process, every process a time for
/// every class, and somebody spent time on I/O.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    classes: Vec<Class>,
    cases: Vec<Case>,
}

impl Measured {
    /// Checks the cases and puts them in order of their cache rates.
    ///
    /// # Errors
    /// [`WhatIfError`] that names the first broken rule.
    pub fn new(classes: Vec<Class>, mut cases: Vec<Case>) -> Result<Self, WhatIfError> {
        for (place, class) in classes.iter().enumerate() {
            if classes[..place].contains(class) {
                return Err(WhatIfError::ClassTwice(class.to_string()));
            }
        }
        for case in &cases {
            check_case(&classes, case)?;
        }
        let rate = |case: &Case| case.cache_rate.unwrap_or(f64::NEG_INFINITY);
        cases.sort_by(|a, b| rate(a).total_cmp(&rate(b)));
        if let Some(pair) = cases
            .windows(2)
            .find(|pair| rate(&pair[0]) == rate(&pair[1]))
        {
            return Err(WhatIfError::RateTwice(name(&pair[0])));
        }
        if cases.is_empty() {
            return Err(WhatIfError::Empty("the study".into()));
        }
        Ok(Self { classes, cases })
    }

    /// Brings tables of several cache rates together. A class that one table lacks took no time
    /// there.
    ///
    /// # Errors
    /// As [`Measured::new`].
    pub fn of_tables<'a>(
        tables: impl IntoIterator<Item = (Option<f64>, &'a ClassTable)>,
    ) -> Result<Self, WhatIfError> {
        let tables: Vec<_> = tables.into_iter().collect();
        let every = tables
            .iter()
            .flat_map(|(_, table)| table.classes().iter().cloned());
        let classes: Vec<Class> = every.collect::<BTreeSet<_>>().into_iter().collect();
        let cases = tables
            .iter()
            .map(|(rate, table)| case(*rate, table, &classes))
            .collect();
        Self::new(classes, cases)
    }

    /// Every cache rate of a setup.
    ///
    /// # Errors
    /// As [`Measured::new`].
    pub fn of_setup(setup: &Setup) -> Result<Self, WhatIfError> {
        let points = setup.points.iter();
        // A point that has wall times only says nothing about classes.
        let with_io = points.filter(|point| !point.table.rows().is_empty());
        Self::of_tables(with_io.map(|point| (point.rate.map(Rate::percent), &point.table)))
    }

    /// Names of the classes.
    #[must_use]
    pub fn classes(&self) -> &[Class] {
        &self.classes
    }

    /// The cases, by rising cache rate.
    #[must_use]
    pub fn cases(&self) -> &[Case] {
        &self.cases
    }

    /// Only the case of this cache rate, in percent.
    ///
    /// # Errors
    /// [`WhatIfError::NotMeasured`] when there is none.
    pub fn at_rate(mut self, rate: f64) -> Result<Self, WhatIfError> {
        self.cases.retain(|case| case.cache_rate == Some(rate));
        if self.cases.is_empty() {
            return Err(WhatIfError::NotMeasured(format!("cache rate {rate}")));
        }
        Ok(self)
    }

    /// Only one epoch of every case.
    ///
    /// # Errors
    /// [`WhatIfError::NotMeasured`] when a case lacks it.
    pub fn at_epoch(mut self, epoch: u32) -> Result<Self, WhatIfError> {
        for case in &mut self.cases {
            case.epochs.retain(|one| one.epoch == Some(epoch));
            if case.epochs.is_empty() {
                let what = format!("epoch {epoch} of cache rate {}", name(case));
                return Err(WhatIfError::NotMeasured(what));
            }
        }
        Ok(self)
    }

    /// The place of a class, whatever the case of its letters.
    ///
    /// # Errors
    /// [`WhatIfError::UnknownClass`] when there is none of that name.
    pub fn class(&self, name: &str) -> Result<usize, WhatIfError> {
        let place = self
            .classes
            .iter()
            .position(|class| class.name().eq_ignore_ascii_case(name));
        place.ok_or_else(|| WhatIfError::UnknownClass {
            class: name.to_owned(),
            known: self
                .classes
                .iter()
                .map(Class::name)
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

fn case(cache_rate: Option<f64>, table: &ClassTable, classes: &[Class]) -> Case {
    let places: Vec<Option<usize>> = classes.iter().map(|class| table.place(class)).collect();
    let times = |row: &Row| ProcessTimes {
        process: row.process().to_owned(),
        seconds: places
            .iter()
            .map(|place| place.map_or(0.0, |place| row.seconds()[place]))
            .collect(),
    };
    let epoch = |epoch: Option<u32>| EpochTimes {
        epoch,
        processes: table.of_epoch(epoch).iter().map(times).collect(),
    };
    Case {
        cache_rate,
        epochs: table.epochs().into_iter().map(epoch).collect(),
    }
}

fn name(case: &Case) -> String {
    case.cache_rate
        .map_or("(not known)".into(), |rate| rate.to_string())
}

fn check_case(classes: &[Class], case: &Case) -> Result<(), WhatIfError> {
    if let Some(rate) = case.cache_rate
        && !(0.0..=100.0).contains(&rate)
    {
        return Err(WhatIfError::Rate(rate));
    }
    let empty = || WhatIfError::Empty(format!("cache rate {}", name(case)));
    if case.epochs.is_empty() {
        return Err(empty());
    }
    for epoch in &case.epochs {
        for process in &epoch.processes {
            check_process(classes, process)?;
        }
        let times = epoch.processes.iter().flat_map(|one| &one.seconds);
        // A table of zeros comes from a wrong prefix and would meet every goal.
        if times.sum::<f64>() <= 0.0 {
            return Err(empty());
        }
    }
    Ok(())
}

fn check_process(classes: &[Class], process: &ProcessTimes) -> Result<(), WhatIfError> {
    if process.seconds.len() != classes.len() {
        return Err(WhatIfError::Classes {
            process: process.process.clone(),
            found: process.seconds.len(),
            wanted: classes.len(),
        });
    }
    for (class, seconds) in classes.iter().zip(&process.seconds) {
        if !(0.0..=crate::record::MAX_SECONDS).contains(seconds) {
            return Err(WhatIfError::Time {
                process: process.process.clone(),
                class: class.to_string(),
                seconds: *seconds,
            });
        }
    }
    Ok(())
}
