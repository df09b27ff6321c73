//! Data sets.
//!
//! # Safety
//! As for the module above.

use std::ffi::{CStr, CString, c_char, c_double, c_int};
use std::path::{Path, PathBuf};
use std::ptr;

use forebay_client::{Dataset, OpenOptions};

use super::arguments::{buffer, daemon, optional_text, put, shared, text, timeout};
use crate::outcome::{Fault, c_text, run};

/// Most dimensions of a field.
const MAX_DIMS: usize = 32;

/// `forebay_dataset`
#[allow(non_camel_case_types, reason = "as the header has it")]
pub struct forebay_dataset {
    inner: Dataset,
    fields: Vec<(CString, CString)>,
    warning: Option<CString>,
}

/// `struct forebay_place`
#[allow(non_camel_case_types, reason = "as the header has it")]
#[repr(C)]
pub struct forebay_place {
    offset: u64,
    bytes: u64,
    dims: u64,
    shape: [u64; MAX_DIMS],
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_open(
    index: *const c_char,
    root: *const c_char,
    cache: *const c_char,
    timeout_s: c_double,
    out: *mut *mut forebay_dataset,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise for the module, here and for the next two.
        let index = unsafe { text(index, "index") }?;
        // SAFETY: as above.
        let root = unsafe { optional_text(root, "root") }?;
        // SAFETY: as above.
        let cache = unsafe { optional_text(cache, "cache") }?;
        let options = OpenOptions {
            root: root.map(PathBuf::from),
            cache: cache.map(PathBuf::from),
            deadline: timeout(timeout_s)?,
            daemon: daemon(),
        };
        let (inner, warning) = Dataset::open(Path::new(index), options)?;
        let fields = inner.index().fields().iter();
        let fields = fields.map(|field| (c_text(&field.name), c_text(&field.dtype.to_string())));
        let opened = Box::new(forebay_dataset {
            fields: fields.collect(),
            warning: warning.as_deref().map(c_text),
            inner,
        });
        // SAFETY: the caller's promise. A handle is freed in `forebay_close`; where it cannot be
        // handed out it is lost, which is no harm.
        unsafe { put(out, "out", Box::into_raw(opened)) }
    })
}

/// See the header.
///
/// # Safety
/// As for the module; the handle is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_close(dataset: *mut forebay_dataset) {
    if !dataset.is_null() {
        run(|| {
            // SAFETY: made by `Box::into_raw` in `forebay_open`, and closed once, as the caller
            // promises.
            drop(unsafe { Box::from_raw(dataset) });
            Ok(())
        });
    }
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_warning(dataset: *const forebay_dataset) -> *const c_char {
    // SAFETY: the caller's promise.
    let dataset = unsafe { dataset.as_ref() };
    let warning = dataset.and_then(|dataset| dataset.warning.as_deref());
    warning.map_or(ptr::null(), CStr::as_ptr)
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_samples(dataset: *const forebay_dataset) -> u64 {
    // SAFETY: the caller's promise.
    let dataset = unsafe { dataset.as_ref() };
    dataset.map_or(0, |dataset| dataset.inner.index().len())
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_fields(dataset: *const forebay_dataset) -> usize {
    // SAFETY: the caller's promise.
    let dataset = unsafe { dataset.as_ref() };
    dataset.map_or(0, |dataset| dataset.fields.len())
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_field_name(
    dataset: *const forebay_dataset,
    field: usize,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let dataset = unsafe { dataset.as_ref() };
    let field = dataset.and_then(|dataset| dataset.fields.get(field));
    field.map_or(ptr::null(), |(name, _)| name.as_ptr())
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_field_dtype(
    dataset: *const forebay_dataset,
    field: usize,
) -> *const c_char {
    // SAFETY: the caller's promise.
    let dataset = unsafe { dataset.as_ref() };
    let field = dataset.and_then(|dataset| dataset.fields.get(field));
    field.map_or(ptr::null(), |(_, dtype)| dtype.as_ptr())
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_sample_bytes(
    dataset: *const forebay_dataset,
    sample: u64,
    bytes: *mut u64,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let dataset = unsafe { shared(dataset, "dataset") }?;
        let found = dataset.inner.sample_bytes(sample)?;
        // SAFETY: the caller's promise.
        unsafe { put(bytes, "bytes", found) }
    })
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_field_place(
    dataset: *const forebay_dataset,
    sample: u64,
    field: usize,
    out: *mut forebay_place,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let dataset = unsafe { shared(dataset, "dataset") }?;
        let places = dataset.inner.places(sample)?;
        let place = places.get(field).ok_or_else(|| {
            Fault::input(format!(
                "there is no field {field}: a sample has {}",
                places.len()
            ))
        })?;
        let dims: Vec<u64> = (dataset.inner.index().sample(sample)?.field(field)?)
            .shape()
            .iter()
            .collect();
        let mut shape = [0; MAX_DIMS];
        let filled = shape.get_mut(..dims.len()).ok_or_else(|| {
            let found = dims.len();
            Fault::unsupported(format!("a field has {found} dimensions, over {MAX_DIMS}"))
        })?;
        filled.copy_from_slice(&dims);
        let place = forebay_place {
            offset: place.offset,
            bytes: place.len,
            dims: dims.len() as u64,
            shape,
        };
        // SAFETY: the caller's promise.
        unsafe { put(out, "out", place) }
    })
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_read(
    dataset: *const forebay_dataset,
    sample: u64,
    out: *mut u8,
    len: usize,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise, here and for the next.
        let dataset = unsafe { shared(dataset, "dataset") }?;
        // SAFETY: as above.
        let out = unsafe { buffer(out, len) }?;
        Ok(dataset.inner.read_into(sample, out)?)
    })
}

/// See the header.
///
/// # Safety
/// As for the module.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn forebay_stage(
    dataset: *const forebay_dataset,
    samples: *const u64,
    count: usize,
    complete: *mut c_int,
) -> c_int {
    run(|| {
        // SAFETY: the caller's promise.
        let dataset = unsafe { shared(dataset, "dataset") }?;
        let samples = if count == 0 {
            &[]
        } else {
            let first: &u64 = {
                // SAFETY: the caller's promise: `count` numbers, and so at least one.
                unsafe { shared(samples, "samples") }?
            };
            // SAFETY: not null, and the caller's promise that `count` numbers lie there.
            unsafe { std::slice::from_raw_parts(ptr::from_ref(first), count) }
        };
        let staged = dataset.inner.stage(samples)?;
        if complete.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        unsafe { put(complete, "complete", c_int::from(staged)) }
    })
}
