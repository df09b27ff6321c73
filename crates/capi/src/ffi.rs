//! The functions of `include/forebay.h`, which says what each does. The only unsafe code.
//!
//! # Safety
//! For all of them, as the header says: a handle is one that was opened here and is not closed yet;
//! text ends with a zero byte; other pointers are null or point to what the header names, and stay
//! valid for the call.

mod arguments;
mod dataset;
mod published;

use std::ffi::{CStr, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::outcome;

pub use dataset::*;
pub use published::*;

/// Statuses as text, by their number.
const NAMES: [&CStr; 9] = [
    c"ok",
    c"invalid-input",
    c"not-found",
    c"stale",
    c"unavailable",
    c"corrupt",
    c"no-space",
    c"deadline",
    c"unsupported",
];

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_error() -> *const c_char {
    outcome::text()
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_status_name(code: c_int) -> *const c_char {
    let name = usize::try_from(code).ok().and_then(|code| NAMES.get(code));
    name.unwrap_or(&c"unknown").as_ptr()
}

/// What the embedding program asks its own signal handlers.
static INTERRUPTED: AtomicPtr<()> = AtomicPtr::new(ptr::null_mut());

fn is_interrupted() -> bool {
    let interrupted = INTERRUPTED.load(Ordering::Acquire);
    if interrupted.is_null() {
        return false;
    }
    // SAFETY: what is not null there was put there by `forebay_on_signal`, as this type of function.
    let interrupted: extern "C" fn() -> c_int = unsafe { std::mem::transmute(interrupted) };
    interrupted() != 0
}

/// See the header.
#[unsafe(no_mangle)]
pub extern "C" fn forebay_on_signal(interrupted: Option<extern "C" fn() -> c_int>) {
    let interrupted = interrupted.map_or(ptr::null_mut(), |interrupted| interrupted as *mut ());
    INTERRUPTED.store(interrupted, Ordering::Release);
    forebay_client::on_signal(is_interrupted);
}

#[cfg(test)]
mod tests {
    use ::forebay_dataset::ErrorKind;

    use super::*;

    #[test]
    fn each_status_has_the_name_of_its_kind() {
        for kind in ErrorKind::ALL {
            let name = NAMES[outcome::status(kind) as usize].to_str().unwrap();
            assert_eq!(name, kind.code());
        }
        assert_eq!(NAMES.len(), ErrorKind::ALL.len() + 1);
    }
}
