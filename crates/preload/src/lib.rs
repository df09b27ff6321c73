//! Serves staged bytes to programs that only know files, by `LD_PRELOAD`.
//!
//! # Contract
//! A call answers what it would have answered without this library. For a file of a staged root that
//! is opened for reading, and is the version that was indexed, the bytes come from the node's cache;
//! all else, any doubt and any failure pass through to the call that the program made.
//!
//! # How
//! The descriptor that a program gets is the kernel's own, of the file at the origin, opened as it
//! asked. So metadata, offsets, locks, permissions, copies of the descriptor and whatever takes the
//! number past this library are as ever. Only where the bytes of a read come from is changed.
//!
//! # Invariants
//! - *The table is a hint*: before each read the kernel is asked, without a message to any server,
//!   whether the descriptor is still of the file and version that the table says. So closes and
//!   copies that nobody here saw do no harm.
//! - *No allocation and no lock before the path test*, and none for a descriptor that is not in the
//!   table.
//! - *One level*: calls that this library makes itself pass through, as do those of a signal handler
//!   that interrupts it.
//! - *Nothing escapes*: a panic passes through, and `errno` is left as the call leaves it.
//!
//! What it cannot catch is in `docs/PRELOAD.md`.
#![warn(missing_docs)]
// In its own tests the library stands in front of nothing.
#![cfg_attr(test, allow(dead_code))]

mod attach;
mod config;
mod exchange;
mod guard;
#[cfg(not(test))]
mod hooks;
mod real;
mod roots;
mod serve;
mod staged;
mod streams;
mod table;

/// Memory of its own, apart from the program's: a signal handler that reads may have interrupted the
/// program's `malloc`, which must not be entered again. This library's is never interrupted by itself:
/// *one level*.
#[cfg(not(test))]
#[global_allocator]
static MEMORY: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Runs when the library is loaded, before the program.
#[cfg(not(test))]
#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = {
    extern "C" fn at_load() {
        // SAFETY: nothing has been allocated yet: a library is loaded before any of its calls is
        // made. From here on a child of `fork` may allocate, whatever other threads did meanwhile.
        unsafe { dlmalloc::enable_alloc_after_fork() };
        let _ = std::panic::catch_unwind(config::load);
    }
    at_load
};
