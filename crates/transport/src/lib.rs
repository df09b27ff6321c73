//! Links between the daemons of a job.
//!
//! A [`Caller`] keeps one link to one peer: it dials, proves the job's secret, sends asks, hands
//! what arrives to whoever waits for it, notices that the peer has fallen silent, and dials again.
//! The other side [`accept`]s a link and answers through a [`LinkWriter`], which sends the bytes of
//! files without a copy through user space. Where both have a [`Fabric`] the other side may lend
//! blocks instead, which the caller reads out of its memory.
//!
//! # Contract
//! Every ask ends: with the peer's last answer, or with [`Outcome::Lost`] at the latest when the
//! peer was silent for the time set. An answer that is lost is never taken for another's.
//!
//! # Invariants
//! - *Proof first*: nothing but a preamble is read from, and nothing told to, one who has not
//!   proved the secret. The proof is mutual and cannot be played back.
//! - *Bounded*: frames, bodies, asks in flight and the time of a proof have limits.
//! - *Whole frames*: a link on which a part of a frame was sent or read is closed.
//!
//! What a link carries after the proof is encrypted only where [`SocketPlan::encrypts`] says so: see
//! `docs/adr/0007-links.md`.
#![forbid(unsafe_code)]

mod caller;
mod error;
mod fabric;
mod handshake;
mod link;
mod patience;
mod sealed;
mod secret;
mod socket;

pub use caller::{
    Arrivals, Arrived, Bytes, Call, Caller, CallerPlan, Ended, FabricState, Landing, LinkState,
    Outcome,
};
pub use error::LinkError;
pub use fabric::{Fabric, FabricError, FabricPlan, Loan, Loans};
pub use forebay_libfabric::{Label, TrafficClass};
pub use handshake::accept;
pub use link::{LinkReader, LinkWriter};
pub use patience::{Look, Patience};
pub use secret::{Secret, SecretError};
pub use socket::{Listening, SocketPlan};
