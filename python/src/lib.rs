//! The native half of the Python package: a thin face over the client.
//!
//! The hand-written half (`forebay/`) turns bytes into arrays and gives errors their classes.
#![deny(unsafe_code)]

mod dataset;
mod errors;
mod files;
mod published;
#[allow(unsafe_code)]
mod sys;

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use forebay_client::{DaemonCommand, OpenOptions};
use pyo3::prelude::*;

/// The status of the daemon that serves a cache folder, as JSON text.
#[pyfunction]
fn status(py: Python<'_>, cache: PathBuf, deadline_s: f64) -> PyResult<String> {
    let deadline = deadline(deadline_s)?;
    errors::raised(py, py.detach(|| forebay_client::status(&cache, deadline)))
}

/// Asks the daemon that serves a cache folder to stop.
#[pyfunction]
fn stop(py: Python<'_>, cache: PathBuf, deadline_s: f64) -> PyResult<()> {
    let deadline = deadline(deadline_s)?;
    errors::raised(py, py.detach(|| forebay_client::stop(&cache, deadline)))
}

/// Who answered this process's reads so far: bytes that were resident, bytes that the daemon made
/// resident first, bytes of whole blocks that other nodes gave for those, and bytes read from the
/// origin here; then the seconds spent in reads, summed over threads, and the part of them spent on
/// what was not resident; then those spent on opening files of the cache, which are not among
/// them, and the part of the wait that was for metadata of the origin.
#[pyfunction]
fn answered() -> (u64, u64, u64, u64, f64, f64, f64, f64) {
    let so_far = forebay_client::answered();
    (
        so_far.local_bytes,
        so_far.staged_bytes,
        so_far.peer_bytes,
        so_far.direct_bytes,
        so_far.reading.as_secs_f64(),
        so_far.waited.as_secs_f64(),
        so_far.local_metadata.as_secs_f64(),
        so_far.origin_metadata.as_secs_f64(),
    )
}

/// Stable codes of every kind of error, in the order of the protocol.
#[pyfunction]
fn error_kinds() -> Vec<&'static str> {
    forebay_dataset::ErrorKind::ALL
        .iter()
        .map(|kind| kind.code())
        .collect()
}

pub(crate) fn deadline(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        let message = format!("`deadline_s` must be a number of seconds, 0 or more: {seconds}");
        pyo3::exceptions::PyValueError::new_err(message)
    })
}

/// How a data set is opened, from the arguments that Python gives.
pub(crate) fn open_options(
    root: Option<PathBuf>,
    cache: Option<PathBuf>,
    deadline_s: f64,
    program: Option<OsString>,
    arguments: Vec<OsString>,
) -> PyResult<OpenOptions> {
    Ok(OpenOptions {
        root,
        cache,
        deadline: deadline(deadline_s)?,
        daemon: DaemonCommand { program, arguments },
    })
}

#[pymodule(gil_used = false)]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::dataset::Dataset;
    #[pymodule_export]
    use super::files::Files;
    #[pymodule_export]
    use super::published::{Published, publish, published_after, unpublish};
    #[pymodule_export]
    use super::sys::View;
    #[pymodule_export]
    use super::{answered, error_kinds, status, stop};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        forebay_client::on_signal(super::errors::keep_signal);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
