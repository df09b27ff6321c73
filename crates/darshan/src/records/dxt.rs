//! DXT: every single read and write, by file and rank.

use serde::Serialize;

use super::Step;
use crate::bytes::{Bytes, text};
use crate::module::Module;

/// All reads and writes of one file by one rank.
#[derive(Clone, Debug, PartialEq)]
pub struct DxtRecord {
    /// Stands for the file's name.
    pub id: u64,
    /// The rank.
    pub rank: i64,
    /// The machine.
    pub host: String,
    /// The writes, in the order of the log.
    pub writes: Vec<Segment>,
    /// The reads, in the order of the log.
    pub reads: Vec<Segment>,
}

/// One read or write.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Segment {
    /// Where in the file, in bytes; `None` where the version did not keep it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offset: Option<i64>,
    /// How many bytes.
    pub bytes: i64,
    /// Begin, in seconds from the start of the job.
    pub start_s: f64,
    /// End, likewise.
    pub end_s: f64,
    /// The thread, where the version kept it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thread: Option<u64>,
}

const HOST_BYTES: usize = 64;

/// A reader of records of a version of `DXT_POSIX` or `DXT_MPIIO`; `None` for a version that is
/// not known.
pub(crate) fn reader(
    module: Module,
    version: u32,
) -> Option<impl Fn(&mut Bytes<'_>) -> Option<Step<DxtRecord>>> {
    let (has_offsets, has_threads) = match (module, version) {
        (Module::DxtPosix, 1) | (Module::DxtMpiio, 2) => (true, false),
        (Module::DxtPosix, 2) | (Module::DxtMpiio, 3) => (true, true),
        // It wrote offsets that mean nothing.
        (Module::DxtMpiio, 1) => (false, false),
        _ => return None,
    };
    Some(move |bytes: &mut Bytes<'_>| {
        let (id, rank) = (bytes.u64()?, bytes.i64()?);
        bytes.i64()?;
        let host = text(bytes.take(HOST_BYTES)?);
        let writes = usize::try_from(bytes.i64()?).ok()?;
        let reads = usize::try_from(bytes.i64()?).ok()?;
        let mut segments = |count: usize| {
            let size = if has_threads { 40 } else { 32 };
            // Checked before anything is made for them.
            if count.checked_mul(size)? > bytes.len() {
                return None;
            }
            let one = |_| segment(bytes, has_offsets, has_threads);
            (0..count).map(one).collect::<Option<Vec<Segment>>>()
        };
        Some(Step::Record(DxtRecord {
            id,
            rank,
            host,
            writes: segments(writes)?,
            reads: segments(reads)?,
        }))
    })
}

fn segment(bytes: &mut Bytes<'_>, has_offset: bool, has_thread: bool) -> Option<Segment> {
    let offset = bytes.i64()?;
    Some(Segment {
        offset: has_offset.then_some(offset),
        bytes: bytes.i64()?,
        start_s: bytes.f64()?,
        end_s: bytes.f64()?,
        thread: if has_thread { Some(bytes.u64()?) } else { None },
    })
}
