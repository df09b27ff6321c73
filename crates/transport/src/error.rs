//! Why a link ended or never came to be.

use std::io;
use std::time::Duration;

use forebay_wire::WireError;
use thiserror::Error;

/// A link that is no more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum LinkError {
    /// The peer cannot be reached.
    #[error("cannot connect to `{address}`: {source}")]
    Connect {
        /// Its address.
        address: String,
        /// Why.
        source: io::Error,
    },
    /// The socket failed, or the peer closed it.
    #[error("link failed: {0}")]
    Io(#[from] io::Error),
    /// The peer said what this protocol does not have.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// The other side does not have this job's secret, or is no daemon.
    #[error("the other side did not prove that it has the secret of this job")]
    Unproven,
    /// The peer will not talk to this member.
    #[error("refused: {0}")]
    Refused(String),
    /// Nothing came for too long.
    #[error("the peer was silent for {0:?}")]
    Silent(Duration),
    /// The peer sent what nobody asked for.
    #[error("the peer sent blocks that were not asked for")]
    Unasked,
}
