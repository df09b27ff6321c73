//! Formats that are not HDF5, against what their own libraries read.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{Case, chain, refusal};
use forebay_dataset::ErrorKind;
use forebay_dataset::index::Index;
use forebay_indexer::{
    FlattenRequest, FlattenSource, Format, IndexRequest, Labels, Pattern, flatten, index,
};

/// Every case whose files are found out and indexed without a word.
const PLAIN: [&str; 13] = [
    "tar_webdataset",
    "tar_dialects",
    "tar_links",
    "npy_rows",
    "npy_files",
    "npz_stored",
    "npz_deflated",
    "npz_rows",
    "npz_rows_deflated",
    "safetensors_files",
    "safetensors_rows",
    "tfrecord",
    "mds",
];

#[test]
fn every_byte_is_what_the_formats_own_library_reads() {
    for name in PLAIN {
        let case = Case::format(name);
        let mut request = case.request(&[]);
        case.check(&request);
        request.verify_data = true;
        case.check(&request);
    }
}

#[test]
fn flattened_samples_are_the_same() {
    for name in ["tar_webdataset", "npz_deflated", "npz_rows_deflated", "mds"] {
        let case = Case::format(name);
        let output = case.temp.path().join("packed");
        let source = FlattenSource::Inputs(case.request(&[]));
        let summary = flatten(&FlattenRequest::new(source, output.clone()), &()).unwrap();
        let index = Index::parse(fs::read(summary.index).unwrap()).unwrap();
        case.compare(&index, &output);
    }
}

fn one(case: &Case, file: &str) -> IndexRequest {
    let mut request = case.request(&[]);
    request.inputs = vec![case.files.join(file)];
    request
}

/// Each file is refused with these words, and its name.
fn refused(case: &Case, table: &[(&str, ErrorKind, &str)]) {
    for (file, kind, words) in table {
        let mut request = one(case, file);
        request.verify_data = true;
        let (error, text) = refusal(&request);
        assert_eq!(error.kind(), *kind, "{file}: {text}");
        assert!(text.contains(words), "{file}: no {words:?} in {text:?}");
        assert!(
            text.contains(file.trim_end_matches('/')),
            "{file}: not named in {text:?}"
        );
    }
}

use ErrorKind::{Corrupt, InvalidInput, Unsupported};

#[test]
fn tar_features_are_refused_by_name() {
    refused(
        &Case::format("tar_refused"),
        &[
            ("symlink.tar", Unsupported, "`1.txt` of"),
            (
                "symlink.tar",
                Unsupported,
                "a symbolic link is not supported; make",
            ),
            ("pipe.tar", Unsupported, "a named pipe"),
            ("gnu_sparse.tar", Unsupported, "a sparse file (GNU)"),
            ("pax_sparse.tar", Unsupported, "a sparse file (pax)"),
            ("lost_link.tar", Corrupt, "a link to `9.txt`"),
            ("twice.tar", InvalidInput, "`0.txt` comes twice"),
            ("scattered.tar", InvalidInput, "do not lie side by side"),
            ("global.tar", Unsupported, "a global pax header"),
            ("joined.tar", Unsupported, "behind the end of the archive"),
            (
                "gzip.tar",
                Unsupported,
                "(gzip) is not supported; decompress",
            ),
            ("packed.tar.gz", Unsupported, "compressed as a whole"),
            ("cut.tar", Corrupt, "no end-of-archive mark"),
            ("cut_data.tar", Corrupt, "it ends at byte 600"),
        ],
    );
}

#[test]
fn samples_that_lack_a_member_are_refused_or_left_out() {
    let case = Case::format("tar_incomplete");
    let mut request = case.request(&[]);
    let (error, text) = refusal(&request);
    assert_eq!(error.kind(), InvalidInput);
    for part in ["`3` of", "--skip-incomplete", "`cls`"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    request.skip_incomplete = true;
    assert_eq!(case.check(&request).skipped, 1);
    request.fields = vec!["jpg".to_owned()];
    assert_eq!(index(&request, &()).unwrap().samples, 5);
    request.fields = vec!["png".to_owned()];
    let error = index(&request, &()).unwrap_err().to_string();
    assert!(error.contains("no sample has a field `png`"), "{error}");
}

#[test]
fn npy_features_are_refused_by_name() {
    let case = Case::format("npy_refused");
    refused(
        &case,
        &[
            ("objects.npy", Unsupported, "an array of Python objects"),
            ("text.npy", Unsupported, "text of four bytes a character"),
            ("fortran.npy", Unsupported, "np.ascontiguousarray"),
            ("structured.npy", Unsupported, "a structured type"),
            ("time.npy", Unsupported, "the time type"),
            ("several.npy", Unsupported, "several arrays in one file"),
            ("scalar.npy", Unsupported, "several arrays in one file"),
            ("cut.npy", Corrupt, "inside the array"),
        ],
    );
}

#[test]
fn every_type_of_numpy_is_read() {
    let case = Case::format("npy_types");
    let names = case.expected_value(&case.samples[0].fields[0]);
    for (number, name) in names.chunks(4).enumerate() {
        let summary = index(&one(&case, &format!("{number:02}.npy")), &()).unwrap();
        let name = std::str::from_utf8(name).unwrap().trim_end_matches('\0');
        assert_eq!(summary.fields[0].dtype.to_string(), name);
        assert_eq!(summary.samples, 3);
    }
}

#[test]
fn npz_features_are_refused_by_name() {
    let case = Case::format("npz_refused");
    refused(
        &case,
        &[
            ("objects.npz", Unsupported, "`x.npy` of"),
            ("stranger.npz", Unsupported, "not an npy array"),
            ("lzma.npz", Unsupported, "compression method 14"),
            ("cut.npz", Corrupt, "not a zip archive, or it is truncated"),
            ("flipped.npz", Corrupt, "checksum"),
            ("flipped_deflated.npz", Corrupt, "`x.npy` of"),
            (
                "big.npz",
                Unsupported,
                "rows of a compressed array of 75497472 bytes",
            ),
        ],
    );
    for name in ["objects.npz", "stranger.npz", "lzma.npz", "big.npz"] {
        let mut request = one(&case, name);
        request.fields = vec!["ok".to_owned()];
        assert_eq!(index(&request, &()).unwrap().fields.len(), 1, "{name}");
    }
}

#[test]
fn safetensors_that_contradict_themselves_are_refused() {
    let case = Case::format("safetensors_odd");
    refused(
        &case,
        &[
            ("unknown.safetensors", Unsupported, "the type `F4`"),
            ("shape.safetensors", Corrupt, "does not fit its 6 bytes"),
            ("gap.safetensors", Corrupt, "where byte 0 is the next"),
            ("cut.safetensors", Corrupt, "inside the tensors"),
            ("more.safetensors", Corrupt, "1 bytes behind its tensors"),
            (
                "twice.safetensors",
                Corrupt,
                "two of its tensors are called `x`",
            ),
            ("long.safetensors", Corrupt, "its header would have"),
            ("json.safetensors", Corrupt, "its header makes no sense"),
        ],
    );
    // A type that numpy has not is bytes, never other numbers.
    let summary = index(&one(&case, "bf16.safetensors"), &()).unwrap();
    assert_eq!(summary.fields[0].dtype.to_string(), "|V2");
}

#[test]
fn tfrecords_are_checked() {
    let case = Case::format("tfrecord_refused");
    refused(
        &case,
        &[
            ("cut.tfrecord", Corrupt, "inside a record"),
            (
                "length.tfrecord",
                Corrupt,
                "length of the record at byte 66 fails",
            ),
            ("data.tfrecord", Corrupt, "the record at byte 66 fails"),
            ("gzip.tfrecord", Unsupported, "(gzip)"),
            ("zlib.tfrecord", Unsupported, "(zlib)"),
        ],
    );
    // Data is compared only when asked for.
    assert_eq!(index(&one(&case, "data.tfrecord"), &()).unwrap().samples, 3);
}

#[test]
fn mds_features_are_refused_by_name() {
    refused(
        &Case::format("mds_refused"),
        &[
            ("missing/", InvalidInput, "lists `gone.mds`"),
            ("compressed/", Unsupported, "(zstd)"),
            ("stranger/", InvalidInput, "does not list `old.mds`"),
            ("version/", Unsupported, "version 3"),
            ("json/", Unsupported, "the format `json`"),
            ("size/", Corrupt, "`index.json` says"),
            ("count/", Corrupt, "it has 4 samples"),
            ("width/", Corrupt, "has not 9 bytes"),
            ("unlisted/", ErrorKind::NotFound, "index.json"),
            ("table/", Corrupt, "sample 0 lies at"),
        ],
    );
}

#[test]
fn arrays_are_rows_or_files_as_asked() {
    let case = Case::format("npy_rows");
    let summary = index(&case.request(&["/"]), &()).unwrap();
    assert_eq!(
        (summary.samples, summary.rules[0].to_string().as_str()),
        (1, "/")
    );

    let case = Case::format("npz_rows");
    let summary = index(&case.request(&["rows:x,y"]), &()).unwrap();
    assert_eq!((summary.samples, summary.fields.len()), (7, 2));
    assert_eq!(
        summary.rules[0].pattern,
        Pattern::Rows(vec!["x".into(), "y".into()])
    );
    fs::remove_file(case.output()).unwrap();
    for (rules, words) in [
        (vec!["*/*"], "is for HDF5 files: for arrays"),
        (vec!["/", "rows"], "several sample rules"),
        (vec!["rows:q"], "no array `q` in"),
        (vec!["b*=rows"], "is called like"),
    ] {
        let (_, text) = refusal(&case.request(&rules));
        assert!(text.contains(words), "{rules:?}: {text}");
    }
    let case = Case::format("npz_stored");
    let (_, text) = refusal(&case.request(&["rows"]));
    assert!(text.contains("not equally long"), "{text}");
    let case = Case::format("tfrecord");
    let (_, text) = refusal(&case.request(&["rows"]));
    assert!(text.contains("says itself what a sample is"), "{text}");
}

#[test]
fn a_format_can_be_named() {
    let case = Case::format("tfrecord");
    for file in fs::read_dir(&case.files).unwrap() {
        let path = file.unwrap().path();
        let name = path
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .replace(".tfrecord", "");
        fs::rename(&path, path.with_file_name(name)).unwrap();
    }
    let mut request = case.request(&[]);
    assert_eq!(index(&request, &()).unwrap().samples, 2);
    request.format = Some(Format::TfRecord);
    case.check(&request);
    fs::remove_file(case.output()).unwrap();
    request.format = Some(Format::Mds);
    let (_, text) = refusal(&request);
    assert!(text.contains("no file of format mds"), "{text}");
    request.format = Some(Format::Tar);
    let (error, text) = refusal(&request);
    assert_eq!(error.kind(), Corrupt, "{text}");
}

fn tree(files: &[&str]) -> (tempfile::TempDir, PathBuf) {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    for name in files {
        let path = data.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name.as_bytes()).unwrap();
    }
    (temp, data)
}

fn labelled(temp: &Path, data: &Path) -> IndexRequest {
    let mut request = IndexRequest::new(vec![data.to_path_buf()], temp.join("out.forebay"));
    request.labels = Some(Labels::Folders);
    request
}

#[test]
fn labels_and_order_are_those_of_image_folder() {
    // `x-y` sorts before `x/`, but the folder `x` before the folder `x-y`.
    let files = [
        "cat/x-y/1.jpg",
        "cat/x/1.jpg",
        "cat/9.jpg",
        "Dog/a.jpg",
        "ant/b.jpg",
    ];
    let (temp, data) = tree(&files);
    let mut request = labelled(temp.path(), &data);
    let summary = index(&request, &()).unwrap();
    assert_eq!(summary.classes, ["Dog", "ant", "cat"]);
    let index_bytes = fs::read(&request.output).unwrap();
    let index_read = Index::parse(index_bytes).unwrap();
    index_read.verify().unwrap();
    assert_eq!(index_read.fields()[1].dtype.to_string(), "<i8");
    let wanted = [
        ("Dog/a.jpg", 0),
        ("ant/b.jpg", 1),
        ("cat/9.jpg", 2),
        ("cat/x/1.jpg", 2),
        ("cat/x-y/1.jpg", 2),
    ];
    for (position, (key, class)) in wanted.into_iter().enumerate() {
        let position = position as u64;
        assert_eq!(index_read.key(position).unwrap(), Some(key));
        let field = |number| index_read.sample(position).unwrap().field(number).unwrap();
        assert_eq!(
            common::read_field(&index_read, &data, &field(0)),
            key.as_bytes()
        );
        let label = common::read_field(&index_read, &data, &field(1));
        assert_eq!(i64::from_le_bytes(label.try_into().unwrap()), class);
        assert_eq!(field(1).shape().rank(), 0);
    }

    // Below a root of another name, and through flatten, the classes stay.
    request.root = Some(temp.path().to_path_buf());
    assert_eq!(index(&request, &()).unwrap().classes, ["Dog", "ant", "cat"]);
    let output = temp.path().join("packed");
    let source = FlattenSource::Inputs(request);
    let packed = flatten(&FlattenRequest::new(source, output.clone()), &()).unwrap();
    let packed = Index::parse(fs::read(packed.index).unwrap()).unwrap();
    let label = packed.sample(4).unwrap().field(1).unwrap();
    assert_eq!(
        common::read_field(&packed, &output, &label),
        2_i64.to_le_bytes()
    );
}

#[test]
fn a_tree_without_clear_classes_is_refused() {
    let (temp, data) = tree(&["cat/1.jpg", "notes.txt"]);
    let mut request = labelled(temp.path(), &data);
    let (_, text) = refusal(&request);
    assert!(
        text.contains("notes.txt` lies in no class folder"),
        "{text}"
    );
    request.skip_incomplete = true;
    let summary = index(&request, &()).unwrap();
    assert_eq!((summary.samples, summary.skipped), (1, 1));
    fs::remove_file(&request.output).unwrap();

    fs::create_dir(data.join("bee")).unwrap();
    let (_, text) = refusal(&request);
    assert!(text.contains("bee` holds no file"), "{text}");

    request.inputs.push(data.join("cat"));
    let (_, text) = refusal(&request);
    assert!(text.contains("need one input"), "{text}");

    let case = Case::format("npy_rows");
    let mut request = case.request(&[]);
    request.labels = Some(Labels::Folders);
    let (_, text) = refusal(&request);
    assert!(text.contains("--format files"), "{text}");
}

/// A mixture would be indexed in part, unseen.
#[test]
fn mixed_inputs_are_refused() {
    let (temp, data) = tree(&["a.jpg", "b.npy"]);
    let mut request = IndexRequest::new(vec![data.clone()], temp.path().join("out.forebay"));
    let (_, text) = refusal(&request);
    assert!(text.contains("--format files"), "{text}");
    request.files_as_samples = true;
    assert_eq!(index(&request, &()).unwrap().samples, 2);
    let error = chain(&"nothing".parse::<Labels>().unwrap_err());
    assert!(error.contains("`folders`"), "{error}");
}

#[test]
fn rows_of_arrow_files_are_what_pyarrow_reads() {
    let case = Case::format("arrow_rows");
    let mut request = case.request(&["rows"]);
    request.fields = ["code", "count", "half", "small", "vector", "x"]
        .map(str::to_owned)
        .to_vec();
    case.check(&request);
}

#[test]
fn arrow_features_are_refused_by_name() {
    let case = Case::format("arrow_refused");
    for (file, words) in [
        ("nulls", "values that are missing"),
        ("bits", "no plain numbers"),
        ("text", "no plain numbers"),
        ("packed", "compressed record batches"),
        ("cut", "end of the stream"),
        ("old", "first version of Feather"),
    ] {
        let mut request = one(&case, &format!("{file}.arrow"));
        request.samples = vec!["rows".parse().unwrap()];
        let (_, error) = refusal(&request);
        assert!(error.contains(words), "{file}: {error}");
        assert!(error.contains(&format!("{file}.arrow")), "{error}");
    }
    for file in ["cut", "old"] {
        refusal(&one(&case, &format!("{file}.arrow")));
    }
}

#[test]
fn parquet_features_are_refused_by_name() {
    let case = Case::format("parquet_refused");
    for (file, words) in [
        ("cut", "may be cut short"),
        ("secret", "encrypted metadata"),
        ("long", "its metadata would have"),
        ("short", "row group 0 lies at"),
    ] {
        let (_, error) = refusal(&one(&case, &format!("{file}.parquet")));
        assert!(error.contains(words), "{file}: {error}");
    }
}

/// Whatever byte of an Arrow or Parquet file is changed: an error or an index, never a panic.
#[test]
fn changed_tables_neither_panic_nor_hang() {
    for (case, file) in [
        ("arrow_refused", "whole.arrow"),
        ("parquet_refused", "whole.parquet"),
    ] {
        let case = Case::format(case);
        let path = case.files.join(file);
        let whole = fs::read(&path).unwrap();
        for at in (0..whole.len()).step_by(3) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0xff;
            fs::write(&path, &bytes).unwrap();
            for rule in ["", "rows"] {
                let mut request = one(&case, file);
                request.samples = rule.parse().into_iter().collect();
                let _ = index(&request, &());
            }
        }
    }
}
