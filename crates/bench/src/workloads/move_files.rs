//! Files renamed from one folder to another.

use rustix::fs::renameat;

use super::flat::{Flat, both, holds, shown, sync_folder};
use crate::folder::Folder;
use crate::spec::Fsync;
use crate::workload::{FILE_SIZE, NUM_COPIES, Registration, Stage, Work, Workload};
use crate::{BenchError, Result, Verify};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Metadata",
    help: "Rename files from one folder to another",
    interfaces: super::ALSO_FSSPEC,
    params: &[NUM_COPIES, FILE_SIZE],
    samples: |params| params.count("num_copies"),
    ..Registration::new("move_files", |params| {
        Ok(Box::new(MoveFiles {
            flat: Flat::new(params)?,
            folders: None,
        }))
    })
};

struct MoveFiles {
    flat: Flat,
    /// Where the files are, and where they go.
    folders: Option<(Folder, Folder)>,
}

impl MoveFiles {
    fn folders(&self) -> Result<&(Folder, Folder)> {
        let missing = || BenchError::Content("the folders of the files were not made".into());
        self.folders.as_ref().ok_or_else(missing)
    }
}

impl Workload for MoveFiles {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.flat.prepare(at, "file_")
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let folder = at.own.make(&format!("files-{:05}", at.iteration))?;
        let (src, dst) = (folder.make("src")?, folder.make("dst")?);
        self.flat.make(at, &src, 0..self.flat.count)?;
        self.folders = Some((src, dst));
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let (rename, fsync_dir) = (at.op("rename"), at.op("fsync_dir"));
        at.recorder.reserve(rename, self.flat.count as usize);
        let (src, dst) = self.folders()?;
        let mut lap = at.recorder.lap();
        for name in self.flat.names() {
            at.go_on()?;
            renameat(src, name, dst, name)
                .map_err(|error| BenchError::os("move", &src.path().join(shown(name)))(error))?;
            at.recorder.part(&mut lap, rename);
        }
        if at.spec.fsync == Fsync::FileAndFolder {
            sync_folder(src)?;
            sync_folder(dst)?;
            at.recorder.part(&mut lap, fsync_dir);
        }
        Ok(Work {
            ops: self.flat.count,
            ..Work::default()
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let (src, dst) = self.folders()?;
        let moved = self.flat.verify(at, dst, 0..self.flat.count, false)?;
        Ok(both(
            moved,
            both(holds(src, 0)?, holds(dst, self.flat.count)?),
        ))
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.folders = None;
        at.own.remove(&format!("files-{:05}", at.iteration))
    }
}
