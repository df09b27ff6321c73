//! In the trainer's process: blocking, no threads, fork-safe.
