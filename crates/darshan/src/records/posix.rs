//! POSIX: open, read, write, stat and their kin, by file and rank.

use super::Step;
use crate::bytes::Bytes;

/// Names of the counters, in the order of [`PosixRecord::counters`].
pub const COUNTERS: [&str; 69] = [
    "POSIX_OPENS",
    "POSIX_FILENOS",
    "POSIX_DUPS",
    "POSIX_READS",
    "POSIX_WRITES",
    "POSIX_SEEKS",
    "POSIX_STATS",
    "POSIX_MMAPS",
    "POSIX_FSYNCS",
    "POSIX_FDSYNCS",
    "POSIX_RENAME_SOURCES",
    "POSIX_RENAME_TARGETS",
    "POSIX_RENAMED_FROM",
    "POSIX_MODE",
    "POSIX_BYTES_READ",
    "POSIX_BYTES_WRITTEN",
    "POSIX_MAX_BYTE_READ",
    "POSIX_MAX_BYTE_WRITTEN",
    "POSIX_CONSEC_READS",
    "POSIX_CONSEC_WRITES",
    "POSIX_SEQ_READS",
    "POSIX_SEQ_WRITES",
    "POSIX_RW_SWITCHES",
    "POSIX_MEM_NOT_ALIGNED",
    "POSIX_MEM_ALIGNMENT",
    "POSIX_FILE_NOT_ALIGNED",
    "POSIX_FILE_ALIGNMENT",
    "POSIX_MAX_READ_TIME_SIZE",
    "POSIX_MAX_WRITE_TIME_SIZE",
    "POSIX_SIZE_READ_0_100",
    "POSIX_SIZE_READ_100_1K",
    "POSIX_SIZE_READ_1K_10K",
    "POSIX_SIZE_READ_10K_100K",
    "POSIX_SIZE_READ_100K_1M",
    "POSIX_SIZE_READ_1M_4M",
    "POSIX_SIZE_READ_4M_10M",
    "POSIX_SIZE_READ_10M_100M",
    "POSIX_SIZE_READ_100M_1G",
    "POSIX_SIZE_READ_1G_PLUS",
    "POSIX_SIZE_WRITE_0_100",
    "POSIX_SIZE_WRITE_100_1K",
    "POSIX_SIZE_WRITE_1K_10K",
    "POSIX_SIZE_WRITE_10K_100K",
    "POSIX_SIZE_WRITE_100K_1M",
    "POSIX_SIZE_WRITE_1M_4M",
    "POSIX_SIZE_WRITE_4M_10M",
    "POSIX_SIZE_WRITE_10M_100M",
    "POSIX_SIZE_WRITE_100M_1G",
    "POSIX_SIZE_WRITE_1G_PLUS",
    "POSIX_STRIDE1_STRIDE",
    "POSIX_STRIDE2_STRIDE",
    "POSIX_STRIDE3_STRIDE",
    "POSIX_STRIDE4_STRIDE",
    "POSIX_STRIDE1_COUNT",
    "POSIX_STRIDE2_COUNT",
    "POSIX_STRIDE3_COUNT",
    "POSIX_STRIDE4_COUNT",
    "POSIX_ACCESS1_ACCESS",
    "POSIX_ACCESS2_ACCESS",
    "POSIX_ACCESS3_ACCESS",
    "POSIX_ACCESS4_ACCESS",
    "POSIX_ACCESS1_COUNT",
    "POSIX_ACCESS2_COUNT",
    "POSIX_ACCESS3_COUNT",
    "POSIX_ACCESS4_COUNT",
    "POSIX_FASTEST_RANK",
    "POSIX_FASTEST_RANK_BYTES",
    "POSIX_SLOWEST_RANK",
    "POSIX_SLOWEST_RANK_BYTES",
];

/// Names of the floating point counters, in the order of [`PosixRecord::times`]. Times are in
/// seconds; timestamps count from the start of the job.
pub const TIMES: [&str; 17] = [
    "POSIX_F_OPEN_START_TIMESTAMP",
    "POSIX_F_READ_START_TIMESTAMP",
    "POSIX_F_WRITE_START_TIMESTAMP",
    "POSIX_F_CLOSE_START_TIMESTAMP",
    "POSIX_F_OPEN_END_TIMESTAMP",
    "POSIX_F_READ_END_TIMESTAMP",
    "POSIX_F_WRITE_END_TIMESTAMP",
    "POSIX_F_CLOSE_END_TIMESTAMP",
    "POSIX_F_READ_TIME",
    "POSIX_F_WRITE_TIME",
    "POSIX_F_META_TIME",
    "POSIX_F_MAX_READ_TIME",
    "POSIX_F_MAX_WRITE_TIME",
    "POSIX_F_FASTEST_RANK_TIME",
    "POSIX_F_SLOWEST_RANK_TIME",
    "POSIX_F_VARIANCE_RANK_TIME",
    "POSIX_F_VARIANCE_RANK_BYTES",
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
        let mut record = PosixRecord {
            id: bytes.u64()?,
            rank: bytes.i64()?,
            counters: [0; 69],
            times: [0.0; 17],
        };
        bytes.fill_i64(&mut record.counters[..counters])?;
        bytes.fill_f64(&mut record.times[..times])?;
        if version == 1 && record.counters[FOPENS] > 0 {
            return Some(Step::LeftOut);
        }
        renew_counters(version, &mut record.counters);
        renew_times(version, &mut record.times);
        Some(Step::Record(record))
    })
}

/// Place of the count of `fopen` in version 1, the first of four that are now in STDIO. A record
/// that has any mixes both interfaces.
const FOPENS: usize = 6;

/// Brings the counters of an older version, which lie in front, to their places in version 4; what
/// a version did not watch is -1.
fn renew_counters(version: u32, counters: &mut [i64; 69]) {
    if version == 1 {
        counters.copy_within(FOPENS + 4..68, FOPENS);
    }
    if version <= 3 {
        // Behind OPENS and seven others, of which the first two are FILENOS and DUPS, come
        // RENAME_SOURCES, RENAME_TARGETS and RENAMED_FROM.
        counters.copy_within(8..64, 13);
        counters.copy_within(1..8, 3);
        counters[1..3].fill(-1);
        counters[10..13].copy_from_slice(&[-1, -1, 0]);
    }
}

/// Likewise the times. Before version 3 the end of the first and the start of the last of several
/// opens and closes were not kept.
fn renew_times(version: u32, times: &mut [f64; 17]) {
    if version <= 2 {
        times.copy_within(3..15, 5);
        times[3..5].fill(-1.0);
    }
}
