//! Fabrics that libfabric finds on this machine, and memory of others read over them.
//!
//! # Contract
//! The library is loaded when it is asked for, so that one build runs on machines with and without
//! it: a machine without is [`LoadError::NotFound`], a normal state. A provider that refuses says
//! why, in libfabric's words. A look ([`Libfabric::offers`]) opens, binds and sends nothing.
//!
//! A [`Lender`] has memory that others read, a [`Reader`] reads it. Each has an endpoint, queues and
//! a domain of its own, so one that failed is closed and the others are none the wiser. Nothing is
//! ever written into another's memory.
//!
//! # Invariants
//! - *Owned until it ends*: memory into which a read may still land is not read, reused or freed
//!   before the read has ended or its endpoint is closed; where closing fails it is never freed.
//! - *Bounded*: a read and a lender's wait for its provider have deadlines, and a reader has one
//!   read under way. A call that a provider does not come back from (opening and closing, which are
//!   one at a time) has none: libfabric knows no way to break it off.
//! - *Alone*: what belongs to one domain is used by one thread at a time.
//! - *Its own memory*: hints are made by the library that reads them, so that a later version, which
//!   appends fields, never reads past ours.
//! - *Known layout*: libfabric before 1.9, whose structures are shorter, is refused.
//! - *Loaded for good*: providers leave threads and handlers behind, so it is never unloaded.
#![deny(unsafe_code)]

mod address;
mod attributes;
mod class;
mod error;
mod known;
mod lender;
mod provider;
mod reader;
#[allow(unsafe_code)]
mod sys;

pub use address::Address;
pub use attributes::{Capabilities, Endpoint, MemoryModes, Version};
pub use class::{Label, TrafficClass};
pub use error::{LoadError, OpenError, QueryError, ReadError};
pub use known::{FAST, device_of, traffic_classes};
pub use lender::{Lender, LentMemory};
pub use provider::{Offer, Provider};
pub use reader::{Peer, Reader};
pub use sys::{Libfabric, Slot};

/// What is asked of a provider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// Whatever it has.
    Anything,
    /// What a link that moves blocks by remote reads needs: reliable datagram endpoints with
    /// messages and reads of the other side's memory.
    RemoteReads,
}

/// How an end is opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Way {
    /// The provider, such as `tcp` or `tcp;ofi_rxm`.
    pub provider: String,
    /// The class of what is sent, which is asked for and not confirmed; `None` leaves the provider's.
    pub class: Option<TrafficClass>,
    /// Host name or address of this side, for providers over IP; `None` takes the provider's first.
    pub source: Option<String>,
}
