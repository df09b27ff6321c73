//! Files made one after the other.

use rustix::fs::{Advice, OFlags, fadvise, fdatasync, fsync};

use super::flat::{Flat, shown, sync_folder};
use crate::folder::Folder;
use crate::spec::Fsync;
use crate::workload::{FILE_SIZE, NUM_COPIES, Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Op, Param, Params, Result, Verify, files, sys};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Metadata",
    help: "Create files of one size: open, write, close",
    interfaces: super::ALSO_FSSPEC,
    params: &[
        NUM_COPIES,
        FILE_SIZE,
        Param::new(
            "shared_dir",
            Kind::Flag,
            "false",
            "all ranks create in one folder",
        ),
        Param::new(
            "bypass_cache",
            Kind::Choice(&["none", "direct", "fadvise"]),
            "none",
            "past the page cache: O_DIRECT, or dropped from it after the write",
        ),
        Param::new(
            "content",
            Kind::Choice(&["random", "zero"]),
            "random",
            "what is written",
        ),
    ],
    samples: |params| Ok(params.count("num_copies")?.saturating_mul(6)),
    ..Registration::new("create_files", |params| {
        Ok(Box::new(CreateFiles::new(params)?))
    })
};

/// What O_DIRECT asks of addresses, sizes and places on every device that we know.
const ALIGN: usize = 4096;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Bypass {
    None,
    Direct,
    Fadvise,
}

struct CreateFiles {
    flat: Flat,
    shared: bool,
    bypass: Bypass,
    zero: bool,
    /// Where O_DIRECT writes from; with room to find an aligned place in it.
    buffer: Vec<u8>,
    folder: Option<Folder>,
}

struct Ops {
    open: Op,
    write: Op,
    fsync: Op,
    fsync_dir: Op,
    evict: Op,
    close: Op,
    total: Op,
}

impl Ops {
    fn new(at: &mut Stage<'_>, count: u64) -> Self {
        let ops = Self {
            open: at.op("open"),
            write: at.op("write"),
            fsync: at.op("fsync"),
            fsync_dir: at.op("fsync_dir"),
            evict: at.op("evict"),
            close: at.op("close"),
            total: at.op("file_total"),
        };
        for op in [ops.open, ops.write, ops.close, ops.total] {
            at.recorder.reserve(op, count as usize);
        }
        ops
    }
}

impl CreateFiles {
    fn new(params: &Params) -> Result<Self> {
        let flat = Flat::new(params)?;
        let bypass = match params.text("bypass_cache")? {
            "direct" => Bypass::Direct,
            "fadvise" => Bypass::Fadvise,
            _ => Bypass::None,
        };
        if bypass == Bypass::Direct && !flat.size.is_multiple_of(ALIGN as u64) {
            return Err(BenchError::Usage(format!(
                "`file_size` must be a multiple of {ALIGN} with bypass_cache=direct: {}",
                flat.size
            )));
        }
        Ok(Self {
            flat,
            shared: params.flag("shared_dir")?,
            bypass,
            zero: params.text("content")? == "zero",
            buffer: Vec::new(),
            folder: None,
        })
    }

    fn folder(&self) -> Result<&Folder> {
        let missing = || BenchError::Content("the folder of the files was not made".into());
        self.folder.as_ref().ok_or_else(missing)
    }

    fn one(&mut self, at: &mut Stage<'_>, ops: &Ops, index: u64) -> Result<()> {
        let folder = self.folder.as_ref();
        let folder = folder.ok_or_else(|| BenchError::Content("no folder".into()))?;
        let name = self.flat.names()[index as usize].as_c_str();
        let fault = |act| move |error| BenchError::os(act, &folder.path().join(shown(name)))(error);
        let direct = self.bypass == Bypass::Direct;
        let more = if direct {
            OFlags::DIRECT
        } else {
            OFlags::empty()
        };
        let aligned = direct || self.zero;
        let start = self.buffer.as_ptr().align_offset(ALIGN);
        if direct && !self.zero {
            // Before the clock runs: O_DIRECT writes from one aligned place.
            let mut end = start;
            for part in self.flat.parts(index) {
                self.buffer[end..end + part.len()].copy_from_slice(part);
                end += part.len();
            }
        }
        let mut lap = at.recorder.lap();
        let file = files::create(folder, name, more).map_err(fault("create"))?;
        at.recorder.part(&mut lap, ops.open);
        if aligned {
            let bytes = &self.buffer[start..start + self.flat.size as usize];
            files::write_all(&file, bytes).map_err(fault("write"))?;
        } else {
            for part in self.flat.parts(index) {
                files::write_all(&file, part).map_err(fault("write"))?;
            }
        }
        at.recorder.part(&mut lap, ops.write);
        if at.spec.fsync != Fsync::None {
            fsync(&file).map_err(fault("write back"))?;
            at.recorder.part(&mut lap, ops.fsync);
        }
        if self.bypass == Bypass::Fadvise {
            fdatasync(&file).map_err(fault("write back"))?;
            fadvise(&file, 0, None, Advice::DontNeed).map_err(fault("drop from the page cache"))?;
            at.recorder.part(&mut lap, ops.evict);
        }
        sys::close(file).map_err(BenchError::io("close", folder.path()))?;
        at.recorder.part(&mut lap, ops.close);
        if at.spec.fsync == Fsync::FileAndFolder {
            sync_folder(folder)?;
            at.recorder.part(&mut lap, ops.fsync_dir);
        }
        at.recorder.whole(&lap, ops.total);
        Ok(())
    }
}

impl Workload for CreateFiles {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let prefix = if self.shared {
            format!("file_{}_", at.place.rank)
        } else {
            "file_".to_owned()
        };
        self.flat.prepare(at, &prefix)?;
        if self.bypass == Bypass::Direct || self.zero {
            self.buffer = vec![0; self.flat.size as usize + ALIGN];
        }
        Ok(())
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let name = format!("files-{:05}", at.iteration);
        self.folder = Some(if self.shared {
            if at.is_first() {
                at.shared.make(&name)?;
            }
            at.meet()?;
            at.shared.enter(&name)?
        } else {
            at.own.make(&name)?
        });
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let ops = Ops::new(at, self.flat.count);
        for index in 0..self.flat.count {
            at.go_on()?;
            self.one(at, &ops, index)?;
        }
        Ok(Work {
            ops: self.flat.count,
            bytes: self.flat.count * self.flat.size,
            ..Work::default()
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let files = 0..self.flat.count;
        let mut found = self.flat.verify(at, self.folder()?, files, self.zero)?;
        let sharing = if self.shared { at.place.world_size } else { 1 };
        let all = self.flat.count * u64::from(sharing);
        found = super::flat::both(found, super::flat::holds(self.folder()?, all)?);
        Ok(found)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let Some(folder) = self.folder.take() else {
            return Ok(());
        };
        if !self.shared || at.is_first() {
            folder.clear()?;
        }
        Ok(())
    }
}
