//! The emulated slow tier: a FUSE pass-through with drawn latencies, a bandwidth cap and faults.
pub mod delay;
pub mod draw;
mod error;
pub mod fault;
pub mod glob;
pub mod profile;
pub use error::{Error, Result};
