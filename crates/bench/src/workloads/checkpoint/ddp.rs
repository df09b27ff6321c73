//! One file of the whole state: one rank writes it, all read it.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::fs::OFlags;
use sha2::{Digest, Sha256};

use super::{CKPT, Common, Described, SIDECAR, check, memory, tensor_seed};
use crate::folder::Folder;
use crate::spec::Fsync;
use crate::workload::{Stage, Work, Workload};
use crate::workloads::flat::{both, sync_folder};
use crate::{BenchError, Params, Result, Verify, content, files, sys};

/// The whole state, as a model has it in memory.
fn state(at: &Stage<'_>, common: &Common) -> Result<Vec<u8>> {
    let mut state = memory(at, common.model.bytes())?;
    let mut rest = state.as_mut_slice();
    for (number, tensor) in common.model.tensors().enumerate() {
        at.go_on()?;
        let (now, later) = rest.split_at_mut(tensor.bytes() as usize);
        content::seeded(tensor_seed(at.spec.seed, number as u64), now);
        rest = later;
    }
    Ok(state)
}

pub(super) struct Save {
    common: Common,
    /// Empty on all ranks but the first.
    state: Vec<u8>,
    folder: Option<Folder>,
}

impl Save {
    pub(super) fn new(params: &Params) -> Result<Self> {
        Ok(Self {
            common: Common::new(params)?,
            state: Vec::new(),
            folder: None,
        })
    }

    fn name(at: &Stage<'_>) -> String {
        format!("checkpoint-{:05}", at.iteration)
    }

    fn save(&self, at: &mut Stage<'_>, folder: &Folder) -> Result<()> {
        let ops = ["open", "write", "fsync", "close", "fsync_dir", "save_total"];
        let [open, write, fsync, close, fsync_dir, total] = ops.map(|name| at.op(name));
        let path = folder.path().join(CKPT);
        let fault = |act| BenchError::os(act, &path);
        let mut lap = at.recorder.lap();
        let file = files::create(folder, c"ckpt.pt", OFlags::empty()).map_err(fault("create"))?;
        at.recorder.part(&mut lap, open);
        for chunk in self.state.chunks(self.common.chunk) {
            at.go_on()?;
            files::write_all(&file, chunk).map_err(fault("write"))?;
        }
        at.recorder.part(&mut lap, write);
        if at.spec.fsync != Fsync::None {
            rustix::fs::fsync(&file).map_err(fault("write back"))?;
            at.recorder.part(&mut lap, fsync);
        }
        sys::close(file).map_err(BenchError::io("close", &path))?;
        at.recorder.part(&mut lap, close);
        if at.spec.fsync == Fsync::FileAndFolder {
            sync_folder(folder)?;
            at.recorder.part(&mut lap, fsync_dir);
        }
        at.recorder.whole(&lap, total);
        Ok(())
    }
}

impl Workload for Save {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if at.is_first() {
            self.state = state(at, &self.common)?;
        }
        Ok(())
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if at.is_first() {
            self.folder = Some(at.shared.make(&Self::name(at))?);
        }
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let began = Instant::now();
        self.common.train(at)?;
        at.barrier()?;
        let paused = began.elapsed();
        let Some(folder) = &self.folder else {
            return Ok(Work {
                paused,
                ..Work::default()
            });
        };
        self.save(at, folder)?;
        let bytes = self.state.len() as u64;
        Ok(Work {
            ops: 1,
            bytes,
            paused,
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let Some(folder) = &self.folder else {
            return Ok(Verify::default());
        };
        let described = Described::new(at, self.common.model, true);
        files::write_whole(&folder.path().join(SIDECAR), &described.json())?;
        let path = folder.path().join(CKPT);
        let file = File::open(&path).map_err(BenchError::io("open", &path))?;
        let mut buffer = vec![0; 1 << 20];
        let (mut same, mut rest) = (true, self.state.as_slice());
        while same {
            at.go_on()?;
            let count =
                files::read_full(&file, &mut buffer).map_err(BenchError::os("read", &path))?;
            same = rest.get(..count) == Some(&buffer[..count]);
            rest = rest.get(count..).unwrap_or_default();
            if count == 0 {
                break;
            }
        }
        Ok(Verify {
            checked: 1,
            bad: u64::from(!same || !rest.is_empty()),
        })
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        match self.folder.take() {
            Some(_) => at.shared.remove(&Self::name(at)),
            None => Ok(()),
        }
    }
}

pub(super) struct Load {
    common: Common,
    checkpoint: Option<PathBuf>,
    path: PathBuf,
    seed: u64,
    state: Vec<u8>,
    read: usize,
}

impl Load {
    pub(super) fn new(params: &Params) -> Result<Self> {
        Ok(Self {
            common: Common::new(params)?,
            checkpoint: params.path("checkpoint")?,
            path: PathBuf::new(),
            seed: 0,
            state: Vec::new(),
            read: 0,
        })
    }

    fn make(&self, at: &mut Stage<'_>) -> Result<()> {
        let folder = at.shared.make("checkpoint")?;
        let path = folder.path().join(CKPT);
        std::fs::write(&path, state(at, &self.common)?).map_err(BenchError::io("write", &path))?;
        let described = Described::new(at, self.common.model, true);
        files::write_whole(&folder.path().join(SIDECAR), &described.json())
    }
}

impl Workload for Load {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        if self.checkpoint.is_none() && at.is_first() {
            self.make(at)?;
        }
        at.meet()?;
        let given = self.checkpoint.clone();
        let folder = given.unwrap_or_else(|| at.shared.path().join("checkpoint"));
        // A checkpoint is named by its folder or by its file.
        let folder = if folder.is_file() {
            folder.parent().unwrap_or(Path::new(""))
        } else {
            &folder
        };
        self.path = folder.join(CKPT);
        let sidecar = folder.join(SIDECAR);
        let described = Described::read(&sidecar)?;
        described.must_be(self.common.model, &sidecar)?;
        self.seed = described.seed;
        self.state = memory(at, self.common.model.bytes())?;
        Ok(())
    }

    fn reads(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let ops = ["open", "read", "close", "load_total"].map(|name| at.op(name));
        let [open, read, close, total] = ops;
        let fault = || BenchError::io("read", &self.path);
        let mut lap = at.recorder.lap();
        let file = File::open(&self.path).map_err(fault())?;
        at.recorder.part(&mut lap, open);
        self.read = 0;
        for chunk in self.state.chunks_mut(self.common.chunk) {
            at.go_on()?;
            self.read += files::read_full(&file, chunk)
                .map_err(|error| BenchError::os("read", &self.path)(error))?;
        }
        at.recorder.part(&mut lap, read);
        sys::close(file.into()).map_err(fault())?;
        at.recorder.part(&mut lap, close);
        at.recorder.whole(&lap, total);
        at.barrier()?;
        let began = Instant::now();
        self.common.train(at)?;
        Ok(Work {
            ops: 1,
            bytes: self.read as u64,
            paused: began.elapsed(),
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let mut found = Verify {
            checked: 1,
            bad: u64::from(self.read != self.state.len()),
        };
        let mut rest = self.state.as_slice();
        for (number, tensor) in self.common.model.tensors().enumerate() {
            at.go_on()?;
            let (now, later) = rest.split_at(tensor.bytes() as usize);
            found = both(found, check(self.seed, number as u64, 0, now));
            rest = later;
        }
        // All ranks must have the same state.
        let digests = at.gather(&Sha256::digest(&self.state))?;
        found.checked += 1;
        found.bad += u64::from(digests.windows(2).any(|two| two[0] != two[1]));
        Ok(found)
    }
}
