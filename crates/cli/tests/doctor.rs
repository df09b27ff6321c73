//! `forebay doctor`, as a user and a script run it.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs it with an environment of its own.
fn doctor(cache: &Path, flags: &[&str], set: &[(&str, &str)]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["doctor", "--cache"])
        .arg(cache)
        .args(flags)
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap_or_default())
        // Whatever fabric this machine has, tests of the command do not hang on it.
        .env("FOREBAY_LIBFABRIC", "libforebay-none.so.9")
        .envs(set.iter().copied())
        .output()
        .unwrap()
}

fn report(done: &Output) -> Value {
    serde_json::from_slice(&done.stdout).unwrap()
}

/// One item of a report.
fn item<'a>(report: &'a Value, section: &str, name: &str) -> &'a Value {
    let named = |list: &'a Value, name: &str| {
        let mut all = list.as_array().unwrap().iter();
        all.find(|each| each["name"] == name).unwrap()
    };
    named(&named(&report["sections"], section)["items"], name)
}

#[test]
fn a_sound_machine_is_said_to_be_and_nothing_is_left_behind() {
    let temp = tempfile::tempdir().unwrap();
    let cache = temp.path().join("cache");
    let done = doctor(&cache, &["--json"], &[]);
    let found = report(&done);
    assert!(done.status.success(), "{found:#}");
    assert_eq!(found["sound"], true);
    for name in ["settings", "folder", "holes in files", "shared map"] {
        let item = item(&found, "cache", name);
        assert_eq!(
            (&item["state"], &item["needed"]),
            (&"ok".into(), &true.into()),
            "{item}"
        );
    }
    assert_eq!(item(&found, "cache", "daemon")["state"], "missing");
    assert_eq!(fs::read_dir(temp.path()).unwrap().count(), 0);

    let words = doctor(&cache, &[], &[]);
    let words = String::from_utf8(words.stdout).unwrap();
    assert!(
        words.ends_with("\nnothing that is needed is broken\n"),
        "{words}"
    );
}

#[test]
fn what_is_needed_and_broken_ends_with_one_and_a_way_out() {
    let temp = tempfile::tempdir().unwrap();
    let cache = temp.path().join("file");
    fs::write(&cache, "").unwrap();
    let done = doctor(&cache, &[], &[]);
    assert_eq!(done.status.code(), Some(1));
    let words = String::from_utf8(done.stdout).unwrap();
    assert!(
        words.contains("file`: it is no folder\n           way out: name a folder"),
        "{words}"
    );
    assert!(words.ends_with("\nneeded and broken: folder\n"), "{words}");

    let set = [
        ("FOREBAY_POLICY", "fifo"),
        ("SLURM_JOB_ID", "7"),
        ("SLURM_NODEID", "x"),
    ];
    let done = doctor(&temp.path().join("cache"), &["--json"], &set);
    let found = report(&done);
    assert_eq!(
        (done.status.code(), &found["sound"]),
        (Some(1), &false.into())
    );
    let settings = item(&found, "cache", "settings")["reason"]
        .as_str()
        .unwrap();
    assert!(settings.contains("`policy` must be"), "{settings}");
    assert_eq!(item(&found, "job", "job")["state"], "refused");
}

#[test]
fn members_that_name_this_host_are_sound() {
    let temp = tempfile::tempdir().unwrap();
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let members = format!("{}:7420,another.invalid:7420", host.trim());
    let set = [("FOREBAY_MEMBERS", members.as_str())];
    let done = doctor(&temp.path().join("cache"), &["--json"], &set);
    let found = report(&done);
    assert!(done.status.success(), "{found:#}");
    assert_eq!(item(&found, "job", "members")["reason"], "2 nodes");
}

#[test]
fn credentials_are_named_and_never_shown() {
    let temp = tempfile::tempdir().unwrap();
    let set = [
        ("AWS_ACCESS_KEY_ID", "hunter2"),
        ("FOREBAY_SECRET", "swordfish-swordfish"),
    ];
    let done = doctor(&temp.path().join("cache"), &["--json"], &set);
    let found = report(&done);
    let s3 = item(&found, "stores of objects", "S3");
    assert_eq!(
        (&s3["state"], &s3["reason"]),
        (&"ok".into(), &"by AWS_ACCESS_KEY_ID".into())
    );
    assert_eq!(
        item(&found, "stores of objects", "Azure Blob Storage")["state"],
        "missing"
    );
    assert_eq!(item(&found, "job", "secret")["state"], "ok");
    let text = String::from_utf8([done.stdout, done.stderr].concat()).unwrap();
    assert!(
        !text.contains("hunter2") && !text.contains("swordfish"),
        "{text}"
    );
}

#[test]
fn a_machine_without_libfabric_is_sound() {
    let temp = tempfile::tempdir().unwrap();
    let done = doctor(&temp.path().join("cache"), &["--json"], &[]);
    let found = report(&done);
    assert!(done.status.success());
    let library = item(&found, "libfabric", "library");
    assert_eq!(
        (&library["state"], &library["needed"]),
        (&"missing".into(), &false.into())
    );
    assert!(library["way_out"].as_str().unwrap().contains("libfabric1"));
    // A file that is no libfabric is refused, and no fault of the machine either.
    let set = [("FOREBAY_LIBFABRIC", "libm.so.6")];
    let done = doctor(&temp.path().join("cache"), &["--json"], &set);
    assert!(done.status.success());
    let library = &report(&done)["sections"];
    assert!(
        library
            .to_string()
            .contains("`libm.so.6` is no libfabric: it lacks `fi_version`")
    );
}
