//! What `verify` finds in data.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use common::Case;
use forebay_indexer::{
    FlattenRequest, FlattenSource, SampleReader, VerifyReport, VerifyRequest, flatten, index,
    verify,
};
use forebay_origin::{IndexFile, PosixOrigin};

fn report(index: &Path) -> VerifyReport {
    let request = VerifyRequest {
        index: index.to_path_buf(),
        root: None,
        data: true,
        stores: None,
    };
    verify(&request, &()).unwrap()
}

/// Writes into a file without a trace in its fingerprint.
fn change_unseen(path: &Path, offset: u64, bytes: &[u8]) {
    let file = File::options().write(true).open(path).unwrap();
    let before = file.metadata().unwrap().modified().unwrap();
    file.write_all_at(bytes, offset).unwrap();
    file.set_modified(before).unwrap();
}

fn packed(case: &Case) -> PathBuf {
    let output = case.temp.path().join("packed");
    let source = FlattenSource::Inputs(case.request(&[]));
    flatten(&FlattenRequest::new(source, output), &())
        .unwrap()
        .index
}

#[test]
fn bytes_that_changed_unseen_are_found_by_their_checksum() {
    let case = Case::format("npz_stored");
    let index = packed(&case);
    let sound = report(&index);
    assert_eq!((sound.faults, sound.read, sound.compared), (0, 5, 5));
    change_unseen(&index.with_file_name("shard-00000.fbs"), 3, b"?");
    let found = report(&index);
    assert_eq!(found.faults, 1);
    assert!(
        found.listed[0].contains("sample 0 (`0`): its checksum is"),
        "{:?}",
        found.listed
    );
}

#[test]
fn bytes_that_no_longer_decode_are_found() {
    let case = Case::format("npz_deflated");
    let request = case.request(&[]);
    index(&request, &()).unwrap();
    let sound = report(&request.output);
    assert_eq!((sound.faults, sound.read, sound.compared), (0, 5, 0));
    // Behind the header of the first member, where its deflate stream begins.
    change_unseen(&case.files.join("2.npz"), 60, &[0xff; 40]);
    let found = report(&request.output);
    assert_eq!((found.faults, found.read), (1, 4));
    assert!(
        found.listed[0].contains("sample 2 (`2`)"),
        "{:?}",
        found.listed
    );
    assert!(
        found.listed[0].contains("raw deflate"),
        "{:?}",
        found.listed
    );
}

#[test]
fn a_reader_gives_decoded_bytes() {
    let case = Case::format("npz_rows_deflated");
    let request = case.request(&[]);
    index(&request, &()).unwrap();
    let index = IndexFile::open(&request.output).unwrap();
    let origin = PosixOrigin::new(index.resolve_root(None));
    let mut reader = SampleReader::new(&index, &origin);
    for (position, sample) in case.samples.iter().enumerate() {
        for (number, field) in sample.fields.iter().enumerate() {
            let mut bytes = Vec::new();
            reader.field(position as u64, number, &mut bytes).unwrap();
            assert_eq!(bytes, case.expected_value(field));
        }
    }
    assert!(reader.field(99, 0, &mut Vec::new()).is_err());
    assert!(reader.field(0, 99, &mut Vec::new()).is_err());
}
