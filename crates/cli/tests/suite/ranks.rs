//! Ranks that are killed, that never come, that a launcher started.

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use forebay_analysis::suite::Status;

use crate::{bench, is_clean, json, manifests, place};

/// The processes of the ranks of a run.
fn ranks(runner: u32) -> Vec<(u32, u32)> {
    let children =
        fs::read_to_string(format!("/proc/{runner}/task/{runner}/children")).unwrap_or_default();
    let rank = |child: u32| {
        let environment = fs::read(format!("/proc/{child}/environ")).ok()?;
        let mut words = environment.split(|byte| *byte == 0);
        let word = words.find_map(|word| word.strip_prefix(b"RANK="))?;
        Some((std::str::from_utf8(word).ok()?.parse().ok()?, child))
    };
    children
        .split_whitespace()
        .filter_map(|child| rank(child.parse().ok()?))
        .collect()
}

/// A run that goes on until it is ended: files that come once a second. It is given back when all
/// ranks have done their first iteration.
fn endless(place: &Path, ranks: u32) -> Child {
    let words = [
        "run",
        "create_synthetic_workload",
        "--num-files",
        "2",
        "--simulate-arrivals",
        "--interval-s",
        "0.2",
        "--iterations",
        "100000",
        "--json",
        "--dataset-path",
        "data",
        "--output-dir",
        "out",
        "--ranks",
        &ranks.to_string(),
    ];
    begun(place, &words, ranks)
}

/// A run of which all ranks have done their first iteration.
fn begun(place: &Path, words: &[&str], ranks: u32) -> Child {
    let mut command = bench(place, words);
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut reader = BufReader::new(child.stderr.take().unwrap());
    let (mut line, mut seen) = (String::new(), 0);
    while seen < ranks {
        line.clear();
        assert_ne!(reader.read_line(&mut line).unwrap(), 0, "it ended early");
        seen += u32::from(line.contains("\"iteration\":0"));
    }
    // Read on, so that the runner never waits for a full pipe.
    std::thread::spawn(move || std::io::copy(&mut reader, &mut std::io::sink()));
    child
}

fn signal(process: u32, name: &str) {
    let status = Command::new("kill")
        .args([name, &process.to_string()])
        .status();
    assert!(status.unwrap().success());
}

#[test]
fn a_killed_rank_fails_the_run_and_nothing_is_left() {
    let place = place();
    let child = endless(place.path(), 3);
    let killed = ranks(child.id())
        .into_iter()
        .find(|(rank, _)| *rank == 1)
        .unwrap();
    signal(killed.1, "-KILL");
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(1));
    assert_eq!(json(&done)["status"], "fail");
    is_clean(place.path());
    let manifests = manifests(place.path());
    let errors: Vec<&str> = manifests
        .iter()
        .map(|one| one.error.as_deref().unwrap())
        .collect();
    assert_eq!(errors.len(), 3);
    assert!(errors[1].contains("signal: 9"), "{errors:?}");
    assert!(
        errors[0].contains("rank 1 went away") || errors[0].contains("interrupted"),
        "{errors:?}"
    );
}

#[test]
fn ctrl_c_cleans_up_and_leaves_manifests_that_say_so() {
    let place = place();
    let child = endless(place.path(), 2);
    signal(child.id(), "-INT");
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130));
    let run = &json(&done)["runs"][0];
    assert_eq!(
        (&run["status"], &run["error"]),
        (&"fail".into(), &"interrupted".into())
    );
    is_clean(place.path());
    for manifest in manifests(place.path()) {
        assert_eq!(manifest.status, Status::Fail);
        assert!(!manifest.iterations.is_empty(), "what was measured is kept");
    }
}

#[test]
#[ignore = "long: a hundred thousand folders"]
fn a_run_in_a_large_tree_is_bounded_in_memory_and_cleans_up_when_it_is_interrupted() {
    let place = place();
    let words = "run folder_bench --depth 5 --breadth 10 --warmup 0 --iterations 20 --json \
                 --dataset-path data --output-dir out";
    let child = begun(place.path(), &words.split(' ').collect::<Vec<_>>(), 1);
    let rank = ranks(child.id())[0].1;
    let status = fs::read_to_string(format!("/proc/{rank}/status")).unwrap();
    let most = status.lines().find(|line| line.starts_with("VmHWM:"));
    let words: Vec<&str> = most.unwrap().split_whitespace().collect();
    let most_kib: u64 = words[1].parse().unwrap();
    // 111,110 folders and a third of a million samples: some 20 MB, with room to spare.
    assert!(most_kib < 128 << 10, "{most_kib} KiB");
    signal(child.id(), "-INT");
    let done = child.wait_with_output().unwrap();
    assert_eq!(done.status.code(), Some(130));
    is_clean(place.path());
}

#[test]
fn ranks_end_when_their_runner_is_killed() {
    let place = place();
    let mut child = endless(place.path(), 2);
    let ranks = ranks(child.id());
    assert_eq!(ranks.len(), 2);
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    for (_, rank) in ranks {
        // It ends at its next word; the test's own limit is the harness's.
        while fs::read_to_string(format!("/proc/{rank}/stat"))
            .is_ok_and(|stat| !stat.contains(") Z "))
        {
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

fn free_port() -> u16 {
    // The run takes this port and the one after it.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port().min(65_000)
}

fn torchrun(place: &Path, rank: &str, port: u16, words: &[&str]) -> Command {
    let common = [
        "--launcher",
        "torchrun",
        "--dataset-path",
        "data",
        "--output-dir",
        "out",
        "--json",
    ];
    let mut command = bench(place, &[words, &common].concat());
    command
        .env("RANK", rank)
        .env("WORLD_SIZE", "2")
        .env("LOCAL_RANK", rank);
    command
        .env("MASTER_ADDR", "127.0.0.1")
        .env("MASTER_PORT", port.to_string());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

#[test]
fn ranks_of_a_launcher_run_one_after_the_other_benchmark_together() {
    for init in ["env", "file:meet"] {
        let place = place();
        let words = [
            "run",
            "create_files",
            "fsdp_save",
            "--num-copies",
            "10",
            "--hidden-dim",
            "16",
            "--input-dim",
            "16",
            "--engine",
            "native",
            "--iterations",
            "1",
            "--dist-init",
            init,
        ];
        // Benchmarks without this engine have their own.
        let port = free_port();
        let ranks: Vec<Child> = ["0", "1"]
            .iter()
            .map(|rank| torchrun(place.path(), rank, port, &words).spawn().unwrap())
            .collect();
        for rank in ranks {
            let done = rank.wait_with_output().unwrap();
            assert!(
                done.status.success(),
                "{}",
                String::from_utf8_lossy(&done.stderr)
            );
            assert_eq!(json(&done)["status"], "pass");
        }
        is_clean(place.path());
        assert_eq!(manifests(place.path()).len(), 4);
    }
}

#[test]
fn a_rank_that_never_comes_fails_the_run_at_its_deadline() {
    let place = place();
    let words = [
        "run",
        "create_files",
        "--num-copies",
        "10",
        "--timeout-s",
        "1",
    ];
    let done = torchrun(place.path(), "0", free_port(), &words)
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(1));
    let error = json(&done)["runs"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("rank 1 did not come"), "{error}");
    let manifests = manifests(place.path());
    assert_eq!(manifests.len(), 2);
    assert!(manifests.iter().all(|one| one.status == Status::Fail));
    is_clean(place.path());
}
