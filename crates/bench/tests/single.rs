//! Benchmarks of one rank in this process: what is measured, and what is refused.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use forebay_bench::{Manifest, Registry, Result, run_alone};

fn alone(folder: &Path, benchmark: &str, params: &[(&str, &str)]) -> Result<Manifest> {
    run_alone(&Registry::standard(), benchmark, params, folder)
}

/// What lies in a folder beside results.
fn left(folder: &Path) -> Vec<String> {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|one| one.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| !name.contains('Z')).collect();
    names.sort();
    names
}

#[test]
fn an_archive_that_leads_out_of_its_folder_is_not_extracted() {
    let temp = tempfile::tempdir().unwrap();
    let outside = temp.path().join("outside");
    fs::create_dir(&outside).unwrap();
    let header = |name: &str, kind, size| {
        let mut header = tar::Header::new_gnu();
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_entry_type(kind);
        header.set_size(size);
        header.set_mode(0o644);
        header
    };
    for (number, way) in ["link/evil", "../../../outside/evil"]
        .into_iter()
        .enumerate()
    {
        let archive = temp.path().join(format!("{number}.tar"));
        let mut builder = tar::Builder::new(fs::File::create(&archive).unwrap());
        let mut link = header("link", tar::EntryType::Symlink, 0);
        link.set_link_name(&outside).unwrap();
        link.set_cksum();
        builder.append(&link, &[][..]).unwrap();
        let mut evil = header(way, tar::EntryType::Regular, 4);
        evil.set_cksum();
        builder.append(&evil, &b"evil"[..]).unwrap();
        builder.finish().unwrap();
        let archive = archive.to_str().unwrap();
        alone(temp.path(), "run_untar", &[("archive", archive)]).unwrap_err();
        assert_eq!(fs::read_dir(&outside).unwrap().count(), 0, "{way}");
    }
    assert_eq!(left(temp.path()), ["0.tar", "1.tar", "outside"]);
}

#[test]
fn folders_of_the_user_are_packed_with_their_links_and_come_back() {
    let temp = tempfile::tempdir().unwrap();
    let src = temp.path().join("src");
    fs::create_dir_all(src.join("deep/er")).unwrap();
    fs::write(src.join("deep/er/file"), vec![3; 100_000]).unwrap();
    fs::write(src.join("empty"), "").unwrap();
    symlink("/nonexistent/target", src.join("dangling")).unwrap();
    for compression in ["none", "gz", "bz2", "xz", "zst"] {
        let params = [("src", src.to_str().unwrap()), ("compression", compression)];
        let manifest = alone(temp.path(), "run_tar", &params).unwrap();
        // Two folders, two files, one link, in each of eleven iterations.
        assert_eq!(manifest.verify.checked, 5 * 11);
        let params = [
            ("num_files", "20"),
            ("file_size", "3000"),
            ("compression", compression),
        ];
        let manifest = alone(temp.path(), "run_untar", &params).unwrap();
        assert_eq!(manifest.timing["extract_total"].count, 10);
    }
}

#[test]
fn every_arrival_size_and_content_is_written_and_traced() {
    let temp = tempfile::tempdir().unwrap();
    let cases: [&[(&str, &str)]; 5] = [
        &[
            ("arrival", "poisson"),
            ("size_distribution", "exponential"),
            ("data", "random"),
        ],
        &[
            ("arrival", "burst"),
            ("size_distribution", "uniform"),
            ("data", "deterministic"),
        ],
        &[
            ("size_distribution", "fixed"),
            ("size", "17MiB"),
            ("data", "pattern"),
            ("num_files", "2"),
        ],
        &[
            ("size_distribution", "lognormal"),
            ("max_size", "9KiB"),
            ("data", "zero"),
        ],
        &[
            ("simulate_arrivals", "true"),
            ("interval_s", "0.001"),
            ("size", "0"),
        ],
    ];
    for params in cases {
        let params = [&[("num_files", "7")], params].concat();
        let manifest = alone(temp.path(), "create_synthetic_workload", &params).unwrap();
        let files = manifest.params["num_files"].as_u64().unwrap();
        assert_eq!(manifest.timing["file_total"].count, files * 10);
        let late = manifest.timing.get("arrival_lateness").map(|one| one.count);
        assert_eq!(
            late,
            (manifest.params["simulate_arrivals"] == true).then_some(files * 10)
        );
        let trace = temp.path().join(&manifest.run_id).join("trace-00003.jsonl");
        let lines = fs::read_to_string(trace).unwrap();
        assert_eq!(lines.lines().count() as u64, files);
        let first: serde_json::Value = serde_json::from_str(lines.lines().next().unwrap()).unwrap();
        assert!(first["t_done"].as_f64().unwrap() >= first["t_start"].as_f64().unwrap());
    }
}

#[test]
fn files_are_read_in_every_order_with_every_hash() {
    let temp = tempfile::tempdir().unwrap();
    for (pattern, hash) in [
        ("sequential", "md5"),
        ("random", "sha256"),
        ("strided", "none"),
    ] {
        let params = [
            ("num_copies", "40"),
            ("file_size", "5000"),
            ("dir_shards", "3"),
            ("chunk_size", "512"),
            ("pattern", pattern),
            ("hash", hash),
            ("stride", "7"),
            ("bypass_cache", "true"),
        ];
        let manifest = alone(temp.path(), "md5_check", &params).unwrap();
        assert_eq!(manifest.verify.checked, 40 * 11);
        assert_eq!(manifest.iterations[1].io_bytes, 40 * 5000);
        assert_eq!(manifest.timing["evict"].count, 400);
        assert!(manifest.cache.looked_at_bytes.unwrap() >= 40 * 5000);
    }
    // A folder that nobody listed: the first reading is what later ones are compared with.
    fs::create_dir(temp.path().join("theirs")).unwrap();
    fs::write(temp.path().join("theirs/a"), "abc").unwrap();
    let folder = temp.path().join("theirs");
    let manifest = alone(
        temp.path(),
        "md5_check",
        &[("dataset", folder.to_str().unwrap())],
    )
    .unwrap();
    assert_eq!(manifest.verify.checked, 11);
}

#[test]
fn folders_of_the_user_are_listed_with_all_below_them() {
    let temp = tempfile::tempdir().unwrap();
    let data = temp.path().join("theirs");
    fs::create_dir_all(data.join("deep/er")).unwrap();
    fs::write(data.join("deep/er/a"), "123").unwrap();
    fs::write(data.join("b"), "12").unwrap();
    symlink("/nonexistent/target", data.join("dangling")).unwrap();
    let params = [("dataset", data.to_str().unwrap())];
    let manifest = alone(temp.path(), "list_files", &params).unwrap();
    // Three folders; in them two folders, two files and a link.
    assert_eq!(manifest.timing["readdir"].count, 3 * 10);
    assert_eq!(manifest.timing["stat"].count, 5 * 10);
    assert_eq!(manifest.verify.checked, 5 * 11);
    assert_eq!(
        manifest.fs.path,
        data.canonicalize().unwrap().to_str().unwrap()
    );
    // The run's own folder grows while it is listed.
    let params = [("dataset", temp.path().to_str().unwrap())];
    let error = alone(temp.path(), "list_files", &params).unwrap_err();
    assert!(
        error
            .line()
            .contains("holds the folder that this run works in")
    );
}

#[test]
#[ignore = "long: a hundred thousand files and as many folders"]
fn a_hundred_thousand_files_and_folders_are_made_and_removed() {
    let temp = tempfile::tempdir().unwrap();
    let params = [("num_copies", "100000"), ("file_size", "1")];
    for benchmark in ["list_files", "delete_files"] {
        alone(temp.path(), benchmark, &params).unwrap();
    }
    let params = [("depth", "5"), ("breadth", "10")];
    let manifest = alone(temp.path(), "folder_bench", &params).unwrap();
    assert_eq!(manifest.timing["mkdir"].count, 111_110 * 10);
    assert!(left(temp.path()).is_empty());
}

#[test]
fn bypassing_the_page_cache_writes_the_same_files() {
    let temp = tempfile::tempdir().unwrap();
    for bypass in ["direct", "fadvise"] {
        let params = [
            ("num_copies", "20"),
            ("file_size", "8KiB"),
            ("bypass_cache", bypass),
        ];
        match alone(temp.path(), "create_files", &params) {
            Ok(manifest) => assert_eq!(manifest.verify.bad, 0),
            // A file system in memory has no way past it.
            Err(error) => assert!(
                bypass == "direct" && error.line().contains("Invalid argument"),
                "{}",
                error.line()
            ),
        }
    }
    let error = alone(
        temp.path(),
        "create_files",
        &[("file_size", "100"), ("bypass_cache", "direct")],
    );
    assert!(error.unwrap_err().to_string().contains("multiple of 4096"));
}
