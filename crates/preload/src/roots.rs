//! Which paths are staged. Pure, and without allocation once it is parsed.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Roots at most: the number of one fits in the table of descriptors.
pub(crate) const MOST_ROOTS: usize = 200;

/// One staged root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Root {
    /// The folder, absolute, as it is written in paths: no trailing slash.
    pub(crate) folder: PathBuf,
    /// Index of its files.
    pub(crate) index: PathBuf,
}

/// Where a path leads, as far as its text says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place<'a> {
    /// Below a root, or the root itself if the rest is empty.
    Below(usize, &'a [u8]),
    /// To a folder that holds a root.
    Above,
    /// To neither.
    Elsewhere,
}

/// All staged roots.
#[derive(Debug, Default)]
pub(crate) struct Roots(Vec<Root>);

impl Roots {
    /// Parses the value of `FOREBAY_ROOTS`: `ROOT=INDEX` or `ROOT`, parted by colons. `index_of` says
    /// where the index of a root lies that names none. What cannot be used is left out.
    pub(crate) fn parse(text: &OsStr, index_of: impl Fn(&Path) -> Option<PathBuf>) -> Self {
        let parts = text.as_bytes().split(|byte| *byte == b':');
        let roots = parts.filter_map(|part| {
            let mut names = part.splitn(2, |byte| *byte == b'=');
            let folder = trimmed(names.next()?)?;
            let index = match names.next() {
                Some(index) => PathBuf::from(OsStr::from_bytes(index)),
                None => index_of(&folder)?,
            };
            index.is_absolute().then_some(Root { folder, index })
        });
        let mut roots: Vec<Root> = roots.take(MOST_ROOTS).collect();
        // The innermost of nested roots has the say.
        roots.sort_by_key(|root| std::cmp::Reverse(root.folder.as_os_str().len()));
        Self(roots)
    }

    /// The roots, the innermost first.
    pub(crate) fn all(&self) -> &[Root] {
        &self.0
    }

    /// Where an absolute path leads.
    pub(crate) fn place<'a>(&self, path: &'a [u8]) -> Place<'a> {
        let mut is_above = false;
        for (number, root) in self.0.iter().enumerate() {
            let folder = root.folder.as_os_str().as_bytes();
            if let Some(rest) = below(path, folder) {
                return Place::Below(number, rest);
            }
            is_above |= is_folder_of(path, folder);
        }
        if is_above {
            Place::Above
        } else {
            Place::Elsewhere
        }
    }
}

/// Whether `path` is a folder in which `inner` lies.
fn is_folder_of(path: &[u8], inner: &[u8]) -> bool {
    path.first() == Some(&b'/') && below(inner, path.strip_suffix(b"/").unwrap_or(path)).is_some()
}

/// The rest of `path` if it is `folder` or lies in it.
fn below<'a>(path: &'a [u8], folder: &[u8]) -> Option<&'a [u8]> {
    let rest = path.strip_prefix(folder)?;
    match rest {
        [] => Some(rest),
        [b'/', ..] => Some(without_slashes(rest)),
        _ => None,
    }
}

fn without_slashes(path: &[u8]) -> &[u8] {
    let kept = path.iter().position(|byte| *byte != b'/');
    &path[kept.unwrap_or(path.len())..]
}

/// The folder without trailing slashes; `None` if it is not absolute, or `/`.
fn trimmed(folder: &[u8]) -> Option<PathBuf> {
    let kept = folder.iter().rposition(|byte| *byte != b'/')? + 1;
    let folder = Path::new(OsStr::from_bytes(&folder[..kept]));
    folder.is_absolute().then(|| folder.to_path_buf())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn roots(text: &str) -> Roots {
        Roots::parse(OsStr::new(text), |root| {
            Some(Path::new("/cache").join(root.file_name()?))
        })
    }

    #[test]
    fn paths_are_below_a_root_by_whole_names() {
        let roots = roots("/p/data=/i/data.forebay:/p/data/inner/");
        let inner = Place::Below(0, b"x".as_slice());
        let data = |rest: &'static str| Place::Below(1, rest.as_bytes());
        for (path, wanted) in [
            ("/p/data/x", data("x")),
            ("/p/data//a/b", data("a/b")),
            ("/p/data", data("")),
            ("/p/data/", data("")),
            ("/p/data/inner/x", inner),
            ("/p/database/x", Place::Elsewhere),
            ("/p/dat", Place::Elsewhere),
            ("p/data/x", Place::Elsewhere),
            ("/p", Place::Above),
            ("/p/", Place::Above),
            ("/", Place::Above),
            ("", Place::Elsewhere),
        ] {
            assert_eq!(roots.place(path.as_bytes()), wanted, "{path}");
        }
        assert_eq!(roots.all()[1].index, Path::new("/i/data.forebay"));
        assert_eq!(roots.all()[0].index, Path::new("/cache/inner"));
    }

    #[test]
    fn what_cannot_be_used_is_left_out() {
        assert!(roots("").all().is_empty());
        assert!(roots("data:/:///:=/i:/a=relative::").all().is_empty());
        let many = vec!["/a"; 2 * MOST_ROOTS].join(":");
        assert_eq!(roots(&many).all().len(), MOST_ROOTS);
    }
}
