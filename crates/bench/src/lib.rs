//! The storage suite: benchmarks that do to a file system what AI research does.
//!
//! # Contract
//! - A run makes files in its own work folder only, and removes that folder only; links are never
//!   followed ([`WorkFolder`]).
//! - Whatever happens, each rank has a manifest: of what it measured, or of why it failed. A rank
//!   that is killed or never comes has one that another process wrote.
//! - Every wait ends: at the run's deadline, with an error that names who is missing.
//! - A benchmark passes only if all that it wrote or read was compared and found right.
//!
//! # Invariants
//! - *Only storage is timed*: content is made, files are set up and things are compared while no
//!   clock runs.
//! - *Nothing is summarised at capture*: every operation's time is kept; warm-ups are not.
//! - *What was cold is said*: residency in the page cache is measured and not assumed.
//! - *Bounded*: samples, names and content have limits that are checked before a run starts.
//!
//! # Parts
//! [`Workload`] and [`Registration`] are what a benchmark is; the suite's own are in `workloads`.
//! [`rank`] does the iterations of one rank; [`launch`] starts ranks and watches over them;
//! [`meet`] brings them together; [`plan`] settles a run from what was asked for.
#![deny(unsafe_code)]

mod cache;
mod client;
pub mod content;
mod error;
pub mod facts;
pub mod files;
mod folder;
pub mod launch;
mod measure;
pub mod meet;
pub mod names;
mod params;
pub mod place;
pub mod plan;
pub mod profile;
mod program;
pub mod python;
pub mod rank;
pub mod spec;
mod stop;
#[allow(unsafe_code)]
mod sys;
mod work;
mod workload;
mod workloads;

pub use error::{BenchError, Result};
pub use folder::Folder;
pub use forebay_analysis::suite::{Manifest, Verify};
pub use launch::run_alone;
pub use measure::{Lap, Op, Recorder};
pub use params::{Kind, Param, Params};
pub use stop::Stop;
pub use work::{MARKER, WorkFolder};
pub use workload::{Registration, Registry, Stage, Work, Workload};
