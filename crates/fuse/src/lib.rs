//! What the FUSE mounts share: the life of a mount, and buffers for its reads.
//!
//! # Contract
//! - A mount that cannot work is refused in words, before anything is mounted.
//! - An end never waits for good: programs that still use the mount get errors.
#![forbid(unsafe_code)]

mod buffer;
mod error;
mod mount;
mod mount_table;

pub use buffer::{LONGEST_READ, with_buffer};
pub use error::MountError;
pub use mount::{EndSignals, MountSettings, Mounted, check_mount_point, mount};
pub use mount_table::{candidates, device_of};
