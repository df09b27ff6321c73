//! The names of a folder, then the attributes of each file.

use std::ffi::CStr;
use std::mem::MaybeUninit;

use rustix::fs::{AtFlags, Mode, OFlags, RawDir, openat, statat};

use super::flat::Flat;
use crate::folder::Folder;
use crate::workload::{FILE_SIZE, NUM_COPIES, Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Param, Params, Result, Verify};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Metadata",
    help: "List a folder, then stat each file",
    interfaces: super::ALSO_FSSPEC,
    params: &[
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

struct ListFiles {
    flat: Flat,
    shards: u64,
    folders: Vec<Folder>,
    buffer: Vec<MaybeUninit<u8>>,
    /// Names of one folder, each with its zero byte.
    names: Vec<u8>,
    seen: u64,
    wrong: u64,
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
            flat,
            shards,
            folders: Vec::new(),
            buffer: vec![MaybeUninit::uninit(); BUFFER],
            names: Vec::new(),
            seen: 0,
            wrong: 0,
        })
    }

    /// The files of a shard: neighbours in order of their number.
    fn files(&self, shard: u64) -> std::ops::Range<u64> {
        let start = |shard: u64| self.flat.count * shard / self.shards;
        start(shard)..start(shard + 1)
    }
}

/// Reads the names of a folder, each with its zero byte.
fn read_names(folder: &Folder, buffer: &mut [MaybeUninit<u8>], names: &mut Vec<u8>) -> Result<()> {
    let fault = |error| BenchError::os("list", folder.path())(error);
    names.clear();
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let open = openat(folder, c".", flags, Mode::empty()).map_err(fault)?;
    let mut entries = RawDir::new(&open, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry.map_err(fault)?;
        let name = entry.file_name().to_bytes_with_nul();
        if name != b".\0" && name != b"..\0" {
            names.extend_from_slice(name);
        }
    }
    Ok(())
}

impl Workload for ListFiles {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.flat.prepare(at, "file_")?;
        for shard in 0..self.shards {
            let folder = at.own.make(&format!("shard-{shard:04}"))?;
            self.flat.make(at, &folder, self.files(shard))?;
            self.folders.push(folder);
        }
        // Names of some 20 bytes: room that is not made while the clock runs.
        self.names.reserve(self.flat.count as usize * 20);
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let (readdir, stat) = (at.op("readdir"), at.op("stat"));
        let total = at.op("list_total");
        at.recorder.reserve(stat, self.flat.count as usize);
        (self.seen, self.wrong) = (0, 0);
        let mut lap = at.recorder.lap();
        for folder in &self.folders {
            read_names(folder, &mut self.buffer, &mut self.names)?;
            at.recorder.part(&mut lap, readdir);
            let mut rest = self.names.as_slice();
            while let Ok(name) = CStr::from_bytes_until_nul(rest) {
                at.go_on()?;
                let found = statat(folder, name, AtFlags::empty())
                    .map_err(BenchError::os("look at files of", folder.path()))?;
                self.wrong += u64::from(found.st_size as u64 != self.flat.size);
                self.seen += 1;
                rest = &rest[name.count_bytes() + 1..];
                at.recorder.part(&mut lap, stat);
            }
        }
        at.recorder.whole(&lap, total);
        Ok(Work {
            ops: self.seen + self.shards,
            ..Work::default()
        })
    }

    fn verify(&mut self, _at: &mut Stage<'_>) -> Result<Verify> {
        let missing = self.flat.count.abs_diff(self.seen);
        let checked = self.flat.count.max(self.seen);
        Ok(Verify {
            checked,
            bad: (self.wrong + missing).min(checked),
        })
    }
}
