//! HEATMAP: bytes read and written over time, by interface and rank.

use super::Step;
use crate::bytes::Bytes;

/// Bytes that one rank moved over time.
#[derive(Clone, Debug, PartialEq)]
pub struct HeatmapRecord {
    /// Stands for the interface: the name of the record is `heatmap:POSIX` or the like.
    pub id: u64,
    /// The rank.
    pub rank: i64,
    /// Length of a bin, in seconds.
    pub bin_s: f64,
    /// Bytes written in each bin, from the start of the job on.
    pub written: Vec<i64>,
    /// Bytes read in each bin.
    pub read: Vec<i64>,
}

/// A reader of records of a version; `None` for a version that is not known.
pub(crate) fn reader(
    version: u32,
) -> Option<impl Fn(&mut Bytes<'_>) -> Option<Step<HeatmapRecord>>> {
    (version == 1).then_some(|bytes: &mut Bytes<'_>| {
        let (id, rank, bin_s) = (bytes.u64()?, bytes.i64()?, bytes.f64()?);
        let bins = usize::try_from(bytes.i64()?).ok()?;
        // The writer's memory as it was: two pointers, which mean nothing in a file.
        bytes.take(16)?;
        Some(Step::Record(HeatmapRecord {
            id,
            rank,
            bin_s,
            written: bytes.i64s(bins)?,
            read: bytes.i64s(bins)?,
        }))
    })
}
