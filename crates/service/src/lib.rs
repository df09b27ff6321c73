//! The node daemon: one for each user and cache folder. Clients ask it to make ranges resident.
//!
//! # Contract
//! A trainer never depends on it being alive: what is resident is read without it, and what is
//! not can be read from the origin.
//!
//! # Invariants
//! - *One*: the daemon holds a lock on its folder for as long as it lives.
//! - *Bounded*: links, threads, queued jobs and frame sizes have limits; what is over a limit is
//!   refused with a reason.
#![deny(unsafe_code)]

mod bridge;
mod clock;
mod daemon;
mod follow;
mod link;
mod lock;
mod names;
mod origins;
mod pace;
mod peers;
mod pool;
mod settings;
#[cfg(test)]
mod simulation;
mod stage;
mod stager;
mod status;
#[cfg(test)]
mod testing;

pub use daemon::{Outside, ServeError, Served, serve};
pub use follow::Roll;
pub use forebay_wire::PublishedFile;
pub use names::{Kept, NameDirectory, OpenDirectory};
pub use settings::{
    PeersPlan, PlanError, ServePlan, ServeSettings, Source, Transport, parse_bytes,
};
