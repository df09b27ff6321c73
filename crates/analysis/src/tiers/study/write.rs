//! A study as records, and what Darshan logs gave as a study.

use std::io::{self, Write};

use serde_json::{Map, Value, json};

use super::{Point, Rate, Setup, Study};
use crate::record::{Execution, FORMAT, Io, Manifest, Note, Record};
use crate::run::Unread;
use crate::tiers::darshan::{Classified, Prefixes, Tier};

impl Study {
    /// Writes the records from which [`Study::read`] makes the same tables.
    ///
    /// # Errors
    /// A name that is empty or too long for a record; any error of `out`.
    pub fn write(&self, out: &mut impl Write) -> io::Result<()> {
        Record::Manifest(self.manifest.clone()).write_line(out)?;
        for text in &self.notes {
            Record::Note(Note { text: text.clone() }).write_line(out)?;
        }
        for setup in &self.setups {
            for point in &setup.points {
                point.write(&setup.name, out)?;
            }
        }
        Ok(())
    }

    /// The one point that Darshan logs give.
    #[must_use]
    pub fn of_darshan(
        found: &Classified,
        prefixes: &Prefixes,
        setup: &str,
        rate: Option<Rate>,
    ) -> Self {
        let of = |tier: Tier| -> Value {
            let all = prefixes.all().iter().filter(|(_, of)| *of == tier);
            all.map(|(prefix, _)| prefix.as_str()).collect()
        };
        let mut inputs = Map::new();
        inputs.insert("gfs".into(), of(Tier::Gfs));
        inputs.insert("lfs".into(), of(Tier::Lfs));
        inputs.insert("ambiguous_records".into(), json!(found.ambiguous));
        Self {
            manifest: Manifest {
                format: FORMAT,
                tool: "darshan".into(),
                version: found.versions.join(", "),
                started_unix_ns: found.started_unix_ns,
                host: Map::new(),
                inputs,
                conditions: Vec::new(),
            },
            setups: vec![Setup {
                name: setup.to_owned(),
                points: vec![Point {
                    rate,
                    table: found.table.clone(),
                    execution_s: found.execution_s.clone(),
                }],
            }],
            notes: found.warnings.clone(),
            unread: Unread::default(),
        }
    }
}

impl Point {
    fn write(&self, setup: &str, out: &mut impl Write) -> io::Result<()> {
        for row in self.table.rows() {
            let seconds = self.table.named(row).pairs();
            Record::Io(Io {
                setup: setup.to_owned(),
                rate_percent: self.rate,
                process: row.process().to_owned(),
                epoch: row.epoch(),
                iteration: None,
                seconds: seconds.map(|(class, s)| (class.clone(), s)).collect(),
                other_s: row.other_s(),
            })
            .write_line(out)?;
        }
        for (epoch, wall_s) in &self.execution_s {
            Record::Execution(Execution {
                setup: setup.to_owned(),
                rate_percent: self.rate,
                epoch: *epoch,
                wall_s: *wall_s,
            })
            .write_line(out)?;
        }
        Ok(())
    }
}
