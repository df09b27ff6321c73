//! STDIO: `fopen`, `fread`, `fwrite` and their kin, by file and rank.

use super::Step;
use crate::bytes::Bytes;

/// Names of the counters, in the order of [`StdioRecord::counters`].
pub const COUNTERS: [&str; 14] = [
    "STDIO_OPENS",
    "STDIO_FDOPENS",
    "STDIO_READS",
    "STDIO_WRITES",
    "STDIO_SEEKS",
    "STDIO_FLUSHES",
    "STDIO_BYTES_WRITTEN",
    "STDIO_BYTES_READ",
    "STDIO_MAX_BYTE_READ",
    "STDIO_MAX_BYTE_WRITTEN",
    "STDIO_FASTEST_RANK",
    "STDIO_FASTEST_RANK_BYTES",
    "STDIO_SLOWEST_RANK",
    "STDIO_SLOWEST_RANK_BYTES",
];

/// Names of the floating point counters, in the order of [`StdioRecord::times`]. Times are in
/// seconds; timestamps count from the start of the job.
pub const TIMES: [&str; 15] = [
    "STDIO_F_META_TIME",
    "STDIO_F_WRITE_TIME",
    "STDIO_F_READ_TIME",
    "STDIO_F_OPEN_START_TIMESTAMP",
    "STDIO_F_CLOSE_START_TIMESTAMP",
    "STDIO_F_WRITE_START_TIMESTAMP",
    "STDIO_F_READ_START_TIMESTAMP",
    "STDIO_F_OPEN_END_TIMESTAMP",
    "STDIO_F_CLOSE_END_TIMESTAMP",
    "STDIO_F_WRITE_END_TIMESTAMP",
    "STDIO_F_READ_END_TIMESTAMP",
    "STDIO_F_FASTEST_RANK_TIME",
    "STDIO_F_SLOWEST_RANK_TIME",
    "STDIO_F_VARIANCE_RANK_TIME",
    "STDIO_F_VARIANCE_RANK_BYTES",
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

impl StdioRecord {
    /// Times that the stream was opened.
    #[must_use]
    pub fn opens(&self) -> i64 {
        self.counters[0]
    }

    /// Bytes that were written.
    #[must_use]
    pub fn bytes_written(&self) -> i64 {
        self.counters[6]
    }

    /// Bytes that were read.
    #[must_use]
    pub fn bytes_read(&self) -> i64 {
        self.counters[7]
    }

    /// Seconds of open, close and seek. In a shared record the sum over its ranks.
    #[must_use]
    pub fn meta_s(&self) -> f64 {
        self.times[0]
    }

    /// Seconds of writes. In a shared record the sum over its ranks.
    #[must_use]
    pub fn write_s(&self) -> f64 {
        self.times[1]
    }

    /// Seconds of reads. In a shared record the sum over its ranks.
    #[must_use]
    pub fn read_s(&self) -> f64 {
        self.times[2]
    }
}

/// A reader of records of a version; `None` for a version that is not known.
pub(crate) fn reader(version: u32) -> Option<impl Fn(&mut Bytes<'_>) -> Option<Step<StdioRecord>>> {
    let counters = match version {
        1 => 13,
        2 => 14,
        _ => return None,
    };
    Some(move |bytes: &mut Bytes<'_>| {
        let mut record = StdioRecord {
            id: bytes.u64()?,
            rank: bytes.i64()?,
            counters: [0; 14],
            times: [0.0; 15],
        };
        bytes.fill_i64(&mut record.counters[..counters])?;
        if version == 1 {
            // FDOPENS was not watched.
            record.counters.copy_within(1..13, 2);
            record.counters[1] = -1;
        }
        bytes.fill_f64(&mut record.times)?;
        Some(Step::Record(record))
    })
}
