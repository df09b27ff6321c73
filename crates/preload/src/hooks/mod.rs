//! The calls themselves: each looks whether it is of interest, and else is what it was.
//!
//! Calls that are not here need not be: metadata, offsets, locks and folders are the kernel's, by the
//! program's own descriptors or paths. `close` forgets nothing of staged files: in a child of `vfork` it would
//! forget what its parent has open.

mod copy;
mod look;
mod open;
mod read;
mod stdio;
