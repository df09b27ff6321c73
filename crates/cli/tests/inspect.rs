//! `forebay ls`, `cat` and `verify`, as a script uses them.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn forebay(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(arguments)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// Three files in two class folders, indexed with labels.
fn indexed() -> (TempDir, String) {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("data");
    for (name, bytes) in [("cat/1", "one"), ("cat/2", ""), ("dog/0", "three")] {
        let path = data.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
    let index = temp.path().join("i.forebay").to_str().unwrap().to_owned();
    let data = data.to_str().unwrap();
    let made = forebay(&["index", data, "-o", &index, "--labels", "folders", "--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&made.stdout).unwrap();
    assert_eq!(summary["classes"], serde_json::json!(["cat", "dog"]));
    (temp, index)
}

#[test]
fn ls_lists_keys_shapes_and_files() {
    let (_temp, index) = indexed();
    let listed = forebay(&["ls", &index]);
    assert!(listed.status.success());
    let lines: Vec<&str> = text(&listed.stdout).lines().collect();
    assert_eq!(
        lines,
        [
            "0\tcat/1\tdata |u1[3]\tlabel <i8[]\tcat/1",
            "1\tcat/2\tdata |u1[0]\tlabel <i8[]\tcat/2",
            "2\tdog/0\tdata |u1[5]\tlabel <i8[]\tdog/0",
        ]
    );
    assert!(text(&listed.stderr).starts_with("3 samples of 2 fields in 3 files"));

    let one = forebay(&["ls", &index, "--json", "--limit", "1"]);
    let one: serde_json::Value = serde_json::from_slice(&one.stdout).unwrap();
    assert_eq!(one["key"], "cat/1");
    assert_eq!(one["fields"][0]["offset"], 0);
    assert_eq!(one["fields"][1]["shape"], serde_json::json!([]));
}

#[test]
fn cat_writes_decoded_bytes_or_an_npy_file() {
    let (_temp, index) = indexed();
    for (sample, field, bytes) in [
        ("dog/0", "data", b"three".as_slice()),
        ("2", "data", b"three"),
        ("cat/2", "data", b""),
        ("2", "label", &1_i64.to_le_bytes()),
    ] {
        let found = forebay(&["cat", &index, sample, "--field", field]);
        assert!(found.status.success(), "{}", text(&found.stderr));
        assert_eq!(found.stdout, bytes, "{sample} {field}");
    }
    let npy = forebay(&["cat", &index, "cat/1", "--field", "data", "--npy"]);
    assert!(npy.stdout.starts_with(b"\x93NUMPY\x01\x00"));
    assert!(npy.stdout.ends_with(b"\none"));
}

#[test]
fn cat_says_what_there_is_instead() {
    let (_temp, index) = indexed();
    for (arguments, code, words) in [
        (vec!["cat", &index, "cow"], 1, "no sample `cow`"),
        (
            vec!["cat", &index, "3"],
            1,
            "no sample `3`: the index has 3",
        ),
        (vec!["cat", &index, "0"], 2, "`data`, `label`"),
        (vec!["cat", &index, "0", "--field", "x"], 2, "no field `x`"),
        (
            vec!["cat", "nowhere", "0"],
            1,
            "cannot open index `nowhere`",
        ),
        (
            vec!["index", ".", "-o", "x", "--format", "zip"],
            2,
            "`safetensors`",
        ),
    ] {
        let found = forebay(&arguments);
        assert_eq!(found.status.code(), Some(code), "{arguments:?}");
        assert!(
            text(&found.stderr).contains(words),
            "{}",
            text(&found.stderr)
        );
        assert!(found.stdout.is_empty());
    }
}

#[test]
fn verify_fails_with_a_list_of_faults() {
    let (temp, index) = indexed();
    let sound = forebay(&["verify", &index, "--data"]);
    assert!(sound.status.success(), "{}", text(&sound.stderr));
    assert!(text(&sound.stderr).contains("read 3 of them"));

    let data = temp.path().join("data");
    fs::write(data.join("cat/1"), "ten bytes.").unwrap();
    fs::remove_file(data.join("dog/0")).unwrap();
    for extra in [&[][..], &["--data"]] {
        let found = forebay(&[&["verify", index.as_str()], extra].concat());
        assert_eq!(found.status.code(), Some(1));
        let lines: Vec<&str> = text(&found.stdout).lines().collect();
        assert_eq!(lines.len(), 2, "{lines:?}");
        assert!(
            lines[0].contains("cat/1` changed: it had 3 bytes, it has 10"),
            "{lines:?}"
        );
        assert!(
            lines[1].contains("cannot open") && lines[1].contains("dog/0"),
            "{lines:?}"
        );
    }
    let found = forebay(&["verify", &index, "--json"]);
    let report: serde_json::Value = serde_json::from_slice(&found.stdout).unwrap();
    assert_eq!(
        (&report["faults"], &report["samples"]),
        (&2.into(), &3.into())
    );

    damage(Path::new(&index));
    let found = forebay(&["verify", &index]);
    assert_eq!(found.status.code(), Some(1));
    assert!(
        text(&found.stdout).contains("checksum"),
        "{}",
        text(&found.stdout)
    );
}

/// Changes the last byte of the index, which belongs to a table that opening does not read.
fn damage(index: &Path) {
    let mut bytes = fs::read(index).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(index, bytes).unwrap();
}

#[test]
fn an_index_replaces_nothing_but_an_index() {
    let (temp, index) = indexed();
    let data = temp.path().join("data");
    let root = data.to_str().unwrap();
    let sample = data.join("dog/0");
    for output in [&sample, &data] {
        let found = forebay(&["index", root, "-o", output.to_str().unwrap()]);
        assert_eq!(found.status.code(), Some(2), "{}", text(&found.stderr));
        assert!(text(&found.stderr).contains("\nhint: "));
    }
    assert_eq!(fs::read(&sample).unwrap(), b"three");
    for content in [fs::read(&index).unwrap(), b"FBINDEX\0cut".to_vec(), vec![]] {
        fs::write(&index, content).unwrap();
        assert!(forebay(&["index", root, "-o", &index]).status.success());
    }
}

#[test]
fn a_flattened_folder_stands_for_its_index() {
    let (temp, index) = indexed();
    let path = |name: &str| temp.path().join(name).to_str().unwrap().to_owned();
    let flat = path("flat");
    assert!(forebay(&["flatten", &index, "-o", &flat]).status.success());
    let again = forebay(&["flatten", &flat, "-o", &path("again"), "--json"]);
    let summary: serde_json::Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(summary["samples"], 3);
    let found = forebay(&["index", &flat, "-o", &path("x.forebay")]);
    assert_eq!(found.status.code(), Some(2));
    assert!(text(&found.stderr).contains("flat/index.forebay"));
}

#[test]
fn what_an_index_says_is_not_said_again() {
    let (temp, index) = indexed();
    let output = temp.path().join("flat");
    let output = output.to_str().unwrap();
    let found = forebay(&["flatten", &index, "-o", output, "--fields", "data"]);
    assert_eq!(found.status.code(), Some(2));
    assert!(text(&found.stderr).contains("--fields"));
    assert!(!Path::new(output).exists());
}

#[test]
fn a_daemon_that_is_refused_says_so_in_the_log() {
    let temp = tempfile::tempdir().unwrap();
    let cache = temp.path().to_str().unwrap();
    let found = forebay(&["serve", "--cache", cache, "--detach", "--policy", "fifo"]);
    assert_eq!(found.status.code(), Some(2));
    let log = fs::read_to_string(temp.path().join("daemon.log")).unwrap();
    assert_eq!(log, text(&found.stderr));
    assert!(log.contains("`policy` must be"));
}
