//! A data set of deterministic files, and the list of what is in it.

use std::ffi::CString;
use std::fs::{File, FileType};
use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::path::{Component, Path, PathBuf};
use std::time::{Duration, Instant};

use fast_md5::Md5;
use rustix::fs::{OFlags, fsync};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::folder::Folder;
use crate::measure::nanoseconds;
use crate::spec::Fsync;
use crate::workload::Stage;
use crate::{BenchError, Result, content, files, sys};

/// The list of a data set's files, in its folder: a line of JSON each.
pub(super) const LIST: &str = "files.jsonl";

/// The most files of a data set that is read.
const MOST: usize = 10_000_000;

/// The longest line of the list.
const LINE: u64 = 64 << 10;

/// Bytes of content that are made at once.
const CHUNK: usize = 16 << 20;

/// One file of a data set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// Where it is below the data set's folder.
    pub(super) path: PathBuf,
    pub(super) bytes: u64,
    /// Digests in hexadecimal; absent where nobody computed them.
    #[serde(default)]
    pub(super) md5: Option<String>,
    #[serde(default)]
    pub(super) sha256: Option<String>,
}

/// What a data set shall have.
#[derive(Clone, Debug)]
pub(super) struct Plan {
    /// Size and number of the files of each class.
    pub(super) classes: Vec<(u64, u64)>,
    /// Folders that the files are spread over; 1: all lie flat.
    pub(super) shards: u64,
    pub(super) seed: u64,
}

impl Plan {
    pub(super) fn count(&self) -> u64 {
        let count = |sum: u64, class: &(u64, u64)| sum.saturating_add(class.1);
        self.classes.iter().fold(0, count)
    }

    pub(super) fn bytes(&self) -> u64 {
        let bytes =
            |sum: u64, class: &(u64, u64)| sum.saturating_add(class.0.saturating_mul(class.1));
        self.classes.iter().fold(0, bytes)
    }

    /// Class and size of each file, in order of its number.
    pub(super) fn sizes(&self) -> impl Iterator<Item = (usize, u64)> {
        let classes = self.classes.iter().enumerate();
        classes.flat_map(|(class, &(size, copies))| (0..copies).map(move |_| (class, size)))
    }

    /// The folders of the data set, made.
    pub(super) fn folders(&self, root: &Folder) -> Result<Vec<Folder>> {
        let make = |shard| root.make(&format!("shard-{shard:04}"));
        if self.shards > 1 {
            (0..self.shards).map(make).collect()
        } else {
            let folder = Folder::open(root.path())?;
            Ok(vec![folder])
        }
    }

    fn place(&self, index: u64) -> (usize, PathBuf, CString) {
        let name = format!("file_{index}.dat");
        // A name of letters, digits, `_` and `.` holds no zero byte.
        let plain = CString::new(name.clone()).unwrap_or_default();
        if self.shards <= 1 {
            return (0, PathBuf::from(name), plain);
        }
        let shard = index % self.shards;
        (
            shard as usize,
            Path::new(&format!("shard-{shard:04}")).join(name),
            plain,
        )
    }
}

/// How long the parts of writing a file took. Making its content is no part.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Times {
    pub(super) open: u64,
    pub(super) write: u64,
    pub(super) fsync: u64,
    pub(super) close: u64,
    /// Time spent on content and digests.
    pub(super) paused: Duration,
}

impl Times {
    pub(super) fn total(&self) -> u64 {
        self.open + self.write + self.fsync + self.close
    }
}

/// Writes files of a data set and the list of them.
pub(super) struct Writer<'a> {
    plan: &'a Plan,
    folders: Vec<Folder>,
    root: &'a Folder,
    buffer: Vec<u8>,
    list: BufWriter<File>,
    next: u64,
}

impl<'a> Writer<'a> {
    pub(super) fn new(plan: &'a Plan, root: &'a Folder) -> Result<Self> {
        let list = root.path().join(LIST);
        let largest = plan.classes.iter().map(|class| class.0).max().unwrap_or(0);
        Ok(Self {
            folders: plan.folders(root)?,
            root,
            buffer: vec![0; usize::try_from(largest).unwrap_or(CHUNK).clamp(1, CHUNK)],
            list: BufWriter::new(File::create(&list).map_err(BenchError::io("write", &list))?),
            next: 0,
            plan,
        })
    }

    /// Writes the next file, which has `size` bytes.
    pub(super) fn write(&mut self, at: &Stage<'_>, size: u64, policy: Fsync) -> Result<Times> {
        let (shard, path, name) = self.plan.place(self.next);
        let folder = &self.folders[shard];
        let full = self.root.path().join(&path);
        let fault = |act| BenchError::os(act, &full);
        let mut times = Times::default();
        let mut clock = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            now - std::mem::replace(&mut clock, now)
        };
        let file = files::create(folder, &name, OFlags::empty()).map_err(fault("create"))?;
        times.open = nanoseconds(lap());
        let (mut md5, mut sha256) = (Md5::new(), Sha256::new());
        let mut offset = 0;
        while offset < size {
            at.go_on()?;
            let take = usize::try_from(size - offset)
                .unwrap_or(CHUNK)
                .min(self.buffer.len());
            let chunk = &mut self.buffer[..take];
            content::deterministic(self.plan.seed, self.next, offset, chunk);
            md5.update(&*chunk);
            sha256.update(&*chunk);
            times.paused += lap();
            files::write_all(&file, chunk).map_err(fault("write"))?;
            times.write += nanoseconds(lap());
            offset += take as u64;
        }
        if policy != Fsync::None {
            fsync(&file).map_err(fault("write back"))?;
            times.fsync = nanoseconds(lap());
        }
        sys::close(file).map_err(BenchError::io("close", folder.path()))?;
        times.close = nanoseconds(lap());
        let entry = Entry {
            path,
            bytes: size,
            md5: Some(content::hex(&md5.finalize())),
            sha256: Some(content::hex(&sha256.finalize())),
        };
        self.list(&entry)?;
        self.next += 1;
        times.paused += lap();
        Ok(times)
    }

    fn list(&mut self, entry: &Entry) -> Result<()> {
        let path = self.root.path().join(LIST);
        let line = serde_json::to_string(entry)
            .map_err(|error| BenchError::Content(format!("a file cannot be listed: {error}")))?;
        writeln!(self.list, "{line}").map_err(BenchError::io("write", &path))
    }

    /// Writes out the list.
    pub(super) fn finish(mut self) -> Result<()> {
        let path = self.root.path().join(LIST);
        self.list.flush().map_err(BenchError::io("write", &path))
    }
}

/// Makes a whole data set outside the timed part.
pub(super) fn make(at: &Stage<'_>, plan: &Plan, root: &Folder) -> Result<()> {
    let mut writer = Writer::new(plan, root)?;
    for (_, size) in plan.sizes() {
        writer.write(at, size, Fsync::None)?;
    }
    writer.finish()
}

/// The files of a data set: by its list, else all files below the folder in order of their paths.
pub(super) fn read(at: &Stage<'_>, root: &Path) -> Result<Vec<Entry>> {
    read_without(root, &at.spec.work_dir, &|| at.go_on())
}

/// The same; a folder that is no part of it is left out.
fn read_without(root: &Path, without: &Path, go_on: &dyn Fn() -> Result<()>) -> Result<Vec<Entry>> {
    let list = root.join(LIST);
    let entries = match File::open(&list) {
        Ok(file) => read_list(&list, file, go_on)?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let mut entries = Vec::new();
            walk(root, without, go_on, &mut |found| {
                if found.kind.is_file() {
                    entries.push(Entry {
                        path: found.path,
                        bytes: found.bytes,
                        md5: None,
                        sha256: None,
                    });
                }
            })?;
            entries.sort_by(|one, other| one.path.cmp(&other.path));
            entries
        }
        Err(error) => return Err(BenchError::io("open", &list)(error)),
    };
    if entries.is_empty() {
        let shown = root.display();
        return Err(BenchError::Usage(format!("`{shown}` has no files to read")));
    }
    Ok(entries)
}

fn read_list(path: &Path, file: File, go_on: &dyn Fn() -> Result<()>) -> Result<Vec<Entry>> {
    let mut reader = BufReader::new(file);
    let mut entries: Vec<Entry> = Vec::new();
    loop {
        go_on()?;
        let mut line = Vec::new();
        let read = Read::by_ref(&mut reader)
            .take(LINE)
            .read_until(b'\n', &mut line)
            .map_err(BenchError::io("read", path))?;
        if read == 0 {
            return Ok(entries);
        }
        let number = entries.len() + 1;
        let wrong = |fault: String| {
            BenchError::Content(format!("`{}`, line {number}: {fault}", path.display()))
        };
        let entry: Entry =
            serde_json::from_slice(&line).map_err(|error| wrong(error.to_string()))?;
        let plain = |part: Component<'_>| matches!(part, Component::Normal(_));
        if !entry.path.components().all(plain) || number > MOST {
            return Err(wrong(
                "the file lies elsewhere, or is one too many".to_owned(),
            ));
        }
        entries.push(entry);
    }
}

/// A folder below another, without a `/` at its end where it is that one itself.
pub(super) fn below(root: &Path, folder: &Path) -> PathBuf {
    match folder.as_os_str().is_empty() {
        true => root.to_owned(),
        false => root.join(folder),
    }
}

/// A file, a folder or a link below a folder.
pub(super) struct Found {
    /// Where it is below the folder that is walked.
    pub(super) path: PathBuf,
    pub(super) kind: FileType,
    /// Of a file.
    pub(super) bytes: u64,
}

/// Every file, folder and link below `root` but for `without`; links are not followed.
pub(super) fn walk(
    root: &Path,
    without: &Path,
    go_on: &dyn Fn() -> Result<()>,
    take: &mut dyn FnMut(Found),
) -> Result<()> {
    let mut taken = 0;
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let shown = below(root, &folder);
        let fault = |error| BenchError::io("list", &shown)(error);
        for entry in std::fs::read_dir(&shown).map_err(fault)? {
            go_on()?;
            let entry = entry.map_err(fault)?;
            let kind = entry.file_type().map_err(fault)?;
            let is_part = kind.is_dir() || kind.is_file() || kind.is_symlink();
            if !is_part || entry.path() == without {
                continue;
            }
            let path = folder.join(entry.file_name());
            if kind.is_dir() {
                folders.push(path.clone());
            }
            let bytes = match kind.is_file() {
                true => entry.metadata().map_err(fault)?.len(),
                false => 0,
            };
            taken += 1;
            if taken > MOST {
                return Err(BenchError::Usage(format!(
                    "`{}` has more than {MOST} files and folders",
                    root.display()
                )));
            }
            take(Found { path, kind, bytes });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_all(root: &Path) -> Result<Vec<Entry>> {
        read_without(root, &root.join("work"), &|| Ok(()))
    }

    #[test]
    fn a_list_that_leads_elsewhere_is_refused() {
        let temp = tempfile::tempdir().unwrap();
        for path in ["/etc/passwd", "../x", "a/../../x"] {
            let line = format!("{{\"path\":\"{path}\",\"bytes\":1}}\n");
            std::fs::write(temp.path().join(LIST), line).unwrap();
            let error = read_all(temp.path()).unwrap_err();
            assert!(error.to_string().contains("line 1"), "{error}");
        }
    }

    #[test]
    fn a_folder_without_a_list_is_walked_and_links_left_alone() {
        let temp = tempfile::tempdir().unwrap();
        std::fs::create_dir(temp.path().join("b")).unwrap();
        std::fs::write(temp.path().join("b/y"), "12").unwrap();
        std::fs::write(temp.path().join("a"), "1").unwrap();
        std::os::unix::fs::symlink("/etc", temp.path().join("c")).unwrap();
        // The run's own folder, which may lie in the data set.
        std::fs::create_dir(temp.path().join("work")).unwrap();
        std::fs::write(temp.path().join("work/marker"), "run").unwrap();
        let entries = read_all(temp.path()).unwrap();
        let found: Vec<_> = entries
            .iter()
            .map(|one| (one.path.to_str().unwrap(), one.bytes))
            .collect();
        assert_eq!(found, [("a", 1), ("b/y", 2)]);
        assert!(read_all(&temp.path().join("b/none")).is_err());
    }
}
