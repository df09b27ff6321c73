//! The benchmark of two tiers: the same data set on a global and a local file system, read at
//! every cache rate, with the I/O time of each process by class.
//!
//! # Contract
//! - A process reads its files of an epoch once each, from the local tier where the file is in the
//!   cached set and from the global one otherwise. The cached set is the same on every node, and
//!   raising the rate only adds files: pinning.
//! - Every file that is read is checked: its bytes are those that were made.
//! - Nothing is deleted but files that this benchmark made, and those only where it is asked to.
//! - Every wait for other processes ends: at the deadline, with an error that names who is missing.
//!
//! # Parts
//! Pure: [`settings`], [`dlio`], [`order`], [`mod@format`], [`place`]. With I/O: [`make`] writes data
//! sets, [`meet`] brings processes together, [`rank`] reads, [`results`] gathers.
#![forbid(unsafe_code)]

pub mod dlio;
mod error;
pub mod format;
mod load;
pub mod make;
pub mod meet;
pub mod order;
pub mod place;
pub mod rank;
pub mod results;
pub mod settings;

pub use error::{Result, SweepError};
pub use format::Format;
pub use order::Shuffle;
pub use settings::{DataSet, Sweep, SweepSettings};
