//! POSIX: open, read, write, stat and their kin, by file and rank.

use super::Step;
use crate::bytes::Bytes;

/// Names of the counters, in the order of [`PosixRecord::counters`].
pub const COUNTERS: [&str; 69] = [
    "OPENS",
    "FILENOS",
    "DUPS",
    "READS",
    "WRITES",
    "SEEKS",
    "STATS",
    "MMAPS",
    "FSYNCS",
    "FDSYNCS",
    "RENAME_SOURCES",
    "RENAME_TARGETS",
    "RENAMED_FROM",
    "MODE",
    "BYTES_READ",
    "BYTES_WRITTEN",
    "MAX_BYTE_READ",
    "MAX_BYTE_WRITTEN",
    "CONSEC_READS",
    "CONSEC_WRITES",
    "SEQ_READS",
    "SEQ_WRITES",
    "RW_SWITCHES",
    "MEM_NOT_ALIGNED",
    "MEM_ALIGNMENT",
    "FILE_NOT_ALIGNED",
    "FILE_ALIGNMENT",
    "MAX_READ_TIME_SIZE",
    "MAX_WRITE_TIME_SIZE",
    "SIZE_READ_0_100",
    "SIZE_READ_100_1K",
    "SIZE_READ_1K_10K",
    "SIZE_READ_10K_100K",
    "SIZE_READ_100K_1M",
    "SIZE_READ_1M_4M",
    "SIZE_READ_4M_10M",
    "SIZE_READ_10M_100M",
    "SIZE_READ_100M_1G",
    "SIZE_READ_1G_PLUS",
    "SIZE_WRITE_0_100",
    "SIZE_WRITE_100_1K",
    "SIZE_WRITE_1K_10K",
    "SIZE_WRITE_10K_100K",
    "SIZE_WRITE_100K_1M",
    "SIZE_WRITE_1M_4M",
    "SIZE_WRITE_4M_10M",
    "SIZE_WRITE_10M_100M",
    "SIZE_WRITE_100M_1G",
    "SIZE_WRITE_1G_PLUS",
    "STRIDE1_STRIDE",
    "STRIDE2_STRIDE",
    "STRIDE3_STRIDE",
    "STRIDE4_STRIDE",
    "STRIDE1_COUNT",
    "STRIDE2_COUNT",
    "STRIDE3_COUNT",
    "STRIDE4_COUNT",
    "ACCESS1_ACCESS",
    "ACCESS2_ACCESS",
    "ACCESS3_ACCESS",
    "ACCESS4_ACCESS",
    "ACCESS1_COUNT",
    "ACCESS2_COUNT",
    "ACCESS3_COUNT",
    "ACCESS4_COUNT",
    "FASTEST_RANK",
    "FASTEST_RANK_BYTES",
    "SLOWEST_RANK",
    "SLOWEST_RANK_BYTES",
];

/// Names of the floating point counters, in the order of [`PosixRecord::times`]. Times are in
/// seconds; timestamps count from the start of the job.
pub const TIMES: [&str; 17] = [
    "OPEN_START_TIMESTAMP",
    "READ_START_TIMESTAMP",
    "WRITE_START_TIMESTAMP",
    "CLOSE_START_TIMESTAMP",
    "OPEN_END_TIMESTAMP",
    "READ_END_TIMESTAMP",
    "WRITE_END_TIMESTAMP",
    "CLOSE_END_TIMESTAMP",
    "READ_TIME",
    "WRITE_TIME",
    "META_TIME",
    "MAX_READ_TIME",
    "MAX_WRITE_TIME",
    "FASTEST_RANK_TIME",
    "SLOWEST_RANK_TIME",
    "VARIANCE_RANK_TIME",
    "VARIANCE_RANK_BYTES",
];

/// What one rank did with one file, or all ranks together where the rank is
/// [`SHARED`](super::SHARED).
#[derive(Clone, Debug, PartialEq)]
pub struct PosixRecord {
    /// Stands for the file's name.
    pub id: u64,
    /// The rank; always 0 in jobs without MPI.
    pub rank: i64,
    /// Counters, named by [`COUNTERS`].
    pub counters: [i64; 69],
    /// Times and timestamps, named by [`TIMES`].
    pub times: [f64; 17],
}

impl PosixRecord {
    /// Times that the file was opened.
    #[must_use]
    pub fn opens(&self) -> i64 {
        self.counters[0]
    }

    /// Bytes that were read.
    #[must_use]
    pub fn bytes_read(&self) -> i64 {
        self.counters[14]
    }

    /// Bytes that were written.
    #[must_use]
    pub fn bytes_written(&self) -> i64 {
        self.counters[15]
    }

    /// The rank that took longest, in a shared record.
    #[must_use]
    pub fn slowest_rank(&self) -> i64 {
        self.counters[67]
    }

    /// First open, in seconds from the start of the job; 0 where the file was not opened.
    #[must_use]
    pub fn open_start_s(&self) -> f64 {
        self.times[0]
    }

    /// End of the last close, in seconds from the start of the job.
    #[must_use]
    pub fn close_end_s(&self) -> f64 {
        self.times[7]
    }

    /// Seconds of reads. In a shared record the sum over its ranks.
    #[must_use]
    pub fn read_s(&self) -> f64 {
        self.times[8]
    }

    /// Seconds of writes and fsync. In a shared record the sum over its ranks.
    #[must_use]
    pub fn write_s(&self) -> f64 {
        self.times[9]
    }

    /// Seconds of open, close, seek, stat and rename. In a shared record the sum over its ranks.
    #[must_use]
    pub fn meta_s(&self) -> f64 {
        self.times[10]
    }

    /// Seconds that the slowest rank took, in a shared record.
    #[must_use]
    pub fn slowest_rank_s(&self) -> f64 {
        self.times[14]
    }
}

/// A reader of records of a version; `None` for a version that is not known.
pub(crate) fn reader(version: u32) -> Option<impl Fn(&mut Bytes<'_>) -> Option<Step<PosixRecord>>> {
    let (counters, times) = match version {
        1 => (68, 15),
        2 => (64, 15),
        3 => (64, 17),
        4 => (69, 17),
        _ => return None,
    };
    Some(move |bytes: &mut Bytes<'_>| {
        let (id, rank) = (bytes.u64()?, bytes.i64()?);
        let counters = bytes.i64s(counters)?;
        let times = bytes.f64s(times)?;
        if version == 1 && counters[FOPENS] > 0 {
            return Some(Step::LeftOut);
        }
        Some(Step::Record(PosixRecord {
            id,
            rank,
            counters: newest_counters(version, counters).try_into().ok()?,
            times: newest_times(version, times).try_into().ok()?,
        }))
    })
}

/// Place of the count of `fopen` in version 1, the first of four that are now in STDIO. A record
/// that has any mixes both interfaces.
const FOPENS: usize = 6;

/// The counters as version 4 has them; what a version did not watch is -1.
fn newest_counters(version: u32, mut counters: Vec<i64>) -> Vec<i64> {
    if version == 1 {
        counters.drain(FOPENS..FOPENS + 4);
    }
    if version <= 3 {
        // FILENOS and DUPS, then RENAME_SOURCES, RENAME_TARGETS and RENAMED_FROM.
        counters.splice(1..1, [-1, -1]);
        counters.splice(10..10, [-1, -1, 0]);
    }
    counters
}

/// The times as version 4 has them. Before version 3 the end of the first and the start of the
/// last of several opens and closes were not kept.
fn newest_times(version: u32, mut times: Vec<f64>) -> Vec<f64> {
    if version <= 2 {
        times.splice(3..3, [-1.0, -1.0]);
    }
    times
}
