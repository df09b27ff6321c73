use std::path::Path;

use forebay_dataset::SegmentIndex;
use forebay_origin::testing::{MemoryStore, OneStore, version};
use forebay_origin::{IndexFile, StoreFault};

use super::*;
use crate::{Labels, VerifyRequest, index, verify};

fn store(keys: &[&str]) -> OneStore {
    let store = OneStore::default();
    for key in keys {
        store
            .0
            .put(key, &format!("\"{key}\""), key.as_bytes().to_vec());
    }
    store
}

fn request(folder: &Path, store: &OneStore, inputs: &[&str]) -> IndexRequest {
    let inputs = inputs.iter().map(PathBuf::from).collect();
    IndexRequest {
        stores: Some(Arc::new(store.clone())),
        ..IndexRequest::new(inputs, folder.join("out.forebay"))
    }
}

fn keys(index: &IndexFile) -> Vec<&str> {
    (0..index.len())
        .map(|sample| index.key(sample).unwrap().unwrap())
        .collect()
}

fn indexed(store: &OneStore, inputs: &[&str]) -> Result<(tempfile::TempDir, IndexFile)> {
    let folder = tempfile::tempdir().unwrap();
    let request = request(folder.path(), store, inputs);
    index(&request, &())?;
    let index = IndexFile::open(&request.output)?;
    Ok((folder, index))
}

#[test]
fn ten_thousand_objects_are_indexed_from_their_listing_alone() {
    let store = OneStore::default();
    for number in 0..10_000 {
        store
            .0
            .put(&format!("x/{number:05}.bin"), "\"v\"", vec![1; 100]);
    }
    let (_folder, index) = indexed(&store, &["s3://b/x"]).unwrap();
    assert_eq!((index.len(), index.root()), (10_000, "s3://b/x"));
    // One look whether `x` itself is an object.
    assert_eq!(store.0.asked(), (0, 1, 1));
    let segment = index.segment(SegmentIndex(7)).unwrap();
    assert_eq!(segment.fingerprint, version("\"v\"", &[1; 100]));
    // Blocks of 64 KiB each: 4,096 objects fill a shard.
    assert_eq!(index.shard_count(), 3);
}

#[test]
fn a_prefix_is_its_objects_without_markers_and_hidden_ones() {
    let store = store(&["x/a.bin", "x/sub/b.bin", "x/.git/c", "xy/d.bin"]);
    store.0.put("x/sub", "\"marker\"", Vec::new());
    store.0.put("x/empty.bin", "\"e\"", Vec::new());
    let (_folder, index) = indexed(&store, &["s3://b/x/"]).unwrap();
    assert_eq!(keys(&index), ["a.bin", "empty.bin", "sub/b.bin"]);
    let (_folder, index) = indexed(&store, &["s3://b/x/a.bin", "s3://b/xy"]).unwrap();
    assert_eq!(
        (index.root(), keys(&index)),
        ("s3://b", vec!["x/a.bin", "xy/d.bin"])
    );
}

#[test]
fn an_index_of_objects_grows_by_new_objects_only() {
    let store = store(&["x/a.bin", "x/sub/b c.bin"]);
    let (folder, _) = indexed(&store, &["s3://b/x"]).unwrap();
    let mut request = request(folder.path(), &store, &["s3://b/x/sub"]);
    request.append_to = Some(request.output.clone());
    assert_eq!(index(&request, &()).unwrap().samples, 2, "nothing was new");

    store.0.put("x/sub/d.bin", "\"d\"", b"new".to_vec());
    assert_eq!(index(&request, &()).unwrap().samples, 3);
    let grown = IndexFile::open(&request.output).unwrap();
    grown.verify().unwrap();
    assert_eq!(
        (grown.root(), keys(&grown)),
        ("s3://b/x", vec!["a.bin", "sub/b c.bin", "sub/d.bin"])
    );
    let origin = forebay_origin::open_origin(&grown.resolve_root(None), Some(&store)).unwrap();
    let mut bytes = [0; 3];
    let segment = grown.segment_ref(SegmentIndex(2)).unwrap();
    origin.read_at(segment, 0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"new");

    // What lies above the index's root needs a root above.
    store.0.put("y/e.bin", "\"e\"", b"above".to_vec());
    request.inputs = vec!["s3://b/y".into()];
    index(&request, &()).unwrap();
    let grown = IndexFile::open(&request.output).unwrap();
    assert_eq!((grown.root(), grown.len()), ("s3://b", 4));
    let paths = (0..4).map(|n| grown.segment(SegmentIndex(n)).unwrap().path);
    assert_eq!(
        paths.collect::<Vec<_>>(),
        ["x/a.bin", "x/sub/b c.bin", "x/sub/d.bin", "y/e.bin"]
    );

    store.0.put("x/a.bin", "\"other\"", b"changed".to_vec());
    request.inputs = vec!["s3://b/x".into()];
    let error = index(&request, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert!(error.to_string().contains("s3://b/x/a.bin"), "{error}");
}

#[test]
fn indexes_of_one_store_are_merged_below_what_they_share() {
    let store = store(&["x/1/a.bin", "x/2/b.bin", "z.bin"]);
    let parts: Vec<_> = ["s3://b/x/1", "s3://b/x/2", "s3://b/z.bin", "s3://other/x"]
        .iter()
        .map(|input| indexed(&store, &[input]).unwrap().0)
        .collect();
    let output = parts[0].path().join("merged");
    let merged = |numbers: &[usize]| {
        let indexes = numbers.iter().map(|n| parts[*n].path().join("out.forebay"));
        let request = crate::MergeRequest {
            indexes: indexes.collect(),
            output: output.clone(),
        };
        crate::merge(&request, &())?;
        let merged = IndexFile::open(&output)?;
        let paths = (0..merged.segment_count())
            .map(|n| merged.segment(SegmentIndex(n)).unwrap().path.to_owned());
        Ok::<_, IndexerError>((merged.root().to_owned(), paths.collect::<Vec<_>>()))
    };
    let (root, paths) = merged(&[0, 1]).unwrap();
    assert_eq!(
        (root.as_str(), paths.join(" ")),
        ("s3://b/x", "1/a.bin 2/b.bin".to_owned())
    );
    let (root, paths) = merged(&[1, 2]).unwrap();
    assert_eq!(
        (root.as_str(), paths.join(" ")),
        ("s3://b", "x/2/b.bin z.bin".to_owned())
    );
    let error = merged(&[0, 3]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    for part in ["s3://b/x/1", "s3://other/x", "of one store"] {
        assert!(error.to_string().contains(part), "{part}: {error}");
    }
}

#[test]
fn class_prefixes_give_labels() {
    let store = store(&["x/cat/1.jpg", "x/dog/1.jpg", "x/dog/2.jpg"]);
    let folder = tempfile::tempdir().unwrap();
    let request = IndexRequest {
        labels: Some(Labels::Folders),
        ..request(folder.path(), &store, &["s3://b/x"])
    };
    let summary = index(&request, &()).unwrap();
    assert_eq!(
        (summary.samples, summary.classes),
        (3, vec!["cat".to_owned(), "dog".to_owned()])
    );
}

#[test]
fn web_servers_are_asked_for_the_objects_named_and_for_a_range() {
    let store = store(&["x/a.bin", "x/b.bin"]);
    let urls = ["http://h/x/a.bin", "http://h/x/b.bin"];
    let (_folder, index) = indexed(&store, &urls).unwrap();
    assert_eq!(
        (index.root(), keys(&index)),
        ("http://h/x", vec!["a.bin", "b.bin"])
    );
    // One read to see that the server sends parts; files this small are not HDF5.
    assert_eq!(store.0.asked(), (1, 2, 0));
    let error = indexed(&store, &["http://h/x"]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[test]
fn inputs_that_do_not_go_together_are_refused() {
    let store = store(&["x/a.bin"]);
    for (inputs, words) in [
        (vec!["s3://b/x", "s3://c/x"], "different stores"),
        (vec!["s3://b/x", "/tmp"], "different stores"),
        (vec!["s3://b/nothing"], "none below it"),
        (vec!["ftp://b/x"], "scheme"),
        (vec!["s3://b/x?versionId=1#y", "s3://b/../y"], "`..`"),
    ] {
        let error = indexed(&store, &inputs).unwrap_err().to_string();
        assert!(error.contains(words), "{inputs:?}: {error}");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut request = request(folder.path(), &store, &["s3://b/x"]);
    request.root = Some("s3://b/y".into());
    let error = index(&request, &()).unwrap_err().to_string();
    assert!(error.contains("below the root"), "{error}");
    request.stores = None;
    let error = index(&request, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[test]
fn verify_names_the_objects_that_changed_or_went() {
    let store = store(&["x/a.bin", "x/b.bin", "x/c.bin"]);
    let (_folder, index) = indexed(&store, &["s3://b/x"]).unwrap();
    let request = VerifyRequest {
        index: index.path().to_path_buf(),
        root: None,
        data: true,
        stores: Some(Arc::new(store.clone())),
    };
    assert_eq!(verify(&request, &()).unwrap().faults, 0);
    store.0.put("x/b.bin", "\"other\"", b"x/B.bin".to_vec());
    let report = verify(&request, &()).unwrap();
    assert_eq!((report.faults, report.read), (1, 2));
    assert!(
        report.listed[0].contains("s3://b/x/b.bin"),
        "{:?}",
        report.listed
    );
    let gone = MemoryStore::default();
    let request = VerifyRequest {
        stores: Some(Arc::new(OneStore(Arc::new(gone)))),
        ..request
    };
    let report = verify(&request, &()).unwrap();
    assert_eq!(report.faults, 3);
    let words = StoreFault::NotFound {
        detail: "not in memory".to_owned(),
    };
    assert!(
        report.listed[0].contains(&words.to_string()),
        "{:?}",
        report.listed
    );
}
