//! What a run's records say of the machine and of the file system.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use forebay_analysis::suite::{FileSystem, Host};

/// This machine. What cannot be found out is left empty.
#[must_use]
pub fn host() -> Host {
    let names = rustix::system::uname();
    let cpu = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    let memory = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = memory.lines().find_map(|line| {
        let value = line.strip_prefix("MemTotal:")?.trim();
        value.strip_suffix("kB")?.trim().parse::<u64>().ok()
    });
    let cores = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    Host {
        hostname: names.nodename().to_string_lossy().into_owned(),
        kernel: names.release().to_string_lossy().into_owned(),
        cpu: model.unwrap_or_else(|| names.machine().to_string_lossy().into_owned()),
        cores: u32::try_from(cores).unwrap_or(u32::MAX),
        mem_bytes: kib.unwrap_or(0).saturating_mul(1024),
        ..Host::default()
    }
}

/// The file system that `path` lies on. What cannot be found out is left empty.
#[must_use]
pub fn file_system(path: &Path) -> FileSystem {
    let real = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mount = table.lines().filter_map(Mount::parse);
    // The last of those that fit best: a later mount covers an earlier one.
    let mount = mount
        .filter(|mount| real.starts_with(&mount.point))
        .max_by_key(|mount| Path::new(&mount.point).components().count());
    let mut statfs = BTreeMap::new();
    if let Ok(stat) = rustix::fs::statvfs(&real) {
        statfs.insert("block_bytes".into(), stat.f_bsize);
        statfs.insert(
            "total_bytes".into(),
            stat.f_blocks.saturating_mul(stat.f_frsize),
        );
        statfs.insert(
            "free_bytes".into(),
            stat.f_bavail.saturating_mul(stat.f_frsize),
        );
        statfs.insert("files".into(), stat.f_files);
        statfs.insert("free_files".into(), stat.f_favail);
    }
    let mount = mount.unwrap_or_default();
    FileSystem {
        path: real.to_string_lossy().into_owned(),
        mount: mount.point,
        source: mount.source,
        fstype: mount.fstype,
        options: mount.options,
        statfs,
    }
}

#[derive(Default)]
struct Mount {
    point: String,
    source: String,
    fstype: String,
    options: String,
}

impl Mount {
    /// One line of `/proc/self/mountinfo`.
    fn parse(line: &str) -> Option<Self> {
        let (before, after) = line.split_once(" - ")?;
        let before: Vec<&str> = before.split(' ').collect();
        let mut after = after.split(' ');
        let fstype = after.next()?.to_owned();
        let source = unescaped(after.next()?);
        let of_device = after.next().unwrap_or("");
        Some(Self {
            point: unescaped(before.get(4)?),
            source,
            fstype,
            options: format!("{},{of_device}", before.get(5)?),
        })
    }
}

/// Space, tab, line feed and backslash stand as three octal digits after a backslash.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let digits = after
            .get(..3)
            .and_then(|three| std::str::from_utf8(three).ok());
        let code = digits.and_then(|three| u8::from_str_radix(three, 8).ok());
        match code.filter(|_| first == b'\\') {
            Some(code) => {
                out.push(code);
                rest = &after[3..];
            }
            None => {
                out.push(first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_mountinfo_is_read() {
        let line =
            r"36 35 98:0 / /mnt/a\040b rw,noatime shared:1 - ext4 /dev/root rw,errors=continue";
        let mount = Mount::parse(line).unwrap();
        assert_eq!(mount.point, "/mnt/a b");
        assert_eq!(
            (mount.fstype.as_str(), mount.source.as_str()),
            ("ext4", "/dev/root")
        );
        assert_eq!(mount.options, "rw,noatime,rw,errors=continue");
        assert!(Mount::parse("36 35 98:0 /").is_none());
        assert_eq!(unescaped(r"a\12"), r"a\12");
    }

    #[test]
    fn this_machine_is_described() {
        let temp = tempfile::tempdir().unwrap();
        let found = file_system(temp.path());
        assert!(
            !found.mount.is_empty() && !found.fstype.is_empty(),
            "{found:?}"
        );
        assert!(found.statfs["total_bytes"] >= found.statfs["free_bytes"]);
        let host = host();
        assert!(host.cores > 0 && host.mem_bytes > 0 && !host.kernel.is_empty());
    }
}
