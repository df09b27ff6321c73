//! What the processes of one node share through its cache device: the block file of a shard, the
//! residency map that says which of its blocks can be read, and the stamps of their last use.
//!
//! The daemon writes block files and maps; clients map them read-only and send no message for
//! what is resident.
//!
//! # Contract
//! [`SharedShard::read`] either fills all of its output with the bytes that were published for
//! the range, or says [`ReadOutcome::Absent`]. It never returns bytes of a block that was being
//! evicted meanwhile.
//!
//! # Invariants
//! - *Bytes before bit*: a resident bit is set only by spending a [`Landed`], which only a
//!   completed write or a matching checksum makes.
//! - *Clear, count, punch*: the evictor clears the bits, raises the eviction counter, and only
//!   then punches the hole, so a reader that met the hole sees the counter move.
//! - *Fixed size*: map and stamps are allocated in full when made and never change length; block
//!   files are never mapped for writing and never truncated.
//!
//! The layout is in `docs/FORMAT.md`.
#![deny(unsafe_code)]

mod block_file;
mod fork;
mod handed;
mod hold;
mod layout;
mod map;
mod node;
mod plan_file;
pub mod protocol;
mod shared;
mod stamps;
mod summed;
#[allow(unsafe_code)]
mod sys;

pub use block_file::{BlockFile, Landed};
pub use fork::fork_generation;
pub use handed::{HandedMemory, HandedPart, TakenMemory};
pub use hold::{EvictLock, Hold};
pub use layout::{LayoutError, MapIdentity, MapLayout, ShardPaths};
pub use map::{MapError, ResidencyMap};
pub use node::NodePaths;
pub use plan_file::{Place as PlanPlace, PlanFile, PlanFileError};
pub use shared::{ReadOutcome, SharedShard, View};
pub use stamps::{BLOCKS_PER_STAMP, Counter, Stamps, now_ticks};
pub use summed::{SummedBlocks, block_checksum};
pub use sys::raise_open_file_limit;
