//! Which nodes a job has, and where their daemons are.
//!
//! Reading what is said ([`Said`]), what a launcher leaves in the environment ([`Job`]) and lists of
//! hosts ([`hosts`]) is pure. [`Meeting`]s are the part that touches files and
//! sockets: a [`Rendezvous`] in a folder, an [`EtcdMeeting`].
//!
//! # Contract
//! Every node of a job comes to the same set of members, or to an error that says what is missing.
//! No wait is without end.
#![forbid(unsafe_code)]

mod etcd;
mod heartbeat;
mod hostlist;
mod job;
mod meeting;
mod rendezvous;
mod said;

pub use etcd::{EtcdMeeting, EtcdNames, NameEntry};
pub use hostlist::{HostListError, hosts};
pub use job::{Job, JobError, Launcher};
pub use meeting::{Meeting, MeetingError, Watch, watch};
pub use rendezvous::{Rendezvous, make_secret};
pub use said::Said;
