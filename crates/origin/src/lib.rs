//! The data set as it lies on shared storage: its index file and its segments.
//!
//! # Contract
//! Bytes come from a segment only while the file still has the fingerprint that the index
//! recorded; a changed file is [`OriginError::Stale`], never other bytes. Segments are files of any
//! mounted file system, or objects of a store behind [`Objects`], which this crate only names.
#![deny(unsafe_code)]

mod error;
mod index_file;
mod posix;
mod spent;
mod store;
#[allow(unsafe_code)]
mod sys;
#[cfg(feature = "testing")]
pub mod testing;
mod tree_file;
mod url;

pub use error::{OriginError, StoreFault};
pub use index_file::{IndexFile, map_index_file};
pub use posix::{PosixOrigin, fingerprint_of};
pub use spent::{Spent, spent};
pub use store::{Objects, Stores, open_origin};
pub use tree_file::{open_tree, tree_path};
pub use url::{Scheme, StoreUrl};

use forebay_dataset::{Fingerprint, SegmentIndex};

/// A segment to read from.
#[derive(Clone, Copy, Debug)]
pub struct SegmentRef<'a> {
    /// Position in the index.
    pub index: SegmentIndex,
    /// Path below the origin's root.
    pub path: &'a str,
    /// What the index recorded.
    pub fingerprint: Fingerprint,
}

/// Where the data set lives for good: read-only, shared and slow.
///
/// # Contract
/// - `read_at` fills all of `out` or fails; a short read is an error, never a partial success.
/// - Two successful reads of one range of one fingerprint return the same bytes.
/// - A read past the segment's recorded size is refused.
pub trait Origin: Send + Sync + std::fmt::Debug {
    /// Fills `out` from byte `offset` of the segment.
    fn read_at(
        &self,
        segment: SegmentRef<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError>;
}
