//! A folder of shards read: each rank its part, or the whole state on every rank.

use std::collections::HashMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::Instant;

use sha2::{Digest, Sha256};

use super::fsdp::{file_name, make};
use super::model::Piece;
use super::{Common, Described, METADATA, check, memory};
use crate::workload::{Stage, Work, Workload};
use crate::workloads::flat::both;
use crate::{BenchError, Params, Result, Verify};

/// Bytes of each rank in one round of the exchange.
const ROUND: usize = 4 << 20;

/// What a rank ends with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// Its own part.
    Shards,
    /// All of the state, by exchange with the others.
    Gather,
    /// All of the state, read.
    ReadAll,
}

/// Where bytes of the state lie in the files of the checkpoint.
#[derive(Clone, Copy, Debug)]
struct Source {
    rank: u32,
    file: u64,
    at: u64,
    bytes: usize,
}

pub(super) struct Load {
    common: Common,
    how: How,
    checkpoint: Option<PathBuf>,
    single: bool,
    full: bool,
    reshard_to: u32,
    shift: u32,
    root: PathBuf,
    described: Option<Described>,
    /// What this rank reads, and where from; in order of `state`.
    pieces: Vec<Piece>,
    sources: Vec<Source>,
    state: Vec<u8>,
    /// The whole state, by rank, with [`How::Gather`] and [`How::ReadAll`].
    whole: Vec<u8>,
}

impl Load {
    pub(super) fn new(params: &Params, how: How) -> Result<Self> {
        let shards = how == How::Shards;
        let number = |name| -> Result<u32> {
            let count = if shards { params.count(name)? } else { 0 };
            u32::try_from(count)
                .map_err(|_| BenchError::Usage(format!("`{name}` is too large: {count}")))
        };
        Ok(Self {
            common: Common::new(params)?,
            how,
            checkpoint: params.path("checkpoint")?,
            single: params.flag("single_file_per_rank")?,
            full: shards && params.flag("full_state_dict")?,
            reshard_to: number("reshard_to")?,
            shift: number("reader_shift")?,
            root: PathBuf::new(),
            described: None,
            pieces: Vec::new(),
            sources: Vec::new(),
            state: Vec::new(),
            whole: Vec::new(),
        })
    }

    /// What `rank` of `world` reads.
    fn wanted(&self, rank: u32, world: u32) -> Vec<Piece> {
        if rank >= world {
            return Vec::new();
        }
        self.common.model.pieces(rank, world, true)
    }

    /// Where the bytes of `wanted` lie in files that `saved` ranks wrote.
    fn find(&self, wanted: &[Piece], described: &Described) -> Vec<Source> {
        let saved = described.world_size;
        let shapes: Vec<_> = self.common.model.tensors().collect();
        let files: Vec<HashMap<u64, Piece>> = (0..saved)
            .map(|rank| {
                let pieces = self
                    .common
                    .model
                    .pieces(rank, saved, described.single_file_per_rank);
                pieces
                    .into_iter()
                    .map(|piece| (piece.tensor, piece))
                    .collect()
            })
            .collect();
        let mut sources = Vec::new();
        for piece in wanted {
            let end = piece.start + piece.bytes;
            let shape = shapes[piece.tensor as usize];
            for rank in 0..saved {
                let (first, last) = shape.part(rank, saved);
                let (start, stop) = (piece.start.max(first), end.min(last));
                if let Some(held) = files[rank as usize].get(&piece.tensor)
                    && start < stop
                {
                    sources.push(Source {
                        rank,
                        file: held.file,
                        at: held.at + (start - first),
                        bytes: (stop - start) as usize,
                    });
                }
            }
        }
        sources
    }

    /// Reads what `sources` name into `out`, opening each file once.
    fn read(&self, at: &Stage<'_>, sources: &[Source], out: &mut [u8]) -> Result<()> {
        let mut open: HashMap<(u32, u64), File> = HashMap::new();
        let mut rest = out;
        for source in sources {
            let path = || self.root.join(file_name(source.rank, source.file));
            let key = (source.rank, source.file);
            // One file in most layouts; with many, only the last few are needed again.
            if open.len() >= 64 && !open.contains_key(&key) {
                open.clear();
            }
            let file = match open.entry(key) {
                std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
                std::collections::hash_map::Entry::Vacant(place) => {
                    let path = path();
                    place.insert(File::open(&path).map_err(BenchError::io("open", &path))?)
                }
            };
            let (now, later) = rest.split_at_mut(source.bytes);
            for (number, chunk) in now.chunks_mut(self.common.chunk).enumerate() {
                at.go_on()?;
                let offset = source.at + (number * self.common.chunk) as u64;
                file.read_exact_at(chunk, offset)
                    .map_err(|error| BenchError::io("read", &path())(error))?;
            }
            rest = later;
        }
        Ok(())
    }

    /// The full state from the parts of all ranks, which each brings in rounds.
    fn gather(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let sizes = at.gather(&(self.state.len() as u64).to_le_bytes())?;
        let size = |bytes: &Vec<u8>| {
            let bytes = bytes.as_slice().try_into().unwrap_or([0; 8]);
            u64::from_le_bytes(bytes) as usize
        };
        let sizes: Vec<usize> = sizes.iter().map(size).collect();
        let mut starts = Vec::with_capacity(sizes.len());
        let mut end = 0usize;
        for size in &sizes {
            starts.push(end);
            end += size;
        }
        if end != self.whole.len() {
            return Err(BenchError::Content(format!(
                "the ranks have {end} bytes of a state of {}",
                self.whole.len()
            )));
        }
        let rounds = sizes
            .iter()
            .map(|size| size.div_ceil(ROUND))
            .max()
            .unwrap_or(0);
        for round in 0..rounds {
            let part = |size: usize| (round * ROUND).min(size)..((round + 1) * ROUND).min(size);
            let mine = self.state[part(self.state.len())].to_vec();
            let all = at.gather(&mine)?;
            for ((bytes, size), start) in all.iter().zip(&sizes).zip(&starts) {
                let place = part(*size);
                let place = start + place.start..start + place.end;
                if bytes.len() != place.len() {
                    return Err(BenchError::Content("a rank brought too little".into()));
                }
                self.whole[place].copy_from_slice(bytes);
            }
        }
        Ok(())
    }

    /// Every piece of the whole state, in the order of `whole`: rank after rank.
    fn all(&self, world: u32) -> Vec<Piece> {
        (0..world)
            .flat_map(|rank| self.wanted(rank, world))
            .collect()
    }

    fn described(&self) -> Result<&Described> {
        let missing = || BenchError::Content("the checkpoint was not looked at".into());
        self.described.as_ref().ok_or_else(missing)
    }
}

impl Workload for Load {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        match self.checkpoint.clone() {
            Some(checkpoint) => self.root = checkpoint,
            None => {
                make(at, self.common.model, self.single)?;
                self.root = at.shared.path().join("checkpoint");
            }
        }
        let metadata = self.root.join(METADATA);
        let described = Described::read(&metadata)?;
        described.must_be(self.common.model, &metadata)?;
        let world = at.place.world_size;
        let readers = if self.reshard_to == 0 {
            world
        } else {
            self.reshard_to
        };
        // One that a node wrote is in its cache: another's may not be.
        let rank = (at.place.rank + self.shift % readers.max(1)) % world.max(readers);
        self.pieces = if self.full {
            self.wanted(0, 1)
        } else {
            self.wanted(rank, readers)
        };
        self.sources = self.find(&self.pieces, &described);
        if self.how != How::ReadAll {
            self.state = memory(at, self.pieces.iter().map(|piece| piece.bytes).sum())?;
        }
        if self.how != How::Shards {
            self.whole = memory(at, self.common.model.bytes())?;
        }
        self.described = Some(described);
        Ok(())
    }

    fn reads(&self) -> Vec<PathBuf> {
        let all = match (self.how, &self.described) {
            (How::ReadAll, Some(described)) => {
                let pieces = self.wanted(0, 1);
                self.find(&pieces, described)
            }
            _ => self.sources.clone(),
        };
        let mut names: Vec<(u32, u64)> = all.iter().map(|one| (one.rank, one.file)).collect();
        names.sort_unstable();
        names.dedup();
        let path = |(rank, file)| self.root.join(file_name(rank, file));
        names.into_iter().map(path).collect()
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let total = if self.how == How::Shards {
            "load_total"
        } else {
            "rl_total"
        };
        let ops = ["read_metadata", "read_shards", "consolidate", total].map(|name| at.op(name));
        let [read_metadata, read_shards, consolidate, total] = ops;
        let mut lap = at.recorder.lap();
        let described = Described::read(&self.root.join(METADATA))?;
        at.recorder.part(&mut lap, read_metadata);
        let mut bytes = self.state.len() as u64;
        if self.how == How::ReadAll {
            let sources = self.find(&self.all(at.place.world_size), &described);
            let mut whole = std::mem::take(&mut self.whole);
            let read = self.read(at, &sources, &mut whole);
            self.whole = whole;
            read?;
            bytes = self.whole.len() as u64;
            at.recorder.part(&mut lap, read_shards);
        } else {
            let mut state = std::mem::take(&mut self.state);
            let read = self.read(at, &self.sources, &mut state);
            self.state = state;
            read?;
            at.recorder.part(&mut lap, read_shards);
        }
        if self.how == How::Gather {
            self.gather(at)?;
            at.recorder.part(&mut lap, consolidate);
        }
        at.recorder.whole(&lap, total);
        at.barrier()?;
        let began = Instant::now();
        self.common.train(at)?;
        Ok(Work {
            ops: 1,
            bytes,
            paused: began.elapsed(),
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let seed = self.described()?.seed;
        let (pieces, state) = match self.how {
            How::Shards => (self.pieces.clone(), &self.state),
            _ => (self.all(at.place.world_size), &self.whole),
        };
        let mut found = Verify::default();
        let mut rest = state.as_slice();
        for piece in &pieces {
            at.go_on()?;
            let (now, later) = rest.split_at(piece.bytes as usize);
            found = both(found, check(seed, piece.tensor, piece.start, now));
            rest = later;
        }
        if self.how != How::Shards || self.full {
            let digests = at.gather(&Sha256::digest(state))?;
            found.checked += 1;
            found.bad += u64::from(digests.windows(2).any(|two| two[0] != two[1]));
        }
        Ok(found)
    }
}
