//! Which fabrics libfabric finds on this machine.
//!
//! # Contract
//! The library is loaded when it is asked for, so that one build runs on machines with and without
//! it: a machine without is [`LoadError::NotFound`], a normal state. A provider that refuses says
//! why, in libfabric's words. Nothing is opened, bound or sent.
//!
//! # Invariants
//! - *Its own memory*: hints are made by the library that reads them, so that a later version, which
//!   appends fields, never reads past ours.
//! - *Known layout*: libfabric before 1.9, whose structures are shorter, is refused.
//! - *Loaded for good*: providers leave threads and handlers behind, so it is never unloaded.
#![deny(unsafe_code)]

mod attributes;
mod error;
mod known;
mod provider;
#[allow(unsafe_code)]
mod sys;

pub use attributes::{Capabilities, Endpoint, MemoryModes, Version};
pub use error::{LoadError, QueryError};
pub use known::{device_of, traffic_classes};
pub use provider::{Offer, Provider};
pub use sys::Libfabric;

/// What is asked of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Whatever it has.
    Anything,
    /// What a link that moves blocks by remote reads would need: reliable datagram endpoints with
    /// messages and reads of the other side's memory.
    RemoteReads,
}
