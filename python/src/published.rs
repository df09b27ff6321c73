//! Published files.

use std::ffi::OsString;
use std::path::PathBuf;

use forebay_client::{DaemonCommand, PublishedFile, Publisher};
use pyo3::prelude::*;

use crate::errors::raised;
use crate::sys::Output;

/// Name, node, generation and size of a published file.
type Entry = (String, String, u64, u64);

fn entry(file: &PublishedFile) -> Entry {
    (
        file.name.clone(),
        file.node.clone(),
        file.generation,
        file.size,
    )
}

fn publisher(
    py: Python<'_>,
    cache: Option<PathBuf>,
    program: Option<OsString>,
) -> PyResult<Publisher> {
    let daemon = DaemonCommand {
        program,
        arguments: Vec::new(),
    };
    raised(py, Publisher::new(cache.as_deref(), daemon))
}

/// Publishes a complete file by a name.
#[pyfunction]
pub(crate) fn publish(
    py: Python<'_>,
    name: &str,
    path: PathBuf,
    cache: Option<PathBuf>,
    timeout: f64,
    program: Option<OsString>,
) -> PyResult<Entry> {
    let timeout = crate::deadline(timeout)?;
    let publisher = publisher(py, cache, program)?;
    let published = py.detach(|| publisher.publish(name, &path, timeout));
    Ok(entry(&raised(py, published)?))
}

/// Lets nobody find a name any more.
#[pyfunction]
pub(crate) fn unpublish(
    py: Python<'_>,
    name: &str,
    cache: Option<PathBuf>,
    timeout: f64,
    program: Option<OsString>,
) -> PyResult<()> {
    let timeout = crate::deadline(timeout)?;
    let publisher = publisher(py, cache, program)?;
    raised(py, py.detach(|| publisher.unpublish(name, timeout)))
}

/// Some of the published files whose names come after `after`, in order; none after the last.
#[pyfunction]
pub(crate) fn published_after(
    py: Python<'_>,
    after: &str,
    cache: Option<PathBuf>,
    timeout: f64,
    program: Option<OsString>,
) -> PyResult<Vec<Entry>> {
    let timeout = crate::deadline(timeout)?;
    let publisher = publisher(py, cache, program)?;
    let files = raised(py, py.detach(|| publisher.list(after, timeout)))?;
    Ok(files.iter().map(entry).collect())
}

/// A published file, open. `forebay.PublishedFile` is a file object around it.
#[pyclass(frozen, module = "forebay._native")]
#[derive(Debug)]
pub(crate) struct Published {
    inner: forebay_client::Published,
}

#[pymethods]
impl Published {
    /// Waits for the file of a name.
    #[new]
    fn new(
        py: Python<'_>,
        name: &str,
        cache: Option<PathBuf>,
        timeout: f64,
        program: Option<OsString>,
    ) -> PyResult<Self> {
        let timeout = crate::deadline(timeout)?;
        let publisher = publisher(py, cache, program)?;
        let inner = raised(py, py.detach(|| publisher.consume(name, timeout)))?;
        Ok(Self { inner })
    }

    /// Name, node, generation and size.
    fn entry(&self) -> Entry {
        entry(self.inner.file())
    }

    /// Reads from byte `start` into a writable buffer; returns how many bytes, fewer at the end.
    fn read_into(&self, py: Python<'_>, start: u64, out: &Bound<'_, PyAny>) -> PyResult<usize> {
        let mut out = Output::of(out)?;
        let bytes = out.bytes();
        let read = py.detach(|| self.inner.read_at(start, bytes));
        raised(py, read)
    }
}
