//! Records about the I/O of processes, for the tier analysis.

use std::collections::BTreeMap;

use serde::Serialize;
use serde_json::Value;

use super::fields::Fields;
use super::{Fault, MAX_SECONDS};
use crate::tiers::{Class, Rate};

/// The longest name of a setup or a process, in bytes.
pub const MAX_NAME_BYTES: usize = 400;

/// Seconds of I/O of one process by class: in one iteration, in one epoch or in the whole run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Io {
    /// Data set and state of the tiers, in a file that holds several; empty for none.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub setup: String,
    /// Share of the data that lay on the local tier, in percent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<Rate>,
    /// The process: a rank, a worker, a log.
    pub process: String,
    /// The training epoch, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// Number of the iteration in its epoch, from 0, where each has a record of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iteration: Option<u64>,
    /// Seconds of each class.
    pub seconds: BTreeMap<Class, f64>,
    /// Seconds of I/O on files that belong to none of the tiers.
    #[serde(skip_serializing_if = "is_zero")]
    pub other_s: f64,
}

/// Wall time of one epoch, or of the whole run, over all processes.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Execution {
    /// As in [`Io`].
    #[serde(skip_serializing_if = "String::is_empty")]
    pub setup: String,
    /// As in [`Io`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_percent: Option<Rate>,
    /// The training epoch, from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u32>,
    /// Wall time, in seconds.
    pub wall_s: f64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(seconds: &f64) -> bool {
    *seconds == 0.0
}

pub(super) fn io(fields: &mut Fields) -> Result<Io, Fault> {
    Ok(Io {
        setup: fields
            .name_or_none("setup", MAX_NAME_BYTES)?
            .unwrap_or_default(),
        rate_percent: rate(fields)?,
        process: fields.name("process", MAX_NAME_BYTES)?,
        epoch: fields.small_count_or_none("epoch")?,
        iteration: fields.count_or_none("iteration")?,
        seconds: seconds(fields)?,
        other_s: fields.seconds_or_none("other_s")?.unwrap_or(0.0),
    })
}

pub(super) fn execution(fields: &mut Fields) -> Result<Execution, Fault> {
    Ok(Execution {
        setup: fields
            .name_or_none("setup", MAX_NAME_BYTES)?
            .unwrap_or_default(),
        rate_percent: rate(fields)?,
        epoch: fields.small_count_or_none("epoch")?,
        wall_s: fields.positive_seconds("wall_s")?,
    })
}

fn rate(fields: &mut Fields) -> Result<Option<Rate>, Fault> {
    let Some(percent) = fields.number_or_none("rate_percent")? else {
        return Ok(None);
    };
    let refused = || Fault::of(format!("`rate_percent` must be from 0 to 100: {percent}"));
    Rate::new(percent).map(Some).ok_or_else(refused)
}

fn seconds(fields: &mut Fields) -> Result<BTreeMap<Class, f64>, Fault> {
    let mut seconds = BTreeMap::new();
    for (name, value) in fields.object("seconds")? {
        let class: Class = name
            .parse()
            .map_err(|error| Fault::of(format!("`seconds`: {error}")))?;
        let of_class = match &value {
            Value::Null => continue,
            value => value.as_f64().filter(|s| (0.0..=MAX_SECONDS).contains(s)),
        };
        let Some(of_class) = of_class else {
            return Err(super::fields::wrong(
                &format!("seconds.{class}"),
                "a number of seconds from 0 to 10000000",
                &value,
            ));
        };
        if seconds.insert(class, of_class).is_some() {
            return Err(Fault::of(format!("`seconds` has the class `{name}` twice")));
        }
    }
    Ok(seconds)
}
