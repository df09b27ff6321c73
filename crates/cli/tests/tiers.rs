//! `forebay tiers darshan`, `classes` and `report`, as a script uses them.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::Value;

const GFS: &str = "/grand/projects/radix-io/usr/snyder/dlio";

fn forebay<'a>(words: impl IntoIterator<Item = &'a str>) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
        .arg("tiers")
        .args(words)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// What a command that failed said.
fn failed(done: &Output, code: i32) -> &str {
    let said = text(&done.stderr);
    assert_eq!(done.status.code(), Some(code), "{said}");
    assert!(done.stdout.is_empty());
    assert!(said.contains("error: "), "{said}");
    said
}

fn json(done: &Output) -> Value {
    assert!(done.status.success(), "{}", text(&done.stderr));
    serde_json::from_slice(&done.stdout).unwrap()
}

/// The 24 logs of one DLIO run.
fn logs() -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../darshan/tests/logs");
    let mut logs: Vec<String> = fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path().to_str().unwrap().to_owned())
        .collect();
    logs.sort();
    logs
}

fn classes(more: &[&str]) -> Output {
    let logs = logs();
    let words = ["classes", "--gfs", GFS].into_iter();
    forebay(
        words
            .chain(logs.iter().map(String::as_str))
            .chain(more.iter().copied()),
    )
}

#[test]
fn the_slowest_process_of_a_real_run_and_its_stack() {
    let shown = classes(&["--top", "1"]);
    let said = text(&shown.stdout);
    let line = "slowest: 3116902-2110488, 7.285130 s = GFS-READ 5.751378 (78.9 %) + GFS-META 1.533752 (21.1 %)";
    assert!(said.contains(line), "{said}");
    assert!(said.contains("23 more processes") && said.contains("other: on no tier"));

    let found = json(&classes(&["--json"]));
    assert_eq!(found["slowest"][0]["process"], "3116902-2110488");
    assert_eq!(found["slowest"][0]["next_process"], "3116902-2110489");
    assert_eq!(
        found["points"][0]["processes"].as_array().unwrap().len(),
        24
    );
    assert!(!found["other"].as_array().unwrap().is_empty());

    let table = classes(&["--csv"]);
    assert_eq!(
        text(&table.stdout).lines().count(),
        3,
        "a header and two classes"
    );
    let grouped = json(&classes(&[
        "--json",
        "--group-by",
        "job",
        "--combine",
        "sum",
    ]));
    assert_eq!(grouped["slowest"][0]["process"], "job 3116902");
}

#[test]
fn logs_become_records_that_every_other_command_takes() {
    let temp = tempfile::tempdir().unwrap();
    let records = temp.path().join("dlio.jsonl");
    let records = records.to_str().unwrap();
    let name = ["--records", records, "--cache-rate", "0", "--name", "dlio"];
    assert!(classes(&name).status.success());
    let again = json(&forebay(["classes", records, "--json"]));
    assert_eq!(again["slowest"][0]["process"], "3116902-2110488");
    assert_eq!(
        (
            &again["slowest"][0]["setup"],
            &again["slowest"][0]["rate_percent"]
        ),
        (&"dlio".into(), &0.0.into())
    );

    let page = temp.path().join("page.html");
    let page = page.to_str().unwrap();
    let drawn = forebay(["report", records, "-o", page, "--json", "--goal", "5"]);
    assert_eq!(json(&drawn)[0]["process"], "3116902-2110488");
    assert!(fs::read_to_string(page).unwrap().contains("goal 5.00 s"));
    let said = forebay(["report", records, "-o", records]);
    assert!(failed(&said, 2).contains("would replace the input"));
    assert!(
        fs::read_to_string(records)
            .unwrap()
            .starts_with("{\"record\":\"manifest\"")
    );
}

#[test]
fn the_files_of_a_runs_ranks_are_analysed_together() {
    let temp = tempfile::tempdir().unwrap();
    let head = r#"{"record":"manifest","tool":"forebay.torch","version":"1","started_unix_ns":0}"#;
    let rank = |rank: u32, origin: f64| {
        let path = temp.path().join(format!("rank-{rank}.jsonl"));
        let io = format!(
            r#"{{"record":"io","process":"rank {rank} worker 0","epoch":1,"iteration":0,"seconds":{{"local-read":0.5,"origin-read":{origin}}}}}"#
        );
        fs::write(&path, format!("{head}\n{io}\n")).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (first, second) = (rank(0, 1.0), rank(1, 2.0));
    let found = json(&forebay(["classes", &first, &second, "--json"]));
    assert_eq!(found["slowest"][0]["process"], "rank 1 worker 0");
    assert_eq!(found["slowest"][0]["seconds"]["origin-read"], 2.0);
    let twice = forebay(["classes", &first, &first]);
    assert!(failed(&twice, 1).contains("process `rank 0 worker 0`"));
    let options = forebay(["classes", &first, "--gfs", "/a"]);
    assert!(failed(&options, 2).contains("--gfs is for Darshan logs"));
}

#[test]
fn darshan_shows_job_mounts_and_files() {
    let log = &logs()[0];
    let shown = forebay(["darshan", log, "--top", "2"]);
    let said = text(&shown.stdout);
    for part in [
        "format    Darshan 3.41, little endian, zlib",
        "job       3116902, user 31074, processes 1",
        "mount     /lus/grand (lustre)",
        "module    HEATMAP version 1, records 2",
    ] {
        assert!(said.contains(part), "{part} in {said}");
    }
    let both = forebay(["darshan", log, log, "--json"]);
    let lines: Vec<Value> = text(&both.stdout)
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["job"]["jobid"], 3_116_902);
    assert_eq!(lines[0]["records"]["POSIX"].as_array().unwrap().len(), 27);
}

#[test]
fn a_truncated_log_is_shown_as_far_as_it_goes_and_said_to_be_one() {
    let temp = tempfile::tempdir().unwrap();
    let cut = temp.path().join("cut.darshan");
    let whole = fs::read(&logs()[0]).unwrap();
    fs::write(&cut, &whole[..4000]).unwrap();
    let shown = forebay(["darshan", cut.to_str().unwrap()]);
    assert!(shown.status.success());
    assert!(text(&shown.stdout).contains("fault     module POSIX is cut short"));
    let shown = forebay(["darshan", cut.to_str().unwrap(), "--json"]);
    assert!(text(&shown.stderr).contains("module POSIX is cut short"));
    assert!(text(&shown.stdout).contains("module POSIX is cut short"));
    let found = forebay(["classes", cut.to_str().unwrap(), "--gfs", "/grand"]);
    assert!(
        text(&found.stderr).contains("cut short"),
        "{}",
        text(&found.stderr)
    );
}

#[test]
fn bad_input_is_a_clear_error() {
    let temp = tempfile::tempdir().unwrap();
    let file = |name: &str, bytes: &[u8]| {
        let path = temp.path().join(name);
        fs::write(&path, bytes).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let logs = logs();
    let wrong = forebay([
        "classes", &logs[9], "--gfs", "/nowhere", "--lfs", "/neither",
    ]);
    let said = failed(&wrong, 1);
    assert!(
        said.contains("no file of the logs lies under a prefix"),
        "{said}"
    );
    assert!(
        said.contains("hint: ") && said.contains("/grand/projects"),
        "{said}"
    );
    let twice = forebay(["classes", &logs[0], &logs[0], "--gfs", "/grand"]);
    assert!(failed(&twice, 2).contains("named twice"));
    let both = forebay(["classes", &logs[0], "--gfs", "/a", "--lfs", "/a/"]);
    assert!(failed(&both, 2).contains("both tiers"));
    let (empty, noise) = (file("empty", b""), file("noise", b"no log\n"));
    assert!(failed(&forebay(["darshan", &empty]), 1).contains("is no Darshan log"));
    assert!(failed(&forebay(["classes", &empty]), 1).contains("the records are empty"));
    assert!(failed(&forebay(["classes", &noise]), 1).contains("line 1 is not a record"));
    let mixed = forebay(["classes", &logs[0], &noise]);
    assert!(failed(&mixed, 2).contains("is no Darshan log"));
    let folder = temp.path().to_str().unwrap();
    assert!(failed(&forebay(["darshan", folder]), 2).contains("no plain file"));
    assert!(failed(&forebay(["darshan", "/nowhere/a"]), 1).contains("No such file"));
    let gain = forebay([
        "report",
        &logs[9],
        "--gfs",
        "/grand",
        "-o",
        &file("p", b""),
        "--gain",
        "GFS-READ=-5",
    ]);
    assert!(failed(&gain, 1).contains("-5"), "{}", text(&gain.stderr));
    for epochs in ["5:1", "+1:2", "a:b", "1"] {
        let done = forebay(["classes", &logs[9], "--gfs", "/grand", "--epoch-at", epochs]);
        failed(&done, 2);
    }
    let late = forebay([
        "classes",
        &logs[9],
        "--gfs",
        "/grand",
        "--epoch-at",
        "+9000:+9001",
    ]);
    assert!(failed(&late, 1).contains("no I/O of the logs lies within the epochs"));
}
