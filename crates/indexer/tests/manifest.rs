//! Samples that a table lists, with labels as further columns.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::fs;

use common::{Case, chain, read_field};
use forebay_dataset::index::Index;
use forebay_indexer::{IndexRequest, index};

/// A request for the joined files of a case, by a table of this text.
fn request(case: &Case, table: &str) -> IndexRequest {
    let path = case.temp.path().join("poses.csv");
    fs::write(&path, table).unwrap();
    let mut request = case.request(&[
        "raw_{part}.h5={pdbid}/dcomplex/{poseid}",
        "edges*.h5={pdbid}/{poseid}",
    ]);
    request.manifest = Some(path);
    request
}

fn read(request: &IndexRequest) -> Index<Vec<u8>> {
    index(request, &()).unwrap_or_else(|error| panic!("{}", chain(&error)));
    let read = Index::parse(fs::read(&request.output).unwrap()).unwrap();
    read.verify().unwrap();
    read
}

fn refused(request: &IndexRequest) -> String {
    let error = index(request, &()).expect_err("indexing should fail");
    assert!(!request.output.exists());
    chain(&error)
}

#[test]
fn rows_lead_to_joined_samples_and_other_columns_are_fields() {
    let case = Case::make("sair");
    let keys: Vec<&str> = case
        .samples
        .iter()
        .map(|sample| sample.key.as_deref().unwrap())
        .collect();
    let (first, last) = (keys[0], keys[keys.len() - 1]);
    let row = |key: &str, rest: &str| {
        let (pdbid, poseid) = key.split_once('/').unwrap();
        let part = &key[..1];
        format!("{part},{pdbid},{poseid},{rest}\n")
    };
    let table = "part,pdbid,poseid,affinity,count,name\n".to_owned()
        + &row(last, "-7.25,3,\"x, y\"")
        + &row(first, "1e3,-1,z");
    let request = request(&case, &table);
    let index = read(&request);
    assert_eq!(index.len(), 2);
    assert_eq!(index.key(0).unwrap(), Some(last));
    assert_eq!(index.find(first), Ok(Some(1)));
    let field = |name: &str| index.fields().iter().position(|f| f.name == name).unwrap();
    let value = |sample, name| {
        let found = index.sample(sample).unwrap().field(field(name)).unwrap();
        read_field(&index, &case.files, &found)
    };
    assert_eq!(value(0, "affinity"), (-7.25_f64).to_le_bytes());
    assert_eq!(value(1, "affinity"), 1000_f64.to_le_bytes());
    assert_eq!(value(1, "count"), (-1_i64).to_le_bytes());
    assert_eq!(value(0, "name"), b"x, y");
    assert_eq!(value(1, "name"), b"z\0\0\0");
    for (sample, expected) in [(0, case.samples.last().unwrap()), (1, &case.samples[0])] {
        for wanted in &expected.fields {
            assert!(
                value(sample, &wanted.name) == case.expected_value(wanted),
                "{}",
                wanted.name
            );
        }
    }
}

#[test]
fn rows_without_a_sample_are_named_or_left_out() {
    let case = Case::make("sair");
    let key = case.samples[0].key.as_deref().unwrap();
    let part = &key[..1];
    let (pdbid, poseid) = key.split_once('/').unwrap();
    let good = format!("{part},{pdbid},{poseid},1\n");
    let head = "part,pdbid,poseid,label\n";

    let missing = format!("{head}{good}{part},none,{poseid},2\n");
    let mut incomplete = request(&case, &missing);
    let error = refused(&incomplete);
    for word in ["row 2", "poses.csv", "`none/", "--skip-incomplete"] {
        assert!(error.contains(word), "{word}: {error}");
    }
    incomplete.skip_incomplete = true;
    let summary = index(&incomplete, &()).unwrap();
    assert_eq!((summary.samples, summary.skipped), (1, 1));
    fs::remove_file(&incomplete.output).unwrap();

    let twice = request(&case, &format!("{head}{good}{good}"));
    let error = refused(&twice);
    assert!(error.contains("rows 1 and 2"), "{error}");
}

#[test]
fn tables_and_rules_that_do_not_fit_are_refused() {
    let case = Case::make("sair");
    for (table, rule, words) in [
        ("a,b\n1,2\n", "raw*.h5={pdbid}/x", "no column `pdbid`"),
        ("a,b\n1,2\n", "raw*.h5={a}/*", "put a column in braces"),
        ("a,b\n1,2\n", "raw*.h5=x/y", "names no column"),
        ("a,b\n1,2\n", "raw*.h5={a/y", "brace is not closed"),
        ("a,b\n1,2\n", "raw*.h5=rows", "rows along an axis"),
        ("a,a\n1,2\n", "raw*.h5={a}/{a}", "two columns"),
        ("a,b\n1\n", "raw*.h5={a}/{b}", "line 2 has 1 cells"),
        ("a,b\n", "raw*.h5={a}/{b}", "has no rows"),
    ] {
        let mut request = request(&case, table);
        request.samples = vec![rule.parse().unwrap()];
        let error = refused(&request);
        assert!(error.contains(words), "{rule}: {error}");
    }
    let mut request = request(&case, "a\n1\n");
    request.manifest = None;
    let error = refused(&request);
    assert!(error.contains("--manifest"), "{error}");
}

#[test]
fn each_file_of_a_tree_can_have_a_row() {
    let temp = tempfile::tempdir().unwrap();
    let data = fs::canonicalize(temp.path()).unwrap().join("data");
    fs::create_dir_all(data.join("x")).unwrap();
    for name in ["x/1.jpg", "x/2.jpg", "unlisted.jpg"] {
        fs::write(data.join(name), name).unwrap();
    }
    let table = data.join("labels.tsv");
    fs::write(&table, "image\tlabel\n2\t7\n1\t-3\n").unwrap();
    let mut request = IndexRequest::new(vec![data.clone()], temp.path().join("out"));
    request.samples = vec!["x/{image}.jpg=/".parse().unwrap()];
    request.manifest = Some(table);
    let index = read(&request);
    assert_eq!(index.key(0).unwrap(), Some("x/2.jpg"));
    let field = |sample: u64, number| index.sample(sample).unwrap().field(number).unwrap();
    assert_eq!(read_field(&index, &data, &field(0, 0)), b"x/2.jpg");
    assert_eq!(
        read_field(&index, &data, &field(1, 1)),
        (-3_i64).to_le_bytes()
    );
}
