//! Finds samples where they lie, and rewrites them where they cannot be read by one range.
//!
//! # Contract
//! [`index`] reads the structure of files (HDF5, archives, arrays, or only the names of others) and
//! writes one index file that says where every sample lies. [`flatten`] copies the samples of an index, decoded,
//! into packed shards with an index of their own. Both outputs are complete or absent. [`verify`]
//! compares an index with the files that it describes.
//!
//! # Invariants
//! - *Never a wrong byte*: a feature that is not understood is refused by name, with the file and
//!   the data set. Nothing is read as zeros that the file does not say is zero.
//! - *Unchanged files*: a file that changes while it is read is an error.
//! - *Bounded*: a damaged or hostile file ends in an error, not in a panic, a hang or an
//!   allocation beyond its own size.
//! - *Deterministic*: the same files and request give the same samples in the same order.
#![forbid(unsafe_code)]

mod assemble;
mod detect;
mod error;
mod export;
mod extents;
mod files;
mod flatten;
mod format;
mod formats;
mod glob;
mod groups;
mod h5;
mod index;
mod inspect;
mod join;
mod listing;
mod manifest;
mod merge;
mod objects;
mod output;
mod parts;
mod parts_folder;
mod pattern;
mod plan;
mod progress;
mod request;
mod rows;
mod saved;
mod scan;
mod source;
mod superblock;
mod tree;
mod walk;
mod whole_tree;

pub use error::IndexerError;
pub use export::{ExportRequest, export};
pub use flatten::{FlattenRequest, FlattenSource, FlattenSummary, flatten};
pub use format::Format;
pub use index::{IndexSummary, index};
pub use inspect::{SampleReader, VerifyReport, VerifyRequest, verify};
pub use merge::{MergeRequest, merge};
pub use pattern::{Pattern, SampleRule};
pub use progress::{Progress, Stage};
pub use request::IndexRequest;
pub use tree::Labels;
pub use whole_tree::{TreeRequest, TreeSummary, index_tree};
