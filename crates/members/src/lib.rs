//! Which nodes a job has, and where their daemons are.
//!
//! Reading what is said ([`Said`]), what a launcher leaves in the environment ([`Job`]) and lists of
//! hosts ([`hosts`]) is pure. [`Rendezvous`] is the part that touches files.
//!
//! # Contract
//! Every node of a job comes to the same set of members, or to an error that says what is missing.
//! No wait is without end.
#![forbid(unsafe_code)]

mod hostlist;
mod job;
mod rendezvous;
mod said;

pub use hostlist::{HostListError, hosts};
pub use job::{Job, JobError, Launcher};
pub use rendezvous::{Rendezvous, RendezvousError, make_secret};
pub use said::Said;
