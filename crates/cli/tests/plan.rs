//! `forebay tiers plan`, as a script uses it, and beside a run of the demonstration.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::process::{Command, Output};

use serde_json::Value;

/// A run of `python -m demo` with its defaults on an idle machine, as it was recorded.
const RUN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/demo-run.jsonl");
const PROFILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../demo/lustre.toml");
/// The demonstration's job. A sample costs h5py 29 reads; a worker takes 8 ms for it besides, most
/// of which is the mount's own time for each read.
const DEMO: [&str; 14] = [
    "--samples",
    "1600",
    "--sample-bytes",
    "286 KB",
    "--batch",
    "16",
    "--workers",
    "4",
    "--reads-per-sample",
    "29.09",
    "--cpu-ms",
    "8",
    "--records",
    RUN,
];

fn plan(words: &[&str]) -> Output {
    let command = Command::new(env!("CARGO_BIN_EXE_forebay"))
        .args(["tiers", "plan"])
        .args(words)
        .output();
    command.unwrap()
}

fn planned(words: &[&str]) -> Value {
    let done = plan(&[words, &["--json"]].concat());
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    serde_json::from_slice(&done.stdout).unwrap()
}

/// Measured and forecast time, measured and forecast share of stalled iterations, over all epochs.
fn compared(plan: &Value, path: &str) -> [f64; 4] {
    let all = plan["compared"].as_array().unwrap().iter();
    let whole = |one: &&Value| one["path"] == path && one["epoch"].is_null();
    let found = all.clone().find(whole).unwrap();
    [
        "measured_wall_s",
        "forecast_wall_s",
        "measured_stalled_share",
        "forecast_stalled_share",
    ]
    .map(|name| found[name].as_f64().unwrap())
}

#[test]
fn a_run_of_the_demonstration_takes_what_was_forecast() {
    let origin = [
        "--origin", PROFILE, "--scale", "0.25", "--seed", "7", "--replay",
    ];

    let plan = planned(&[&origin[..], &DEMO].concat());

    for path in ["direct", "forebay"] {
        let [wall, forecast, stalled, forecast_stalled] = compared(&plan, path);
        assert!(
            (forecast / wall - 1.0).abs() < 0.10,
            "{path}: {wall} s, forecast {forecast} s"
        );
        let off = (forecast_stalled - stalled).abs();
        assert!(
            off < 0.02,
            "{path}: {stalled} stalled, forecast {forecast_stalled}"
        );
    }
}

#[test]
fn an_origin_is_known_from_a_run_that_read_it() {
    let plan = planned(&[&["--origin-records", RUN], &DEMO[..]].concat());

    let [wall, forecast, ..] = compared(&plan, "direct");
    assert!(
        (forecast / wall - 1.0).abs() < 0.15,
        "{wall} s, forecast {forecast} s"
    );
}

#[test]
fn a_plan_says_what_to_run_with() {
    let job = [
        "--samples",
        "64000",
        "--sample-bytes",
        "286 KB",
        "--nodes",
        "2",
        "--gpus",
        "2",
    ];
    let more = [
        "--origin",
        "lustre",
        "--window",
        "0.19",
        "--reads-per-sample",
        "30",
        "--capacity",
        "4 GB",
        "--epochs",
        "2",
    ];

    let done = plan(&[&job[..], &more].concat());

    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let shown = String::from_utf8(done.stdout).unwrap();
    for wanted in [
        "4 ranks on 2 nodes, 250 iterations an epoch, data set 17.0 GiB",
        "direct ",
        "forebay ",
        "look-ahead: ",
        "block: ",
        "local capacity: ",
    ] {
        assert!(shown.contains(wanted), "no `{wanted}` in\n{shown}");
    }
    let found = planned(&[&job[..], &more].concat());
    let second = &found["plan"]["forebay"]["epochs"][1];
    // 8 GB of 18.3 stay, so the other 56 % are read again.
    let again = second["origin_bytes"].as_f64().unwrap() / (64_000.0 * 286_000.0);
    assert!((again - 0.563).abs() < 0.02, "{again}");
}

#[test]
fn what_does_not_fit_fails_and_says_why() {
    let refused = |words: &[&str], wanted: &str| {
        let job = ["--samples", "1600", "--sample-bytes", "286 KB"];
        let done = plan(&[&job[..], words].concat());
        let said = String::from_utf8(done.stderr).unwrap();
        assert!(
            !done.status.success() && done.stdout.is_empty(),
            "{words:?}: {said}"
        );
        assert!(said.contains(wanted), "{words:?}: {said}");
    };
    refused(&["--window", "0.1"], "--origin");
    refused(&["--origin", "lustre"], "the compute window is not known");
    refused(
        &["--origin", "gpfs", "--window", "0.1"],
        "no such built-in profile",
    );
    refused(
        &["--origin", "lustre", "--window=-1"],
        "`window` must be from 0 to",
    );
    refused(
        &["--origin", "lustre", "--window", "0.1", "--batch", "0"],
        "`batch` must be 1 to",
    );
    refused(
        &["--origin", "lustre", "--window", "0.1", "--gpus", "2000"],
        "`ranks per node` must be",
    );
    refused(
        &["--origin", "lustre", "--window", "0.1", "--batch", "3200"],
        "must fill one iteration",
    );
    refused(
        &["--origin", "lustre", "--records", "/none.jsonl"],
        "cannot open records",
    );
    refused(
        &["--origin", "lustre", "--records", RUN],
        "the run has 100 iterations in epoch 1 of `direct`",
    );
}
