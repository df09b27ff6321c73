//! Records of the modules that are read. `-1` in a counter means that it was not watched.

pub mod dxt;
pub mod heatmap;
pub mod lustre;
pub mod posix;
pub mod stdio;

pub use dxt::DxtRecord;
pub use heatmap::HeatmapRecord;
pub use lustre::LustreRecord;
pub use posix::PosixRecord;
pub use stdio::StdioRecord;

/// Rank of a record that stands for all ranks of an MPI job.
pub const SHARED: i64 = -1;

/// What one attempt to read a record gave.
pub(crate) enum Step<T> {
    Record(T),
    /// A whole record that cannot be kept.
    LeftOut,
}

/// What the reading of a module's records leaves.
pub(crate) struct Decoded<T> {
    pub(crate) records: Vec<T>,
    pub(crate) left_out: usize,
    /// Bytes at the end that make no whole record.
    pub(crate) left_over: usize,
    /// Whether `limit` ended it.
    pub(crate) is_full: bool,
}

/// Reads records until the bytes or `limit` end.
pub(crate) fn decode<T>(
    mut bytes: crate::bytes::Bytes<'_>,
    limit: usize,
    mut next: impl FnMut(&mut crate::bytes::Bytes<'_>) -> Option<Step<T>>,
) -> Decoded<T> {
    let mut decoded = Decoded {
        records: Vec::new(),
        left_out: 0,
        left_over: 0,
        is_full: false,
    };
    while bytes.len() > 0 {
        if decoded.records.len() + decoded.left_out == limit {
            decoded.is_full = true;
            break;
        }
        let before = bytes.len();
        match next(&mut bytes) {
            Some(Step::Record(record)) => decoded.records.push(record),
            Some(Step::LeftOut) => decoded.left_out += 1,
            None => {
                decoded.left_over = before;
                break;
            }
        }
    }
    decoded
}
