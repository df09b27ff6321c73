//! Files read in chunks, with their digests.

use std::path::{Path, PathBuf};
use std::time::Instant;

use fast_md5::Md5;
use forebay_analysis::random::Random;
use sha2::{Digest, Sha256};

use super::dataset::{self, Entry, Plan};
use super::source::Source;
use crate::client::Client;
use crate::measure::nanoseconds;
use crate::plan::must_fit;
use crate::spec::Interface;
use crate::workload::{NUM_COPIES, Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Op, Param, Params, Result, Verify, content};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Dataloading",
    help: "Read every file of a data set in chunks and compare its digest",
    interfaces: super::ALL_INTERFACES,
    reads: &["dataset"],
    params: &[
        Param::new(
            "dataset",
            Kind::Path,
            "",
            "folder to read, made by create_dataset or any other [default: one that is made]",
        ),
        NUM_COPIES,
        Param::new(
            "file_size",
            Kind::Size,
            "32KiB",
            "bytes of each file that is made",
        ),
        Param::new(
            "dir_shards",
            Kind::Count,
            "1",
            "folders that the files made are spread over",
        ),
        Param::new(
            "chunk_size",
            Kind::Size,
            "8KiB",
            "bytes asked for by one read",
        ),
        Param::new(
            "pattern",
            Kind::Choice(&["sequential", "random", "strided"]),
            "sequential",
            "order of the files",
        ),
        Param::new(
            "stride",
            Kind::Count,
            "16",
            "files from one to the next with pattern=strided",
        ),
        Param::new(
            "same_order",
            Kind::Flag,
            "true",
            "all ranks read in the same order; else each by a seed of its own",
        ),
        Param::new(
            "hash",
            Kind::Choice(&["md5", "sha256", "none"]),
            "md5",
            "digest that is computed",
        ),
        Param::new(
            "bypass_cache",
            Kind::Flag,
            "false",
            "drop each file from the page cache after it was read",
        ),
    ],
    samples: |params| Ok(params.count("num_copies")?.saturating_mul(OPS)),
    ..Registration::new("md5_check", |params| Ok(Box::new(Md5Check::new(params)?)))
};

/// Operations that are timed for a file, at most: open, read, hash, evict, close, and all of it.
const OPS: u64 = 6;
/// The largest chunk.
const CHUNK: u64 = 1 << 30;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Hash {
    Md5,
    Sha256,
    None,
}

#[derive(Clone, Copy)]
enum Order {
    Sequential,
    Random,
    Strided(usize),
}

struct Md5Check {
    dataset: Option<PathBuf>,
    plan: Plan,
    chunk: Vec<u8>,
    order: Order,
    same_order: bool,
    hash: Hash,
    bypass: bool,
    root: PathBuf,
    source: Source,
    files: Vec<Entry>,
    /// In the order they are read.
    turn: Vec<u32>,
    /// Whether digests of this run's own first reading are what later ones are compared with.
    own_digests: bool,
    checked: Verify,
}

impl Md5Check {
    fn new(params: &Params) -> Result<Self> {
        let chunk = params.positive("chunk_size")?;
        let stride = params.positive("stride")?;
        if chunk > CHUNK {
            return Err(BenchError::Usage(format!(
                "`chunk_size` must be at most {CHUNK}: {chunk}"
            )));
        }
        Ok(Self {
            dataset: params.path("dataset")?,
            plan: Plan {
                classes: vec![(params.count("file_size")?, params.positive("num_copies")?)],
                shards: params.positive("dir_shards")?.min(100_000),
                seed: 0,
            },
            chunk: vec![0; chunk as usize],
            order: match params.text("pattern")? {
                "random" => Order::Random,
                "strided" => Order::Strided(usize::try_from(stride).unwrap_or(usize::MAX)),
                _ => Order::Sequential,
            },
            same_order: params.flag("same_order")?,
            hash: match params.text("hash")? {
                "sha256" => Hash::Sha256,
                "none" => Hash::None,
                _ => Hash::Md5,
            },
            bypass: params.flag("bypass_cache")?,
            root: PathBuf::new(),
            source: Source::Calls(PathBuf::new()),
            files: Vec::new(),
            turn: Vec::new(),
            own_digests: false,
            checked: Verify::default(),
        })
    }

    fn wanted<'a>(&self, entry: &'a Entry) -> Option<&'a String> {
        match self.hash {
            Hash::Md5 => entry.md5.as_ref(),
            Hash::Sha256 => entry.sha256.as_ref(),
            Hash::None => None,
        }
    }

    /// Reads one file and compares it; its bytes.
    fn one(&mut self, at: &mut Stage<'_>, ops: &[Op; 6], number: usize) -> Result<u64> {
        let [open, read, hash, evict, close, total] = *ops;
        let mut lap = at.recorder.lap();
        let mut file = self.source.file(&self.files[number].path)?;
        at.recorder.part(&mut lap, open);
        let mut digest = Digester::new(self.hash);
        let (mut bytes, mut reading, mut hashing) = (0, 0, 0);
        // One look at the clock between reading and hashing of each chunk.
        let mut clock = at.spec.time_ops.then(Instant::now);
        let mut since = || match &mut clock {
            Some(last) => {
                let now = Instant::now();
                nanoseconds(now - std::mem::replace(last, now))
            }
            None => 0,
        };
        loop {
            let count = file.read(&mut self.chunk)?;
            reading += since();
            if count == 0 {
                break;
            }
            at.go_on()?;
            digest.update(&self.chunk[..count]);
            hashing += since();
            bytes += count as u64;
        }
        let found = digest.finish();
        hashing += since();
        at.recorder.add(read, reading);
        at.recorder.add(hash, hashing);
        let mut lap_end = at.recorder.restarted(lap);
        if self.bypass {
            file.forget()?;
            at.recorder.part(&mut lap_end, evict);
        }
        file.close()?;
        at.recorder.part(&mut lap_end, close);
        at.recorder.whole(&lap_end, total);
        self.compare(number, bytes, found);
        Ok(bytes)
    }

    fn compare(&mut self, number: usize, bytes: u64, found: Option<String>) {
        let entry = &self.files[number];
        let wanted = self.wanted(entry);
        let same = entry.bytes == bytes && (wanted.is_none() || wanted == found.as_ref());
        self.checked.checked += 1;
        self.checked.bad += u64::from(!same);
        if wanted.is_none() && found.is_some() {
            self.own_digests = true;
            let entry = &mut self.files[number];
            match self.hash {
                Hash::Md5 => entry.md5 = found,
                Hash::Sha256 => entry.sha256 = found,
                Hash::None => {}
            }
        }
    }
}

/// The order in which `count` files are read.
fn turn(count: usize, order: Order, seed: u64) -> Vec<u32> {
    let mut turn: Vec<u32> = (0..count as u32).collect();
    match order {
        Order::Sequential => {}
        Order::Random => {
            let mut random = Random::new(seed);
            for last in (1..turn.len()).rev() {
                turn.swap(last, random.below(last + 1));
            }
        }
        Order::Strided(stride) => {
            let stride = stride.min(count.max(1));
            let files = (0..stride).flat_map(|first| (first..count).step_by(stride));
            turn = files.map(|file| file as u32).collect();
        }
    }
    turn
}

enum Digester {
    Md5(Md5),
    Sha256(Sha256),
    None,
}

impl Digester {
    fn new(hash: Hash) -> Self {
        match hash {
            Hash::Md5 => Self::Md5(Md5::new()),
            Hash::Sha256 => Self::Sha256(Sha256::new()),
            Hash::None => Self::None,
        }
    }

    fn update(&mut self, bytes: &[u8]) {
        match self {
            Self::Md5(digest) => digest.update(bytes),
            Self::Sha256(digest) => digest.update(bytes),
            Self::None => {}
        }
    }

    fn finish(self) -> Option<String> {
        match self {
            Self::Md5(digest) => Some(content::hex(&digest.finalize())),
            Self::Sha256(digest) => Some(content::hex(&digest.finalize())),
            Self::None => None,
        }
    }
}

impl Workload for Md5Check {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if self.bypass && at.spec.interface == Interface::Client {
            return Err(BenchError::Usage(
                "a client of Forebay has no way past the page cache: `bypass_cache` must be `false`"
                    .into(),
            ));
        }
        self.plan.seed = at.spec.seed;
        self.root = match &self.dataset {
            Some(dataset) => dataset.clone(),
            None => {
                if at.is_first() {
                    let root = at.shared.make("dataset")?;
                    dataset::make(at, &self.plan, &root)?;
                }
                at.meet()?;
                at.shared.path().join("dataset")
            }
        };
        self.files = dataset::read(at, &self.root)?;
        must_fit(at.spec, (self.files.len() as u64).saturating_mul(OPS))?;
        self.source = Source::open(at, &self.root, true)?;
        let rank = if self.same_order {
            0
        } else {
            u64::from(at.place.rank)
        };
        self.turn = turn(
            self.files.len(),
            self.order,
            at.spec.seed.wrapping_add(rank),
        );
        Ok(())
    }

    fn reads(&self) -> Vec<PathBuf> {
        let path = |entry: &Entry| self.root.join(Path::new(&entry.path));
        self.files.iter().map(path).collect()
    }

    fn held_elsewhere(&self) -> Option<String> {
        self.source.client().map(Client::served)
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let ops = ["open", "read", "hash", "evict", "close", "file_total"].map(|name| at.op(name));
        for op in ops {
            at.recorder.reserve(op, self.files.len());
        }
        self.checked = Verify::default();
        let mut work = Work::default();
        for turn in 0..self.turn.len() {
            at.go_on()?;
            work.bytes += self.one(at, &ops, self.turn[turn] as usize)?;
            work.ops += 1;
        }
        Ok(work)
    }

    fn verify(&mut self, _at: &mut Stage<'_>) -> Result<Verify> {
        Ok(self.checked)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn files_come_in_order_by_strides_or_at_random() {
        assert_eq!(turn(4, Order::Sequential, 0), [0, 1, 2, 3]);
        assert_eq!(turn(7, Order::Strided(3), 0), [0, 3, 6, 1, 4, 2, 5]);
        assert_eq!(turn(50, Order::Random, 5), turn(50, Order::Random, 5));
        assert_ne!(turn(50, Order::Random, 5), turn(50, Order::Random, 6));
    }

    proptest! {
        #[test]
        fn md5_in_any_chunks_is_what_another_library_says(
            bytes in proptest::collection::vec(any::<u8>(), 0..2000),
            chunk in 1usize..300,
        ) {
            let mut digester = Digester::new(Hash::Md5);
            bytes.chunks(chunk).for_each(|chunk| digester.update(chunk));
            let theirs = <md5::Md5 as md5::Digest>::digest(&bytes);
            prop_assert_eq!(digester.finish(), Some(content::hex(&theirs)));
        }

        #[test]
        fn every_order_reads_every_file_once(count in 0usize..200, stride in 1usize..300, seed: u64) {
            for order in [Order::Sequential, Order::Random, Order::Strided(stride)] {
                let mut files = turn(count, order, seed);
                files.sort_unstable();
                prop_assert_eq!(files, (0..count as u32).collect::<Vec<_>>());
            }
        }
    }
}
