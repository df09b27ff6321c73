//! The record of one all-reduce, for the fabric study.

use serde::Serialize;

use super::fields::Fields;
use super::{Fault, MAX_PATH_BYTES};

/// Whether there is I/O beside the collectives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// None.
    Baseline,
    /// The tier's.
    Loaded,
}

/// One all-reduce on one rank.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AllReduce {
    /// Name of the tier whose I/O stands beside it.
    pub tier: String,
    /// Whether that I/O went on.
    pub phase: Phase,
    /// Which turn of the phase it is, from 0.
    pub round: u32,
    /// Number of the iteration in its phase, from 0.
    pub iteration: u64,
    /// Rank that measured it.
    pub rank: u32,
    /// Bytes that were reduced.
    pub message_bytes: u64,
    /// Time of the collective on this rank, with what it waited there for others.
    pub seconds: f64,
    /// Time for which the iteration was blocked on its loader.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wait_s: Option<f64>,
    /// Bytes of samples that were taken for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_bytes: Option<u64>,
}

pub(super) fn all_reduce(fields: &mut Fields) -> Result<AllReduce, Fault> {
    let phase = match fields.text("phase")?.as_str() {
        "baseline" => Phase::Baseline,
        "loaded" => Phase::Loaded,
        other => {
            return Err(Fault::of(format!(
                "`phase` must be `baseline` or `loaded`: {}",
                crate::text::clip(&crate::text::printable(other), 60)
            )));
        }
    };
    Ok(AllReduce {
        tier: fields.name("tier", MAX_PATH_BYTES)?,
        phase,
        round: fields.small_count("round")?,
        iteration: fields.count("iteration")?,
        rank: fields.small_count("rank")?,
        message_bytes: fields.count("message_bytes")?,
        seconds: fields.positive_seconds("seconds")?,
        wait_s: fields.seconds_or_none("wait_s")?,
        read_bytes: fields.count_or_none("read_bytes")?,
    })
}
