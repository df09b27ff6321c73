//! Raw records: JSON lines, one record a line, as `docs/RECORDS.md` describes them.

mod allreduce;
mod error;
mod fields;
mod io;
pub(crate) mod lines;

use std::io::Write;

use serde::Serialize;
use serde_json::{Map, Value};

pub use allreduce::{AllReduce, Phase};
pub(crate) use error::Fault;
pub use error::RecordError;
use fields::Fields;
pub use io::{Execution, Io, MAX_NAME_BYTES};

/// The version of the record format that this crate reads and writes.
pub const FORMAT: u32 = 1;

/// The longest duration that a record may hold, in seconds (about 116 days). A greater one is a
/// clock read in place of a difference of two.
pub const MAX_SECONDS: f64 = 1e7;

/// The longest name of a path, in bytes.
pub const MAX_PATH_BYTES: usize = 200;

/// One line of a record file.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "record", rename_all = "lowercase")]
pub enum Record {
    /// What was run; the first line of every file.
    Manifest(Manifest),
    /// One training iteration on one rank.
    Iteration(Iteration),
    /// The end of one epoch.
    Epoch(EpochEnd),
    /// A remark by the code that measured.
    Note(Note),
    /// I/O of one process by class.
    Io(Io),
    /// Wall time of an epoch over all processes.
    Execution(Execution),
    /// One all-reduce on one rank.
    AllReduce(AllReduce),
}

/// What was run, where, on what and under which conditions.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Manifest {
    /// Version of the record format: [`FORMAT`].
    pub format: u32,
    /// The program that measured.
    pub tool: String,
    /// The version of that program.
    pub version: String,
    /// When it started, in nanoseconds since 1970-01-01 UTC.
    pub started_unix_ns: u64,
    /// The machine, as names and values.
    pub host: Map<String, Value>,
    /// The settings and data of the run, as names and values.
    pub inputs: Map<String, Value>,
    /// Sentences that a reader must know to judge the numbers.
    pub conditions: Vec<String>,
}

/// One training iteration on one rank, by one path to the data.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Iteration {
    /// How the samples were read: `direct`, `forebay` or any other name.
    pub path: String,
    /// The training epoch, from 1.
    pub epoch: u32,
    /// What was measured.
    #[serde(flatten)]
    pub timing: Timing,
}

/// Durations of one iteration on one rank, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// Number of the iteration in its epoch, from 0.
    pub iteration: u64,
    /// Rank that measured it.
    pub rank: u32,
    /// Time for which the trainer was blocked on the data loader.
    pub wait_s: f64,
    /// Copy of the batch to the device.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub h2d_s: Option<f64>,
    /// Forward pass.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub forward_s: Option<f64>,
    /// Backward pass with the all-reduce of the gradients.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backward_s: Option<f64>,
    /// Optimiser step.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub optimizer_s: Option<f64>,
    /// The whole iteration, wait included.
    pub total_s: f64,
    /// Who answered the reads of its batch, where the reader counted that.
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub answered: Option<Answered>,
}

/// Who answered the reads of one batch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Answered {
    /// Bytes that were resident on the node when they were read.
    pub local_bytes: u64,
    /// Bytes that the node's daemon fetched from another node while the reader waited.
    pub peer_bytes: u64,
    /// Bytes that the node's daemon fetched from the origin while the reader waited.
    pub staged_bytes: u64,
    /// Bytes that the reader fetched from the origin itself.
    pub direct_bytes: u64,
    /// Time for which the batch's reader waited for what was not resident.
    pub late_s: f64,
    /// Least time for which the batch had been staged when the trainer got it; absent if it was
    /// not staged whole, or where that is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lead_s: Option<f64>,
}

impl Timing {
    /// The part of the iteration that was not wait, in seconds; never below 0.
    #[must_use]
    pub fn compute_s(&self) -> f64 {
        (self.total_s - self.wait_s).max(0.0)
    }
}

/// The end of one epoch by one path.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EpochEnd {
    /// How the samples were read.
    pub path: String,
    /// The training epoch, from 1.
    pub epoch: u32,
    /// Wall time of the epoch, in seconds.
    pub wall_s: f64,
    /// Bytes of samples that the trainer asked for.
    pub asked_bytes: u64,
    /// Bytes that were read from the origin for them, where that was counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub origin_bytes: Option<u64>,
}

impl EpochEnd {
    /// Bytes read from the origin over bytes asked for, where both are known.
    #[must_use]
    pub fn origin_over_asked(&self) -> Option<f64> {
        let origin = self.origin_bytes? as f64;
        (self.asked_bytes > 0).then(|| origin / self.asked_bytes as f64)
    }
}

/// A remark by the code that measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Note {
    /// The remark.
    pub text: String,
}

/// What one line held.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Parsed {
    /// A record of a known kind, and the names of its fields that are not known.
    Known(Record, Vec<String>),
    /// A record of a kind that this version does not know.
    Unknown(String),
}

impl Record {
    /// The name of its kind, as the field `record` has it.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Manifest(_) => "manifest",
            Self::Iteration(_) => "iteration",
            Self::Epoch(_) => "epoch",
            Self::Note(_) => "note",
            Self::Io(_) => "io",
            Self::Execution(_) => "execution",
            Self::AllReduce(_) => "allreduce",
        }
    }

    /// Writes the record as one line.
    ///
    /// # Errors
    /// `InvalidInput` when the record breaks a rule of the format, so that nothing is written
    /// which [`crate::Run::read`] would refuse; any error of `out`.
    pub fn write_line(&self, out: &mut impl Write) -> std::io::Result<()> {
        let mut line = serde_json::to_string(self)?;
        match parse(&line) {
            // Fields come from the types above, so an unknown one cannot occur here.
            Ok(Parsed::Known(..)) => {}
            Ok(Parsed::Unknown(kind)) => return Err(invalid(format!("unknown record `{kind}`"))),
            Err(fault) => return Err(invalid(fault.to_string())),
        }
        line.push('\n');
        out.write_all(line.as_bytes())
    }
}

fn invalid(why: String) -> std::io::Error {
    std::io::Error::new(std::io::ErrorKind::InvalidInput, why)
}

/// Reads one line.
pub(crate) fn parse(line: &str) -> Result<Parsed, Fault> {
    let value: Value = serde_json::from_str(line).map_err(|source| Fault::json(&source))?;
    let Value::Object(map) = value else {
        return Err(Fault::of("a record must be a JSON object".into()));
    };
    let mut fields = Fields::new(map);
    let kind = fields.text("record")?;
    let record = match kind.as_str() {
        "manifest" => Record::Manifest(manifest(&mut fields)?),
        "iteration" => Record::Iteration(iteration(&mut fields)?),
        "epoch" => Record::Epoch(epoch(&mut fields)?),
        "note" => Record::Note(Note {
            text: fields.text("text")?,
        }),
        "io" => Record::Io(io::io(&mut fields)?),
        "execution" => Record::Execution(io::execution(&mut fields)?),
        "allreduce" => Record::AllReduce(allreduce::all_reduce(&mut fields)?),
        _ => return Ok(Parsed::Unknown(kind)),
    };
    Ok(Parsed::Known(record, fields.rest()))
}

fn manifest(fields: &mut Fields) -> Result<Manifest, Fault> {
    let format = match fields.count_or_none("format")? {
        None => FORMAT,
        Some(found) if found == u64::from(FORMAT) => FORMAT,
        Some(found) => {
            return Err(Fault::of(format!(
                "record format {found} is not known: this version reads format {FORMAT}"
            )));
        }
    };
    Ok(Manifest {
        format,
        tool: fields.text("tool")?,
        version: fields.text("version")?,
        started_unix_ns: fields.count("started_unix_ns")?,
        host: fields.object("host")?,
        inputs: fields.object("inputs")?,
        conditions: fields.texts("conditions")?,
    })
}

fn iteration(fields: &mut Fields) -> Result<Iteration, Fault> {
    let path = fields.path()?;
    let epoch = fields.small_count("epoch")?;
    let timing = Timing {
        iteration: fields.count("iteration")?,
        rank: fields.small_count("rank")?,
        wait_s: fields.seconds("wait_s")?,
        h2d_s: fields.seconds_or_none("h2d_s")?,
        forward_s: fields.seconds_or_none("forward_s")?,
        backward_s: fields.seconds_or_none("backward_s")?,
        optimizer_s: fields.seconds_or_none("optimizer_s")?,
        total_s: fields.positive_seconds("total_s")?,
        answered: answered(fields)?,
    };
    // The two ends of a wait and of its iteration are read from one clock, a few calls apart.
    const CLOCK_SLACK_S: f64 = 1e-6;
    if timing.wait_s > timing.total_s + CLOCK_SLACK_S {
        return Err(Fault::of(format!(
            "`wait_s` must be at most `total_s`, {}: {}",
            timing.total_s, timing.wait_s
        )));
    }
    Ok(Iteration {
        path,
        epoch,
        timing,
    })
}

/// All of it or nothing, but for the lead.
fn answered(fields: &mut Fields) -> Result<Option<Answered>, Fault> {
    let lead_s = fields.seconds_or_none("lead_s")?;
    let Some(local_bytes) = fields.count_or_none("local_bytes")? else {
        return Ok(None);
    };
    Ok(Some(Answered {
        local_bytes,
        peer_bytes: fields.count("peer_bytes")?,
        staged_bytes: fields.count("staged_bytes")?,
        direct_bytes: fields.count("direct_bytes")?,
        late_s: fields.seconds("late_s")?,
        lead_s,
    }))
}

fn epoch(fields: &mut Fields) -> Result<EpochEnd, Fault> {
    Ok(EpochEnd {
        path: fields.path()?,
        epoch: fields.small_count("epoch")?,
        wall_s: fields.positive_seconds("wall_s")?,
        asked_bytes: fields.count("asked_bytes")?,
        origin_bytes: fields.count_or_none("origin_bytes")?,
    })
}
