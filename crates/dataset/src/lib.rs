//! What a data set is: geometry, shards, the sample index, and the decoding of stored samples.
//!
//! # Contract
//! Pure: nothing here opens a file or a socket, reads a clock or draws a random number. The index
//! is read from bytes that the caller mapped, and written through a `Write` that the caller made.
//!
//! # Invariants
//! - *Checked once*: a [`ByteRange`] is never empty and never overflows.
//! - *Hostile index*: no byte of an index file can cause a panic, an unbounded allocation or a
//!   read outside the map; it causes an [`IndexError`].
//! - *Never a wrong byte*: what cannot be decoded is refused by name, never returned as zeros.
//!
//! The file layout is in `docs/FORMAT.md`.
#![forbid(unsafe_code)]

pub mod decode;
mod dtype;
mod error;
mod geometry;
pub mod index;
mod placement;
mod shard;
pub mod tree;

pub use dtype::{ByteOrder, DType};
pub use error::{DTypeError, DecodeError, ErrorKind, IndexError, RangeError};
pub use geometry::{BlockSize, ByteRange};
pub use placement::{Member, Placement, PlacementError, Region, hash_of_members, keepers_of_name};
pub use shard::{Fingerprint, REGION_BYTES, SegmentIndex, ShardIndex, is_store_url};
