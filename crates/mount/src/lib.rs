//! A read-only mount of a folder or a data set: names and attributes from its manifest, bytes from
//! the node's cache.
//!
//! # Contract
//! - What `readdir`, `stat` and `readlink` answer is in memory: the origin is not asked.
//! - Bytes are those that the origin had when the manifest was made, or an error: `ESTALE` where
//!   the origin changed, `ETIMEDOUT` past the deadline.
//! - Nothing can be written: `EROFS`.
//! - A file that is resident as a whole is read by the kernel itself (passthrough) where this
//!   process may ask for that. Its blocks stay in place while it is open.
//!
//! # Bounds
//! Reads that wait hold a thread each, at most [`MountOptions::readers`]; more of them wait their
//! turn, and then the kernel waits. A wait ends at the deadline. Memory: 100 bytes and its name for
//! each file, a buffer of at most 1 MiB for each thread.
#![forbid(unsafe_code)]

mod ahead;
mod face;
mod manifest;
mod mount;
mod pool;
mod shown;

pub use manifest::{Manifest, find_manifest};
pub use mount::{Mount, MountFault, MountOptions, Served, serve, spawn};
