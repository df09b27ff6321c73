//! The files of a data set, by name.

use std::ffi::OsString;
use std::path::PathBuf;

use forebay_client::{ClientError, FileRange};
use forebay_dataset::SegmentIndex;
use forebay_dataset::tree::{FileTree, NodeIndex, NodeKind};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::raised;
use crate::sys::Output;

/// Position, kind (`file`, `directory` or `link`), bytes, and nanoseconds since 1970.
type Info = (u32, &'static str, u64, i64);

/// The files of a data set. `forebay.fsspec` makes a file system of them.
#[pyclass(frozen, module = "forebay._native")]
#[derive(Debug)]
pub(crate) struct Files {
    inner: forebay_client::Dataset,
    tree: FileTree,
    warning: Option<String>,
}

#[pymethods]
impl Files {
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
        let opened = py.detach(|| {
            let (inner, warning) = forebay_client::Dataset::open(&index, options)?;
            let tree = forebay_origin::open_tree(inner.index())?;
            Ok::<_, ClientError>(Self {
                inner,
                tree,
                warning,
            })
        });
        raised(py, opened)
    }

    /// Why the daemon could not be reached when the index was opened, if so.
    #[getter]
    fn warning(&self) -> Option<&str> {
        self.warning.as_deref()
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

    /// What lies at a path below the root, links followed; None if nothing does.
    fn find(&self, path: &str) -> Option<Info> {
        self.tree.follow(path).map(|node| self.info(node))
    }

    /// Names in a folder, sorted, and what they are.
    fn children(&self, folder: u32) -> Vec<(&str, Info)> {
        let children = self.tree.children(NodeIndex(folder)).map(NodeIndex);
        children
            .map(|node| (self.tree.name(node), self.info(node)))
            .collect()
    }

    /// Everything below a folder, with paths from there on, folders before what lies in them;
    /// `depth` levels, or all.
    #[pyo3(signature = (folder, depth))]
    fn below(&self, py: Python<'_>, folder: u32, depth: Option<u32>) -> Vec<(String, Info)> {
        py.detach(|| {
            let mut found = Vec::new();
            let mut waiting = vec![(String::new(), NodeIndex(folder), 0)];
            while let Some((path, node, level)) = waiting.pop() {
                if depth.is_none_or(|depth| level < depth) {
                    let children = self.tree.children(node).rev().map(NodeIndex);
                    waiting.extend(children.map(|child| {
                        let name = self.tree.name(child);
                        let path = match path.as_str() {
                            "" => name.to_owned(),
                            path => format!("{path}/{name}"),
                        };
                        (path, child, level + 1)
                    }));
                }
                if level > 0 {
                    found.push((path, self.info(node)));
                }
            }
            found
        })
    }

    /// Reads a file from `offset` into a writable buffer; returns how many bytes there were.
    fn read_into(
        &self,
        py: Python<'_>,
        file: u32,
        offset: u64,
        out: &Bound<'_, PyAny>,
    ) -> PyResult<usize> {
        let file = self.segment(file)?;
        let mut out = Output::of(out)?;
        let bytes = out.bytes();
        let read = py.detach(|| self.inner.read_file(file, offset, bytes));
        raised(py, read)
    }

    /// Reads ranges (file, offset, bytes), each cut off where its file ends. What is absent is
    /// asked of the daemon in one request.
    fn read_many<'py>(
        &self,
        py: Python<'py>,
        ranges: Vec<(u32, u64, u64)>,
    ) -> PyResult<Vec<Bound<'py, PyBytes>>> {
        let ranges = ranges.into_iter().map(|(file, offset, len)| {
            let size = self.tree.attributes(NodeIndex(file)).size;
            Ok(FileRange {
                file: self.segment(file)?,
                offset,
                len: len.min(size.saturating_sub(offset)),
            })
        });
        let ranges = ranges.collect::<PyResult<Vec<_>>>()?;
        // Whatever is not to be staged, each read finds another way to.
        raised(py, py.detach(|| self.inner.stage_files(&ranges)))?;
        let read = |range: &FileRange| {
            PyBytes::new_with(py, range.len as usize, |out| {
                let read = py.detach(|| self.inner.read_file(range.file, range.offset, out));
                let len = raised(py, read)?;
                if len as u64 == range.len {
                    return Ok(());
                }
                let message = "the tree of files and the index differ: index the files again";
                Err(PyValueError::new_err(message))
            })
        };
        ranges.iter().map(read).collect()
    }
}

impl Files {
    fn info(&self, node: NodeIndex) -> Info {
        let kind = match self.tree.kind(node) {
            NodeKind::Folder => "directory",
            NodeKind::File(_) => "file",
            NodeKind::Link => "link",
        };
        let attributes = self.tree.attributes(node);
        (node.0, kind, attributes.size, attributes.mtime_ns)
    }

    fn segment(&self, file: u32) -> PyResult<SegmentIndex> {
        match self.tree.kind(NodeIndex(file)) {
            NodeKind::File(segment) => Ok(segment),
            NodeKind::Folder | NodeKind::Link => {
                let message = format!("number {file} is not that of a file");
                Err(PyValueError::new_err(message))
            }
        }
    }
}
