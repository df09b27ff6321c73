//! What is not understood is refused by name; what is damaged ends in an error.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::fs;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use common::{Case, refusal};
use forebay_dataset::ErrorKind;
use forebay_indexer::{IndexRequest, index};

/// What each file of the case `refused` has, in the words of its refusal.
const FEATURES: [(&str, &str); 24] = [
    ("vlen", "a variable-length type"),
    ("vlen_ints", "a variable-length type"),
    ("reference", "a type of object references"),
    ("region_reference", "a region reference type"),
    ("vlen_references", "a variable-length type"),
    ("array_of_compounds", "an array of compounds"),
    ("blosc2", "blosc2 (number 32026)"),
    ("bzip2", "bzip2 (number 307)"),
    ("zfp", "zfp (number 32013)"),
    ("narrow_member", "a member of 17 bits"),
    ("time", "a time type"),
    ("date", "an opaque type with a tag"),
    ("null", "an empty (null) data space"),
    (
        "virtual",
        "a virtual data set of several sources or of parts of one",
    ),
    (
        "virtual_growing",
        "a virtual data set that grows with its sources",
    ),
    (
        "virtual_other_type",
        "a virtual data set whose source has another type",
    ),
    ("bits", "an integer type of 17 bits"),
    (
        "bfloat",
        "a floating-point type of 2 bytes that is not IEEE 754",
    ),
    (
        "never_filled",
        "a part that was never written, with no fill value",
    ),
    ("uneven_fill", "a fill value whose elements differ"),
    ("bits_of_fill", "a fill value of a part of the bits"),
    ("plugin", "(number 40000)"),
    ("edges", "chunks left unfiltered at the edges"),
    ("shared_messages", "shared object header messages"),
];

#[test]
fn every_feature_that_is_refused_is_named() {
    let case = Case::make("refused");
    for (name, feature) in FEATURES {
        let mut request = case.request(&["s*"]);
        request.inputs = vec![case.files.join(format!("{name}.h5"))];
        let (error, text) = refusal(&request);
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {text}");
        for part in [
            feature,
            "`s/x`",
            &format!("{name}.h5`"),
            "is not supported; ",
        ] {
            assert!(text.contains(part), "{name}: no {part:?} in {text:?}");
        }
        assert!(text.contains("--fields"), "{name}: no way out in {text:?}");

        // Left out, it is no obstacle.
        request.fields = vec!["ok".to_owned()];
        let decoded = [
            "vlen",
            "vlen_ints",
            "vlen_references",
            "reference",
            "virtual",
        ];
        let advised = text.contains("forebay flatten");
        assert_eq!(advised, decoded.contains(&name), "{text}");
        let summary = index(&request, &()).unwrap();
        assert_eq!((summary.samples, summary.fields.len()), (1, 1), "{name}");
        fs::remove_file(&request.output).unwrap();
    }
}

#[test]
fn a_reference_to_what_no_group_holds_is_refused_by_name() {
    let case = Case::make("lost_reference");
    let mut request = case.request(&["s*"]);
    request.decode = true;
    let (error, text) = refusal(&request);
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
    for part in [
        "`s/x`",
        "a reference to an object that no group holds",
        "--fields",
    ] {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
}

#[test]
fn links_to_nowhere_and_in_circles_are_errors() {
    let case = Case::make("refused");
    for (name, words) in [
        ("dangling", "leads nowhere"),
        ("soft_circle", "in a circle"),
        ("soft_bomb", "in circles"),
    ] {
        let mut request = case.request(&["s*"]);
        request.inputs = vec![case.files.join(format!("{name}.h5"))];
        let (error, text) = refusal(&request);
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{text}");
        assert!(text.contains(words), "{text}");
    }
}

#[test]
fn a_pattern_that_matches_nothing_is_an_error() {
    let case = Case::make("contiguous");
    for (rules, words) in [
        (
            vec!["*/*/*"],
            "it has groups such as `1abc`, `2xyz`, `1abc/0`",
        ),
        (vec!["b*.h5=*/*"], "no HDF5 file"),
        (vec!["rows"], "no data set in the root group"),
        (vec!["rows:/nothing"], "no data set `/nothing`"),
        (vec!["*/*", "rows"], "rows have no key"),
        (vec!["*/*", "*/*"], "two sample rules find a field"),
    ] {
        let (error, text) = refusal(&case.request(&rules));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        assert!(text.contains(words), "{rules:?}: {text}");
    }
    let mut request = case.request(&["*/*"]);
    request.fields = vec!["coord".to_owned(), "speed".to_owned()];
    let (_, text) = refusal(&request);
    for part in [
        "no sample has a field `speed`",
        "left out are `feat`, `label`",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

#[test]
fn a_join_says_which_sample_lacks_its_partner() {
    let case = Case::make("sair");
    fs::remove_file(case.files.join("edges_1.h5")).unwrap();
    let mut request = case.request(&["raw*.h5=*/dcomplex/*", "edge*.h5=*/*"]);
    let (_, text) = refusal(&request);
    for part in ["1m0/0", "raw_1.h5", "edge*.h5=*/*", "--skip-incomplete"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    request.skip_incomplete = true;
    let summary = index(&request, &()).unwrap();
    assert_eq!((summary.samples, summary.skipped), (15, 15));
}

#[test]
fn detection_says_what_to_ask_for() {
    let case = Case::make("sair");
    let (_, text) = refusal(&case.request(&[]));
    for part in ["edges_0.h5=*/*", "raw_0.h5=*/dcomplex/*"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn a_failed_run_leaves_the_output_as_it_was() {
    let case = Case::make("refused");
    let request = case.request(&["s*"]);
    fs::write(&request.output, "an earlier index").unwrap();
    index(&request, &()).unwrap_err();
    assert_eq!(fs::read(&request.output).unwrap(), b"an earlier index");
    assert_eq!(
        fs::read_dir(case.temp.path()).unwrap().count(),
        2,
        "a partial file is left"
    );
}

/// Indexing a damaged file may succeed or fail; it must not panic and must come to an end.
fn survives(request: &IndexRequest, what: &str) {
    let started = Instant::now();
    match index(request, &()) {
        Ok(_) => fs::remove_file(&request.output).unwrap(),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
    assert!(
        started.elapsed() < Duration::from_secs(60),
        "{what}: too slow"
    );
}

fn damaged_request(case: &Case, rules: &[&str], damaged: &Path) -> IndexRequest {
    let mut request = case.request(rules);
    request.inputs = vec![damaged.to_path_buf()];
    request
}

#[test]
fn truncated_files_end_in_an_error() {
    for name in ["chunked_latest", "chunked_earliest"] {
        let case = Case::make(name);
        let whole = fs::read(case.files.join("a.h5")).unwrap();
        let path = case.temp.path().join("cut.h5");
        let request = damaged_request(&case, &["*"], &path);
        for step in 0..48 {
            let len = whole.len() * step / 48;
            fs::write(&path, &whole[..len]).unwrap();
            let error = index(&request, &()).expect_err("a cut file was indexed");
            let text = error.to_string();
            assert!(text.contains("cut.h5") || text.contains("no"), "{text}");
        }
    }
}

#[test]
fn flipped_bits_neither_panic_nor_hang() {
    let mut random = 0x9e37_79b9_7f4a_7c15_u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    for (name, rules) in [
        ("chunked_latest", vec!["*"]),
        ("chunked_earliest", vec!["*"]),
        ("links", vec!["*/*"]),
        ("rows", vec!["rows"]),
        ("compound_rows", vec!["rows"]),
        ("variable_rows", vec!["rows"]),
        ("variable", vec!["*"]),
        ("references", vec!["s*"]),
        ("virtual_parts", vec!["*"]),
    ] {
        let case = Case::make(name);
        let source = case.files.join(match name {
            "links" => "old/a.h5",
            "virtual_parts" => "old.h5",
            _ => "a.h5",
        });
        let whole = fs::read(&source).unwrap();
        let path = case.temp.path().join("flipped.h5");
        fs::write(&path, &whole).unwrap();
        let mut file = fs::File::options().write(true).open(&path).unwrap();
        // What is decoded in memory is looked at too, with the files that it leads to.
        fs::copy(case.files.join("one.h5"), case.temp.path().join("one.h5")).ok();
        let mut request = damaged_request(&case, &rules, &path);
        request.decode = true;
        for round in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..=next(4) {
                // Most structure lies in the first quarter.
                let at = next(if round % 2 == 0 {
                    bytes.len()
                } else {
                    bytes.len() / 4
                });
                bytes[at] = match next(3) {
                    0 => 0xff,
                    1 => 0,
                    _ => bytes[at] ^ 1 << next(8),
                };
            }
            file.seek(SeekFrom::Start(0)).unwrap();
            file.write_all(&bytes).unwrap();
            survives(&request, &format!("{name} round {round}"));
        }
    }
}
