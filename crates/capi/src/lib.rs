//! The C interface, `include/forebay.h`: a thin face over the client.
//!
//! # Contract
//! - No call unwinds or aborts the program: what goes wrong is a status and a text.
//! - A handle may be used by several threads at once, and in children of `fork`; it is closed once.
//! - The text of an error belongs to the thread that made the call.
#![deny(unsafe_code)]

#[allow(unsafe_code)]
mod ffi;
mod outcome;

pub use ffi::*;
