//! An open data set.

use std::ffi::OsString;
use std::path::PathBuf;

use forebay_client::FieldPlace;
use forebay_dataset::IndexError;
use pyo3::IntoPyObjectExt;
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::errors::{index_raised, raised};
use crate::sys::{Output, View};

/// Offset and shape of each field of a sample.
type Layout = Vec<(u64, Vec<u64>)>;

/// Samples of a data set, as bytes. `forebay.Dataset` makes arrays of them.
#[pyclass(frozen, subclass, module = "forebay._native")]
#[derive(Debug)]
pub(crate) struct Dataset {
    inner: forebay_client::Dataset,
    warning: Option<String>,
}

#[pymethods]
impl Dataset {
    /// Opens an index file; starts the node's daemon with `program` if there is none.
    #[new]
    #[pyo3(signature = (index, root, cache, deadline_s, program, arguments))]
    fn new(
        py: Python<'_>,
        index: PathBuf,
        root: Option<PathBuf>,
        cache: Option<PathBuf>,
        deadline_s: f64,
        program: Option<OsString>,
        arguments: Vec<OsString>,
    ) -> PyResult<Self> {
        let options = crate::open_options(root, cache, deadline_s, program, arguments)?;
        let opened = py.detach(|| forebay_client::Dataset::open(&index, options));
        let (inner, warning) = raised(py, opened)?;
        Ok(Self { inner, warning })
    }

    /// Why the daemon could not be reached when the data set was opened, if so.
    #[getter]
    fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
    }

    /// Index file, absolute.
    #[getter]
    fn path(&self) -> PathBuf {
        self.inner.index().path().to_path_buf()
    }

    /// Folder of the origin files in use, or URL: text, which a path would not keep as it is.
    #[getter]
    fn root<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.inner.root().to_str().filter(|_| self.inner.in_store()) {
            Some(url) => url.into_bound_py_any(py),
            None => self.inner.root().into_bound_py_any(py),
        }
    }

    /// Cache folder in use.
    #[getter]
    fn cache(&self) -> PathBuf {
        self.inner.cache_folder().to_path_buf()
    }

    /// Identity of the content, 32 hexadecimal digits.
    #[getter]
    fn generation(&self) -> String {
        format!("{:032x}", self.inner.index().generation())
    }

    /// Names and numpy type strings of the fields, in order.
    fn field_types(&self) -> Vec<(String, String)> {
        let fields = self.inner.index().fields().iter();
        fields
            .map(|field| (field.name.clone(), field.dtype.to_string()))
            .collect()
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.inner.index().len()).unwrap_or(usize::MAX)
    }

    /// Key of a sample; None where samples have no keys.
    fn key(&self, py: Python<'_>, index: i64) -> PyResult<Option<&str>> {
        let index = self.position(index)?;
        index_raised(py, self.inner.index().key(index))
    }

    /// Position of the sample with this key; None if there is none.
    fn find(&self, py: Python<'_>, key: &str) -> PyResult<Option<u64>> {
        index_raised(py, self.inner.index().find(key))
    }

    /// Bytes of a sample in a buffer, and the offset and shape of each field in it.
    fn layout(&self, py: Python<'_>, index: i64) -> PyResult<(u64, Layout)> {
        let index = self.position(index)?;
        index_raised(py, self.layout_of(index))
    }

    /// Reads a sample into a writable buffer of at least as many bytes; returns how many.
    fn read_into(&self, py: Python<'_>, index: i64, out: &Bound<'_, PyAny>) -> PyResult<u64> {
        let index = self.position(index)?;
        let len = index_raised(py, self.inner.sample_bytes(index))?;
        let mut out = Output::of(out)?;
        let bytes = out.bytes();
        let read = py.detach(|| self.inner.read_into(index, bytes));
        raised(py, read)?;
        Ok(len)
    }

    /// Bytes of a batch in a buffer, and for each sample the offset and shape of each field in it.
    fn batch_layout(&self, py: Python<'_>, indices: Vec<i64>) -> PyResult<(usize, Vec<Layout>)> {
        let positions = self.positions(&indices)?;
        let (bases, len) = raised(py, self.inner.batch_layout(&positions))?;
        let layouts = bases.iter().map(|(index, base)| {
            let (_, mut layout) = self.layout_of(*index)?;
            layout
                .iter_mut()
                .for_each(|(offset, _)| *offset += *base as u64);
            Ok(layout)
        });
        Ok((len, index_raised(py, layouts.collect())?))
    }

    /// Reads samples into one writable buffer, laid out as `batch_layout` says; what is absent is
    /// asked of the daemon in one request. Returns the number of bytes.
    fn read_batch_into(
        &self,
        py: Python<'_>,
        indices: Vec<i64>,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let positions = self.positions(&indices)?;
        let (bases, len) = raised(py, self.inner.batch_layout(&positions))?;
        let mut out = Output::of(out)?;
        let bytes = out.bytes();
        let read = py.detach(|| self.inner.read_many(&bases, bytes));
        raised(py, read)?;
        Ok(len)
    }

    /// The fields of a sample without a copy where that is possible.
    fn views(&self, py: Python<'_>, index: i64) -> PyResult<Vec<View>> {
        let index = self.position(index)?;
        let views = raised(py, py.detach(|| self.inner.view(index)))?;
        Ok(views.into_iter().map(View::new).collect())
    }

    /// Lets the daemon stage ahead along a plan file, and the one after it; None if it cannot be
    /// reached, else the number of the connection with which it ends: the calling thread's.
    fn follow(
        &self,
        py: Python<'_>,
        plan: PathBuf,
        next: Option<PathBuf>,
    ) -> PyResult<Option<u64>> {
        raised(py, py.detach(|| self.inner.follow(&plan, next.as_deref())))
    }

    /// True while the calling thread's connection of this number lives.
    fn is_linked(&self, number: u64) -> bool {
        self.inner.is_linked(number)
    }

    /// Asks the daemon to make samples resident; False if it has no room or cannot be reached.
    fn stage(&self, py: Python<'_>, indices: Vec<i64>) -> PyResult<bool> {
        let positions = self.positions(&indices)?;
        raised(py, py.detach(|| self.inner.stage(&positions)))
    }
}

impl Dataset {
    fn layout_of(&self, index: u64) -> Result<(u64, Layout), IndexError> {
        let places: Vec<FieldPlace> = self.inner.places(index)?;
        let sample = self.inner.index().sample(index)?;
        let len = places.last().map_or(0, |place| place.offset + place.len);
        let layout = places.iter().enumerate().map(|(number, place)| {
            let shape = sample.field(number)?.shape().iter().collect();
            Ok((place.offset, shape))
        });
        Ok((len, layout.collect::<Result<_, IndexError>>()?))
    }

    /// A position as Python counts: from the end if negative.
    fn position(&self, index: i64) -> PyResult<u64> {
        let len = self.inner.index().len();
        let position = if index < 0 {
            len.checked_add_signed(index)
        } else {
            Some(index as u64)
        };
        position.filter(|position| *position < len).ok_or_else(|| {
            PyIndexError::new_err(format!("no sample {index}: the data set has {len}"))
        })
    }

    fn positions(&self, indices: &[i64]) -> PyResult<Vec<u64>> {
        indices.iter().map(|index| self.position(*index)).collect()
    }
}
