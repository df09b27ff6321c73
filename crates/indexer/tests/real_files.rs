//! Files that others wrote: each data set is what h5py reads, or is refused by name.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use common::{Case, ExpectedSample, chain};
use forebay_dataset::ErrorKind;
use forebay_dataset::index::{Field, Index};
use forebay_indexer::{FlattenRequest, FlattenSource, IndexRequest, IndexerError, flatten, index};

/// Words of the features that real files have and that are refused for good.
const REFUSED: &[&str] = &[
    "blosc2",
    "bzip2",
    "lzo",
    "a reference type",
    "a time type",
    "not IEEE 754",
    "an array of compounds",
    "an empty (null) data space",
    "an opaque type with a tag",
    "a string type padded with spaces",
    "bits",
    "elements of 0 bytes",
    "a variable-length type of compounds, arrays or references",
];

/// A data set of a real file as the only field of a sample.
struct DataSet<'a> {
    case: &'a Case,
    expected: &'a ExpectedSample,
    file: &'a str,
    name: &'a str,
}

impl DataSet<'_> {
    fn request(&self) -> IndexRequest {
        let mut request = self.case.request(&["/"]);
        request.inputs = vec![self.case.files.join(self.file)];
        request.fields = vec![self.name.to_owned()];
        request
    }

    /// Compares each field with what h5py read.
    fn compare(&self, request: &IndexRequest) {
        let found = Index::parse(fs::read(&request.output).unwrap()).unwrap();
        found.verify().unwrap();
        assert_eq!(found.len(), 1);
        let place = || format!("{}:{}", self.file, self.name);
        for (number, spec) in found.fields().iter().enumerate() {
            let wanted = self
                .expected
                .fields
                .iter()
                .find(|field| field.name == spec.name);
            let wanted = wanted.unwrap_or_else(|| panic!("{}: {}", place(), spec.name));
            assert_eq!(spec.dtype.to_string(), wanted.dtype, "{}", place());
            let field = found.sample(0).unwrap().field(number).unwrap();
            let shape: Vec<u64> = field.shape().iter().collect();
            assert_eq!(shape, wanted.shape, "{}", place());
            let root = std::path::Path::new(found.root());
            let bytes = common::read_field(&found, root, &field);
            let same = bytes == self.case.expected_value(wanted)
                || spec.dtype.kind() == 'S' && self.same_text(&bytes, wanted, spec.dtype.size());
            assert!(same, "{}: bytes of {} differ", place(), spec.name);
        }
        assert_eq!(
            found.fields().len(),
            self.expected.fields.len(),
            "{}",
            place()
        );
    }

    /// Text ends at a zero byte; what lies behind it in its element means nothing.
    fn same_text(&self, bytes: &[u8], wanted: &common::ExpectedField, size: u16) -> bool {
        let texts = |bytes: &[u8]| -> Vec<Vec<u8>> {
            let elements = bytes.chunks(size.into());
            let text = |element: &[u8]| element.split(|b| *b == 0).next().map(<[u8]>::to_vec);
            elements.filter_map(text).collect()
        };
        texts(bytes) == texts(self.case.expected_value(wanted))
    }

    /// Checks a refusal; the advice to flatten has to hold.
    fn check_refusal(&self, error: &IndexerError) -> Option<String> {
        let text = chain(error);
        let place = format!("{}:{}: {text}", self.file, self.name);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{place}");
        assert!(text.contains(self.name), "{place}");
        assert!(text.contains("--fields"), "{place}");
        if text.contains("`forebay flatten`") {
            assert!(self.expected.fields.is_empty(), "h5py reads {place}");
            let output = self.case.temp.path().join("flat");
            let source = FlattenSource::Inputs(self.request());
            match flatten(&FlattenRequest::new(source, output.clone()), &()) {
                Ok(_) => fs::remove_dir_all(output).unwrap(),
                // Text with a reference beside it.
                Err(error) => return self.check_refusal(&error),
            }
            return None;
        }
        let known = REFUSED.iter().find(|feature| text.contains(*feature));
        Some((*known.unwrap_or_else(|| panic!("{place}"))).to_owned())
    }
}

#[test]
fn every_data_set_of_real_files_is_what_h5py_reads() {
    let case = Case::make("real");
    let (mut compared, mut decoded, mut unread, mut refused) = (0, 0, 0, BTreeMap::new());
    let mut files = BTreeSet::new();
    for expected in &case.samples {
        let (file, name) = expected.key.as_deref().unwrap().split_once(':').unwrap();
        let data_set = DataSet {
            case: &case,
            expected,
            file,
            name,
        };
        files.insert(file);
        let request = data_set.request();
        match index(&request, &()) {
            Ok(_) if expected.fields.is_empty() => unread += 1,
            Ok(_) => {
                data_set.compare(&request);
                compared += 1;
            }
            Err(error) => match data_set.check_refusal(&error) {
                None => decoded += 1,
                Some(feature) => *refused.entry(feature).or_insert(0) += 1,
            },
        }
        let _ = fs::remove_file(&request.output);
    }
    println!(
        "{} files: {compared} data sets compared, {decoded} flattened, {unread} that h5py has no type \
         for, refused: {refused:?}",
        files.len()
    );
    assert!(compared + decoded > 0);
}

#[test]
fn offsets_are_those_of_kerchunk() {
    let case = Case::make("kerchunk");
    let refs = fs::read(case.files.join("refs.json")).unwrap();
    let refs: serde_json::Map<String, serde_json::Value> = serde_json::from_slice(&refs).unwrap();
    if let Some(reason) = refs.get("skipped") {
        println!("skipped: {reason}");
        return;
    }
    let mut request = case.request(&["s*"]);
    request.inputs = vec![case.files.join("a.h5")];
    index(&request, &()).unwrap();
    let found = Index::parse(fs::read(&request.output).unwrap()).unwrap();
    let mut ours = BTreeSet::new();
    for (number, spec) in found.fields().iter().enumerate() {
        match found.sample(0).unwrap().field(number).unwrap() {
            Field::Contiguous { shard_range, .. } => {
                let range = shard_range.unwrap();
                ours.insert((format!("s/{}/0.0", spec.name), range.start(), range.len()));
            }
            Field::Chunked { layout, chunks, .. } => {
                let along = layout.array_shape[1].div_ceil(layout.chunk_shape[1]);
                for chunk in chunks {
                    let (row, column) = (chunk.grid_index / along, chunk.grid_index % along);
                    let name = format!("s/{}/{row}.{column}", spec.name);
                    ours.insert((name, chunk.shard_range.start(), chunk.shard_range.len()));
                }
            }
            Field::Value { .. } => panic!("no field is a value"),
        }
    }
    let theirs = refs.iter().filter_map(|(name, place)| {
        let (offset, len) = (place.get(1)?.as_u64()?, place.get(2)?.as_u64()?);
        Some((name.clone(), offset, len))
    });
    assert_eq!(ours, theirs.collect());
}
