//! The names of a folder, then the attributes of each file.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use forebay_dataset::tree::{NodeIndex, NodeKind};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, statat};

use super::dataset;
use super::flat::Flat;
use super::source::Source;
use crate::client::Client;
use crate::plan::must_fit;
use crate::workload::{FILE_SIZE, NUM_COPIES, Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Op, Param, Params, Result, Verify};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Metadata",
    help: "List a folder, then stat each file",
    interfaces: super::ALL_INTERFACES,
    reads: &["dataset"],
    params: &[
        Param::new(
            "dataset",
            Kind::Path,
            "",
            "folder to list with all below it [default: one that is made for each rank]",
        ),
        NUM_COPIES,
        FILE_SIZE,
        Param::new(
            "dir_shards",
            Kind::Count,
            "1",
            "folders that the files are spread over",
        ),
    ],
    samples: |params| {
        Ok(params
            .count("num_copies")?
            .saturating_add(params.count("dir_shards")?))
    },
    ..Registration::new("list_files", |params| Ok(Box::new(ListFiles::new(params)?)))
};

/// What glibc's readdir asks the kernel for at once.
const BUFFER: usize = 32 << 10;

/// A folder, and what is in it.
struct Listed {
    /// Below the folder that is listed as a whole.
    path: PathBuf,
    wanted: Sum,
    found: Sum,
}

impl Listed {
    fn new(path: PathBuf, wanted: Sum) -> Self {
        Self {
            path,
            wanted,
            found: Sum::default(),
        }
    }
}

/// Files, folders and links of a folder, and the bytes of the files.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Sum {
    entries: u64,
    bytes: u64,
}

impl Sum {
    fn add(&mut self, bytes: u64) {
        self.entries += 1;
        self.bytes += bytes;
    }
}

struct ListFiles {
    dataset: Option<PathBuf>,
    flat: Flat,
    shards: u64,
    root: PathBuf,
    source: Source,
    folders: Vec<Listed>,
    buffer: Vec<MaybeUninit<u8>>,
    /// Names of one folder, each with its zero byte.
    names: Vec<u8>,
}

impl ListFiles {
    fn new(params: &Params) -> Result<Self> {
        let flat = Flat::new(params)?;
        let shards = params.positive("dir_shards")?;
        if shards > flat.count.min(1_000) {
            return Err(BenchError::Usage(format!(
                "`dir_shards` must be at most 1000 and at most `num_copies`: {shards}"
            )));
        }
        Ok(Self {
            dataset: params.path("dataset")?,
            flat,
            shards,
            root: PathBuf::new(),
            source: Source::Calls(PathBuf::new()),
            folders: Vec::new(),
            buffer: vec![MaybeUninit::uninit(); BUFFER],
            names: Vec::new(),
        })
    }

    /// The files of a shard: neighbours in order of their number.
    fn files(&self, shard: u64) -> std::ops::Range<u64> {
        let start = |shard: u64| self.flat.count * shard / self.shards;
        start(shard)..start(shard + 1)
    }

    /// Makes the folders of this rank.
    fn make(&mut self, at: &Stage<'_>) -> Result<()> {
        self.flat.prepare(at, "file_")?;
        let root = at.own.make("files")?;
        for shard in 0..self.shards {
            let name = format!("shard-{shard:04}");
            let files = self.files(shard);
            let entries = files.end - files.start;
            self.flat.make(at, &root.make(&name)?, files)?;
            let wanted = Sum {
                entries,
                bytes: entries.saturating_mul(self.flat.size),
            };
            self.folders.push(Listed::new(name.into(), wanted));
        }
        self.root = root.path().to_owned();
        Ok(())
    }

    /// Looks at what is in every folder of a data set, the root first.
    fn look(&mut self, at: &Stage<'_>) -> Result<()> {
        let mut of = BTreeMap::<PathBuf, Sum>::new();
        of.insert(PathBuf::new(), Sum::default());
        let go_on = || at.go_on();
        dataset::walk(&self.root, &at.spec.work_dir, &go_on, &mut |found| {
            let folder = found.path.parent().unwrap_or(Path::new("")).to_owned();
            of.entry(folder).or_default().add(found.bytes);
            if found.kind.is_dir() {
                of.entry(found.path).or_default();
            }
        })?;
        let listed = |(path, wanted)| Listed::new(path, wanted);
        self.folders = of.into_iter().map(listed).collect();
        must_fit(
            at.spec,
            self.entries().saturating_add(self.folders.len() as u64),
        )
    }

    /// What is to be found in all folders.
    fn entries(&self) -> u64 {
        self.folders.iter().map(|one| one.wanted.entries).sum()
    }

    /// One folder by system calls.
    fn by_calls(&mut self, at: &mut Stage<'_>, number: usize, ops: [Op; 2]) -> Result<Sum> {
        let [readdir, stat] = ops;
        let path = dataset::below(&self.root, &self.folders[number].path);
        let mut sum = Sum::default();
        let mut lap = at.recorder.lap();
        let folder = read_names(&path, &mut self.buffer, &mut self.names)?;
        at.recorder.part(&mut lap, readdir);
        let mut rest = self.names.as_slice();
        while let Ok(name) = CStr::from_bytes_until_nul(rest) {
            at.go_on()?;
            let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW)
                .map_err(BenchError::os("look at files of", &path))?;
            match FileType::from_raw_mode(found.st_mode) {
                FileType::RegularFile => sum.add(found.st_size as u64),
                FileType::Directory | FileType::Symlink => sum.add(0),
                // Pipes and the like are no part of a data set.
                _ => {}
            }
            rest = &rest[name.count_bytes() + 1..];
            at.recorder.part(&mut lap, stat);
        }
        Ok(sum)
    }

    /// One folder by a client: its names, then each looked up by its name.
    fn by_client(
        &self,
        at: &mut Stage<'_>,
        client: &Client,
        number: usize,
        ops: [Op; 2],
    ) -> Result<Sum> {
        let [readdir, stat] = ops;
        let tree = client.tree();
        let mut sum = Sum::default();
        let mut lap = at.recorder.lap();
        let folder = client.find(&self.folders[number].path)?;
        let names: Vec<&str> = tree
            .children(folder)
            .map(|child| tree.name(NodeIndex(child)))
            .collect();
        at.recorder.part(&mut lap, readdir);
        for name in names {
            at.go_on()?;
            if let Some(node) = tree.child(folder, name.as_bytes()) {
                let size = tree.attributes(node).size;
                sum.add(match tree.kind(node) {
                    NodeKind::File(_) => size,
                    NodeKind::Folder | NodeKind::Link => 0,
                });
            }
            at.recorder.part(&mut lap, stat);
        }
        Ok(sum)
    }
}

/// Reads the names of a folder, each with its zero byte; the folder, open.
fn read_names(path: &Path, buffer: &mut [MaybeUninit<u8>], names: &mut Vec<u8>) -> Result<OwnedFd> {
    let fault = |error| BenchError::os("list", path)(error);
    names.clear();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = rustix::fs::open(path, flags, Mode::empty()).map_err(fault)?;
    let mut entries = RawDir::new(&open, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_bytes_with_nul();
        if name != b".\0" && name != b"..\0" {
            names.extend_from_slice(name);
        }
    }
    Ok(open)
}

impl Workload for ListFiles {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        match &self.dataset {
            Some(dataset) if at.spec.work_dir.starts_with(dataset) => {
                return Err(BenchError::Usage(format!(
                    "`dataset` holds the folder that this run works in: name another `--dataset-path` than `{}`",
                    at.spec.dataset_path.display()
                )));
            }
            Some(dataset) => {
                self.root = dataset.clone();
                self.look(at)?;
            }
            None => self.make(at)?,
        }
        let most = self.folders.iter().map(|one| one.wanted.entries).max();
        // Names of some 20 bytes: room that is not made while the clock runs.
        self.names.reserve(most.unwrap_or(0) as usize * 20);
        self.source = Source::open(at, &self.root, self.dataset.is_some())?;
        Ok(())
    }

    fn held_elsewhere(&self) -> Option<String> {
        (self.source.client())
            .map(|_| "the whole tree of files, which a client has in memory".into())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let ops = ["readdir", "stat"].map(|name| at.op(name));
        let total = at.op("list_total");
        at.recorder.reserve(ops[1], self.entries() as usize);
        let whole = at.recorder.lap();
        for number in 0..self.folders.len() {
            let found = match self.source.client() {
                None => self.by_calls(at, number, ops)?,
                Some(client) => self.by_client(at, client, number, ops)?,
            };
            self.folders[number].found = found;
        }
        let whole = at.recorder.restarted(whole);
        at.recorder.whole(&whole, total);
        let seen: u64 = self.folders.iter().map(|one| one.found.entries).sum();
        Ok(Work {
            ops: seen + self.folders.len() as u64,
            ..Work::default()
        })
    }

    fn verify(&mut self, _at: &mut Stage<'_>) -> Result<Verify> {
        let mut sum = Verify::default();
        for Listed { wanted, found, .. } in &self.folders {
            let checked = wanted.entries.max(found.entries);
            let missing = wanted.entries.abs_diff(found.entries);
            // Of wrong bytes it is not known whose they are.
            let wrong = u64::from(wanted.bytes != found.bytes);
            sum.checked += checked;
            sum.bad += missing.max(wrong).min(checked.max(1));
        }
        Ok(sum)
    }
}
