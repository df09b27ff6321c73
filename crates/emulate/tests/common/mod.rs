//! What the mount tests share.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::time::Duration;

use forebay_emulate::{EmulateOptions, Emulated, ProfileSettings, spawn};
use tempfile::TempDir;

/// A source folder, a mount point beside it, and perhaps a mount.
pub(crate) struct Site {
    pub(crate) dir: TempDir,
}

impl Site {
    /// Files: `a.bin` (300,000 bytes), `sub/b.h5` (5,000), `empty`, and a link to `sub/b.h5`.
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let site = Self { dir };
        std::fs::create_dir_all(site.source().join("sub")).unwrap();
        std::fs::create_dir(site.mount_point()).unwrap();
        std::fs::write(site.source().join("a.bin"), bytes(300_000)).unwrap();
        std::fs::write(site.source().join("sub/b.h5"), bytes(5_000)).unwrap();
        std::fs::write(site.source().join("empty"), b"").unwrap();
        std::os::unix::fs::symlink("sub/b.h5", site.source().join("link")).unwrap();
        site
    }

    pub(crate) fn source(&self) -> PathBuf {
        self.dir.path().join("source")
    }

    pub(crate) fn mount_point(&self) -> PathBuf {
        self.dir.path().join("mount")
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.mount_point().join(name)
    }

    /// Options that keep no attributes, so that a change shows at once.
    pub(crate) fn options(&self, profile: &str) -> EmulateOptions {
        let profile = ProfileSettings::parse("test", profile).unwrap();
        let mut options = EmulateOptions::new(self.source(), self.mount_point(), profile);
        options.attribute_ttl = Duration::ZERO;
        options
    }

    pub(crate) fn mount(&self, profile: &str) -> Emulated {
        spawn(&self.options(profile)).unwrap()
    }
}

/// Bytes that differ from place to place.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len as u64)
        .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8)
        .collect()
}

/// Whether this machine can mount. Says so if it can't.
pub(crate) fn can_mount() -> bool {
    let can = Path::new("/dev/fuse").exists();
    if !can {
        eprintln!("skipped: this machine has no /dev/fuse, so nothing can be mounted");
    }
    can
}

/// `mount_test! { fn name(site) { ... } }`: a test that is skipped where nothing can be mounted.
#[macro_export]
macro_rules! mount_tests {
    ($($(#[$meta:meta])* fn $name:ident($site:ident) $body:block)*) => {
        $(
            $(#[$meta])*
            #[test]
            fn $name() {
                if !common::can_mount() {
                    return;
                }
                let $site = common::Site::new();
                $body
            }
        )*
    };
}
