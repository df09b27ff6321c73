//! `forebay bench run` and `suite`, as a user and a script use them.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

mod ranks;
mod wrong;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use forebay_analysis::suite::{Manifest, Status};
use serde_json::Value;
use tempfile::TempDir;

/// A folder with `data`, the file system under test, and something of the user's in it.
fn place() -> TempDir {
    let temp = tempfile::tempdir().unwrap();
    fs::create_dir_all(temp.path().join("data/mine")).unwrap();
    fs::write(temp.path().join("data/mine/kept"), "kept").unwrap();
    temp
}

fn bench(place: &Path, words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.current_dir(place).arg("bench").args(words);
    // What a launcher around the tests says is not theirs.
    for name in [
        "RANK",
        "WORLD_SIZE",
        "SLURM_PROCID",
        "MASTER_ADDR",
        "MASTER_PORT",
    ] {
        command.env_remove(name);
    }
    command
}

fn run(place: &Path, words: &[&str]) -> Output {
    let common = ["--dataset-path", "data", "--output-dir", "out", "--json"];
    bench(place, &[words, &common].concat()).output().unwrap()
}

fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        let (out, err) = (&output.stdout, &output.stderr);
        let text = String::from_utf8_lossy;
        panic!("stdout is no JSON: {error}\n{}\n{}", text(out), text(err))
    })
}

/// The manifests of all ranks of all runs, by run and rank.
fn manifests(place: &Path) -> Vec<Manifest> {
    let mut files: Vec<PathBuf> = Vec::new();
    for run in fs::read_dir(place.join("out")).unwrap() {
        for file in fs::read_dir(run.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap();
            if name.starts_with("rank-") && name.ends_with(".json") {
                files.push(path);
            }
        }
    }
    files.sort();
    let read = |path: &PathBuf| Manifest::read(&fs::read(path).unwrap()).unwrap();
    files.iter().map(read).collect()
}

/// Only what was there before is there.
fn is_clean(place: &Path) {
    let left: Vec<_> = fs::read_dir(place.join("data"))
        .unwrap()
        .map(|one| one.unwrap().file_name())
        .collect();
    assert_eq!(left, ["mine"]);
    assert_eq!(
        fs::read_to_string(place.join("data/mine/kept")).unwrap(),
        "kept"
    );
}

fn must_pass(place: &Path, words: &[&str]) -> Vec<Manifest> {
    let done = run(place, words);
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    assert_eq!(json(&done)["status"], "pass");
    is_clean(place);
    let manifests = manifests(place);
    assert!(
        manifests
            .iter()
            .all(|one| one.status == Status::Pass && one.verify.checked > 0 || one.dist.rank > 0)
    );
    manifests
}

#[test]
fn every_benchmark_passes_and_times_its_operations() {
    let place = place();
    let words = [
        "suite",
        "--profile",
        "quick",
        "--engine",
        "native",
        "--iterations",
        "2",
        "--ranks",
        "2",
    ];
    let manifests = must_pass(place.path(), &words);
    let wanted: &[(&str, &[&str])] = &[
        ("create_files", &["open", "write", "close", "file_total"]),
        ("list_files", &["readdir", "stat", "list_total"]),
        ("move_files", &["rename"]),
        ("delete_files", &["unlink"]),
        ("folder_bench", &["mkdir", "walk", "rmdir"]),
        ("git_clone", &["clone"]),
        ("run_tar", &["archive", "close", "archive_total"]),
        ("run_untar", &["extract_file", "extract_total"]),
        (
            "create_dataset",
            &["open", "write", "close", "file_8KiB", "file_1MiB"],
        ),
        ("create_synthetic_workload", &["open", "write", "close"]),
        (
            "md5_check",
            &["open", "read", "hash", "close", "file_total"],
        ),
        ("ddp_save", &["train_iter", "save_total", "write", "fsync"]),
        ("ddp_load", &["load_total", "read", "train_iter"]),
        ("fsdp_save", &["save_total", "write", "fsync", "metadata"]),
        ("fsdp_load", &["load_total", "read_metadata", "read_shards"]),
        ("rl_load", &["read_shards", "consolidate", "rl_total"]),
    ];
    for (benchmark, ops) in wanted {
        let ranks: Vec<_> = manifests
            .iter()
            .filter(|one| one.benchmark == *benchmark)
            .collect();
        assert_eq!(ranks.len(), 2, "{benchmark}");
        let first = ranks[0];
        for op in *ops {
            let timing = first
                .timing
                .get(*op)
                .unwrap_or_else(|| panic!("{benchmark} has no {op}"));
            assert_eq!(timing.count, timing.samples.len() as u64);
            assert!(timing.iteration.len() <= 2, "the warm-up is not among them");
        }
        for rank in &ranks {
            assert!(rank.timing.contains_key("gang_start"));
            assert_eq!(rank.measured().count(), 2);
            assert!(!rank.fs.fstype.is_empty() && rank.host.cores > 0);
        }
    }
}

#[test]
fn four_ranks_meet_in_a_folder_and_share_another() {
    let place = place();
    let words = [
        "run",
        "create_files",
        "--num-copies",
        "20",
        "--shared-dir",
        "--ranks",
        "4",
        "--iterations",
        "2",
        "--dist-init",
        "file:meet",
    ];
    let manifests = must_pass(place.path(), &words);
    assert_eq!(manifests.len(), 4);
    for (rank, manifest) in manifests.iter().enumerate() {
        assert_eq!(manifest.dist.rank as usize, rank);
        assert_eq!(manifest.timing["file_total"].count, 40);
        assert!(manifest.timing.contains_key("barrier_wait"));
    }
}

#[test]
fn a_state_is_resharded_for_other_ranks_and_read_in_full() {
    let place = place();
    let model = [
        "--layers",
        "3",
        "--input-dim",
        "37",
        "--hidden-dim",
        "53",
        "--iterations",
        "1",
    ];
    let common = ["--engine", "native", "--ranks", "3"];
    let more: [&[&str]; 4] = [
        &["fsdp_load", "--reshard-to", "2"],
        &[
            "fsdp_load",
            "--full-state-dict",
            "--single-file-per-rank=false",
        ],
        &[
            "fsdp_load",
            "--reader-shift",
            "1",
            "--drop-cache",
            "fadvise",
        ],
        &["rl_load", "--consolidate", "read_all"],
    ];
    for words in more {
        must_pass(place.path(), &[&["run"], words, &model, &common].concat());
    }
}

#[test]
fn data_that_is_kept_is_read_by_another_run() {
    let place = place();
    let made = run(
        place.path(),
        &[
            "run",
            "create_dataset",
            "--sizes",
            "1KiB",
            "--copies-per-size",
            "5",
            "--iterations",
            "1",
            "--keep-data",
        ],
    );
    let work = json(&made)["runs"][0]["work_dir"]
        .as_str()
        .unwrap()
        .to_owned();
    let dataset = format!("{work}/shared/dataset-00001");
    let read = |chunk: &str| {
        run(
            place.path(),
            &[
                "run",
                "md5_check",
                "--dataset",
                &dataset,
                "--chunk-size",
                chunk,
                "--iterations",
                "1",
            ],
        )
    };
    assert!(read("100").status.success());
    // One byte of one file is another.
    let file = format!("{dataset}/file_3.dat");
    let mut bytes = fs::read(&file).unwrap();
    bytes[1000] ^= 1;
    fs::write(&file, bytes).unwrap();
    let failed = read("1KiB");
    assert_eq!(failed.status.code(), Some(1));
    let run = &json(&failed)["runs"][0];
    assert_eq!(run["status"], "fail");
    assert!(
        run["error"]
            .as_str()
            .unwrap()
            .contains("1 of 5 things compared"),
        "{run}"
    );
    let manifests = manifests(place.path());
    let bad = manifests
        .iter()
        .find(|one| one.status == Status::Fail)
        .unwrap();
    assert_eq!(bad.verify.bad, 1);
    assert!(Path::new(&dataset).exists(), "what was kept stays");
}

#[test]
fn a_tree_deeper_than_any_path_is_made_walked_and_removed() {
    let place = place();
    let words = [
        "run",
        "folder_bench",
        "--depth",
        "1500",
        "--breadth",
        "1",
        "--files-per-dir",
        "1",
        "--iterations",
        "1",
        "--warmup",
        "0",
    ];
    let manifests = must_pass(place.path(), &words);
    assert_eq!(manifests[0].timing["mkdir"].count, 1500);
    assert_eq!(manifests[0].timing["rmdir"].count, 1500);
}

/// What fio 3.33 answers, in short.
const FIO: &str = r#"#!/bin/sh
[ "$1" = --version ] && { echo fio-3.33; exit 0; }
echo "fio: a note before the document"
echo '{"jobs":[{"error":0,"read":{"io_bytes":4096000,"total_ios":1000,"clat_ns":{"max":9000,
"mean":2000.4,"percentile":{"50.000000":1900,"99.000000":5000}}},"write":{"total_ios":0}}]}'
"#;

#[test]
fn percentiles_of_fio_are_in_the_same_records() {
    use std::os::unix::fs::PermissionsExt;

    let place = place();
    let fio = place.path().join("fio");
    fs::write(&fio, FIO).unwrap();
    fs::set_permissions(&fio, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!(
        "{}:{}",
        place.path().display(),
        std::env::var("PATH").unwrap()
    );
    let words = [
        "run",
        "fio",
        "--dataset-path",
        "data",
        "--output-dir",
        "out",
        "--iterations",
        "2",
    ];
    let done = bench(place.path(), &words)
        .env("PATH", path)
        .output()
        .unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let manifest = &manifests(place.path())[0];
    assert_eq!(manifest.timing["read_p99"].samples, [5000, 5000]);
    assert_eq!(manifest.timing["read_mean"].samples, [2000, 2000]);
    assert_eq!(manifest.iterations[0].io_bytes, 4_096_000);
    assert!(!manifest.timing.contains_key("write_p50"));
    is_clean(place.path());
}

/// fio itself, where it is installed.
#[test]
fn figures_of_fio_itself_are_in_the_same_records() {
    if Command::new("fio").arg("--version").output().is_err() {
        return eprintln!("skipped: fio is not installed");
    }
    let place = place();
    let words = [
        "run",
        "fio",
        "--rw",
        "randrw",
        "--size",
        "1MiB",
        "--runtime-s",
        "0",
        "--iterations",
        "2",
        "--ranks",
        "2",
    ];
    let manifests = must_pass(place.path(), &words);
    assert_eq!(manifests.len(), 2);
    for manifest in &manifests {
        for op in ["read_p50", "read_p99", "read_max", "write_mean"] {
            assert_eq!(manifest.timing[op].samples.len(), 2, "{op}");
        }
        // All of the file in blocks of 4 KiB, some of them read and the others written.
        assert_eq!(manifest.iterations[1].ops, 256);
        assert_eq!(manifest.iterations[1].io_bytes, 1 << 20);
        assert!(manifest.host.hostname.len() > 1 && manifest.dist.world_size == 2);
    }
    let job = "[global]\nrw=write\nbs=64k\nsize=256k\n[one]\n[two]\n";
    fs::write(place.path().join("two.fio"), job).unwrap();
    let words = ["run", "fio", "--jobfile", "two.fio", "--iterations", "1"];
    let done = run(place.path(), &words);
    let (out, err) = (json(&done), String::from_utf8_lossy(&done.stderr));
    assert_eq!(out["status"], "pass", "{err}");
    let of_job = "[one]\nrw=read\nfilename=/proc/nonexistent/file\nsize=4k\n";
    fs::write(place.path().join("absent.fio"), of_job).unwrap();
    let failed = run(place.path(), &["run", "fio", "--jobfile", "absent.fio"]);
    let error = json(&failed)["runs"][0]["error"].to_string();
    assert!(
        error.contains("`fio` failed") && error.contains("/proc/nonexistent"),
        "{error}"
    );
    is_clean(place.path());
}
