//! Delays, cap, faults and control, seen from a program's side.
// A test fails by panicking, in its helpers too.
#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use forebay_emulate::{Control, FaultKind, FaultRule};

const EIO: i32 = 5;

fn rule(kind: FaultKind, path: &str) -> FaultRule {
    FaultRule {
        path: Some(path.into()),
        ..FaultRule::new(kind)
    }
}

fn code<T>(result: std::io::Result<T>) -> Option<i32> {
    result.err().and_then(|e| e.raw_os_error())
}

/// Wait until that many requests hang, but not for good.
fn wait_for_held(mounted: &forebay_emulate::Emulated, n: usize) {
    let begun = std::time::Instant::now();
    while mounted.status().held < n {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "nothing hangs: {:?}",
            mounted.status()
        );
        thread::sleep(Duration::from_millis(1));
    }
}

mount_tests! {
    fn parallel_reads_sleep_together(site) {
        // Far more reads sleep at once than there are threads.
        let mounted = site.mount("[read]\nmedian_ms = 300\n");
        thread::scope(|scope| {
            for n in 0..64u64 {
                let path = site.path("a.bin");
                scope.spawn(move || {
                    let mut buffer = [0; 512];
                    fs::File::open(path).unwrap().read_exact_at(&mut buffer, n * 1000).unwrap();
                });
            }
        });
        let status = mounted.status();
        assert_eq!((status.read.ok, status.read.failed), (64, 0));
        assert!(status.most_in_flight > 16, "at once: {}", status.most_in_flight);
    }

    fn a_sleeping_read_does_not_block_the_rest(site) {
        let mounted = site.mount("[[fault]]\nkind = \"hang\"\npath = \"a.bin\"\nmax_hang_s = 600\n");
        let (to, done) = mpsc::channel();
        thread::scope(|scope| {
            for _ in 0..20 {
                let (to, path) = (to.clone(), site.path("a.bin"));
                scope.spawn(move || to.send(fs::read(path).map(|b| b.len())).unwrap());
            }
            wait_for_held(&mounted, 20);
            assert_eq!(fs::read(site.path("sub/b.h5")).unwrap().len(), 5000, "others go on");
            assert!(done.try_recv().is_err(), "the hung ones do not");
            Control::connect(&site.mount_point()).unwrap().clear().unwrap();
            for _ in 0..20 {
                assert_eq!(done.recv_timeout(Duration::from_secs(60)).unwrap().unwrap(), 300_000);
            }
        });
    }

    fn an_unmount_ends_what_hangs(site) {
        let mounted = site.mount("[[fault]]\nkind = \"hang\"\nmax_hang_s = 3000\n");
        let path = site.path("a.bin");
        let reader = thread::spawn(move || fs::read(path));
        wait_for_held(&mounted, 1);
        mounted.unmount().unwrap();
        assert_eq!(code(reader.join().unwrap()), Some(EIO));
        assert!(!site.path("a.bin").exists());
    }

    fn eio_strikes_the_path_or_the_nth_read(site) {
        let _mounted = site.mount("");
        let control = Control::connect(&site.mount_point()).unwrap();
        control.fault(rule(FaultKind::Eio, "*.h5")).unwrap();
        assert_eq!(code(fs::read(site.path("sub/b.h5"))), Some(EIO));
        assert!(fs::read(site.path("a.bin")).is_ok());

        control.clear().unwrap();
        assert!(fs::read(site.path("sub/b.h5")).is_ok());
        control.fault(FaultRule { nth: Some(2), ..rule(FaultKind::Eio, "a.bin") }).unwrap();
        let file = fs::File::open(site.path("a.bin")).unwrap();
        let found: Vec<_> = (0..4).map(|_| code(file.read_at(&mut [0; 10], 0))).collect();
        assert_eq!(found, [None, Some(EIO), None, None]);
        let status = control.status().unwrap();
        assert_eq!((status.read.failed, status.profile.faults.len()), (2, 1));
    }

    fn a_short_read_returns_right_bytes_but_fewer(site) {
        let mounted = site.mount("[[fault]]\nkind = \"short\"\nbytes = 7\n");
        let file = fs::File::open(site.path("a.bin")).unwrap();
        let mut buffer = [0; 100];
        assert_eq!(file.read_at(&mut buffer, 50).unwrap(), 7);
        assert_eq!(buffer[..7], common::bytes(57)[50..]);
        drop(file);
        mounted.unmount().unwrap();

        let mut cached = site.options("[[fault]]\nkind = \"short\"\n");
        cached.page_cache = true;
        let Err(error) = forebay_emulate::spawn(&cached) else { panic!("zeros would be read") };
        assert!(error.to_string().contains("page cache"), "{error}");
    }

    fn a_changed_file_has_another_fingerprint(site) {
        let _mounted = site.mount("");
        let control = Control::connect(&site.mount_point()).unwrap();
        let stat = || {
            let m = fs::metadata(site.path("a.bin")).unwrap();
            (m.mtime(), m.mtime_nsec(), m.size(), m.ino())
        };
        let (seconds, nanos, size, inode) = stat();
        control.fault(rule(FaultKind::Changed, "a.bin")).unwrap();
        assert_eq!(stat(), (seconds + 1, nanos, size, inode));
        control.clear().unwrap();
        control.fault(FaultRule { size: Some(-1000), ..rule(FaultKind::Changed, "a.*") }).unwrap();
        assert_eq!(stat(), (seconds, nanos, size - 1000, inode));
        assert_eq!(fs::read(site.path("a.bin")).unwrap(), common::bytes(299_000));
        control.clear().unwrap();
        control.fault(FaultRule { inode: true, ..rule(FaultKind::Changed, "a.bin") }).unwrap();
        let changed = stat();
        assert_eq!((changed.0, changed.1, changed.2), (seconds, nanos, size));
        assert_ne!(changed.3, inode);
        control.clear().unwrap();
        assert_eq!(stat(), (seconds, nanos, size, inode), "back to the source's");
    }

    fn metadata_faults_strike_names_and_attributes(site) {
        let text = "[[fault]]\nkind = \"eio\"\nclass = \"metadata\"\npath = \"sub/**\"\n";
        let _mounted = site.mount(text);
        assert_eq!(code(fs::metadata(site.path("sub/b.h5"))), Some(EIO));
        assert!(fs::metadata(site.path("a.bin")).is_ok());
    }

    fn settings_change_while_it_runs_all_or_none(site) {
        let _mounted = site.mount("[read]\nmedian_ms = 1\n");
        let control = Control::connect(&site.mount_point()).unwrap();
        control.set(&["read.median_ms=7".into(), "seed=9".into()]).unwrap();
        fs::read(site.path("a.bin")).unwrap();
        let status = control.status().unwrap();
        assert_eq!((status.profile.read.median_ms, status.profile.seed), (7.0, 9));
        assert_eq!(status.read.delay.max_ms, 7.0, "the new time is in force");

        let wrong = control.set(&["read.median_ms=3".into(), "read.p95_ms=1".into()]).unwrap_err();
        assert!(wrong.to_string().contains("read.p95_ms"), "{wrong}");
        assert_eq!(control.status().unwrap().profile.read.median_ms, 7.0, "nothing changed");
    }

    fn the_same_reads_get_the_same_times(site) {
        let profile = "seed = 4\n[read]\nmedian_ms = 0.2\np95_ms = 2\n";
        let run = |name: &str| {
            let trace = site.dir.path().join(name);
            let mut options = site.options(profile);
            options.trace = Some(trace.clone());
            let mounted = forebay_emulate::spawn(&options).unwrap();
            let file = fs::File::open(site.path("a.bin")).unwrap();
            for n in 0..50 {
                file.read_exact_at(&mut [0; 100], n * 5000).unwrap();
            }
            drop(file);
            mounted.unmount().unwrap();
            let lines = fs::read_to_string(trace).unwrap();
            let reads = lines.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
            reads
                .filter(|line| line["op"] == "read")
                .map(|line| (line["path"].clone(), line["offset"].clone(), line["len"].clone(), line["delay_ms"].to_string()))
                .collect::<Vec<_>>()
        };
        let first = run("first");
        assert_eq!(first.len(), 50);
        assert_eq!(first[3].0, "a.bin");
        assert_eq!((&first[3].1, &first[3].2), (&15_000.into(), &100.into()));
        assert_eq!(first, run("second"));
    }
}
