//! Indexes that are made in parts: runs that were ended, merged and grown indexes.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::fs::{self, File, FileTimes};
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use common::{Case, chain, read_field};
use forebay_dataset::ErrorKind;
use forebay_dataset::index::Index;
use forebay_indexer::{IndexRequest, MergeRequest, index, merge};
use tempfile::TempDir;

/// An npy file of three numbers that follow from `n`.
fn npy(n: u32) -> Vec<u8> {
    let mut text = "{'descr': '<u4', 'fortran_order': False, 'shape': (3,), }".to_owned();
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.as_bytes());
    (0..3).for_each(|at| bytes.extend((n * 10 + at).to_le_bytes()));
    bytes
}

/// A folder of npy files, and a place for their index.
struct World {
    _temp: TempDir,
    files: PathBuf,
    output: PathBuf,
}

impl World {
    fn new(count: u32) -> Self {
        let temp = tempfile::tempdir().unwrap();
        let base = fs::canonicalize(temp.path()).unwrap();
        let files = base.join("data");
        fs::create_dir(&files).unwrap();
        let world = Self {
            _temp: temp,
            files,
            output: base.join("out.forebay"),
        };
        (0..count).for_each(|n| fs::write(world.file(n), npy(n)).unwrap());
        world
    }

    fn file(&self, n: u32) -> PathBuf {
        self.files.join(format!("{n:03}.npy"))
    }

    fn parts(&self) -> PathBuf {
        self.output.with_file_name("out.forebay.parts")
    }

    /// Every few files make a part.
    fn request(&self) -> IndexRequest {
        let mut request = IndexRequest::new(vec![self.files.clone()], self.output.clone());
        request.part_records = 1;
        request
    }

    fn read(&self) -> Vec<u8> {
        fs::read(&self.output).unwrap()
    }
}

/// Writes other bytes into a file that looks unchanged.
fn overwrite_unseen(path: &Path, bytes: &[u8], modified: SystemTime) {
    let mut file = File::options().write(true).open(path).unwrap();
    file.write_all(bytes).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    file.set_times(FileTimes::new().set_modified(modified))
        .unwrap();
}

fn modified(path: &Path) -> SystemTime {
    fs::metadata(path).unwrap().modified().unwrap()
}

/// Indexes, then damages the last of many files, so that a second run fails after most parts.
fn ended_run(world: &World) -> (Vec<u8>, SystemTime) {
    index(&world.request(), &()).unwrap();
    let whole = world.read();
    assert!(!world.parts().exists(), "a complete run leaves nothing");
    fs::remove_file(&world.output).unwrap();
    let time = modified(&world.file(199));
    overwrite_unseen(&world.file(199), b"no array at all", time);
    index(&world.request(), &()).unwrap_err();
    assert!(!world.output.exists(), "a part is never taken for an index");
    assert!(world.parts().join("part-000000.json").exists());
    overwrite_unseen(&world.file(199), &npy(199), time);
    (whole, time)
}

#[test]
fn a_run_that_was_ended_goes_on_where_it_stopped() {
    let world = World::new(200);
    let (whole, _) = ended_run(&world);
    // Were it read again, this would be noticed.
    let first = world.file(0);
    let len = npy(0).len();
    overwrite_unseen(&first, &vec![b'x'; len], modified(&first));
    index(&world.request(), &()).unwrap();
    assert_eq!(world.read(), whole, "as if it had never been ended");
    assert!(!world.parts().exists());
}

#[test]
fn parts_of_changed_files_and_of_other_requests_are_made_again() {
    let world = World::new(200);
    ended_run(&world);
    fs::write(world.file(0), npy(77)).unwrap();
    fs::write(world.files.join("000a.npy"), npy(1000)).unwrap();
    index(&world.request(), &()).unwrap();
    let resumed = world.read();
    fs::remove_file(&world.output).unwrap();
    index(&world.request(), &()).unwrap();
    assert_eq!(world.read(), resumed);

    let world = World::new(200);
    ended_run(&world);
    let mut other = world.request();
    other.fields = vec!["nothing".to_owned()];
    let error = index(&other, &()).unwrap_err();
    assert!(chain(&error).contains("`nothing`"), "{}", chain(&error));
}

#[test]
fn damaged_parts_are_made_again() {
    let world = World::new(200);
    let (whole, _) = ended_run(&world);
    let part = world.parts().join("part-000000-0.forebay");
    let mut bytes = fs::read(&part).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&part, bytes).unwrap();
    fs::write(world.parts().join("part-000001.json"), b"{").unwrap();
    index(&world.request(), &()).unwrap();
    assert_eq!(world.read(), whole);
}

#[test]
fn where_parts_end_leaves_no_trace() {
    for (case, rules) in [
        (Case::format("tar_webdataset"), &[][..]),
        (Case::format("npz_rows_deflated"), &[]),
        (
            Case::make("sair"),
            &["raw*.h5=*/dcomplex/*", "edges*.h5=*/*"],
        ),
    ] {
        let mut request = case.request(rules);
        index(&request, &()).unwrap();
        let whole = fs::read(&request.output).unwrap();
        request.part_records = 1;
        index(&request, &()).unwrap();
        assert!(fs::read(&request.output).unwrap() == whole);
    }
}

#[test]
fn merged_indexes_lead_to_all_samples() {
    let world = World::new(4);
    let base = world.output.parent().unwrap();
    let mut indexes = Vec::new();
    for (name, numbers) in [("b", [1, 3]), ("a", [0, 2])] {
        let folder = world.files.join(name);
        fs::create_dir(&folder).unwrap();
        for n in numbers {
            let path = world.file(n);
            fs::rename(&path, folder.join(path.file_name().unwrap())).unwrap();
        }
        let output = base.join(name);
        index(&IndexRequest::new(vec![folder], output.clone()), &()).unwrap();
        indexes.push(output);
    }
    let request = MergeRequest {
        indexes: indexes.clone(),
        output: world.output.clone(),
    };
    let summary = merge(&request, &()).unwrap();
    assert_eq!((summary.samples, summary.segments), (4, 4));
    let merged = Index::parse(world.read()).unwrap();
    merged.verify().unwrap();
    assert_eq!(Path::new(merged.root()), world.files);
    for (at, n) in [1, 3, 0, 2].into_iter().enumerate() {
        assert_eq!(merged.find(&format!("{n:03}")), Ok(Some(at as u64)));
        let field = merged.sample(at as u64).unwrap().field(0).unwrap();
        let bytes = read_field(&merged, &world.files, &field);
        assert_eq!(bytes, npy(n)[npy(n).len() - 12..]);
    }

    let twice = MergeRequest {
        indexes: vec![indexes[0].clone(), indexes[0].clone()],
        output: base.join("twice"),
    };
    let error = chain(&merge(&twice, &()).unwrap_err());
    assert!(error.contains("key `001`"), "{error}");
    assert!(!twice.output.exists());
}

#[test]
fn indexes_that_differ_are_not_merged() {
    let world = World::new(2);
    let base = world.output.parent().unwrap();
    let rows = base.join("rows");
    let mut request = IndexRequest::new(vec![world.file(0)], rows.clone());
    request.samples = vec!["rows".parse().unwrap()];
    index(&request, &()).unwrap();
    let files = base.join("files");
    let mut request = IndexRequest::new(vec![world.file(1)], files.clone());
    request.samples = vec!["/".parse().unwrap()];
    index(&request, &()).unwrap();
    let error = merge(
        &MergeRequest {
            indexes: vec![rows, files],
            output: world.output.clone(),
        },
        &(),
    );
    let error = error.unwrap_err();
    assert!(chain(&error).contains("have no keys"), "{}", chain(&error));
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

#[test]
fn an_index_grows_by_new_files_only() {
    let world = World::new(3);
    index(&world.request(), &()).unwrap();
    let before = world.read();
    let mut request = world.request();
    request.append_to = Some(world.output.clone());
    let summary = index(&request, &()).unwrap();
    assert_eq!(summary.samples, 3);
    assert_eq!(world.read(), before, "nothing was new");

    (3..5).for_each(|n| fs::write(world.file(n), npy(n)).unwrap());
    let summary = index(&request, &()).unwrap();
    assert_eq!(summary.samples, 5);
    let grown = Index::parse(world.read()).unwrap();
    grown.verify().unwrap();
    assert_eq!(grown.find("004"), Ok(Some(4)));
    let left: Vec<_> = fs::read_dir(world.output.parent().unwrap())
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");

    fs::write(world.file(1), npy(9)).unwrap();
    let error = index(&request, &()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Stale);
    assert!(chain(&error).contains("001.npy"), "{}", chain(&error));
}

#[test]
fn labels_do_not_grow() {
    let temp = tempfile::tempdir().unwrap();
    for class in ["cat", "dog"] {
        let folder = temp.path().join("data").join(class);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("1.jpg"), class).unwrap();
    }
    let inputs = vec![temp.path().join("data")];
    let mut request = IndexRequest::new(inputs, temp.path().join("out.forebay"));
    request.labels = Some(forebay_indexer::Labels::Folders);
    index(&request, &()).unwrap();
    let before = fs::read(&request.output).unwrap();
    // Among new files alone `dog` would be number 0.
    fs::write(temp.path().join("data/dog/2.jpg"), "dog").unwrap();
    request.append_to = Some(request.output.clone());
    let error = chain(&index(&request, &()).unwrap_err());
    assert!(error.contains("index the whole folder again"), "{error}");
    assert!(fs::read(&request.output).unwrap() == before);
}

/// Folders of plain files that were last changed a while ago. `z` below them cannot be indexed.
fn ended_listing() -> (TempDir, IndexRequest) {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    for folder in ["a", "b", "b/z"] {
        let folder = data.join(folder);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("1.bin"), b"one").unwrap();
        fs::write(folder.join("2.bin"), b"two").unwrap();
    }
    let nameless = std::ffi::OsStr::from_bytes(b"no\xffname");
    fs::write(data.join("b/z").join(nameless), b"").unwrap();
    for folder in ["", "a", "b"] {
        let past = FileTimes::new().set_modified(SystemTime::UNIX_EPOCH);
        let folder = File::open(data.join(folder)).unwrap();
        folder.set_times(past).unwrap();
    }
    let mut request = IndexRequest::new(vec![data.clone()], temp.path().join("out.forebay"));
    request.files_as_samples = true;
    request.part_records = 1;
    let error = index(&request, &()).unwrap_err();
    assert!(chain(&error).contains("is not UTF-8"), "{}", chain(&error));
    assert!(!request.output.exists());
    fs::remove_file(data.join("b/z").join(nameless)).unwrap();
    (temp, request)
}

fn sizes_by_key(request: &IndexRequest) -> Vec<(String, u64)> {
    index(request, &()).unwrap();
    let index = Index::parse(fs::read(&request.output).unwrap()).unwrap();
    let found = (0..index.len()).map(|sample| {
        let key = index.key(sample).unwrap().unwrap().to_owned();
        let segment = index.sample(sample).unwrap().field(0).unwrap().segment();
        let size = index.segment(segment.unwrap()).unwrap().fingerprint.size;
        (key, size)
    });
    found.collect()
}

#[test]
fn folders_that_an_ended_run_has_listed_are_not_listed_again() {
    let (temp, request) = ended_listing();
    // Were its folder listed again, this would be noticed.
    fs::write(temp.path().join("data/a/1.bin"), b"longer").unwrap();
    let found = sizes_by_key(&request);
    let all = [
        "a/1.bin",
        "a/2.bin",
        "b/1.bin",
        "b/2.bin",
        "b/z/1.bin",
        "b/z/2.bin",
    ];
    assert_eq!(found, all.map(|key| (key.to_owned(), 3)));
    let parts = temp.path().join("out.forebay.parts");
    assert!(!parts.exists(), "a complete run leaves nothing");
}

#[test]
fn folders_that_have_changed_are_listed_again() {
    let (temp, request) = ended_listing();
    fs::write(temp.path().join("data/a/3.bin"), b"three").unwrap();
    fs::remove_file(temp.path().join("data/b/2.bin")).unwrap();
    let found = sizes_by_key(&request);
    let names: Vec<&str> = found.iter().map(|(key, _)| key.as_str()).collect();
    let all = [
        "a/1.bin",
        "a/2.bin",
        "a/3.bin",
        "b/1.bin",
        "b/z/1.bin",
        "b/z/2.bin",
    ];
    assert_eq!(names, all);
}

#[test]
fn a_listing_of_another_request_is_not_used() {
    let (temp, mut request) = ended_listing();
    let listing = temp.path().join("out.forebay.parts/listing-000000.json");
    assert!(listing.exists());
    fs::write(temp.path().join("data/a/1.bin"), b"longer").unwrap();
    request.files_as_samples = false;
    let found = sizes_by_key(&request);
    assert_eq!(found[0], ("a/1.bin".to_owned(), 6));
}
