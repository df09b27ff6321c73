//! The only unsafe code in the crate: memory that Python and Rust both see.

use std::ffi::c_int;

use forebay_client::FieldBytes;
use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;

/// The bytes of one field without a copy: a read-only buffer that keeps them in place.
///
/// It belongs to the process that made it.
#[pyclass(frozen, module = "forebay._native")]
#[derive(Debug)]
pub(crate) struct View {
    bytes: FieldBytes,
}

impl View {
    pub(crate) fn new(bytes: FieldBytes) -> Self {
        Self { bytes }
    }
}

#[pymethods]
impl View {
    /// Number of bytes.
    fn __len__(&self) -> usize {
        self.bytes.bytes().len()
    }

    /// True if the bytes lie in the cache itself, false if they are a copy.
    #[getter]
    fn is_in_place(&self) -> bool {
        matches!(self.bytes, FieldBytes::View(_))
    }

    // SAFETY: Python calls this with a valid view to fill in, and releases it before the object.
    unsafe fn __getbuffer__(
        slf: Bound<'_, Self>,
        view: *mut ffi::Py_buffer,
        flags: c_int,
    ) -> PyResult<()> {
        if view.is_null() {
            return Err(PyBufferError::new_err("no view to fill in"));
        }
        let bytes = slf.get().bytes.bytes();
        // SAFETY: `view` is Python's to fill in (checked not null). The bytes stay where they are
        // while the object lives, and the view keeps a reference to the object. They are offered
        // as read-only, and a request for a writable buffer is refused by the call itself.
        let rc = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                bytes.as_ptr().cast_mut().cast(),
                bytes.len() as ffi::Py_ssize_t,
                1,
                flags,
            )
        };
        if rc == 0 {
            Ok(())
        } else {
            Err(PyErr::fetch(slf.py()))
        }
    }
}

/// A writable, contiguous buffer that Python keeps in place while it is borrowed.
pub(crate) struct Output {
    buffer: PyUntypedBuffer,
}

impl Output {
    /// Borrows `object`'s memory.
    pub(crate) fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if buffer.readonly() || !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err(
                "`out` must be a writable, contiguous buffer",
            ));
        }
        Ok(Self { buffer })
    }

    /// The memory.
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        let len = self.buffer.len_bytes();
        if len == 0 {
            return &mut [];
        }
        // SAFETY: the exporter keeps `len` bytes in place until the buffer is released, which is
        // when `self` goes. They are contiguous and writable (checked in `of`). As with every
        // `readinto` in Python, a caller that writes to the array from another thread meanwhile
        // gets the mixture that it asked for.
        unsafe { std::slice::from_raw_parts_mut(self.buffer.buf_ptr().cast(), len) }
    }
}
