//! `forebay tiers whatif`, as a script uses it.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::fs;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

fn whatif(records: &str, more: &[&str]) -> Output {
    let mut words = vec!["tiers", "whatif", records];
    words.extend(more);
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(words)
        .output()
        .unwrap()
}

/// Two cache rates of one setup, two processes each.
fn records() -> (TempDir, String) {
    let temp = tempfile::tempdir().unwrap();
    let path = temp
        .path()
        .join("records.jsonl")
        .to_str()
        .unwrap()
        .to_owned();
    let mut lines =
        vec![json!({"record": "manifest", "tool": "t", "version": "1", "started_unix_ns": 0})];
    for (rate, process, meta, read) in [
        (0, "a", 6.0, 0.0),
        (0, "b", 5.0, 0.0),
        (50, "a", 3.0, 2.0),
        (50, "b", 1.0, 3.5),
    ] {
        lines.push(
            json!({"record": "io", "setup": "small", "rate_percent": rate, "process": process,
            "epoch": 1, "seconds": {"GFS-META": meta, "LFS-READ": read}}),
        );
    }
    let text: Vec<String> = lines.iter().map(Value::to_string).collect();
    fs::write(&path, text.join("\n") + "\n").unwrap();
    (temp, path)
}

#[test]
fn the_answer_is_the_slowest_of_the_improved_processes() {
    let (_temp, records) = records();

    let done = whatif(
        &records,
        &["--gain", "GFS-META=200", "--goal", "2.5", "--json"],
    );

    assert!(done.status.success(), "{done:?}");
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    let answer = &found["setups"][0]["answer"];
    assert_eq!(answer["best_measured"]["cache_rate"], 50.0);
    assert_eq!(answer["best_measured"]["slowest"][0]["process"], "a");
    assert_eq!(answer["best_improved"]["cache_rate"], 0.0);
    assert_eq!(answer["best_improved"]["seconds"], 2.0);
    // The least gain of a class takes the place of its own; 6 s to 2.5 s are +140 %.
    assert_eq!(answer["least"][0]["class"], "GFS-META");
    assert!((answer["least"][0]["percent"].as_f64().unwrap() - 140.0).abs() < 1e-6);
    assert_eq!(answer["least"][1]["answer"], "met");
}

#[test]
fn a_goal_out_of_reach_is_said_to_be() {
    let (_temp, records) = records();

    let done = whatif(
        &records,
        &[
            "--goal",
            "1.9",
            "--rate",
            "50",
            "--frontier",
            "gfs-meta,lfs-read",
        ],
    );

    assert!(done.status.success(), "{done:?}");
    let shown = String::from_utf8(done.stdout).unwrap();
    assert!(
        shown.contains("LFS-READ: unreachable: even without any time in it 3.00 s would remain"),
        "{shown}"
    );
    assert!(shown.contains("least gains together for 1.90 s"), "{shown}");
}

#[test]
fn what_does_not_fit_fails_and_says_why() {
    let (_temp, records) = records();
    let refused = |more: &[&str], wanted: &str| {
        let done = whatif(&records, more);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            !done.status.success() && done.stdout.is_empty(),
            "{more:?}: {said}"
        );
        assert!(said.contains(wanted), "{more:?}: {said}");
    };
    refused(
        &["--gain", "GFS-META=-5"],
        "gain -5 for `GFS-META` is not from 0 to",
    );
    refused(
        &["--gain", "GFS-READ=5"],
        "class `GFS-READ` is not in the measurements, which have: GFS-META, LFS-READ",
    );
    refused(&["--gain", "GFS-META"], "write it as CLASS=PERCENT");
    refused(&["--least", "GFS-META"], "need a goal");
    refused(
        &["--goal", "-3"],
        "goal -3 is not a number of seconds above 0",
    );
    refused(
        &["--goal", "0"],
        "goal 0 is not a number of seconds above 0",
    );
    refused(&["--rate", "33"], "cache rate 33 was not measured");
    refused(
        &["--epoch", "2"],
        "epoch 2 of cache rate 0 was not measured",
    );
    refused(&["--setup", "large"], "it has `small`");
    refused(
        &[
            "--goal",
            "1",
            "--frontier",
            "GFS-META,LFS-READ",
            "--step",
            "0.001",
        ],
        "too many",
    );
}
