//! In the trainer's process: reads samples from the node's cache.
//!
//! # Contract
//! - A read that succeeds returns the bytes that the origin held when it was indexed.
//! - What is resident is read without a message to anyone. What is not is asked of the node's
//!   daemon, and what that cannot give is read from the origin here.
//! - No threads and no async runtime; safe in threads and in children of `fork`.
//!
//! # Deadlines
//! A wait for the daemon ends at the deadline of the data set. A read that this process makes of
//! the origin itself, because there is no daemon or no room, lasts as long as the kernel's own
//! read of that file system.
#![deny(unsafe_code)]

mod answers;
mod at_origin;
mod dataset;
mod error;
mod files;
mod guest;
mod layout;
mod link;
mod node;
mod own_stream;
mod parts;
mod per_process;
mod published;
mod read;
mod shards;
#[allow(unsafe_code)]
mod sys;
mod view;

pub use answers::{Answered, answered};
pub use dataset::{Dataset, OpenOptions};
pub use error::ClientError;
pub use files::FileRange;
pub use forebay_wire::PublishedFile;
pub use guest::GuestRead;
pub use layout::{FIELD_ALIGN, FieldPlace};
pub use link::{DaemonCommand, on_signal, prepare_thread, status, stop};
pub use published::{Published, Publisher};
pub use view::FieldBytes;
