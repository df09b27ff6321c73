//! Where the nodes of a job find each other.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::Said;
use crate::etcd::EtcdWatch;
use crate::rendezvous::FolderWatch;

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

/// How often is looked who has come: a place may be on a file system that many nodes share.
const LOOK: Duration = Duration::from_millis(200);

/// Looks until so many are found, or the time is up: then those that are.
pub(crate) fn wait_for(
    nodes: usize,
    limit: Duration,
    find: impl Fn() -> Result<Vec<String>, MeetingError>,
) -> Result<Vec<String>, MeetingError> {
    let deadline = Instant::now() + limit;
    loop {
        let found = find()?;
        let left = deadline.saturating_duration_since(Instant::now());
        if found.len() >= nodes || left.is_zero() {
            return Ok(found);
        }
        std::thread::sleep(LOOK.min(left));
    }
}

/// Looks who has come to a place, again and again.
pub trait Watch: Send {
    /// The addresses of those who are there now, in order. One that has left is missing at once, one
    /// that has died some seconds later.
    ///
    /// # Errors
    /// [`MeetingError`] if the place cannot be looked at.
    fn members(&mut self) -> Result<Vec<String>, MeetingError>;
}

/// Watches the place of a [`Meeting`], from the node that has come there as `me`.
///
/// # Errors
/// Says which places there are, if it is none.
pub fn watch(place: &str, me: &str) -> Result<Box<dyn Watch>, String> {
    match Said::parse(place)? {
        Said::Folder(folder) => Ok(Box::new(FolderWatch::new(folder, me))),
        Said::Etcd { endpoint, prefix } => Ok(Box::new(EtcdWatch::new(&endpoint, &prefix))),
        _ => Err(format!("nobody comes or goes where members are `{place}`")),
    }
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

    /// Where it is, as [`watch`] takes it.
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
