//! Finding a mount in the mount table, without asking the mount itself.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Absolute forms of a mount point. The first resolves only its parent, so that a mount which
/// hangs is not asked.
pub fn candidates(mount_point: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    if let (Some(parent), Some(name)) = (mount_point.parent(), mount_point.file_name()) {
        let parent = if parent.as_os_str().is_empty() {
            Path::new(".")
        } else {
            parent
        };
        let path = fs::canonicalize(parent).map(|parent| parent.join(name));
        if let Ok(path) = &path
            && let Ok(target) = fs::read_link(path)
            && let Ok(target) = fs::canonicalize(path.parent().unwrap_or(path).join(target))
        {
            all.push(target);
        }
        all.extend(path);
    } else {
        all.extend(fs::canonicalize(mount_point));
    }
    all
}

/// The device number of the file system called `name` that was mounted last on the absolute `path`,
/// from the mount table.
///
/// # Errors
/// Those of reading the table.
pub fn device_of(path: &Path, name: &str) -> io::Result<Option<String>> {
    let table = fs::read("/proc/self/mountinfo")?;
    Ok(find_device(&table, path, name))
}

fn find_device(table: &[u8], path: &Path, name: &str) -> Option<String> {
    let mut found = None;
    for line in table.split(|b| *b == b'\n') {
        let fields: Vec<&[u8]> = line.split(|b| *b == b' ').collect();
        let (Some(device), Some(point)) = (fields.get(2), fields.get(4)) else {
            continue;
        };
        if unescape(point).as_os_str() != path.as_os_str() {
            continue;
        }
        let source = fields
            .iter()
            .position(|f| *f == b"-")
            .and_then(|at| fields.get(at + 2));
        let ours = source.is_some_and(|source| *source == name.as_bytes());
        // A later line lies over the earlier ones.
        found = ours.then(|| String::from_utf8_lossy(device).into_owned());
    }
    found
}

/// The mount table writes space, tab, newline and backslash as `\ooo`.
fn unescape(field: &[u8]) -> PathBuf {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail
            .get(..3)
            .filter(|_| byte == b'\\')
            .and_then(|digits| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 8).ok());
        match code {
            Some(code) => {
                out.push(code);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mount_table_is_searched_by_exact_path() {
        let table = b"22 1 8:1 / / rw - ext4 /dev/vda rw\n\
            30 22 0:45 / /mnt/a\\040b ro - fuse forebay-emulate rw\n\
            31 22 0:46 / /mnt/other ro - fuse something rw\n\
            32 22 0:47 / /mnt/c ro shared:5 - fuse.forebay-emulate forebay-emulate rw\n\
            33 22 0:48 / /mnt/d ro - fuse forebay-emulate rw\n\
            34 22 0:49 / /mnt/d rw - tmpfs tmpfs rw\nbroken\n";
        let find = |path: &str| find_device(table, Path::new(path), "forebay-emulate");
        assert_eq!(find("/mnt/a b").as_deref(), Some("0:45"));
        assert_eq!(find("/mnt/c").as_deref(), Some("0:47"));
        assert_eq!(find("/mnt/other"), None, "another file system");
        assert_eq!(find("/mnt/d"), None, "covered by another mount");
        assert_eq!(find("/mnt"), None);
    }
}
