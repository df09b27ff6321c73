//! What callers pass, looked at before it is used.

use std::ffi::{CStr, c_char, c_double};
use std::time::Duration;

use forebay_client::DaemonCommand;

use crate::outcome::Fault;

/// Text of the caller's.
///
/// # Safety
/// `pointer` is null, or text that ends with a zero byte and stays as it is for `'a`.
pub(super) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Fault> {
    // SAFETY: the caller's promise.
    let found = unsafe { optional_text(pointer, what) }?;
    found.ok_or_else(|| Fault::input(format!("`{what}` must not be NULL")))
}

/// The same, where null means nothing.
///
/// # Safety
/// As for [`text`].
pub(super) unsafe fn optional_text<'a>(
    pointer: *const c_char,
    what: &str,
) -> Result<Option<&'a str>, Fault> {
    if pointer.is_null() {
        return Ok(None);
    }
    // SAFETY: not null, and so by the caller's promise text that ends with a zero byte.
    let found = unsafe { CStr::from_ptr(pointer) }.to_str();
    found
        .map(Some)
        .map_err(|_| Fault::input(format!("`{what}` must be UTF-8")))
}

/// What a pointer of the caller's points to.
///
/// # Safety
/// `pointer` is null or valid for `'a`, and nobody changes what it points to meanwhile.
pub(super) unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise.
    let shared = unsafe { pointer.as_ref() };
    shared.ok_or_else(|| Fault::input(format!("`{what}` must not be NULL")))
}

/// Writes to a place of the caller's.
///
/// # Safety
/// `out` is null or valid for a write of `T`; what lies there need not be anything yet.
pub(super) unsafe fn put<T>(out: *mut T, what: &str, value: T) -> Result<(), Fault> {
    if out.is_null() {
        return Err(Fault::input(format!("`{what}` must not be NULL")));
    }
    // SAFETY: not null, and so by the caller's promise valid for the write.
    unsafe { out.write(value) };
    Ok(())
}

/// A buffer of the caller's.
///
/// # Safety
/// `out` is null or valid for reads and writes of `len` bytes for `'a`, and nobody else uses them
/// meanwhile.
pub(super) unsafe fn buffer<'a>(out: *mut u8, len: usize) -> Result<&'a mut [u8], Fault> {
    if len == 0 {
        return Ok(&mut []);
    }
    if out.is_null() || isize::try_from(len).is_err() {
        return Err(Fault::input("`out` must point to `len` bytes"));
    }
    // SAFETY: not null, no longer than an object can be, and the caller's promise for the rest.
    // Bytes have no alignment, and any value is one.
    Ok(unsafe { std::slice::from_raw_parts_mut(out, len) })
}

pub(super) fn timeout(seconds: c_double) -> Result<Duration, Fault> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Fault::input(format!("a timeout must be 0 or more seconds: {seconds}")))
}

/// The command that starts daemons: `FOREBAY_COMMAND`, or `forebay` on the path.
pub(super) fn daemon() -> DaemonCommand {
    let named = std::env::var_os("FOREBAY_COMMAND").filter(|named| !named.is_empty());
    DaemonCommand {
        program: Some(named.unwrap_or_else(|| "forebay".into())),
        arguments: Vec::new(),
    }
}
