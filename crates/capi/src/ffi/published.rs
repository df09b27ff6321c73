//! Published files.
//!
//! # Safety
//! As for the module above.

use std::ffi::{CString, c_char, c_double, c_int};
use std::path::Path;

use forebay_client::{Published, Publisher};

use super::arguments::{buffer, daemon, optional_text, put, shared, text, timeout};
use crate::outcome::{Fault, c_text, run};

/// `forebay_file`
#[allow(non_camel_case_types, reason = "as the header has it")]
pub struct forebay_file {
    inner: Published,
    name: CString,
    node: CString,
}

/// `struct forebay_stat`
#[allow(non_camel_case_types, reason = "as the header has it")]
#[repr(C)]
pub struct forebay_stat {
    name: *const c_char,
    node: *const c_char,
    generation: u64,
    size: u64,
}

fn publisher(cache: Option<&str>) -> Result<Publisher, Fault> {
    Ok(Publisher::new(cache.map(Path::new), daemon())?)
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_publish(
    name: *const c_char,
    path: *const c_char,
    cache: *const c_char,
    timeout_s: c_double,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise for the module, here and for the next two.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as above.
        let path = unsafe { text(path, "path") }?;
        // SAFETY: as above.
        let publisher = publisher(unsafe { optional_text(cache, "cache") }?)?;
        publisher.publish(name, Path::new(path), timeout(timeout_s)?)?;
        Ok(())
    })
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_unpublish(
    name: *const c_char,
    cache: *const c_char,
    timeout_s: c_double,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise for the module, here and for the next.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as above.
        let publisher = publisher(unsafe { optional_text(cache, "cache") }?)?;
        Ok(publisher.unpublish(name, timeout(timeout_s)?)?)
    })
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_consume(
    name: *const c_char,
    cache: *const c_char,
    timeout_s: c_double,
    out: *mut *mut forebay_file,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise for the module, here and for the next.
        let name = unsafe { text(name, "name") }?;
        // SAFETY: as above.
        let publisher = publisher(unsafe { optional_text(cache, "cache") }?)?;
        let inner = publisher.consume(name, timeout(timeout_s)?)?;
        let opened = Box::new(forebay_file {
            name: c_text(&inner.file().name),
            node: c_text(&inner.file().node),
            inner,
        });
        // SAFETY: the caller's promise; freed in `forebay_file_close`.
        unsafe { put(out, "out", Box::into_raw(opened)) }
    })
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_stat(
    file: *const forebay_file,
    out: *mut forebay_stat,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let file = unsafe { shared(file, "file") }?;
        let stat = forebay_stat {
            name: file.name.as_ptr(),
            node: file.node.as_ptr(),
            generation: file.inner.file().generation,
            size: file.inner.size(),
        };
        // SAFETY: the caller's promise.
        unsafe { put(out, "out", stat) }
    })
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_read_at(
    file: *const forebay_file,
    start: u64,
    out: *mut u8,
    len: usize,
    read: *mut usize,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise for the module, here and for the next.
        let file = unsafe { shared(file, "file") }?;
        // SAFETY: as above.
        let out = unsafe { buffer(out, len) }?;
        let came = file.inner.read_at(start, out)?;
        // SAFETY: the caller's promise.
        unsafe { put(read, "read", came) }
    })
}

/// See the header.
///
/// # Safety
/// As for the module; the handle is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_file_close(file: *mut forebay_file) {
    if !file.is_null() {
        run(|| {
            // SAFETY: made by `Box::into_raw` in `forebay_consume`, and closed once, as the caller
            // promises.
            drop(unsafe { Box::from_raw(file) });
            Ok(())
        });
    }
}
