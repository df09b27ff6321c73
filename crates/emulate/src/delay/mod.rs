//! The delay engine: an emulated server that answers each request after its drawn time.
//!
//! It knows nothing of FUSE. [`Queue`] is the server's state under a clock that the caller
//! passes in; [`Engine`] runs it with real time and a small pool of threads.

mod bucket;
mod engine;
mod periods;
mod queue;

pub use bucket::Bucket;
pub use engine::{Engine, Job, Outcome};
pub use periods::Periods;
pub use queue::{Depth, Due, OpClass, Queue, Request, Timing};
