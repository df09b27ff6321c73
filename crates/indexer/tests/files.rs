//! Folders of plain files, and which files are found.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::Path;

use forebay_dataset::ErrorKind;
use forebay_dataset::index::Index;
use forebay_indexer::{IndexRequest, IndexSummary, index};

fn tree(files: &[(&str, &[u8])]) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    for (name, bytes) in files {
        let path = temp.path().join("data").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    temp
}

fn request(temp: &Path) -> IndexRequest {
    IndexRequest::new(vec![temp.join("data")], temp.join("out.forebay"))
}

fn keys(request: &IndexRequest) -> (IndexSummary, Vec<String>) {
    let summary = index(request, &()).unwrap_or_else(|error| panic!("{}", common::chain(&error)));
    let index = Index::parse(fs::read(&request.output).unwrap()).unwrap();
    let keys = (0..index.len())
        .map(|sample| index.key(sample).unwrap().unwrap().to_owned())
        .collect();
    (summary, keys)
}

#[test]
fn what_an_index_cannot_name_is_refused_unless_it_is_nothing() {
    let nameless = |inside: &Path| inside.join(OsStr::from_bytes(b"no\xffname"));
    let make = |what: &dyn Fn(&Path)| {
        let temp = tree(&[("a/1.bin", b"one"), ("b/2.bin", b"two")]);
        fs::write(temp.path().join("outside.bin"), b"three").unwrap();
        what(&nameless(&temp.path().join("data/a")));
        temp
    };
    let nothing: [&dyn Fn(&Path); 3] = [
        &|path| fs::create_dir(path).unwrap(),
        &|path| symlink("gone", path).unwrap(),
        &|path| symlink("../../outside.bin", path).unwrap(),
    ];
    for what in nothing {
        let temp = make(what);
        assert_eq!(keys(&request(temp.path())).1, ["a/1.bin", "b/2.bin"]);
    }
    let something: [&dyn Fn(&Path); 4] = [
        &|path| fs::write(path, "three").unwrap(),
        &|path| {
            fs::create_dir(path).unwrap();
            fs::write(path.join("3.bin"), "three").unwrap();
        },
        &|path| symlink("../b", path).unwrap(),
        &|path| symlink("../b/2.bin", path).unwrap(),
    ];
    for what in something {
        let temp = make(what);
        let (error, text) = common::refusal(&request(temp.path()));
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{text}");
        for part in ["data/a/no", "is not UTF-8", "rename it"] {
            assert!(text.contains(part), "no {part:?} in {text:?}");
        }
    }
}

#[test]
fn each_file_is_a_sample_of_bytes() {
    let temp = tree(&[
        ("b/2.jpg", b"two"),
        ("b/10.jpg", b""),
        ("a.jpg", b"first"),
        (".x", b"no"),
    ]);
    let request = request(temp.path());
    let (summary, found) = keys(&request);
    assert_eq!(found, ["a.jpg", "b/10.jpg", "b/2.jpg"]);
    assert_eq!((summary.shards, summary.origin_bytes), (1, 8));
    let index = Index::parse(fs::read(&request.output).unwrap()).unwrap();
    let root = fs::canonicalize(temp.path().join("data")).unwrap();
    assert_eq!(Path::new(index.root()), root);
    assert_eq!(index.fields()[0].name, "data");
    assert_eq!(index.fields()[0].dtype.to_string(), "|u1");
    for (position, bytes) in [b"first".as_slice(), b"", b"two"].into_iter().enumerate() {
        let field = index.sample(position as u64).unwrap().field(0).unwrap();
        assert_eq!(common::read_field(&index, &root, &field), bytes);
    }
}

#[test]
fn links_are_followed_inside_the_root_only_and_once() {
    let temp = tree(&[("a/1", b"1"), ("b/2", b"2")]);
    let data = temp.path().join("data");
    fs::write(temp.path().join("secret"), "outside").unwrap();
    symlink(temp.path().join("secret"), data.join("leak")).unwrap();
    symlink(temp.path(), data.join("up")).unwrap();
    symlink("..", data.join("a/loop")).unwrap();
    symlink("../b/2", data.join("a/two")).unwrap();
    symlink("b", data.join("aa")).unwrap();
    symlink("nowhere", data.join("dangling")).unwrap();
    let (_, found) = keys(&request(temp.path()));
    assert_eq!(found, ["a/1", "a/two", "b/2"]);
}

#[test]
fn the_index_is_no_sample_of_itself() {
    let temp = tree(&[("1", b"1")]);
    let mut request = request(temp.path());
    request.output = temp.path().join("data/out.forebay");
    let (first, _) = keys(&request);
    let (second, found) = keys(&request);
    assert_eq!(found, ["1"]);
    assert_eq!(first.generation, second.generation);
}

#[test]
fn inputs_must_fit_together() {
    let case = common::Case::make("whole_files");
    fs::write(case.files.join("notes.txt"), "text").unwrap();

    // In a folder with HDF5 files, others are beside the point.
    let mut request = case.request(&["/"]);
    assert_eq!(keys(&request).1, ["a", "b"]);
    // Unless all are wanted as they are.
    request.samples.clear();
    request.files_as_samples = true;
    assert_eq!(keys(&request).1, ["a.h5", "b.h5", "notes.txt"]);
    fs::remove_file(&request.output).unwrap();
    // A file that is named and would be left out is an error.
    request.files_as_samples = false;
    request.inputs.push(case.files.join("notes.txt"));
    let (_, text) = common::refusal(&request);
    assert!(text.contains("notes.txt` is not an HDF5 file"), "{text}");

    let mut plain = case.request(&["*"]);
    plain.inputs = vec![case.files.join("notes.txt")];
    let (_, text) = common::refusal(&plain);
    assert!(text.contains("are for HDF5 files"), "{text}");

    let mut outside = case.request(&["/"]);
    outside.root = Some(case.temp.path().join("elsewhere"));
    fs::create_dir(case.temp.path().join("elsewhere")).unwrap();
    let (_, text) = common::refusal(&outside);
    assert!(text.contains("does not lie below the root"), "{text}");

    let mut missing = case.request(&["/"]);
    missing.inputs = vec![case.files.join("nothing.h5")];
    let (error, text) = common::refusal(&missing);
    assert_eq!(error.kind(), ErrorKind::NotFound);
    assert!(text.contains("nothing.h5"), "{text}");
}

#[test]
fn an_empty_folder_is_an_error() {
    let temp = tree(&[(".hidden", b"x")]);
    let (_, text) = common::refusal(&request(temp.path()));
    assert!(text.contains("no file to index"), "{text}");
}

#[test]
fn a_file_named_hdf5_without_its_signature_is_refused_and_not_passed_over() {
    for damaged in [&b""[..], b"plain text", &[0; 4096]] {
        let temp = tree(&[("good.bin", b"bytes"), ("z.h5", damaged)]);
        let (_, text) = common::refusal(&request(temp.path()));
        assert!(text.contains("z.h5") && text.contains("--files"), "{text}");
        let mut as_they_are = request(temp.path());
        as_they_are.files_as_samples = true;
        assert_eq!(keys(&as_they_are).1, ["good.bin", "z.h5"]);
    }
}
