//! Runs to test with.

use serde_json::json;

use crate::record::{EpochEnd, Iteration, Manifest, Record, Timing};
use crate::run::Run;

/// A manifest with every field filled.
pub(crate) fn manifest() -> Manifest {
    let object = |value: serde_json::Value| value.as_object().cloned().unwrap_or_default();
    Manifest {
        format: crate::record::FORMAT,
        tool: "forebay demo".into(),
        version: "0.1.0".into(),
        started_unix_ns: 1_796_056_740_123_456_789,
        host: object(json!({"name": "node17", "cpus": 2})),
        inputs: object(json!({"seed": 7, "profile": "lustre"})),
        conditions: vec!["one node".into(), "emulated origin".into()],
    }
}

/// An iteration with no stages but the wait.
pub(crate) fn iteration(
    path: &str,
    epoch: u32,
    iteration: u64,
    rank: u32,
    times: (f64, f64),
) -> Record {
    let (wait_s, total_s) = times;
    Record::Iteration(Iteration {
        path: path.into(),
        epoch,
        timing: Timing {
            iteration,
            rank,
            wait_s,
            h2d_s: None,
            forward_s: None,
            backward_s: None,
            optimizer_s: None,
            answered: None,
            total_s,
        },
    })
}

pub(crate) fn end(path: &str, epoch: u32, wall_s: f64) -> Record {
    Record::Epoch(EpochEnd {
        path: path.into(),
        epoch,
        wall_s,
        asked_bytes: 1_000,
        origin_bytes: Some(1_180),
    })
}

/// The lines of the records, after a manifest.
pub(crate) fn lines(records: &[Record]) -> Vec<u8> {
    let mut lines = Vec::new();
    let manifest = Record::Manifest(manifest());
    for record in std::iter::once(&manifest).chain(records) {
        record.write_line(&mut lines).expect("the record is valid");
    }
    lines
}

pub(crate) fn run(records: &[Record]) -> Run {
    Run::read(lines(records).as_slice()).expect("the records are valid")
}

/// `n` iterations of 200 ms computing, each wait taken from `waits` in turn, and the end.
pub(crate) fn epoch(path: &str, epoch: u32, n: u64, waits: &[f64]) -> Vec<Record> {
    let wait = |i: u64| waits[i as usize % waits.len()];
    let step = |i| iteration(path, epoch, i, 0, (wait(i), wait(i) + 0.2));
    let mut records: Vec<Record> = (0..n).map(step).collect();
    let wall: f64 = (0..n).map(|i| wait(i) + 0.2).sum();
    records.push(end(path, epoch, wall));
    records
}

/// Two paths, two epochs of `n` iterations: one path stalls, the other only in its first epoch.
pub(crate) fn two_paths(slow: &str, fast: &str, n: u64) -> Vec<Record> {
    [
        epoch(slow, 1, n, &[0.003, 0.004, 1.8, 0.005, 9.6]),
        epoch(slow, 2, n, &[0.004, 2.5, 0.003, 0.005, 41.8]),
        epoch(fast, 1, n, &[0.002, 0.003, 0.9, 0.001, 0.002]),
        epoch(fast, 2, n, &[0.001, 0.0, 0.001, 0.002, 0.001]),
    ]
    .concat()
}
