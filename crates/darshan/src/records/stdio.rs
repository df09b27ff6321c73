//! STDIO: `fopen`, `fread`, `fwrite` and their kin, by file and rank.

use super::Step;
use crate::bytes::Bytes;

/// Names of the counters, in the order of [`StdioRecord::counters`].
pub const COUNTERS: [&str; 14] = [
    "OPENS",
    "FDOPENS",
    "READS",
    "WRITES",
    "SEEKS",
    "FLUSHES",
    "BYTES_WRITTEN",
    "BYTES_READ",
    "MAX_BYTE_READ",
    "MAX_BYTE_WRITTEN",
    "FASTEST_RANK",
    "FASTEST_RANK_BYTES",
    "SLOWEST_RANK",
    "SLOWEST_RANK_BYTES",
];

/// Names of the floating point counters, in the order of [`StdioRecord::times`]. Times are in
/// seconds; timestamps count from the start of the job.
pub const TIMES: [&str; 15] = [
    "META_TIME",
    "WRITE_TIME",
    "READ_TIME",
    "OPEN_START_TIMESTAMP",
    "CLOSE_START_TIMESTAMP",
    "WRITE_START_TIMESTAMP",
    "READ_START_TIMESTAMP",
    "OPEN_END_TIMESTAMP",
    "CLOSE_END_TIMESTAMP",
    "WRITE_END_TIMESTAMP",
    "READ_END_TIMESTAMP",
    "FASTEST_RANK_TIME",
    "SLOWEST_RANK_TIME",
    "VARIANCE_RANK_TIME",
    "VARIANCE_RANK_BYTES",
];

/// What one rank did with one stream, or all ranks together where the rank is
/// [`SHARED`](super::SHARED).
#[derive(Clone, Debug, PartialEq)]
pub struct StdioRecord {
    /// Stands for the file's name.
    pub id: u64,
    /// The rank; always 0 in jobs without MPI.
    pub rank: i64,
    /// Counters, named by [`COUNTERS`].
    pub counters: [i64; 14],
    /// Times and timestamps, named by [`TIMES`].
    pub times: [f64; 15],
}

/// A reader of records of a version; `None` for a version that is not known.
pub(crate) fn reader(version: u32) -> Option<impl Fn(&mut Bytes<'_>) -> Option<Step<StdioRecord>>> {
    let counters = match version {
        1 => 13,
        2 => 14,
        _ => return None,
    };
    Some(move |bytes: &mut Bytes<'_>| {
        let (id, rank) = (bytes.u64()?, bytes.i64()?);
        let mut counters = bytes.i64s(counters)?;
        if version == 1 {
            // FDOPENS was not watched.
            counters.insert(1, -1);
        }
        let times = bytes.f64s(TIMES.len())?;
        Some(Step::Record(StdioRecord {
            id,
            rank,
            counters: counters.try_into().ok()?,
            times: times.try_into().ok()?,
        }))
    })
}
