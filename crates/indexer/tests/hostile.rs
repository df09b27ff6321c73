//! Damaged files of every format: an error or an index that can be read, never a panic, a hang or
//! memory beyond the size of the file.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::Case;
use forebay_dataset::index::Index;
use forebay_indexer::{IndexRequest, index};

const CASES: [&str; 8] = [
    "tar_dialects",
    "tar_links",
    "npy_rows",
    "npz_stored",
    "npz_deflated",
    "safetensors_rows",
    "tfrecord",
    "mds",
];

/// Files of a case, and each of its files that may be damaged.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn random(seed: u64) -> impl FnMut(usize) -> usize {
    let mut state = seed | 1;
    move |below| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % below as u64) as usize
    }
}

/// Indexes what is there. What is indexed has to be sound: every record inside its file.
fn survives(request: &IndexRequest, what: &str) {
    let started = Instant::now();
    match index(request, &()) {
        Ok(_) => {
            let index = Index::parse(fs::read(&request.output).unwrap()).unwrap();
            index
                .verify()
                .unwrap_or_else(|error| panic!("{what}: {error}"));
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{what}: too slow"
    );
}

#[test]
fn truncated_files_are_refused() {
    for name in CASES {
        let case = Case::format(name);
        let request = case.request(&[]);
        for path in files(&case.files) {
            let whole = fs::read(&path).unwrap();
            let step = (whole.len() / 25).max(1);
            for len in (0..whole.len()).step_by(step) {
                fs::write(&path, &whole[..len]).unwrap();
                // A file of records may end behind any of them, an archive in its padding.
                let padding = whole[len..].iter().all(|byte| *byte == 0);
                if name == "tfrecord" || padding {
                    survives(&request, &format!("{name} at {len}"));
                } else {
                    let result = index(&request, &());
                    assert!(result.is_err(), "{name}: `{}` cut to {len}", path.display());
                }
            }
            fs::write(&path, &whole).unwrap();
        }
        case.check(&request);
    }
}

#[test]
fn flipped_bytes_neither_panic_nor_hang() {
    let mut next = random(0x9e37_79b9_7f4a_7c15);
    for name in CASES {
        let case = Case::format(name);
        let mut request = case.request(&[]);
        let files = files(&case.files);
        for round in 0..90 {
            request.verify_data = round % 3 == 0;
            let path = &files[next(files.len())];
            let whole = fs::read(path).unwrap();
            let mut bytes = whole.clone();
            for _ in 0..=next(4) {
                // Most structure lies at the two ends.
                let at = match round % 3 {
                    0 => next(bytes.len()),
                    1 => next(bytes.len().min(700)),
                    _ => bytes.len() - 1 - next(bytes.len().min(700)),
                };
                bytes[at] = match next(4) {
                    0 => 0xff,
                    1 => 0,
                    2 => b'0' + next(10) as u8,
                    _ => bytes[at] ^ 1 << next(8),
                };
            }
            fs::write(path, &bytes).unwrap();
            survives(&request, &format!("{name} round {round}"));
            fs::write(path, &whole).unwrap();
        }
        case.check(&case.request(&[]));
    }
}

#[test]
fn names_that_lie_about_their_files_are_refused() {
    let temp = tempfile::tempdir().unwrap();
    let mut next = random(77);
    for extension in ["tar", "npy", "npz", "safetensors", "tfrecord"] {
        for len in [0, 1, 7, 8, 100, 511, 512, 4096] {
            let path = temp.path().join(format!("lie.{extension}"));
            let bytes: Vec<u8> = (0..len).map(|_| next(255) as u8 + 1).collect();
            fs::write(&path, bytes).unwrap();
            let request = IndexRequest::new(vec![path.clone()], temp.path().join("out.forebay"));
            let error = common::chain(&index(&request, &()).unwrap_err());
            // An empty file of records has no sample; all else is damaged.
            assert!(
                error.contains("lie.") || error.contains("no sample"),
                "{len}: {error}"
            );
            fs::remove_file(path).unwrap();
        }
    }
}
