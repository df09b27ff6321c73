//! Where the nodes of a job find each other.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use thiserror::Error;

/// Nodes that do not find each other.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum MeetingError {
    /// The folder cannot be used.
    #[error("cannot use rendezvous folder `{folder}`: {source}")]
    Folder {
        /// The folder.
        folder: String,
        /// Why.
        source: io::Error,
    },
    /// etcd cannot be used.
    #[error("cannot use etcd at `{endpoint}`: {what}")]
    Etcd {
        /// `HOST:PORT`.
        endpoint: String,
        /// Why.
        what: String,
    },
    /// Not all came.
    #[error("only {found} of {wanted} nodes came to `{place}` in {waited:?}")]
    Missing {
        /// Where they should have come.
        place: String,
        /// How many came.
        found: usize,
        /// How many there should be.
        wanted: usize,
        /// How long it was waited.
        waited: Duration,
    },
    /// More came than there should be.
    #[error("{found} nodes came to `{place}`, which is for {wanted}: use a new place for each run")]
    TooMany {
        /// Where they came.
        place: String,
        /// How many came.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
}

/// A node's place among the others, given up on drop.
pub trait Meeting {
    /// Waits until `nodes` have come, up to `limit`, and returns the addresses of those that have,
    /// in order.
    ///
    /// # Errors
    /// [`MeetingError`] if the place cannot be used.
    fn come(&self, nodes: usize, limit: Duration) -> Result<Vec<String>, MeetingError>;

    /// Says that this node needs the others no more, and waits until none of the `nodes` does, up to
    /// `limit`. True if none does.
    ///
    /// # Errors
    /// [`MeetingError`] if the place cannot be used.
    fn done(&self, nodes: usize, limit: Duration) -> Result<bool, MeetingError>;

    /// Where it is, in words.
    fn place(&self) -> String;

    /// File with the job's secret, if the place has one.
    ///
    /// # Errors
    /// [`MeetingError`] if it cannot be made.
    fn secret(&self) -> Result<Option<PathBuf>, MeetingError> {
        Ok(None)
    }

    /// The addresses of all `nodes`.
    ///
    /// # Errors
    /// [`MeetingError`] if they have not come within `limit`, or are too many.
    fn members(&self, nodes: usize, limit: Duration) -> Result<Vec<String>, MeetingError> {
        let members = self.come(nodes, limit)?;
        match members.len() {
            found if found < nodes => Err(MeetingError::Missing {
                place: self.place(),
                found,
                wanted: nodes,
                waited: limit,
            }),
            found if found > nodes => Err(MeetingError::TooMany {
                place: self.place(),
                found,
                wanted: nodes,
            }),
            _ => Ok(members),
        }
    }
}
