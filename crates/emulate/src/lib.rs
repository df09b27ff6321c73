//! The emulated slow tier: a FUSE pass-through with drawn latencies, a bandwidth cap and faults.
//!
//! # Contract
//! - Bytes, sizes, times, modes and inode numbers are the source's, unless a fault says otherwise.
//! - Delays are drawn from seeded distributions as a function of (seed, order of arrival), so a
//!   run with the same requests in the same order replays.
//! - A request that sleeps holds no thread; requests are bounded by `max_in_flight`.
//! - Every wait ends: hangs have a longest time, and an unmount answers whatever waits.
//!
//! # Parts
//! [`tree`] serves a folder by node numbers and knows nothing of delays; [`delay`] is the
//! emulated server and knows nothing of FUSE; [`draw`] holds the distributions; [`control`]
//! adjusts a mount while it runs; [`simulate`] works out what a profile does to a training loop.
//!
//! `docs/EMULATE.md` describes the profiles and where their figures come from.
#![forbid(unsafe_code)]

mod attributes;
pub mod control;
pub mod delay;
pub mod draw;
mod error;
pub mod fault;
mod folder;
mod fs;
pub mod glob;
mod mount;
pub mod profile;
mod server;
pub mod simulate;
pub mod stats;
pub mod trace;
pub mod tree;

pub use control::{Command, Control, Status};
pub use error::{Error, Result};
pub use fault::{FaultClass, FaultKind, FaultRule};
pub use forebay_fuse::MountError;
pub use mount::{EmulateOptions, Emulated, serve, spawn};
pub use profile::{BUILT_IN, Profile, ProfileSettings};
