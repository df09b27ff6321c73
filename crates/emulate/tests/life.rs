//! Mounting, refusing to mount, and ending, with real processes.
// A test fails by panicking, in its helpers too.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use forebay_emulate::{Control, Error, MountError, spawn};

/// The example is built with the tests and lies beside them.
fn program() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    test.parent()
        .and_then(Path::parent)
        .unwrap()
        .join("examples/emulate")
}

fn start(site: &common::Site, arguments: &[&str]) -> Child {
    let mut child = Command::new(program())
        .arg("mount")
        .args([site.source(), site.mount_point()])
        .args(arguments)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.take().unwrap())
        .read_line(&mut line)
        .unwrap();
    assert!(line.starts_with("mounted on "), "{line}");
    child
}

fn signal(child: &Child, name: &str) {
    assert!(
        Command::new("kill")
            .args([name, &child.id().to_string()])
            .status()
            .unwrap()
            .success()
    );
}

fn is_mounted(path: &Path) -> bool {
    fs::read_to_string("/proc/self/mountinfo")
        .unwrap()
        .contains(&format!(" {} ", path.display()))
}

mount_tests! {
    fn signals_end_it_cleanly(site) {
        for name in ["-TERM", "-INT"] {
            let mut child = start(&site, &["--profile", "nvme"]);
            assert_eq!(fs::read(site.path("a.bin")).unwrap(), common::bytes(300_000));
            signal(&child, name);
            assert!(child.wait().unwrap().success(), "{name}");
            assert!(!is_mounted(&site.mount_point()), "{name}");
            assert!(matches!(Control::connect(&site.mount_point()), Err(Error::NotMounted(_))));
        }
    }

    fn a_signal_ends_it_although_a_file_is_open(site) {
        let mut child = start(&site, &[]);
        let open = fs::File::open(site.path("a.bin")).unwrap();
        signal(&child, "-TERM");
        assert!(child.wait().unwrap().success());
        assert!(!is_mounted(&site.mount_point()));
        drop(open);
    }

    fn an_unmount_from_outside_ends_it(site) {
        let mut child = start(&site, &[]);
        assert!(Command::new("umount").arg(site.mount_point()).status().unwrap().success());
        assert!(child.wait().unwrap().success());
    }

    fn a_mount_left_by_a_killed_process_is_named_with_its_cure(site) {
        let mut child = start(&site, &[]);
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let error = spawn(&site.options("")).err().unwrap();
        assert!(matches!(error, Error::Mount(MountError::StaleMount(_))), "{error}");
        assert!(error.to_string().contains("fusermount3 -u"), "{error}");
        assert!(Command::new("umount").arg(site.mount_point()).status().unwrap().success());
        assert!(spawn(&site.options("")).is_ok(), "the cure works");
    }

    fn mount_points_that_cannot_work_are_refused(site) {
        let refused = |options: &forebay_emulate::EmulateOptions| spawn(options).err().unwrap().to_string();
        let mut options = site.options("");
        options.mount_point = site.source().join("sub");
        assert!(refused(&options).contains("inside the source"));
        options.mount_point = site.source().join("a.bin");
        assert!(refused(&options).contains("not a folder"));
        options.mount_point = site.dir.path().join("missing");
        assert!(refused(&options).contains("missing"));
        options = site.options("");
        options.source = site.dir.path().join("missing");
        assert!(refused(&options).contains("cannot serve source"));
        let _mounted = site.mount("");
        assert!(refused(&site.options("")).contains("already"));
    }

    fn the_command_line_adjusts_a_mount(site) {
        let mut child = start(&site, &["--profile", "lustre", "--scale", "0.01"]);
        let ctl = |arguments: &[&str]| {
            Command::new(program()).arg("ctl").arg(site.mount_point()).args(arguments).output().unwrap()
        };
        assert!(ctl(&["set", "read.median_ms=2", "read.p95_ms=2"]).status.success());
        let out = ctl(&["status"]);
        let status: forebay_emulate::Status = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!((status.profile.scale, status.profile.read.median_ms), (0.01, 2.0));
        let wrong = ctl(&["set", "read.nonsense=2"]);
        assert!(!wrong.status.success());
        assert!(String::from_utf8_lossy(&wrong.stderr).contains("nonsense"));
        signal(&child, "-TERM");
        assert!(child.wait().unwrap().success());
    }
}
