//! Manifests, runs of several ranks, verdicts and histories.

mod compare;
mod history;
mod manifest;
mod rank_test;
mod summary;
mod truth;

use serde_json::json;

use super::*;

/// What a test looks for, and a change that brings it about.
type Case = (&'static str, fn(&mut Manifest));

/// A manifest of one rank with `ops` of one sample an iteration.
fn manifest(run_id: &str, rank: u32, world_size: u32, ops: &[(&str, &[u64])]) -> Manifest {
    let dist = Dist {
        rank,
        local_rank: rank,
        world_size,
        backend: None,
        init: "env".into(),
    };
    let mut made = Manifest::new("create_files", run_id, dist);
    made.status = Status::Pass;
    let params = json!({"num_copies": 100, "file_size": 4096, "interface": "native"});
    made.params = params.as_object().cloned().unwrap_or_default();
    made.host.hostname = format!("node{rank}");
    made.host.cpu = "a processor".into();
    made.host.cores = 2;
    made.fs.fstype = "ext4".into();
    made.fs.source = "/dev/disk".into();
    made.cache.policy = "none".into();
    let measured = ops.iter().map(|(_, samples)| samples.len()).max();
    made.iterations = (0..=measured.unwrap_or(0) as u32)
        .map(|i| Iteration {
            i,
            warmup: i == 0,
            start_unix_ns: 1_000_000_000 + u64::from(i),
            wall_ns: 1_000 + u64::from(rank) * 10,
            io_bytes: 4_096,
            ops: 1,
        })
        .collect();
    for (op, samples) in ops {
        let iterations: Vec<Vec<u64>> = samples.iter().map(|one| vec![*one]).collect();
        made.timing
            .insert((*op).into(), Timing::from_iterations(&iterations));
    }
    made
}

/// A run of one rank.
fn run(run_id: &str, ops: &[(&str, &[u64])]) -> SuiteRun {
    SuiteRun::new(vec![manifest(run_id, 0, 1, ops)]).expect("one rank is a run")
}
