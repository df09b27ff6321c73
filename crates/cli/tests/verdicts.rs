//! `forebay bench show`, `compare`, `history` and `report`, as a script uses them.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};
use tempfile::TempDir;

fn bench(words: &[&str], paths: &[&Path]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("bench")
        .args(words)
        .args(paths)
        .output()
        .unwrap()
}

fn code(done: &Output) -> i32 {
    done.status.code().unwrap()
}

/// A run of two ranks with six iterations of `read` near `ns`.
fn run(folder: &Path, id: &str, started: u64, ns: u64, change: impl Fn(&mut Value)) {
    let folder = folder.join(id);
    fs::create_dir_all(&folder).unwrap();
    for rank in 0..2u64 {
        let samples: Vec<u64> = (0..6).map(|i| ns + 100 * i + rank).collect();
        let iterations: Vec<Value> = (0..6)
            .map(|i| {
                json!({"i": i, "warmup": false, "start_unix_ns": started + i, "wall_ns": ns,
                    "io_bytes": 4096, "ops": 1})
            })
            .collect();
        let mut manifest = json!({
            "schema": 1, "benchmark": "md5_check", "run_id": id, "status": "pass",
            "params": {"file_size": 4096, "interface": "native"},
            "host": {"hostname": "node1", "cpu": "c", "cores": 2},
            "fs": {"path": "/data", "fstype": "nfs4", "source": "server:/export"},
            "dist": {"rank": rank, "world_size": 2},
            "iterations": iterations,
            "timing": {"read": {"unit": "ns", "count": 6, "mean": ns, "min": ns, "max": ns + 501,
                "p50": ns, "p90": ns, "p99": ns, "p999": ns, "samples": samples,
                "iteration": [1, 1, 1, 1, 1, 1]}},
        });
        change(&mut manifest);
        let path = folder.join(format!("rank-{rank:05}.json"));
        fs::write(path, manifest.to_string()).unwrap();
    }
}

/// Six runs in `base`, six as fast in `same`, six slower ones in `slow`.
fn sides() -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    for i in 0..6u64 {
        for (side, ns) in [
            ("base", 1_000_000),
            ("same", 1_000_300),
            ("slow", 1_300_000),
        ] {
            let id = format!("{side}-{i}");
            run(&temp.path().join(side), &id, i, ns + 1_000 * i, |_| ());
        }
    }
    temp
}

#[test]
fn exit_codes_tell_slower_from_cannot_say() {
    let temp = sides();
    let at = |name: &str| temp.path().join(name);
    let (base, same, slow) = (at("base"), at("same"), at("slow"));

    let done = bench(&["compare"], &[&base, &same]);
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("no change"));

    let done = bench(&["compare"], &[&base, &slow]);
    assert_eq!(code(&done), 1, "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("REGRESSION"));
    let done = bench(&["compare"], &[&slow, &base]);
    assert_eq!(code(&done), 0, "an improvement: {done:?}");

    let one = base.join("base-0");
    for refused in [
        bench(&["compare"], &[&base, &one]),
        bench(&["compare"], &[&base, &at("nothing")]),
        bench(&["compare", "--metric", "p42"], &[&base, &slow]),
        bench(&["compare", "--least-effect", "-3"], &[&base, &slow]),
    ] {
        assert_eq!(code(&refused), 2, "{refused:?}");
        assert!(refused.stdout.is_empty());
        assert!(!refused.stderr.is_empty());
    }
}

#[test]
fn too_wide_to_tell_is_a_code_of_its_own_when_asked_for() {
    let temp = tempfile::tempdir().unwrap();
    for i in 0..5u64 {
        let ns = [1_000_000, 2_000_000, 3_000_000, 1_500_000, 2_500_000][i as usize];
        run(&temp.path().join("a"), &format!("a-{i}"), i, ns, |_| ());
        run(
            &temp.path().join("b"),
            &format!("b-{i}"),
            i,
            ns + 70_000,
            |_| (),
        );
    }
    let (a, b) = (temp.path().join("a"), temp.path().join("b"));
    assert_eq!(code(&bench(&["compare"], &[&a, &b])), 0);
    assert_eq!(
        code(&bench(&["compare", "--fail-inconclusive"], &[&a, &b])),
        3
    );
}

#[test]
fn a_comparison_as_json_has_every_figure() {
    let temp = sides();
    let (base, slow) = (temp.path().join("base"), temp.path().join("slow"));
    let done = bench(&["compare", "--json", "--op", "read"], &[&base, &slow]);
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(found["verdict"], "regression");
    let read = &found["groups"][0]["ops"][0];
    assert_eq!((&read["op"], &read["base_n"]), (&json!("read"), &json!(6)));
    assert!(read["low"].as_f64().unwrap() > 1.2 && read["p_adjusted"].as_f64().unwrap() < 0.05);
}

#[test]
fn unlike_runs_are_refused_and_each_difference_is_named() {
    let temp = sides();
    let other = temp.path().join("other");
    for i in 0..6 {
        run(&other, &format!("o-{i}"), i, 1_000_000, |manifest| {
            manifest["fs"]["fstype"] = json!("lustre");
        });
    }
    let base = temp.path().join("base");
    let done = bench(&["compare"], &[&base, &other]);
    assert_eq!(code(&done), 2);
    let words = String::from_utf8(done.stderr).unwrap();
    assert!(
        words.contains("`fs.fstype` is `nfs4` against `lustre`"),
        "{words}"
    );
    assert!(words.contains("--force"), "{words}");
    let done = bench(&["compare", "--force"], &[&base, &other]);
    assert_eq!(code(&done), 0, "{done:?}");
    assert!(String::from_utf8_lossy(&done.stdout).contains("NOT ALIKE: `fs.fstype`"));
}

#[test]
fn a_run_is_shown_whole_by_rank_and_by_iteration() {
    let temp = sides();
    let one = temp.path().join("base/base-0");
    let done = bench(&["show"], &[&one]);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(
        text.starts_with("md5_check pass: base-0, 2 ranks on 1 host"),
        "{text}"
    );
    let done = bench(&["show", "--json"], &[&one]);
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(found["ops"][1]["op"], "read");
    assert_eq!(found["ops"][1]["straggler_ns"][1], 1_000_101.0);
    for by in ["rank", "iteration"] {
        let done = bench(&["show", "--by", by], &[&one]);
        assert!(
            String::from_utf8_lossy(&done.stdout).lines().count() >= 4,
            "{done:?}"
        );
    }
    let done = bench(&["show"], &[temp.path()]);
    assert_eq!(code(&done), 2);
    assert!(String::from_utf8_lossy(&done.stderr).contains("it has no `rank-*.json`"));
}

#[test]
fn a_broken_manifest_is_named() {
    let temp = sides();
    let path = temp.path().join("base/base-0/rank-00001.json");
    for (text, words) in [
        ("{", "it is no manifest"),
        (r#"{"schema": 7}"#, "manifest schema 7 is not known"),
        (
            r#"{"schema": 1, "benchmark": "b", "run_id": "r", "status": "pass", "colour": 1}"#,
            "`colour`",
        ),
    ] {
        fs::write(&path, text).unwrap();
        let done = bench(&["show"], &[path.parent().unwrap()]);
        let said = String::from_utf8(done.stderr.clone()).unwrap();
        assert_ne!(code(&done), 0);
        assert!(
            said.contains(words) && said.contains("rank-00001.json"),
            "{said}"
        );
    }
}

#[test]
fn history_names_the_night_and_fails_where_it_is_recent() {
    let temp = tempfile::tempdir().unwrap();
    for i in 0..24u64 {
        let ns = if i < 18 { 1_000_000 } else { 2_300_000 } + 7_000 * (i % 3);
        run(
            temp.path(),
            &format!("night-{i:02}"),
            1 + i * 1_000,
            ns,
            |_| (),
        );
    }
    let done = bench(&["history"], &[temp.path()]);
    assert_eq!(code(&done), 0);
    let text = String::from_utf8(done.stdout).unwrap();
    assert!(
        text.contains("night-18") && text.contains("+129.1 %"),
        "{text}"
    );
    assert_eq!(
        code(&bench(&["history", "--fail-recent", "10"], &[temp.path()])),
        1
    );
    assert_eq!(
        code(&bench(&["history", "--fail-recent", "3"], &[temp.path()])),
        0
    );
    let done = bench(&["history", "--json", "--op", "read"], &[temp.path()]);
    let found: Value = serde_json::from_slice(&done.stdout).unwrap();
    assert_eq!(found["series"][0]["changes"][0]["index"], 18);
}

#[test]
fn a_page_shows_systems_under_their_names() {
    let temp = sides();
    let page = temp.path().join("page.html");
    let words = |name: &str| format!("{name}={}", temp.path().join(name).display());
    let (base, slow) = (words("base"), words("slow"));
    let done = bench(&["report", &base, &slow, "--json", "--output"], &[&page]);
    assert_eq!(code(&done), 0, "{done:?}");
    let written: Value = serde_json::from_slice(&done.stdout).unwrap();
    let html = fs::read_to_string(&page).unwrap();
    assert_eq!(written["bytes"], html.len());
    assert!(html.contains("<h3>slow against base</h3>") && html.contains(">slower<"));
}
