//! Data that lies in other files, or in the global heap, is found or decoded, or refused.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::fs;

use common::{Case, chain, refusal};
use forebay_dataset::ErrorKind;
use forebay_dataset::index::Index;
use forebay_indexer::{FlattenRequest, FlattenSource, IndexRequest, flatten, index};

/// A request for one file of a case.
fn of_file(case: &Case, file: &str, rules: &[&str]) -> IndexRequest {
    let mut request = case.request(rules);
    request.inputs = vec![case.files.join(file)];
    request
}

#[test]
fn external_links_lead_to_data_sets_and_groups_of_other_files() {
    let case = Case::make("external_links");
    let summary = case.check(&of_file(&case, "main.h5", &["s*"]));
    assert_eq!(summary.segments, 3);
}

#[test]
fn external_data_is_read_where_it_lies() {
    let case = Case::make("external_data");
    let summary = case.check(&of_file(&case, "a.h5", &["s*"]));
    assert_eq!(summary.segments, 3);
}

#[test]
fn virtual_data_sets_that_show_all_of_another_are_that() {
    let case = Case::make("virtual_whole");
    let mut request = case.request(&["s*"]);
    request.inputs = vec![case.files.join("new"), case.files.join("old")];
    request.root = Some(case.files.clone());
    case.check(&request);
}

#[test]
fn rows_of_a_virtual_data_set_lie_in_many_files() {
    let case = Case::make("virtual_rows");
    let summary = case.check(&of_file(&case, "all.h5", &["rows"]));
    assert_eq!(summary.segments, 4);
}

/// Refused by `index` with advice, given by `flatten`.
fn decoded_by_flatten(name: &str, inputs: &[&str], rules: &[&str]) {
    let case = Case::make(name);
    let mut request = case.request(rules);
    request.inputs = inputs.iter().map(|file| case.files.join(file)).collect();
    let (error, text) = refusal(&request);
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {text}");
    assert!(text.contains("`forebay flatten`"), "{name}: {text}");
    let output = case.temp.path().join("flat");
    let request = FlattenRequest::new(FlattenSource::Inputs(request), output.clone());
    flatten(&request, &()).unwrap_or_else(|error| panic!("{name}: {}", chain(&error)));
    let packed = Index::parse(fs::read(output.join("index.forebay")).unwrap()).unwrap();
    case.compare(&packed, &output);
    // The same again finds that all is done.
    let again = flatten(&request, &()).unwrap();
    assert_eq!(again.shards, again.shards_reused, "{name}");
}

#[test]
fn flatten_decodes_what_no_range_holds() {
    decoded_by_flatten("variable", &["a.h5"], &["s*"]);
    decoded_by_flatten("variable_rows", &["a.h5"], &["rows"]);
    decoded_by_flatten("references", &["a.h5", "b.h5"], &["s*"]);
    decoded_by_flatten("reference_rows", &["a.h5"], &["rows"]);
    decoded_by_flatten("virtual_parts", &["new.h5", "old.h5"], &["s*"]);
    decoded_by_flatten("external_data_parts", &["a.h5"], &["s*"]);
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let case = Case::make("missing");
    for (name, kind, words) in [
        ("link", ErrorKind::NotFound, "gone.h5"),
        ("virtual", ErrorKind::NotFound, "gone.h5"),
        ("data", ErrorKind::NotFound, "gone.bin"),
        (
            "short",
            ErrorKind::Corrupt,
            "`short.bin`, which has 8 bytes",
        ),
        ("other", ErrorKind::Corrupt, "its source `gone`"),
        ("inside", ErrorKind::Unsupported, "--root"),
    ] {
        let mut request = of_file(&case, &format!("{name}/a.h5"), &["s*"]);
        let (error, text) = refusal(&request);
        assert_eq!(error.kind(), kind, "{name}: {text}");
        for part in [words, "`s/x`", "a.h5`"] {
            assert!(text.contains(part), "{name}: no {part:?} in {text:?}");
        }
        request.fields = vec!["ok".to_owned()];
        index(&request, &()).unwrap();
        fs::remove_file(&request.output).unwrap();
    }
    // A root that holds both is the way out.
    let mut request = of_file(&case, "inside/a.h5", &["s*"]);
    request.root = Some(case.files.clone());
    assert_eq!(index(&request, &()).unwrap().segments, 2);
}

#[test]
fn a_linked_file_that_changes_is_stale_when_it_is_read() {
    let case = Case::make("external_links");
    let request = of_file(&case, "main.h5", &["s*"]);
    index(&request, &()).unwrap();
    let verify = forebay_indexer::VerifyRequest {
        index: request.output,
        root: None,
        data: true,
        stores: None,
    };
    assert_eq!(forebay_indexer::verify(&verify, &()).unwrap().faults, 0);
    let linked = fs::File::options()
        .append(true)
        .open(case.files.join("data/one.h5"));
    std::io::Write::write_all(&mut linked.unwrap(), b"more").unwrap();
    let report = forebay_indexer::verify(&verify, &()).unwrap();
    assert!(report.listed[0].contains("one.h5"), "{:?}", report.listed);
}

#[test]
fn text_in_the_heap_of_another_file_is_refused() {
    let case = Case::make("virtual_text");
    let source = FlattenSource::Inputs(of_file(&case, "a.h5", &["s*"]));
    let request = FlattenRequest::new(source, case.temp.path().join("flat"));
    let error = flatten(&request, &()).unwrap_err();
    let text = chain(&error);
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{text}");
    for part in [
        "`s/x`",
        "variable-length type in a virtual data set",
        "--fields",
    ] {
        assert!(text.contains(part), "no {part:?} in {text:?}");
    }
}
