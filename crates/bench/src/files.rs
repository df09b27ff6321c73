//! Files, by the system calls that benchmarks time.

use std::ffi::CStr;
use std::io::{Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use crate::{BenchError, Result, content};

/// What Python's `open(path, "wb")` asks for.
pub(crate) const CREATE: OFlags = OFlags::WRONLY
    .union(OFlags::CREATE)
    .union(OFlags::TRUNC)
    .union(OFlags::CLOEXEC);

/// Opens a file of a folder to write.
pub(crate) fn create(
    folder: impl AsFd,
    name: &CStr,
    more: OFlags,
) -> std::result::Result<OwnedFd, Errno> {
    openat(folder, name, CREATE | more, Mode::from_raw_mode(0o644))
}

/// Writes all of `bytes`.
pub(crate) fn write_all(file: impl AsFd, bytes: &[u8]) -> std::result::Result<(), Errno> {
    let file = file.as_fd();
    let mut rest = bytes;
    while !rest.is_empty() {
        match rustix::io::write(file, rest) {
            // A device that takes nothing and says nothing is full.
            Ok(0) => return Err(Errno::NOSPC),
            Ok(count) => rest = &rest[count..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Reads until `out` is full or the file ends; bytes read.
pub(crate) fn read_full(file: impl AsFd, out: &mut [u8]) -> std::result::Result<usize, Errno> {
    let file = file.as_fd();
    let mut read = 0;
    while read < out.len() {
        match rustix::io::read(file, &mut out[read..]) {
            Ok(0) => break,
            Ok(count) => read += count,
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
}

/// Writes a file that is there whole or not at all, also where another rank writes it at the same
/// time.
///
/// # Errors
/// [`BenchError::Io`] names the file.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    // Ranks are processes of several machines, so that the process's number is not enough.
    let mut own = [0u8; 8];
    content::random(&mut own)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(format!(".{}.partial", content::hex(&own)));
    let written = std::fs::File::create(&partial)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&partial, path));
    written.map_err(|error| {
        // What cannot be written is often a full disk.
        let _ = std::fs::remove_file(&partial);
        BenchError::io("write", path)(error)
    })
}

/// Reads a file of at most `most` bytes.
///
/// # Errors
/// [`BenchError::Io`], and [`BenchError::Usage`] for a larger file.
pub fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(most + 1).read_to_end(&mut bytes))
        .map_err(BenchError::io("read", path))?;
    if bytes.len() as u64 > most {
        return Err(BenchError::Usage(format!(
            "`{}` has more than {most} bytes",
            path.display()
        )));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_device_is_an_error() {
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let full = full.expect("Linux has one");
        assert_eq!(write_all(&full, b"x"), Err(Errno::NOSPC));
    }

    #[test]
    fn a_file_that_several_write_at_one_time_is_that_of_one_of_them() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        std::thread::scope(|scope| {
            for byte in 0..8u8 {
                let path = &path;
                scope.spawn(move || {
                    for _ in 0..50 {
                        write_whole(path, &[byte; 5_000]).unwrap();
                    }
                });
            }
        });
        let found = std::fs::read(&path).unwrap();
        assert!(found.len() == 5_000 && found.iter().all(|byte| *byte == found[0]));
        assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_file_that_is_too_large_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        let path = temp.path().join("x");
        write_whole(&path, b"12345").unwrap();
        assert_eq!(read_bounded(&path, 5).unwrap(), b"12345");
        let error = read_bounded(&path, 4).unwrap_err();
        assert!(error.to_string().ends_with("has more than 4 bytes"));
    }
}
