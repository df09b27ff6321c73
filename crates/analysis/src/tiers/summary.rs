//! The slowest process of every epoch at every rate: what a study comes down to.

use serde::Serialize;

use super::table::Named;
use super::{ClassTable, Point, Rate, Row, Study};

/// The slowest process of each epoch of each point, in the order of the study.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Summary<'a>(Vec<Slowest<'a>>);

/// The slowest process of one epoch at one rate, where its time goes, and the next.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Slowest<'a> {
    /// Name of the setup.
    pub setup: &'a str,
    /// Share of the data on the local tier, in percent.
    pub rate_percent: Option<Rate>,
    /// The training epoch, where epochs could be told apart.
    pub epoch: Option<u32>,
    /// Wall time of the epoch in seconds, where it was recorded.
    pub execution_s: Option<f64>,
    /// Processes of the epoch.
    pub processes: usize,
    /// The slowest one.
    pub process: &'a str,
    /// Its I/O time in seconds.
    pub total_s: f64,
    /// Its seconds of each class.
    pub seconds: Named<'a>,
    /// The next slowest process.
    pub next_process: Option<&'a str>,
    /// Its I/O time in seconds.
    pub next_s: Option<f64>,
}

impl<'a> Slowest<'a> {
    fn of(setup: &'a str, point: &'a Point, epoch: Option<u32>) -> Option<Self> {
        let rows = point.table.by_time(epoch);
        let slowest = rows.first()?;
        let next = rows.get(1);
        Some(Self {
            setup,
            rate_percent: point.rate,
            epoch,
            execution_s: point.execution_s.get(&epoch).copied(),
            processes: rows.len(),
            process: slowest.process(),
            total_s: slowest.total_s(),
            seconds: point.table.named(slowest),
            next_process: next.map(|row| row.process()),
            next_s: next.map(|row| row.total_s()),
        })
    }
}

impl<'a> Summary<'a> {
    /// The summary of a study.
    #[must_use]
    pub fn new(study: &'a Study) -> Self {
        let points = study
            .setups
            .iter()
            .flat_map(|setup| setup.points.iter().map(|point| (&*setup.name, point)));
        let rows = points.flat_map(|(setup, point)| {
            let epochs = point.table.epochs().into_iter();
            epochs.filter_map(move |epoch| Slowest::of(setup, point, epoch))
        });
        Self(rows.collect())
    }

    /// The rows.
    #[must_use]
    pub fn rows(&self) -> &[Slowest<'a>] {
        &self.0
    }

    /// One line for each class of each row, with a header: `setup`, `rate_percent`, `epoch`,
    /// `class`, `seconds`, `process`, `total_s`, `next_process`, `next_s`, `execution_s`.
    #[must_use]
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "setup,rate_percent,epoch,class,seconds,process,total_s,next_process,next_s,execution_s\n",
        );
        for row in &self.0 {
            for (class, seconds) in row.seconds.pairs() {
                let cells = [
                    quoted(row.setup),
                    row.rate_percent
                        .map_or(String::new(), |rate| rate.percent().to_string()),
                    row.epoch.map_or(String::new(), |epoch| epoch.to_string()),
                    class.to_string(),
                    seconds.to_string(),
                    quoted(row.process),
                    row.total_s.to_string(),
                    row.next_process.map_or(String::new(), quoted),
                    row.next_s.map_or(String::new(), |next| next.to_string()),
                    row.execution_s
                        .map_or(String::new(), |wall| wall.to_string()),
                ];
                out.push_str(&cells.join(","));
                out.push('\n');
            }
        }
        out
    }
}

/// A text as a cell of a table: in quotes where it needs them. A cell that a spreadsheet would
/// take for a formula is kept from it by an apostrophe.
fn quoted(text: &str) -> String {
    let guard = if text.starts_with(['=', '+', '-', '@', '\t', '\r']) {
        "'"
    } else {
        ""
    };
    if text.contains([',', '"', '\n', '\r']) || !guard.is_empty() {
        format!("\"{guard}{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

impl ClassTable {
    /// The seconds of one of the rows with the names of their classes.
    #[must_use]
    pub fn named<'a>(&'a self, row: &'a Row) -> Named<'a> {
        Named::new(self.classes(), row.seconds())
    }
}
