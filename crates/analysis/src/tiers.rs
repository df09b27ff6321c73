//! Where the I/O time of processes goes, by tier and kind of operation.
//!
//! # The table
//! [`ClassTable`] is `T[process][class]`: for each process, in each epoch where epochs can be
//! told apart, the seconds that it spent in each [`Class`] of I/O. It is made from Darshan logs,
//! from `io` records of a live run or from those of a sweep, and everything later is a pure
//! function of it: the slowest process, what a gain in one class would give, the goal's frontier.
//!
//! # The study
//! [`Study`] is what a record file holds: for each *setup* (data set and state of the tiers) a
//! list of [`Point`]s, one for each cache rate, each with its table and the wall time of its
//! epochs. A file without rates has one point of rate `None`.
//!
//! ```
//! use forebay_analysis::tiers::{Class, ClassTable};
//!
//! let mut table = ClassTable::builder();
//! table.add("rank 0", Some(1), &Class::GFS_READ, 2.0)?;
//! table.add("rank 0", Some(1), &Class::GFS_META, 1.0)?;
//! table.add("rank 1", Some(1), &Class::LFS_READ, 2.5)?;
//! table.add_other("rank 1", Some(1), 9.0)?;
//! let table = table.finish();
//!
//! // `other` is listed, and is no part of a process's I/O time.
//! let slowest = table.slowest(Some(1)).expect("the epoch has processes");
//! assert_eq!((slowest.process(), slowest.total_s()), ("rank 0", 3.0));
//! assert_eq!(table.classes(), [Class::GFS_READ, Class::GFS_META, Class::LFS_READ]);
//! assert_eq!(slowest.seconds(), [2.0, 1.0, 0.0]);
//! # Ok::<(), forebay_analysis::tiers::TableError>(())
//! ```

mod class;
pub mod darshan;
pub mod plan;
mod study;
mod summary;
mod table;
#[cfg(test)]
mod tests;
pub mod whatif;

pub use class::{Class, ClassError};
pub use study::{JoinError, Point, Rate, Setup, Study};
pub use summary::{Slowest, Summary};
pub use table::{ClassTable, MAX_CLASSES, MAX_ROWS, Named, Row, TableBuilder, TableError};
