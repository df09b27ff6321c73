//! How a setup is laid out.

use super::TierReportOptions;
use crate::tiers::whatif::{Estimate, Gains, Measured, WhatIfError};
use crate::tiers::{Class, Row, Setup};

/// Colours of the style; later classes share them.
const COLOURS: usize = 6;

pub(super) struct View<'a> {
    pub(super) setup: &'a Setup,
    /// All epochs.
    pub(super) measured: Measured,
    /// The epoch that figures about one epoch show.
    pub(super) epoch: Option<u32>,
    /// That epoch alone.
    pub(super) of_epoch: Measured,
    /// The best of that epoch.
    pub(super) best: Estimate,
}

/// One column of stacked classes.
pub(super) struct Column {
    /// Below the column.
    pub(super) label: String,
    /// What the pointer shows.
    pub(super) title: String,
    /// Place on the axis.
    pub(super) x: f64,
    /// Seconds of each class of the view.
    pub(super) stack: Vec<f64>,
}

impl<'a> View<'a> {
    pub(super) fn new(setup: &'a Setup, options: &TierReportOptions) -> Result<Self, WhatIfError> {
        let measured = Measured::of_setup(setup)?;
        let epoch = options.epoch.or_else(|| usual_epoch(&measured));
        let of_epoch = match epoch {
            Some(epoch) => measured.clone().at_epoch(epoch)?,
            None => measured.clone(),
        };
        let best = of_epoch.best(&Gains::none(&of_epoch));
        Ok(Self {
            setup,
            measured,
            epoch,
            of_epoch,
            best,
        })
    }

    /// Whether it was measured at more than one cache rate.
    pub(super) fn has_rates(&self) -> bool {
        self.measured.cases().len() > 1
    }

    pub(super) fn name(&self) -> &str {
        match self.setup.name.as_str() {
            "" => "all processes",
            name => name,
        }
    }

    /// The name, and the epoch where one is shown.
    pub(super) fn title(&self) -> String {
        let name = crate::text::clip(self.name(), 60);
        match self.epoch {
            Some(epoch) => format!("{name}, epoch {epoch}"),
            None => name,
        }
    }

    pub(super) fn classes(&self) -> &[Class] {
        self.measured.classes()
    }

    /// The two classes that took most of the slowest process's time at the best rate.
    pub(super) fn greatest(&self) -> Vec<String> {
        let stack = self.best.slowest.first().map_or(&[][..], |one| &one.stack);
        let mut places: Vec<usize> = (0..stack.len()).collect();
        places.sort_by(|a, b| stack[*b].total_cmp(&stack[*a]));
        places.truncate(2);
        places
            .iter()
            .map(|place| self.classes()[*place].to_string())
            .collect()
    }

    /// A column for each rate; without rates one for each epoch; without epochs one for each of
    /// the slowest processes.
    pub(super) fn columns(&self) -> Vec<Column> {
        const MOST: usize = 32;
        if self.has_rates() {
            return self.by_rate();
        }
        let point = self
            .setup
            .points
            .iter()
            .find(|point| !point.table.rows().is_empty());
        let Some(table) = point.map(|point| &point.table) else {
            return Vec::new();
        };
        let epochs = table.epochs();
        let rows: Vec<&Row> = if epochs.len() > 1 {
            epochs
                .iter()
                .filter_map(|epoch| table.slowest(*epoch))
                .take(MOST)
                .collect()
        } else {
            table
                .by_time(epochs.first().copied().flatten())
                .into_iter()
                .take(MOST)
                .collect()
        };
        let column = |(place, row): (usize, &Row)| Column {
            label: match row.epoch() {
                Some(epoch) if epochs.len() > 1 => epoch.to_string(),
                _ => (place + 1).to_string(),
            },
            title: row.process().to_owned(),
            x: place as f64,
            stack: row.seconds().to_vec(),
        };
        rows.into_iter().enumerate().map(column).collect()
    }

    fn by_rate(&self) -> Vec<Column> {
        let estimates = self.of_epoch.estimates(&Gains::none(&self.of_epoch));
        let column = |one: Estimate| {
            let rate = one.cache_rate.unwrap_or(0.0);
            let slowest = one.slowest.into_iter().next()?;
            Some(Column {
                label: rate.to_string(),
                title: format!("{rate} % on the local tier, slowest {}", slowest.process),
                x: rate,
                stack: slowest.stack,
            })
        };
        estimates.into_iter().filter_map(column).collect()
    }

    /// What the columns stand for.
    pub(super) fn axis(&self) -> &'static str {
        if self.has_rates() {
            "files on the local tier (%)"
        } else if self
            .setup
            .points
            .iter()
            .any(|point| point.table.epochs().len() > 1)
        {
            "epoch"
        } else {
            "process, the slowest first"
        }
    }
}

/// The second epoch as in the study: the first may touch caches for the first time. Where a rate
/// lacks it, the first that all have; `None` without epochs.
fn usual_epoch(measured: &Measured) -> Option<u32> {
    let has = |epoch: u32| {
        let cases = measured.cases().iter();
        cases
            .map(|case| &case.epochs)
            .all(|epochs| epochs.iter().any(|one| one.epoch == Some(epoch)))
    };
    let first = measured.cases().first()?;
    let mut epochs = [Some(2)]
        .into_iter()
        .chain(first.epochs.iter().map(|one| one.epoch));
    epochs.find_map(|epoch| epoch.filter(|epoch| has(*epoch)))
}

pub(super) fn colour(place: usize) -> usize {
    place % COLOURS
}
