//! Raw records in; statistics, tables and reports out.
//!
//! # Contract
//! This crate does no I/O of its own: it reads from the readers and writes to the writers and
//! strings that a caller passes. The code that measures writes raw records and summarises
//! nothing; whatever is said about a run is computed here, from those records alone.
//!
//! # Invariants
//! - *Nothing is guessed*: a line that breaks a rule is refused with its number. A kind of record
//!   or a field that this version does not know is counted and shown, never silently dropped.
//! - *No ratio without its baseline*: types that hold a ratio also hold both `n`, and only
//!   functions that were given both sides can make them.
//! - *Bounded*: the length of a line and the number of records, paths and epochs have limits.
//! - *Self-contained*: a report refers to nothing outside its own file.
//!
//! The records are described in `docs/RECORDS.md`.
//!
//! ```
//! use forebay_analysis::{Run, Window, report};
//!
//! let lines = r#"{"record":"manifest","tool":"demo","version":"1","started_unix_ns":0}
//! {"record":"iteration","path":"direct","epoch":1,"iteration":0,"rank":0,"wait_s":0.5,"total_s":0.7}"#;
//! let run = Run::read(lines.as_bytes())?;
//! let summary = run.summary(&Window::OwnEpoch, None);
//! assert_eq!(summary.epochs[0].over_window, 1);
//! let page = report::render(&run, &report::ReportOptions::default());
//! assert!(page.starts_with("<!DOCTYPE html>"));
//! # Ok::<(), forebay_analysis::RecordError>(())
//! ```
#![deny(unsafe_code)]

pub mod epochs;
pub mod fabric;
pub mod random;
pub mod record;
pub mod report;
mod run;
pub mod stats;
pub mod suite;
pub mod table;
#[cfg(test)]
mod testing;
mod text;
pub mod tiers;

pub use epochs::{Answers, EpochSummary, Speedup, Summary, Window};
pub use record::lines::MAX_LINE_BYTES;
pub use record::{Record, RecordError};
pub use run::{MAX_ITERATIONS, MAX_SERIES, Run, RunReader, Series, Unread};
