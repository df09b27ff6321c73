//! From the client's errors to Python's classes.

use std::cell::RefCell;

use forebay_client::ClientError;
use forebay_dataset::{ErrorKind, IndexError};
use pyo3::prelude::*;

thread_local! {
    /// What a signal handler raised while this thread waited without the GIL.
    static SIGNALLED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// Runs Python's signal handlers; true, and the exception kept, if one of them raised.
pub(crate) fn keep_signal() -> bool {
    let raised = Python::attach(|py| py.check_signals()).err();
    let interrupted = raised.is_some();
    SIGNALLED.set(raised);
    interrupted
}

/// The result, with the error as the class that `forebay.errors` has for its kind.
pub(crate) fn raised<T>(py: Python<'_>, result: Result<T, ClientError>) -> PyResult<T> {
    result.map_err(|error| match (&error, SIGNALLED.take()) {
        (ClientError::Interrupted, Some(signalled)) => signalled,
        _ => make(py, error.kind(), &error.chain()),
    })
}

/// The same for what only the index says.
pub(crate) fn index_raised<T>(py: Python<'_>, result: Result<T, IndexError>) -> PyResult<T> {
    raised(py, result.map_err(ClientError::from))
}

fn make(py: Python<'_>, kind: ErrorKind, message: &str) -> PyErr {
    let made = py
        .import("forebay.errors")
        .and_then(|errors| errors.call_method1("make", (kind.code(), message)));
    made.map_or_else(|error| error, PyErr::from_value)
}
