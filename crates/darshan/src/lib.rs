//! Logs of the [Darshan](https://www.mcs.anl.gov/research/projects/darshan/) I/O profiler.
//!
//! # Contract
//! [`Log::read`] takes the bytes of a log and gives its job, mounts, file names and records. It
//! reads every released format, 3.00, 3.10, 3.20, 3.21 and 3.41, of either byte order, with zlib,
//! bzip2 or no compression. The modules POSIX (versions 1 to 4), STDIO, LUSTRE, HEATMAP,
//! `DXT_POSIX` and `DXT_MPIIO` are read; every other module of the log is listed by its name.
//! Records of older versions are brought into the form of the newest.
//!
//! # Invariants
//! - *As far as it goes*: a log that is cut short, damaged or that ran out of memory while it was
//!   written gives what can be read, and a [`Fault`] for each thing that is missing. What is
//!   there is never made up: a record is whole or absent.
//! - *Bounded*: what is decompressed and how many records are kept have [`Limits`].
//! - *Any bytes will do*: no input leads to a panic.
//!
//! # What a log cannot say
//! Darshan wraps open, creat, read, write, lseek, stat, mmap, fsync, close and rename. It sees no
//! statx, no `stat` of glibc 2.33 and later, no readdir, `io_uring` or page fault of a mapped file.
//! Past its limits it drops records and says so with a flag, which is [`Fault::Partial`] here.
//!
//! ```no_run
//! let bytes = std::fs::read("app.darshan")?;
//! let log = forebay_darshan::Log::read(&bytes)?;
//! for record in &log.posix {
//!     let name = log.name(record.id).unwrap_or("?");
//!     println!("{name}: {} s of reads", record.read_s());
//! }
//! for fault in &log.faults {
//!     eprintln!("{fault}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod bytes;
mod error;
mod header;
mod job;
mod log;
mod module;
mod names;
pub mod records;
mod region;
mod serial;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;

pub use error::{DarshanError, Fault, Region};
pub use header::{ByteOrder, Compression, Version};
pub use job::{Job, Mount};
pub use log::{Limits, Log};
pub use module::{Module, ModuleState, ModuleSummary};
pub use records::{DxtRecord, HeatmapRecord, LustreRecord, PosixRecord, StdioRecord};

/// Whether the bytes begin as a log of any version does, so that other files can be told apart
/// before they are read whole. 16 bytes are enough.
#[must_use]
pub fn is_log(start: &[u8]) -> bool {
    header::order(start).is_some()
}
