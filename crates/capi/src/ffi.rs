//! The functions of `include/forebay.h`, which says what each does. The only unsafe code.
//!
//! # Safety
//! For all of them, as the header says: a handle is one that was opened here and is not closed yet;
//! text ends with a zero byte; other pointers are null or point to what the header names, and stay
//! valid for the call.

use std::ffi::{CStr, CString, c_char, c_double, c_int};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::time::Duration;

use forebay_client::{DaemonCommand, Dataset, OpenOptions, Published, Publisher};

use crate::outcome::{self, Fault, c_text, run};

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

/// Most dimensions of a field.
const MAX_DIMS: usize = 32;

/// `forebay_dataset`
#[allow(non_camel_case_types, reason = "as the header has it")]
pub struct forebay_dataset {
    inner: Dataset,
    fields: Vec<(CString, CString)>,
    warning: Option<CString>,
}

/// `forebay_file`
#[allow(non_camel_case_types, reason = "as the header has it")]
pub struct forebay_file {
    inner: Published,
    name: CString,
    node: CString,
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

/// `struct forebay_stat`
#[allow(non_camel_case_types, reason = "as the header has it")]
#[repr(C)]
pub struct forebay_stat {
    name: *const c_char,
    node: *const c_char,
    generation: u64,
    size: u64,
}

/// Text of the caller's.
///
/// # Safety
/// `pointer` is null, or text that ends with a zero byte and stays as it is for `'a`.
unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a str, Fault> {
    // SAFETY: the caller's promise.
    let found = unsafe { optional_text(pointer, what) }?;
    found.ok_or_else(|| Fault::input(format!("`{what}` must not be NULL")))
}

/// The same, where null means nothing.
///
/// # Safety
/// As for [`text`].
unsafe fn optional_text<'a>(pointer: *const c_char, what: &str) -> Result<Option<&'a str>, Fault> {
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
unsafe fn shared<'a, T>(pointer: *const T, what: &str) -> Result<&'a T, Fault> {
    // SAFETY: the caller's promise.
    let shared = unsafe { pointer.as_ref() };
    shared.ok_or_else(|| Fault::input(format!("`{what}` must not be NULL")))
}

/// Writes to a place of the caller's.
///
/// # Safety
/// `out` is null or valid for a write of `T`; what lies there need not be anything yet.
unsafe fn put<T>(out: *mut T, what: &str, value: T) -> Result<(), Fault> {
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
unsafe fn buffer<'a>(out: *mut u8, len: usize) -> Result<&'a mut [u8], Fault> {
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

fn timeout(seconds: c_double) -> Result<Duration, Fault> {
    Duration::try_from_secs_f64(seconds)
        .map_err(|_| Fault::input(format!("a timeout must be 0 or more seconds: {seconds}")))
}

/// The command that starts daemons: `FOREBAY_COMMAND`, or `forebay` on the path.
fn daemon() -> DaemonCommand {
    let named = std::env::var_os("FOREBAY_COMMAND").filter(|named| !named.is_empty());
    DaemonCommand {
        program: Some(named.unwrap_or_else(|| "forebay".into())),
        arguments: Vec::new(),
    }
}

fn publisher(cache: Option<&str>) -> Result<Publisher, Fault> {
    Ok(Publisher::new(cache.map(Path::new), daemon())?)
}

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
