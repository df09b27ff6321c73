//! Stores of objects as origins: S3, Google Cloud Storage, Azure Blob Storage, web servers.
//!
//! # Contract
//! [`ObjectStores`] opens what `forebay_origin::Stores` promises, on top of the crate
//! `object_store`. Credentials and addresses come from the variables it is given, those of the
//! environment as a rule; `docs/ORIGINS.md` lists them.
//!
//! # Invariants
//! - *One version*: each answer's own entity tag is compared with the fingerprint, before any of
//!   its bytes count; another version is an error.
//! - *Deadlines*: a call ends after the time that the settings say, however often it is tried in
//!   it and whatever the store does.
//! - *Bounded*: no more of an answer is kept than was asked for; of an error's words, 64 KiB.
//!
//! Calls block. The network is driven by a few threads of one runtime that starts with the first
//! store; only the daemon and the `forebay` command link this crate, never a process that trains.
#![forbid(unsafe_code)]

mod answer;
mod connector;
mod credentials;
mod fault;
mod marked;
mod open;
mod settings;
mod store;

pub use credentials::credentials;
pub use fault::way_out;
pub use settings::StoreSettings;
pub use store::ObjectStores;
