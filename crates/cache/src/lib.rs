//! Bytes of origin shards that are kept on this node's own device.
//!
//! # Contract
//! A fill that succeeds leaves the asked blocks resident with the bytes that the origin held at
//! the recorded fingerprint, or says that there is no room for them. Any block may be absent at
//! any time: absence costs a fetch and is never an error.
//!
//! # Invariants
//! - *One flight*: at most one fill of a block is in progress in this process, and none of a
//!   block that is being evicted. A read that is late may be begun once more beside its flight;
//!   whichever ends first lands, once.
//! - *Bounded*: bytes allocated on the device for blocks, maps and stamps never exceed the
//!   capacity: room is reserved before anything is written.
//! - *No lock across I/O*: except those that serialise attaching a data set, making the files of
//!   its shards, evicting, and what changes one block file, as the file's own lock does anyway.
//!
//! Lock order: `attaching` and a data set's `making` before `evicting`, that before `dormant` and
//! `datasets`, those before a shard's `flights`, and none after its `landing`.
#![forbid(unsafe_code)]

mod attach;
mod budget;
mod buffer;
mod cache;
mod claim;
mod error;
mod evict;
mod fill;
mod flights;
mod future;
mod jobs;
mod metrics;
mod owned;
mod shard;

pub use budget::{Budget, Reservation};
pub use cache::{Cache, CachePlan, CachedDataset, Policy, Usage};
pub use claim::{Claim, Delivered, Lent};
pub use error::{AttachError, FillError};
pub use fill::Filled;
pub use future::{Future, NextUse, Unknown};
pub use jobs::{Job, jobs};
pub use metrics::{METRICS, Metric, MetricValue, Metrics};
pub use owned::Ownership;
pub use shard::Piece;
