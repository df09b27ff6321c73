//! Files unlinked.

use rustix::fs::{AtFlags, unlinkat};

use super::flat::{Flat, holds, shown, sync_folder};
use crate::folder::Folder;
use crate::spec::Fsync;
use crate::workload::{FILE_SIZE, NUM_COPIES, Registration, Stage, Work, Workload};
use crate::{BenchError, Result, Verify};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Metadata",
    help: "Unlink files",
    interfaces: super::ALSO_FSSPEC,
    params: &[NUM_COPIES, FILE_SIZE],
    samples: |params| params.count("num_copies"),
    ..Registration::new("delete_files", |params| {
        Ok(Box::new(DeleteFiles {
            flat: Flat::new(params)?,
            folder: None,
        }))
    })
};

struct DeleteFiles {
    flat: Flat,
    folder: Option<Folder>,
}

impl DeleteFiles {
    fn folder(&self) -> Result<&Folder> {
        let missing = || BenchError::Content("the folder of the files was not made".into());
        self.folder.as_ref().ok_or_else(missing)
    }
}

impl Workload for DeleteFiles {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.flat.prepare(at, "file_")
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let folder = at.own.make(&format!("files-{:05}", at.iteration))?;
        self.flat.make(at, &folder, 0..self.flat.count)?;
        self.folder = Some(folder);
        Ok(())
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let (unlink, fsync_dir) = (at.op("unlink"), at.op("fsync_dir"));
        at.recorder.reserve(unlink, self.flat.count as usize);
        let folder = self.folder()?;
        let mut lap = at.recorder.lap();
        for name in self.flat.names() {
            at.go_on()?;
            unlinkat(folder, name, AtFlags::empty()).map_err(|error| {
                BenchError::os("delete", &folder.path().join(shown(name)))(error)
            })?;
            at.recorder.part(&mut lap, unlink);
        }
        if at.spec.fsync == Fsync::FileAndFolder {
            sync_folder(folder)?;
            at.recorder.part(&mut lap, fsync_dir);
        }
        Ok(Work {
            ops: self.flat.count,
            ..Work::default()
        })
    }

    fn verify(&mut self, _at: &mut Stage<'_>) -> Result<Verify> {
        holds(self.folder()?, 0)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.folder = None;
        at.own.remove(&format!("files-{:05}", at.iteration))
    }
}
