//! Reads parts of a file that does not change meanwhile.

use std::path::Path;

use forebay_dataset::Fingerprint;

use crate::IndexerError;
use crate::error::Result;
use crate::files::InputFile;
use crate::source::Source;

/// Bytes read at once where reads follow each other closely, and where they do not.
const NEAR: u64 = 64 << 10;
const FAR: u64 = 4 << 10;

/// A file, read through a window: small reads near each other cost one system call.
pub(super) struct Reader<'a> {
    path: &'a Path,
    file: &'a Source,
    len: u64,
    window: Vec<u8>,
    start: u64,
}

/// Opens a file, reads it by `read`, and makes sure that it did not change meanwhile.
pub(super) fn with_reader<T>(
    input: &InputFile,
    read: impl FnOnce(&mut Reader<'_>) -> Result<T>,
) -> Result<(Fingerprint, T)> {
    let path = &input.path;
    let file = Source::open(input)?;
    let before = file.fingerprint().map_err(IndexerError::io("read", path))?;
    let mut reader = Reader {
        path,
        file: &file,
        len: before.size,
        window: Vec::new(),
        start: 0,
    };
    let result = read(&mut reader);
    // First, since a file that is being written looks damaged.
    file.check_unchanged(path, before)?;
    Ok((before, result?))
}

impl Reader<'_> {
    pub(super) const fn path(&self) -> &Path {
        self.path
    }

    /// Bytes of the file.
    pub(super) const fn len(&self) -> u64 {
        self.len
    }

    /// The `len` bytes at `offset`, which hold `what`.
    pub(super) fn at(&mut self, offset: u64, len: u64, what: &str) -> Result<&[u8]> {
        let end = self.check(offset, len, what)?;
        let held = self.start..self.start + self.window.len() as u64;
        if offset < held.start || end > held.end {
            let near = offset >= held.start && offset < held.end.saturating_add(NEAR);
            let ahead = if near { NEAR } else { FAR };
            let wanted = len.max(ahead).min(self.len - offset);
            // No longer than the file, which was seen to be that long.
            self.window.resize(wanted as usize, 0);
            self.window.shrink_to(NEAR as usize);
            self.start = offset;
            let read = self.file.read_exact_at(&mut self.window, offset);
            if read.is_err() {
                self.window.clear();
            }
            read.map_err(IndexerError::io("read", self.path))?;
        }
        let from = (offset - self.start) as usize;
        Ok(&self.window[from..from + len as usize])
    }

    /// The `N` bytes at `offset`, which hold `what`.
    pub(super) fn array<const N: usize>(&mut self, offset: u64, what: &str) -> Result<[u8; N]> {
        let mut out = [0; N];
        out.copy_from_slice(self.at(offset, N as u64, what)?);
        Ok(out)
    }

    /// Gives the `len` bytes at `offset` to `take`, piece by piece, until it answers false.
    pub(super) fn pieces(
        &mut self,
        mut offset: u64,
        len: u64,
        what: &str,
        mut take: impl FnMut(&[u8]) -> bool,
    ) -> Result<()> {
        let end = self.check(offset, len, what)?;
        while offset < end {
            let now = (end - offset).min(NEAR);
            if !take(self.at(offset, now, what)?) {
                break;
            }
            offset += now;
        }
        Ok(())
    }

    /// One past the last of `len` bytes at `offset`, if the file has them.
    pub(super) fn check(&self, offset: u64, len: u64, what: &str) -> Result<u64> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len => Ok(end),
            _ => Err(self.damaged(format!(
                "it ends at byte {}, inside {what}: {len} bytes from {offset} on",
                self.len
            ))),
        }
    }

    /// The file contradicts its format.
    pub(super) fn damaged(&self, what: impl Into<String>) -> IndexerError {
        IndexerError::Damaged {
            place: format!("`{}`", self.path.display()),
            what: what.into(),
        }
    }

    /// The same, about one thing in the file.
    pub(super) fn damaged_in(&self, object: &str, what: impl Into<String>) -> IndexerError {
        IndexerError::Damaged {
            place: format!("`{object}` of `{}`", self.path.display()),
            what: what.into(),
        }
    }

    /// A feature of one thing in the file that is refused; `object` is empty for the file itself.
    pub(super) fn unsupported(
        &self,
        object: &str,
        feature: impl Into<String>,
        remedy: &'static str,
    ) -> IndexerError {
        let path = self.path.display();
        IndexerError::Unsupported {
            place: if object.is_empty() {
                format!("`{path}`")
            } else {
                format!("`{object}` of `{path}`")
            },
            feature: feature.into(),
            remedy,
        }
    }
}
