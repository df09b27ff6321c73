//! The kernel, the user, limits, and what mounts need.

use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::MetadataExt;

use rustix::process::{Resource, geteuid, getrlimit};
use rustix::thread::{CapabilitySet, capabilities};

use crate::doctor::item::Item;
use crate::doctor::on_path;

/// Open files that a daemon may want: its clients at most, and a data set of many shards.
const OPEN_FILES: u64 = 4096;
/// The first kernel with passthrough of FUSE.
const PASSTHROUGH: (u32, u32) = (6, 9);

pub(super) fn items() -> Vec<Item> {
    vec![
        Item::ok("kernel", format!("Linux {}", release())),
        Item::ok("user", user()),
        open_files(),
        locked_memory(),
    ]
}

pub(super) fn mounts() -> Vec<Item> {
    vec![device(), helper(), passthrough()]
}

fn release() -> String {
    let names = rustix::system::uname();
    names.release().to_string_lossy().into_owned()
}

fn user() -> String {
    match geteuid() {
        user if user.is_root() => "root".to_owned(),
        user => format!("user {}, not root", user.as_raw()),
    }
}

fn limit(bound: Option<u64>) -> String {
    bound.map_or("without limit".to_owned(), |bound| bound.to_string())
}

fn open_files() -> Item {
    let bounds = getrlimit(Resource::Nofile);
    let most = limit(bounds.maximum);
    if bounds.maximum.is_none_or(|most| most >= OPEN_FILES) {
        let now = limit(bounds.current);
        return Item::ok(
            "open files",
            format!("{most}, which the daemon takes ({now} now)"),
        );
    }
    Item::refused(
        "open files",
        format!("at most {most}: a daemon with many clients or shards may want {OPEN_FILES}"),
    )
    .way_out("raise the hard limit, `ulimit -Hn`, or ask who runs the machine")
}

fn locked_memory() -> Item {
    let bytes = match getrlimit(Resource::Memlock).maximum {
        None => "without limit".to_owned(),
        Some(bytes) => crate::index::bytes(bytes),
    };
    Item::ok("locked memory", format!("{bytes}; Forebay locks none"))
}

fn device() -> Item {
    let name = "/dev/fuse";
    match OpenOptions::new().read(true).write(true).open(name) {
        Ok(_) => Item::ok(name, "can be opened"),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Item::missing(
            name,
            "not there: `forebay mount` and `forebay emulate` will not work",
        )
        .way_out("`modprobe fuse` as root; a container needs `--device /dev/fuse`"),
        Err(error) => Item::refused(name, format!("cannot be opened: {error}"))
            .way_out("a container needs `--device /dev/fuse`, a machine leave for this user"),
    }
}

fn helper() -> Item {
    let name = "fusermount3";
    let root = geteuid().is_root();
    match on_path(name) {
        Some(path) => {
            let set = std::fs::metadata(&path).is_ok_and(|file| file.mode() & 0o4000 != 0);
            let shown = path.display();
            if root || set {
                return Item::ok(name, format!("`{shown}`"));
            }
            Item::refused(
                name,
                format!("`{shown}` has no set-user-ID bit, so it cannot mount"),
            )
            .way_out("have it installed with the bit, from the package `fuse3`")
        }
        None if root => Item::ok(name, "not there, and root mounts without it"),
        None => Item::missing(name, "not on the path: only root can mount without it")
            .way_out("install the package `fuse3`"),
    }
}

fn passthrough() -> Item {
    let name = "passthrough";
    let release = release();
    let way = "mounts work without it, more slowly: through the process that serves them";
    if version(&release).is_none_or(|version| version < PASSTHROUGH) {
        let (major, minor) = PASSTHROUGH;
        let why = format!("Linux {release} has none: it came with {major}.{minor}");
        return Item::missing(name, why).way_out(way);
    }
    let may = capabilities(None).is_ok_and(|has| has.effective.contains(CapabilitySet::SYS_ADMIN));
    if may {
        Item::ok(
            name,
            "resident files of a mount are read by the kernel itself",
        )
    } else {
        Item::refused(name, "the kernel gives it to CAP_SYS_ADMIN only").way_out(way)
    }
}

/// The first two numbers of a kernel's release.
fn version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|letter: char| !letter.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_compared_by_number() {
        assert_eq!(version("6.10.3-cloud"), Some((6, 10)));
        assert!(version("6.10").unwrap() > PASSTHROUGH);
        assert!(version("5.14.0-427.el9").unwrap() < PASSTHROUGH);
        assert_eq!(version("six"), None);
    }
}
