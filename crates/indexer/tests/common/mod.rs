//! Files that other libraries wrote, what they read from them, and what the index leads to.
#![allow(dead_code, reason = "each test file uses its part")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use forebay_dataset::decode::Scratch;
use forebay_dataset::index::{Field, Index};
use forebay_indexer::{IndexRequest, IndexSummary, IndexerError, index};
use serde::Deserialize;
use tempfile::TempDir;

/// The files of one case of a script, and the samples in them.
pub(crate) struct Case {
    pub(crate) temp: TempDir,
    pub(crate) files: PathBuf,
    pub(crate) samples: Vec<ExpectedSample>,
    values: Vec<u8>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedSample {
    pub(crate) key: Option<String>,
    pub(crate) fields: Vec<ExpectedField>,
}

#[derive(Deserialize)]
pub(crate) struct ExpectedField {
    pub(crate) name: String,
    pub(crate) dtype: String,
    pub(crate) shape: Vec<u64>,
    offset: usize,
    len: usize,
}

pub(crate) fn python() -> PathBuf {
    let path = std::env::var_os("FOREBAY_PYTHON").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.venv/bin/python"),
        PathBuf::from,
    );
    assert!(
        path.exists(),
        "no Python at `{}`: run `make setup`, or set FOREBAY_PYTHON to one with h5py",
        path.display()
    );
    path
}

impl Case {
    /// A case of `make_hdf5.py`.
    pub(crate) fn make(name: &str) -> Self {
        Self::made_by("make_hdf5.py", name)
    }

    /// A case of `make_formats.py`.
    pub(crate) fn format(name: &str) -> Self {
        Self::made_by("make_formats.py", name)
    }

    fn made_by(script: &str, name: &str) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let files = fs::canonicalize(temp.path()).unwrap().join("files");
        let made = Command::new(python())
            .arg(
                Path::new(env!("CARGO_MANIFEST_DIR"))
                    .join("tests")
                    .join(script),
            )
            .arg(name)
            .arg(&files)
            .output()
            .unwrap();
        assert!(
            made.status.success(),
            "making `{name}` failed (are its packages there? run `make setup`): {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let listed = files.with_extension("json");
        let (samples, values) = if listed.exists() {
            (
                serde_json::from_slice(&fs::read(listed).unwrap()).unwrap(),
                fs::read(files.with_extension("bin")).unwrap(),
            )
        } else {
            (Vec::new(), Vec::new())
        };
        Self {
            temp,
            files,
            samples,
            values,
        }
    }

    pub(crate) fn output(&self) -> PathBuf {
        self.temp.path().join("out.forebay")
    }

    /// A request for all files, with the given sample rules.
    pub(crate) fn request(&self, rules: &[&str]) -> IndexRequest {
        let mut request = IndexRequest::new(vec![self.files.clone()], self.output());
        request.samples = rules.iter().map(|rule| rule.parse().unwrap()).collect();
        request
    }

    pub(crate) fn expected_value(&self, field: &ExpectedField) -> &[u8] {
        &self.values[field.offset..field.offset + field.len]
    }

    /// Indexes and compares every byte with what h5py read.
    pub(crate) fn check(&self, request: &IndexRequest) -> IndexSummary {
        let summary = index(request, &()).unwrap_or_else(|error| panic!("{}", chain(&error)));
        let bytes = fs::read(&request.output).unwrap();
        assert_eq!(summary.index_bytes, bytes.len() as u64);
        let index = Index::parse(bytes).unwrap();
        index.verify().unwrap();
        assert_eq!(index.len(), summary.samples);
        self.compare(&index, Path::new(index.root()));
        summary
    }

    pub(crate) fn compare(&self, index: &Index<Vec<u8>>, root: &Path) {
        assert!(!self.samples.is_empty());
        assert_eq!(index.len(), self.samples.len() as u64, "number of samples");
        for (position, expected) in self.samples.iter().enumerate() {
            let position = position as u64;
            assert_eq!(index.key(position).unwrap(), expected.key.as_deref());
            if let Some(key) = &expected.key {
                assert_eq!(index.find(key).unwrap(), Some(position));
            }
            self.compare_sample(index, root, position, expected);
        }
    }

    fn compare_sample(
        &self,
        index: &Index<Vec<u8>>,
        root: &Path,
        position: u64,
        expected: &ExpectedSample,
    ) {
        let by_name: BTreeMap<&str, &ExpectedField> = expected
            .fields
            .iter()
            .map(|field| (field.name.as_str(), field))
            .collect();
        let names: Vec<&str> = index.fields().iter().map(|f| f.name.as_str()).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        assert_eq!(
            sorted,
            by_name.keys().copied().collect::<Vec<_>>(),
            "fields"
        );
        for (number, spec) in index.fields().iter().enumerate() {
            let wanted = by_name[spec.name.as_str()];
            let place = format!("sample {position} field {}", spec.name);
            assert_eq!(spec.dtype.to_string(), wanted.dtype, "{place}");
            let field = index.sample(position).unwrap().field(number).unwrap();
            assert_eq!(
                field.shape().iter().collect::<Vec<_>>(),
                wanted.shape,
                "{place}"
            );
            let found = read_field(index, root, &field);
            assert!(
                found == self.expected_value(wanted),
                "{place}: bytes differ"
            );
        }
    }
}

/// Reads a field as a client would: from its segment, decoded.
pub(crate) fn read_field(index: &Index<Vec<u8>>, root: &Path, field: &Field<'_>) -> Vec<u8> {
    if let Field::Value { bytes, .. } = field {
        return bytes.to_vec();
    }
    let segment = index.segment(field.segment().unwrap()).unwrap();
    let file = File::open(root.join(segment.path)).unwrap();
    let mut out = vec![0xa5; field.decoded_len() as usize];
    match field {
        Field::Contiguous { shard_range, .. } => {
            if let Some(range) = shard_range {
                let offset = range.start() - segment.shard_start;
                file.read_exact_at(&mut out, offset).unwrap();
            }
        }
        Field::Chunked { chunks, .. } => {
            let rows = field.rows().unwrap();
            rows.fill(&mut out).unwrap();
            let mut scratch = Scratch::default();
            for chunk in *chunks {
                let mut stored = vec![0; chunk.shard_range.len() as usize];
                let offset = chunk.shard_range.start() - segment.shard_start;
                file.read_exact_at(&mut stored, offset).unwrap();
                rows.place(
                    chunk.grid_index,
                    chunk.filter_mask,
                    &stored,
                    &mut scratch,
                    &mut out,
                )
                .unwrap();
            }
        }
        Field::Value { .. } => unreachable!(),
    }
    out
}

/// An error with its causes, as a command prints it.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(&format!(": {next}"));
        cause = next.source();
    }
    text
}

/// The message of the error that indexing ends in.
pub(crate) fn refusal(request: &IndexRequest) -> (IndexerError, String) {
    let error = index(request, &()).expect_err("indexing should fail");
    assert!(!request.output.exists(), "an output was left behind");
    let text = chain(&error);
    (error, text)
}
