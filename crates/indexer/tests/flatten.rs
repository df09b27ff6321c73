//! Packed shards hold the same bytes, however often the run was interrupted.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use common::{Case, chain};
use forebay_dataset::ErrorKind;
use forebay_dataset::index::{Field, Index};
use forebay_indexer::{
    FlattenRequest, FlattenSource, FlattenSummary, IndexRequest, IndexerError, Progress, flatten,
    index,
};

fn run(request: &FlattenRequest) -> FlattenSummary {
    flatten(request, &()).unwrap_or_else(|error| panic!("{}", chain(&error)))
}

fn fail(request: &FlattenRequest) -> (IndexerError, String) {
    let error = flatten(request, &()).expect_err("flattening should fail");
    let text = chain(&error);
    (error, text)
}

/// Indexes a case and asks for it to be flattened, in small shards.
fn prepared(case: &Case, rules: &[&str]) -> FlattenRequest {
    let request = case.request(rules);
    index(&request, &()).unwrap();
    let source = FlattenSource::Index {
        path: request.output,
        root: None,
    };
    let mut request = FlattenRequest::new(source, case.temp.path().join("flat"));
    request.shard_bytes = 20_000;
    request
}

fn read_index(request: &FlattenRequest) -> Index<Vec<u8>> {
    Index::parse(fs::read(request.output.join("index.forebay")).unwrap()).unwrap()
}

fn check(case: &Case, request: &FlattenRequest) -> FlattenSummary {
    let summary = run(request);
    let packed = read_index(request);
    packed.verify().unwrap();
    case.compare(&packed, &request.output);
    for sample in 0..packed.len() {
        let found = packed.sample(sample).unwrap();
        let mut bytes = Vec::new();
        for number in 0..packed.fields().len() {
            let field = found.field(number).unwrap();
            bytes.extend(common::read_field(&packed, &request.output, &field));
            let Field::Contiguous { shard_range, .. } = field else {
                panic!("a packed field is contiguous");
            };
            let segment = packed.segment(field.segment().unwrap()).unwrap();
            let offset = shard_range.map_or(0, |range| range.start() - segment.shard_start);
            assert_eq!(offset % 64, 0, "alignment");
        }
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
        assert_eq!(found.crc32c(), Some(sum));
    }
    summary
}

/// Names and bytes of all shards.
fn shards(folder: &Path) -> BTreeMap<String, Vec<u8>> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "fbs"))
        .map(|path| {
            (
                path.file_name().unwrap().to_str().unwrap().to_owned(),
                fs::read(path).unwrap(),
            )
        })
        .collect()
}

#[test]
fn packed_samples_hold_what_h5py_reads() {
    for (name, rules) in [
        ("chunked_latest", vec!["*"]),
        ("filter_masks", vec!["*"]),
        ("unwritten", vec!["*"]),
        ("dtypes", vec!["s*"]),
        ("rows", vec!["rows"]),
        ("sair", vec!["raw*.h5=*/dcomplex/*", "edge*.h5=*/*"]),
    ] {
        let case = Case::make(name);
        let request = prepared(&case, &rules);
        let summary = check(&case, &request);
        assert_eq!(summary.shards_reused, 0);
        if name == "sair" {
            assert!(summary.shards > 5, "several shards: {}", summary.shards);
        }
    }
}

#[test]
fn inputs_are_indexed_first() {
    let case = Case::make("contiguous");
    let source = FlattenSource::Inputs(IndexRequest::new(
        vec![case.files.clone()],
        PathBuf::from("unused"),
    ));
    let mut request = FlattenRequest::new(source, case.temp.path().join("deep/flat"));
    let summary = check(&case, &request);
    assert_eq!(summary.shards, 1);
    let names: Vec<_> = fs::read_dir(&request.output).unwrap().collect();
    assert_eq!(names.len(), 3, "shard, index and state only");
    // The folder can be moved.
    let moved = case.temp.path().join("moved");
    fs::rename(&request.output, &moved).unwrap();
    request.output = moved;
    case.compare(&read_index(&request), &request.output);

    request.output = case.files.join("inside");
    let (_, text) = fail(&request);
    assert!(text.contains("lies inside the input"), "{text}");
}

#[test]
fn the_same_request_gives_the_same_bytes_and_does_nothing_twice() {
    let case = Case::make("sair");
    let mut request = prepared(&case, &["raw*.h5=*/dcomplex/*", "edge*.h5=*/*"]);
    let first = run(&request);
    let bytes = shards(&request.output);
    let again = run(&request);
    assert_eq!(again.shards_reused, first.shards);
    assert_eq!(again.generation, first.generation);
    request.output = case.temp.path().join("other");
    run(&request);
    assert!(shards(&request.output) == bytes, "bytes differ");
}

#[test]
fn what_is_incomplete_or_damaged_is_written_again() {
    let case = Case::make("sair");
    let request = prepared(&case, &["raw*.h5=*/dcomplex/*", "edge*.h5=*/*"]);
    let first = run(&request);
    let bytes = shards(&request.output);
    // As after a kill: no index, a shard that is cut, one with a flipped bit, one not written.
    fs::remove_file(request.output.join("index.forebay")).unwrap();
    let names: Vec<&String> = bytes.keys().collect();
    let shard = |number: usize| request.output.join(names[number]);
    let receipt = |number: usize, bytes: &[u8]| {
        let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32;
        let text = format!("{{\"bytes\":{},\"crc32c\":{sum}}}", bytes.len());
        fs::write(shard(number).with_extension("json"), text).unwrap();
    };
    for number in 0..names.len() - 1 {
        receipt(number, &bytes[names[number]]);
    }
    fs::write(shard(0), &bytes[names[0]][..100]).unwrap();
    let mut flipped = bytes[names[1]].clone();
    flipped[70] ^= 1;
    fs::write(shard(1), flipped).unwrap();
    fs::rename(shard(2), shard(2).with_extension("fbs.partial")).unwrap();

    let summary = check(&case, &request);
    // Those three, and the last, which has no receipt.
    assert_eq!(summary.shards_reused, first.shards - 4);
    assert!(shards(&request.output) == bytes, "bytes differ");
}

#[test]
fn a_changed_source_is_stale() {
    let case = Case::make("sair");
    let request = prepared(&case, &["raw*.h5=*/dcomplex/*", "edge*.h5=*/*"]);
    let path = case.files.join("raw_1.h5");
    let file = fs::File::options().append(true).open(&path).unwrap();
    file.set_len(fs::metadata(&path).unwrap().len() + 1)
        .unwrap();
    let (error, text) = fail(&request);
    assert_eq!(error.kind(), ErrorKind::Stale, "{text}");
    assert!(text.contains("raw_1.h5"), "{text}");
    assert!(!request.output.join("index.forebay").exists());
}

#[test]
fn a_folder_that_holds_something_else_is_refused() {
    let case = Case::make("contiguous");
    let mut request = prepared(&case, &["*/*"]);
    fs::create_dir(&request.output).unwrap();
    fs::write(request.output.join("thesis.tex"), "dear").unwrap();
    let (error, text) = fail(&request);
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(text.contains("thesis.tex"), "{text}");
    assert_eq!(
        fs::read_dir(&request.output).unwrap().count(),
        1,
        "nothing was written"
    );

    fs::remove_file(request.output.join("thesis.tex")).unwrap();
    run(&request);
    request.shard_bytes += 1;
    let (_, text) = fail(&request);
    assert!(text.contains("of another size"), "{text}");
}

/// Makes every sample take a while.
struct Slow;

impl Progress for Slow {
    fn advance(&self, _: u64) {
        sleep(Duration::from_millis(20));
    }
}

/// The process that the test below kills.
#[test]
#[ignore = "run by `a_killed_run_goes_on_where_it_stopped`"]
fn helper_flattens_slowly() {
    let path = |name: &str| PathBuf::from(std::env::var_os(name).unwrap());
    let source = FlattenSource::Index {
        path: path("FLATTEN_INDEX"),
        root: None,
    };
    let mut request = FlattenRequest::new(source, path("FLATTEN_OUTPUT"));
    request.shard_bytes = 20_000;
    flatten(&request, &Slow).unwrap();
}

#[test]
fn a_killed_run_goes_on_where_it_stopped() {
    let case = Case::make("sair");
    let request = prepared(&case, &["raw*.h5=*/dcomplex/*", "edge*.h5=*/*"]);
    let receipts = || {
        fs::read_dir(&request.output).map_or(0, |entries| {
            entries
                .filter(|entry| {
                    let name = entry.as_ref().unwrap().file_name();
                    let name = name.to_str().unwrap().to_owned();
                    name.starts_with("shard-") && name.ends_with(".json")
                })
                .count()
        })
    };
    for round in 1..=3 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["helper_flattens_slowly", "--exact", "--ignored"])
            .env("FLATTEN_INDEX", case.output())
            .env("FLATTEN_OUTPUT", &request.output)
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while receipts() < 2 * round {
            assert!(Instant::now() < deadline, "the helper wrote nothing");
            assert!(
                child.try_wait().unwrap().is_none(),
                "the helper ended early"
            );
            sleep(Duration::from_millis(2));
        }
        // SIGKILL.
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!request.output.join("index.forebay").exists());
    }
    let kept = receipts() as u64;
    let summary = check(&case, &request);
    assert!(
        kept >= 6 && summary.shards_reused == kept,
        "{kept} {summary:?}"
    );
    assert_eq!(receipts(), 0);

    let mut fresh = request.clone();
    fresh.output = case.temp.path().join("fresh");
    run(&fresh);
    assert!(
        shards(&request.output) == shards(&fresh.output),
        "bytes differ"
    );
}
