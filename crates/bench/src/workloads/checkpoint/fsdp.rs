//! A folder of shards, as `torch.distributed.checkpoint` lays it out: each rank writes its own
//! files, and then the first the metadata.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::model::{Model, Piece};
use super::{Common, Described, METADATA, check, memory, tensor_seed};
use crate::folder::Folder;
use crate::measure::nanoseconds;
use crate::spec::{Fsync, RunSpec};
use crate::workload::{Stage, Work, Workload};
use crate::workloads::flat::{both, sync_folder};
use crate::{BenchError, Params, Result, Stop, Verify, content, files, sys};

/// The name of a rank's file.
pub(super) fn file_name(rank: u32, file: u64) -> String {
    format!("__{rank}_{file}.distcp")
}

/// A part of the state with its place in the files, and its bytes in memory.
pub(super) fn part(
    at: &Stage<'_>,
    model: Model,
    rank: u32,
    single: bool,
) -> Result<(Vec<Piece>, Vec<u8>)> {
    let pieces = model.pieces(rank, at.place.world_size, single);
    let mut state = memory(at, pieces.iter().map(|piece| piece.bytes).sum())?;
    let mut rest = state.as_mut_slice();
    for piece in &pieces {
        at.go_on()?;
        let (now, later) = rest.split_at_mut(piece.bytes as usize);
        content::seeded_at(tensor_seed(at.spec.seed, piece.tensor), piece.start, now);
        rest = later;
    }
    Ok((pieces, state))
}

pub(super) struct Save {
    common: Common,
    threads: usize,
    single: bool,
    sync: bool,
    pieces: Vec<Piece>,
    state: Vec<u8>,
    folder: Option<Folder>,
}

/// How long one file took.
#[derive(Clone, Copy, Default)]
struct Times {
    open: u64,
    write: u64,
    fsync: Option<u64>,
    close: u64,
}

impl Save {
    pub(super) fn new(params: &Params) -> Result<Self> {
        let threads = params.positive("thread_count")?;
        let single = params.flag("single_file_per_rank")?;
        if threads > 256 || (single && threads > 1) {
            return Err(BenchError::Usage(format!(
                "`thread_count` must be at most 256, and 1 with single_file_per_rank=true: {threads}"
            )));
        }
        Ok(Self {
            common: Common::new(params)?,
            threads: threads as usize,
            single,
            sync: params.flag("sync_files")?,
            pieces: Vec::new(),
            state: Vec::new(),
            folder: None,
        })
    }

    fn name(at: &Stage<'_>) -> String {
        format!("checkpoint-{:05}", at.iteration)
    }

    /// The bytes of each of this rank's files. Pieces of one file lie behind one another.
    fn files(&self) -> Vec<(u64, &[u8])> {
        let mut sizes: BTreeMap<u64, usize> = BTreeMap::new();
        for piece in &self.pieces {
            *sizes.entry(piece.file).or_default() += piece.bytes as usize;
        }
        let mut rest = self.state.as_slice();
        let take = |(file, size)| {
            let (now, later) = rest.split_at(size);
            rest = later;
            (file, now)
        };
        sizes.into_iter().map(take).collect()
    }

    /// Writes one file. It may run in any thread, so it has no stage.
    fn write(&self, spec: &RunSpec, stop: &Stop, path: &Path, bytes: &[u8]) -> Result<Times> {
        let fault = || BenchError::io("write", path);
        let mut times = Times::default();
        let mut clock = Instant::now();
        let mut lap = || {
            let now = Instant::now();
            nanoseconds(now - std::mem::replace(&mut clock, now))
        };
        let file = File::create(path).map_err(fault())?;
        times.open = lap();
        for chunk in bytes.chunks(self.common.chunk) {
            stop.check(spec.timeout_s)?;
            files::write_all(&file, chunk).map_err(BenchError::os("write", path))?;
        }
        times.write = lap();
        if self.sync && spec.fsync != Fsync::None {
            file.sync_all()
                .map_err(BenchError::io("write back", path))?;
            times.fsync = Some(lap());
        }
        sys::close(file.into()).map_err(BenchError::io("close", path))?;
        times.close = lap();
        Ok(times)
    }

    /// Writes all files of this rank, by so many threads as are asked for.
    fn write_all(&self, at: &mut Stage<'_>, folder: &Path) -> Result<()> {
        let files = self.files();
        let rank = at.place.rank;
        let (spec, stop) = (at.spec, at.stop);
        let one = |&(file, bytes): &(u64, &[u8])| {
            self.write(spec, stop, &folder.join(file_name(rank, file)), bytes)
        };
        let times: Result<Vec<Times>> = if self.threads == 1 {
            files.iter().map(one).collect()
        } else {
            std::thread::scope(|scope| {
                let share = files.len().div_ceil(self.threads).max(1);
                let threads: Vec<_> = files
                    .chunks(share)
                    .map(|files| {
                        scope.spawn(move || files.iter().map(one).collect::<Result<Vec<_>>>())
                    })
                    .collect();
                let mut all = Vec::new();
                for thread in threads {
                    let gone = |_| BenchError::Content("a writing thread panicked".into());
                    all.extend(thread.join().map_err(gone)??);
                }
                Ok(all)
            })
        };
        let ops = ["open", "write", "fsync", "close"].map(|name| at.op(name));
        for times in times? {
            at.recorder.add(ops[0], times.open);
            at.recorder.add(ops[1], times.write);
            if let Some(fsync) = times.fsync {
                at.recorder.add(ops[2], fsync);
            }
            at.recorder.add(ops[3], times.close);
        }
        Ok(())
    }
}

impl Workload for Save {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let (model, rank) = (self.common.model, at.place.rank);
        (self.pieces, self.state) = part(at, model, rank, self.single)?;
        Ok(())
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if at.is_first() {
            at.shared.make(&Self::name(at))?;
        }
        at.meet()?;
        self.folder = Some(at.shared.enter(&Self::name(at))?);
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let began = Instant::now();
        self.common.train(at)?;
        at.barrier()?;
        let paused = began.elapsed();
        let Some(folder) = self.folder.take() else {
            return Err(BenchError::Content(
                "the checkpoint's folder was not made".into(),
            ));
        };
        let [metadata, total] = ["metadata", "save_total"].map(|name| at.op(name));
        let whole = at.recorder.lap();
        self.write_all(at, folder.path())?;
        // The metadata says that all shards are there, so it comes after them.
        at.barrier()?;
        if at.is_first() {
            let mut lap = at.recorder.lap();
            let described = Described::new(at, self.common.model, self.single);
            write_metadata(at, &folder, &described)?;
            at.recorder.part(&mut lap, metadata);
        }
        at.barrier()?;
        let whole = at.recorder.restarted(whole);
        at.recorder.whole(&whole, total);
        self.folder = Some(folder);
        Ok(Work {
            ops: self.files().len() as u64,
            bytes: self.state.len() as u64,
            paused,
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let Some(folder) = &self.folder else {
            return Ok(Verify::default());
        };
        let described = Described::read(&folder.path().join(METADATA))?;
        let mut found = Verify {
            checked: 1,
            bad: u64::from(described != Described::new(at, self.common.model, self.single)),
        };
        for piece in &self.pieces {
            at.go_on()?;
            let path = folder.path().join(file_name(at.place.rank, piece.file));
            let mut bytes = vec![0; piece.bytes as usize];
            let file = File::open(&path).map_err(BenchError::io("open", &path))?;
            let read = std::os::unix::fs::FileExt::read_exact_at(&file, &mut bytes, piece.at);
            read.map_err(BenchError::io("read", &path))?;
            found = both(
                found,
                check(at.spec.seed, piece.tensor, piece.start, &bytes),
            );
        }
        Ok(found)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.folder = None;
        if at.is_first() {
            return at.shared.remove(&Self::name(at));
        }
        Ok(())
    }
}

fn write_metadata(at: &Stage<'_>, folder: &Folder, described: &Described) -> Result<()> {
    let path: PathBuf = folder.path().join(METADATA);
    files::write_whole(&path, &described.json())?;
    if at.spec.fsync == Fsync::None {
        return Ok(());
    }
    let file = File::open(&path).map_err(BenchError::io("open", &path))?;
    file.sync_all()
        .map_err(BenchError::io("write back", &path))?;
    if at.spec.fsync == Fsync::FileAndFolder {
        sync_folder(folder)?;
    }
    Ok(())
}

/// Makes a checkpoint outside the timed part: every rank its files, and the first the metadata.
pub(super) fn make(at: &mut Stage<'_>, model: Model, single: bool) -> Result<()> {
    if at.is_first() {
        at.shared.make("checkpoint")?;
    }
    at.meet()?;
    let folder = at.shared.enter("checkpoint")?;
    let (pieces, state) = part(at, model, at.place.rank, single)?;
    let mut rest = state.as_slice();
    for piece in &pieces {
        let (now, later) = rest.split_at(piece.bytes as usize);
        rest = later;
        let path = folder.path().join(file_name(at.place.rank, piece.file));
        let file = File::options()
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path);
        let file = file.map_err(BenchError::io("create", &path))?;
        let written = std::os::unix::fs::FileExt::write_all_at(&file, now, piece.at);
        written.map_err(BenchError::io("write", &path))?;
    }
    at.meet()?;
    if at.is_first() {
        let described = Described::new(at, model, single);
        files::write_whole(&folder.path().join(METADATA), &described.json())?;
    }
    at.meet()
}
