//! What cannot be run, and what only says what would be.

use std::fs;
use std::process::Command;

use forebay_analysis::suite::Status;

use crate::{bench, is_clean, json, manifests, place, run};

#[test]
fn a_folder_that_cannot_be_used_fails_with_its_name() {
    let place = place();
    for (folder, said) in [
        ("nowhere", "nowhere"),
        ("/proc", "/proc"),
        ("data/mine/kept", "kept"),
    ] {
        let words = [
            "run",
            "create_files",
            "--output-dir",
            "out",
            "--json",
            "--dataset-path",
            folder,
        ];
        let done = bench(place.path(), &words).output().unwrap();
        assert_eq!(done.status.code(), Some(1), "{folder}");
        let error = json(&done)["runs"][0]["error"].as_str().unwrap().to_owned();
        assert!(error.contains(said), "{error}");
    }
    let manifests = manifests(place.path());
    assert_eq!(manifests.len(), 3);
    assert!(manifests.iter().all(|one| one.status == Status::Fail));
    is_clean(place.path());
}

#[test]
fn what_is_to_be_read_and_is_not_there_fails_with_its_name() {
    for (benchmark, param, said) in [
        ("md5_check", "--dataset", "absent"),
        ("list_files", "--dataset", "absent"),
        ("run_tar", "--src", "absent"),
        ("run_untar", "--archive", "absent"),
        ("git_clone", "--url", "absent"),
        ("fsdp_load", "--checkpoint", "absent"),
    ] {
        let place = place();
        let words = ["run", benchmark, param, "absent", "--engine", "native"];
        let words = match benchmark {
            "fsdp_load" => &words[..],
            _ => &words[..4],
        };
        let done = run(place.path(), words);
        assert_eq!(done.status.code(), Some(1), "{benchmark}");
        let error = json(&done)["runs"][0]["error"].as_str().unwrap().to_owned();
        assert!(error.contains(said), "{benchmark}: {error}");
        assert_eq!(manifests(place.path())[0].status, Status::Fail);
        is_clean(place.path());
    }
}

#[test]
fn a_full_disk_fails_the_run_and_its_files_go() {
    let place = place();
    let forebay = env!("CARGO_BIN_EXE_forebay");
    let script = format!(
        "mount -t tmpfs -o size=1M none data || exit 77; \
         '{forebay}' bench run create_files --num-copies 100 --file-size 64KiB --warmup 0 \
         --dataset-path data --output-dir out --json; status=$?; echo \"left: $(ls -A data).\" >&2; exit $status"
    );
    let mut command = Command::new("unshare");
    command
        .args(["--map-root-user", "--mount", "sh", "-c", &script])
        .current_dir(place.path());
    let done = match command.output() {
        Ok(done) if done.status.code() != Some(77) && !done.stdout.is_empty() => done,
        _ => return eprintln!("skipped: this machine allows no mount of its own"),
    };
    assert_eq!(done.status.code(), Some(1));
    let error = json(&done)["runs"][0]["error"].as_str().unwrap().to_owned();
    assert!(error.contains("No space left on device"), "{error}");
    let words = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(
        words.contains("left: ."),
        "the work folder is gone: {words}"
    );
    assert_eq!(manifests(place.path())[0].status, Status::Fail);
}

#[test]
fn stdout_is_json_whatever_is_wrong() {
    let place = place();
    fs::write(
        place.path().join("slip.toml"),
        "benchmarks = ['list_files']\n[list_fils]\n",
    )
    .unwrap();
    let wrong: [(&[&str], &str); 10] = [
        (
            &["run", "creat_files"],
            "there is no benchmark `creat_files`: did you mean `create_files`",
        ),
        (
            &["run", "creat_files"],
            "benchmarks written in Python are not known here",
        ),
        (
            &["run", "--config", "slip.toml"],
            "there is no benchmark `list_fils`: did you mean `list_files`",
        ),
        (
            &["run", "create_files", "--interface", "client"],
            "no interface `client`, which is there to read and not to write",
        ),
        (&["run"], "name a benchmark"),
        (
            &["run", "create_files", "--num-copies", "x"],
            "`num_copies` must be a whole number",
        ),
        (
            &["run", "create_files", "--depth", "3"],
            "none of create_files has a parameter `depth`",
        ),
        (
            &["run", "create_files", "--config", "none.toml"],
            "none.toml",
        ),
        (
            &["run", "create_files", "--launcher", "slurm"],
            "SLURM_PROCID",
        ),
        (
            &["suite", "--only", "md5check"],
            "no benchmark `md5check`: did you mean `md5_check`",
        ),
    ];
    for (words, said) in wrong {
        let mut command = bench(
            place.path(),
            &[words, &["--json", "--dataset-path", "data"]].concat(),
        );
        let done = command
            .env("FOREBAY_PYTHON", "/nonexistent/python")
            .output()
            .unwrap();
        assert!(matches!(done.status.code(), Some(1 | 2)), "{words:?}");
        let found = json(&done);
        assert_eq!(found["status"], "fail");
        assert!(found["error"].as_str().unwrap().contains(said), "{found}");
    }
    is_clean(place.path());
    assert!(
        !place.path().join("forebay-bench-results").exists(),
        "nothing was begun"
    );
}

#[test]
fn a_dry_run_shows_the_plan_and_touches_nothing() {
    let place = place();
    let config = "iterations = 4\ndrop_cache = 'verify'\nbenchmarks = ['list_files', 'md5_check']\n\
                  [list_files]\nnum_copies = 12\n[md5_check]\nchunk_size = '32KiB'\n";
    fs::write(place.path().join("plan.toml"), config).unwrap();
    let words = [
        "run",
        "--config",
        "plan.toml",
        "--dry-run",
        "--seed",
        "9",
        "--file-size",
        "1KiB",
    ];
    let plan = json(&run(place.path(), &words));
    let [list, md5] = plan.as_array().unwrap().as_slice() else {
        panic!("{plan}")
    };
    assert_eq!((&list["iterations"], &list["seed"]), (&4.into(), &9.into()));
    assert_eq!(
        (&list["params"]["num_copies"], &list["params"]["file_size"]),
        (&12.into(), &1024.into())
    );
    assert_eq!(md5["params"]["chunk_size"], 32_768);
    assert_eq!(md5["drop_cache"], "verify");
    assert!(!place.path().join("out").exists());
    is_clean(place.path());
}

#[test]
fn benchmarks_and_their_parameters_are_listed() {
    let place = place();
    let list = |words: &[&str]| {
        let mut command = bench(place.path(), &[&["list"], words].concat());
        command
            .env("FOREBAY_PYTHON", "/nonexistent/python")
            .output()
            .unwrap()
    };
    let all = json(&list(&["--json"]));
    let names: Vec<&str> = all
        .as_array()
        .unwrap()
        .iter()
        .map(|one| one["name"].as_str().unwrap())
        .collect();
    let wanted = [
        "ddp_save",
        "ddp_load",
        "fsdp_save",
        "fsdp_load",
        "rl_load",
        "md5_check",
        "create_dataset",
        "create_synthetic_workload",
        "create_files",
        "list_files",
        "move_files",
        "delete_files",
        "folder_bench",
        "git_clone",
        "run_tar",
        "run_untar",
        "fio",
    ];
    assert_eq!(names, wanted);
    let one = String::from_utf8(list(&["list_files"]).stdout).unwrap();
    assert!(
        one.contains("num_copies") && one.contains("dir_shards"),
        "{one}"
    );
}
