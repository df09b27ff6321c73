//! Through the mount, programs see the source: bytes, names, attributes.
// A test fails by panicking, in its helpers too.
#![allow(clippy::unwrap_used)]

mod common;

use std::collections::BTreeSet;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::process::Command;

use common::bytes;

fn fingerprint(path: &Path) -> (u64, i64, i64, u64, u32, u64) {
    let m = fs::symlink_metadata(path).unwrap();
    (
        m.size(),
        m.mtime(),
        m.mtime_nsec(),
        m.ino(),
        m.mode(),
        m.nlink(),
    )
}

fn output(program: &str, arguments: &[&Path]) -> Vec<u8> {
    let out = Command::new(program).args(arguments).output().unwrap();
    assert!(
        out.status.success(),
        "{program}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    out.stdout
}

mount_tests! {
    fn programs_read_the_same_bytes(site) {
        let _mounted = site.mount("");
        for name in ["a.bin", "sub/b.h5", "empty", "link"] {
            let wanted = fs::read(site.source().join(name)).unwrap();
            assert_eq!(output("cat", &[&site.path(name)]), wanted, "{name}");
        }
        let sum = |path: &Path| output("md5sum", &[path])[..32].to_vec();
        assert_eq!(sum(&site.path("a.bin")), sum(&site.source().join("a.bin")));
    }

    fn fingerprints_are_the_source_s(site) {
        let _mounted = site.mount("");
        for name in ["", "a.bin", "sub", "sub/b.h5", "empty", "link"] {
            assert_eq!(fingerprint(&site.path(name)), fingerprint(&site.source().join(name)), "`{name}`");
        }
        assert_eq!(fs::read_link(site.path("link")).unwrap(), Path::new("sub/b.h5"));
    }

    fn reads_at_and_past_the_end_are_those_of_a_file(site) {
        let _mounted = site.mount("");
        let file = fs::File::open(site.path("a.bin")).unwrap();
        let wanted = bytes(300_000);
        let mut buffer = vec![0; 70_000];
        for (offset, len) in [(0, 1), (1, 4095), (4096, 70_000), (299_999, 10), (300_000, 10), (1 << 40, 10)] {
            let n = file.read_at(&mut buffer[..len], offset).unwrap();
            let from = (offset as usize).min(300_000);
            assert_eq!(buffer[..n], wanted[from..(from + len).min(300_000)], "{len} at {offset}");
        }
    }

    fn a_large_folder_lists_every_name_once(site) {
        let many = site.source().join("many");
        fs::create_dir(&many).unwrap();
        let names: BTreeSet<String> = (0..3000).map(|n| format!("file-{n:05}-with-a-longer-name")).collect();
        for name in &names {
            fs::write(many.join(name), b"").unwrap();
        }
        let _mounted = site.mount("");
        let listed: Vec<String> = fs::read_dir(site.path("many")).unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(listed.len(), names.len());
        assert_eq!(listed.into_iter().collect::<BTreeSet<_>>(), names);
    }

    fn nothing_can_be_written(site) {
        let _mounted = site.mount("");
        let refused = [
            fs::write(site.path("new"), b"x").unwrap_err(),
            fs::write(site.path("a.bin"), b"x").unwrap_err(),
            fs::remove_file(site.path("a.bin")).unwrap_err(),
            fs::create_dir(site.path("folder")).unwrap_err(),
        ];
        assert!(refused.iter().all(|e| e.kind() == ErrorKind::ReadOnlyFilesystem), "{refused:?}");
        assert_eq!(fs::read(site.source().join("a.bin")).unwrap().len(), 300_000);
    }

    fn changes_at_the_source_show(site) {
        let _mounted = site.mount("");
        assert_eq!(fs::read(site.path("a.bin")).unwrap().len(), 300_000);
        let open = fs::File::open(site.path("a.bin")).unwrap();
        fs::write(site.source().join("new"), b"other").unwrap();
        fs::rename(site.source().join("new"), site.source().join("a.bin")).unwrap();

        assert_eq!(fs::read(site.path("a.bin")).unwrap(), b"other");
        let mut first = [0; 100];
        open.read_exact_at(&mut first, 0).unwrap();
        assert_eq!(first[..], bytes(100)[..], "an open file stays what it was");
        fs::remove_file(site.source().join("a.bin")).unwrap();
        assert_eq!(fs::read(site.path("a.bin")).unwrap_err().kind(), ErrorKind::NotFound);
    }

    fn a_source_that_vanishes_leaves_a_mount_that_can_go(site) {
        let mounted = site.mount("");
        fs::remove_dir_all(site.source()).unwrap();
        assert!(fs::read(site.path("a.bin")).is_err());
        mounted.unmount().unwrap();
        assert!(!site.path("a.bin").exists());
    }

    fn hdf5_files_read_the_same(site) {
        let script = "import h5py, numpy as np, sys\n\
            s, m = sys.argv[1:]\n\
            a = np.arange(60000, dtype='f4').reshape(300, 200)\n\
            f = h5py.File(s, 'w')\n\
            f.create_dataset('x/y', data=a, compression='lzf', chunks=(10, 200)); f.close()\n\
            assert (h5py.File(m, 'r')['x/y'][:] == a).all()\n";
        let Some(python) = python_with_h5py() else {
            eprintln!("skipped: no python with h5py (name one in FOREBAY_TEST_PYTHON)");
            return;
        };
        let _mounted = site.mount("");
        let status = Command::new(python)
            .args(["-c", script])
            .arg(site.source().join("t.h5"))
            .arg(site.path("t.h5"))
            .status()
            .unwrap();
        assert!(status.success());
    }

    fn shared_mappings_show_the_bytes(site) {
        let Some(python) = python_with("mmap") else {
            eprintln!("skipped: no python3");
            return;
        };
        let script = "import mmap, sys\n\
            f = open(sys.argv[1], 'rb')\n\
            m = mmap.mmap(f.fileno(), 0, mmap.MAP_SHARED, mmap.PROT_READ)\n\
            sys.stdout.buffer.write(m[:])\n";
        let _mounted = site.mount("");
        let out = Command::new(python).args(["-c", script]).arg(site.path("a.bin")).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        assert_eq!(out.stdout, bytes(300_000));
    }
}

fn python_with_h5py() -> Option<String> {
    python_with("h5py")
}

fn python_with(module: &str) -> Option<String> {
    let here = concat!(env!("CARGO_MANIFEST_DIR"), "/../../.venv/bin/python");
    let named = std::env::var("FOREBAY_TEST_PYTHON").ok();
    named
        .into_iter()
        .chain([here.to_owned(), "python3".to_owned()])
        .find(|python| {
            let import = format!("import {module}");
            Command::new(python)
                .args(["-c", &import])
                .output()
                .is_ok_and(|out| out.status.success())
        })
}
