//! `forebay tiers sweep`, as a script uses it.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;
use tempfile::TempDir;

/// Two tiers in a temporary folder.
fn tiers() -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir(temp.path().join("gfs")).unwrap();
    fs::create_dir(temp.path().join("lfs")).unwrap();
    temp
}

fn command(folder: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command
        .current_dir(folder)
        .args(["tiers", "sweep", "--gfs", "gfs", "--lfs", "lfs"])
        .args(words);
    command
}

fn sweep(folder: &Path, words: &[&str]) -> Output {
    command(folder, words).output().unwrap()
}

const SMALL: [&str; 8] = [
    "--set",
    "small:24:2KiB:1:4",
    "--processes",
    "3",
    "--epochs",
    "2",
    "--rates",
    "0,50,100",
];

#[test]
fn every_rate_reads_its_share_from_each_tier_and_the_analysis_reads_the_records() {
    let temp = tiers();

    let done = sweep(
        temp.path(),
        &[&SMALL[..], &["--state", "fast", "--json"]].concat(),
    );

    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let summary: Value = serde_json::from_slice(&done.stdout).unwrap();
    let shares: Vec<(f64, f64)> = (summary["epochs"].as_array().unwrap().iter())
        .map(|one| {
            (
                one["rate_percent"].as_f64().unwrap(),
                one["local_share"].as_f64().unwrap(),
            )
        })
        .collect();
    assert_eq!(
        shares,
        [
            (0.0, 0.0),
            (0.0, 0.0),
            (50.0, 0.5),
            (50.0, 0.5),
            (100.0, 1.0),
            (100.0, 1.0)
        ]
    );
    let records = temp.path().join("sweep.jsonl");
    let read = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args([
            "tiers",
            "whatif",
            records.to_str().unwrap(),
            "--gain",
            "LFS-READ=50",
            "--json",
        ])
        .output()
        .unwrap();
    assert!(
        read.status.success(),
        "{}",
        String::from_utf8_lossy(&read.stderr)
    );
    let answer: Value = serde_json::from_slice(&read.stdout).unwrap();
    assert_eq!(answer["setups"][0]["setup"], "small, fast");
    assert_eq!(
        answer["setups"][0]["answer"]["measured"]
            .as_array()
            .unwrap()
            .len(),
        3
    );
}

#[test]
fn a_sweep_goes_on_where_it_was_and_removes_what_it_made() {
    let temp = tiers();
    let made = sweep(temp.path(), &[&SMALL[..], &["--only", "make"]].concat());
    assert!(
        made.status.success(),
        "{}",
        String::from_utf8_lossy(&made.stderr)
    );
    let file = temp
        .path()
        .join("gfs/forebay-sweep-small/00000/img_00000003_of_00000024.tfrecord");
    let before = fs::metadata(&file).unwrap().modified().unwrap();

    let done = sweep(temp.path(), &[&SMALL[..], &["--remove"]].concat());

    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert!(
        fs::read_dir(temp.path().join("gfs"))
            .unwrap()
            .next()
            .is_none()
    );
    assert!(
        fs::read_dir(temp.path().join("lfs"))
            .unwrap()
            .next()
            .is_none()
    );
    let again = sweep(temp.path(), &[&SMALL[..], &["--only", "make"]].concat());
    assert!(again.status.success());
    let remade = fs::metadata(&file).unwrap().modified().unwrap();
    assert!(remade > before);
    let kept = sweep(temp.path(), &[&SMALL[..], &["--only", "make"]].concat());
    assert!(kept.status.success());
    assert_eq!(
        fs::metadata(&file).unwrap().modified().unwrap(),
        remade,
        "it is not made twice"
    );
}

#[test]
fn a_file_that_is_not_what_was_made_fails_the_sweep() {
    let temp = tiers();
    assert!(
        sweep(temp.path(), &[&SMALL[..], &["--only", "make"]].concat())
            .status
            .success()
    );
    let file = temp
        .path()
        .join("lfs/forebay-sweep-small/00000/img_00000003_of_00000024.tfrecord");
    let mut bytes = fs::read(&file).unwrap();
    bytes[300] ^= 1;
    fs::write(&file, bytes).unwrap();

    let done = sweep(temp.path(), &[&SMALL[..], &["--only", "run"]].concat());

    let said = String::from_utf8(done.stderr).unwrap();
    assert!(
        !done.status.success() && said.contains("fails its checksum"),
        "{said}"
    );
    assert!(
        !temp.path().join("sweep.jsonl").exists(),
        "no records of half a sweep"
    );
}

#[test]
fn tasks_of_a_launcher_are_the_processes() {
    let temp = tiers();
    let words = ["--set", "small:8:2KiB", "--epochs", "1", "--rates", "50"];
    let start = |rank: &str| {
        let mut command = command(temp.path(), &words);
        command.env("SLURM_PROCID", rank).env("SLURM_NTASKS", "2");
        command.env("SLURM_JOB_ID", "77").env("SLURM_STEP_ID", "0");
        command
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped());
        command.spawn().unwrap()
    };
    let tasks = [start("0"), start("1")];
    for task in tasks {
        let done = task.wait_with_output().unwrap();
        assert!(
            done.status.success(),
            "{}",
            String::from_utf8_lossy(&done.stderr)
        );
    }
    let records = fs::read_to_string(temp.path().join("sweep.jsonl")).unwrap();
    assert!(
        records.contains("\"rank 0\"") && records.contains("\"rank 1\""),
        "{records}"
    );
}

#[test]
fn a_workload_of_dlio_runs_and_what_is_not_used_is_listed() {
    let temp = tiers();
    let text = "model: {name: tiny}\nframework: pytorch\ndataset: {format: npz, num_files_train: 8, \
                record_length_bytes: 4000}\nreader: {batch_size: 2, read_threads: 2, file_shuffle: seed}\n\
                train: {epochs: 1, computation_time: 0.002}\nmetric: {au: 0.01}\n";
    fs::write(temp.path().join("tiny.yaml"), text).unwrap();
    let words = [
        "--config",
        "tiny.yaml",
        "--processes",
        "2",
        "--rates",
        "100",
    ];

    let done = sweep(temp.path(), &words);

    let said = String::from_utf8(done.stderr).unwrap();
    assert!(done.status.success(), "{said}");
    assert!(
        said.contains("note: option `framework` of the configuration is not used"),
        "{said}"
    );
    assert!(
        said.contains("accelerator utilisation of at least 1 %: 1 of 1 epochs"),
        "{said}"
    );
    assert!(String::from_utf8(done.stdout).unwrap().contains("tiny"));
}

#[test]
fn what_cannot_be_run_fails_before_anything_is_made() {
    let temp = tiers();
    fs::write(
        temp.path().join("bad.yaml"),
        "dataset: {format: jpeg, num_files_train: 1}",
    )
    .unwrap();
    let refused = |words: &[&str], wanted: &str| {
        let done = sweep(temp.path(), words);
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            !done.status.success() && done.stdout.is_empty(),
            "{words:?}: {said}"
        );
        assert!(said.contains(wanted), "{words:?}: {said}");
    };
    refused(&["--set", "small"], "write it as NAME:FILES:BYTES");
    refused(
        &["--set", "small:2:2KiB"],
        "must have a file for each of 4 processes",
    );
    refused(&["--rates", "0,120"], "a cache rate is from 0 to 100: 120");
    refused(&["--epochs", "0"], "`epochs` must be 1 to");
    refused(&["--config", "bad.yaml"], "`jpeg`");
    refused(&["--config", "none.yaml"], "cannot read `none.yaml`");
    refused(&["--lfs", "none"], "cannot be used multiple times");
    refused(
        &["--set", "huge:20000:3GB"],
        "must have samples of at least",
    );
    refused(
        &["--set", "huge:20000:1GB"],
        "bytes free and the data sets need",
    );
    assert!(
        fs::read_dir(temp.path().join("gfs"))
            .unwrap()
            .next()
            .is_none()
    );
}
