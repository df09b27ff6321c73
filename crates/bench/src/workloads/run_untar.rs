//! An archive extracted into a folder.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use super::archive::{self, Compression, Packing};
use super::dataset::{self, Plan};
use super::run_tar::{made, pack};
use super::source::Source;
use crate::spec::Fsync;
use crate::workload::{Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Param, Result, Verify};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Mixed",
    help: "Extract a tar archive",
    interfaces: super::ALSO_MOUNT,
    reads: &["archive"],
    params: &[
        Param::new(
            "archive",
            Kind::Path,
            "",
            "archive to extract [default: one that is made]",
        ),
        archive::NUM_FILES,
        archive::FILES_OF,
        Param::new(
            "compression",
            Kind::Choice(&["auto", "none", "gz", "bz2", "xz", "zst"]),
            "auto",
            "of the archive; auto: by its first bytes, and none for one that is made",
        ),
        archive::LEVEL,
        Param::new(
            "compare",
            Kind::Choice(&["content", "size"]),
            "content",
            "what is compared with the archive afterwards",
        ),
    ],
    samples: |params| Ok(params.count("num_files")?.saturating_mul(2)),
    ..Registration::new("run_untar", |params| {
        Ok(Box::new(RunUntar {
            archive: params.path("archive")?,
            made: made(params)?,
            packing: Packing::new(params.text("compression")?, params)?,
            compression: Compression::parse(params.text("compression")?),
            compare_content: params.text("compare")? == "content",
            path: PathBuf::new(),
        }))
    })
};

struct RunUntar {
    archive: Option<PathBuf>,
    made: Plan,
    packing: Packing,
    /// Found out where nothing is said.
    compression: Option<Compression>,
    compare_content: bool,
    path: PathBuf,
}

impl RunUntar {
    fn make(&mut self, at: &Stage<'_>) -> Result<()> {
        self.made.seed = at.spec.seed;
        let root = at.own.make("source")?;
        dataset::make(at, &self.made, &root)?;
        let members = archive::members(root.path(), at)?;
        pack(
            at,
            self.packing,
            &Source::Calls(root.path().into()),
            &members,
            &self.path,
        )?;
        at.own.remove("source")
    }

    fn target(at: &Stage<'_>) -> PathBuf {
        at.own.path().join(format!("extracted-{:05}", at.iteration))
    }

    fn open(&self) -> Result<tar::Archive<Box<dyn std::io::Read>>> {
        Ok(tar::Archive::new(archive::open(
            &self.path,
            self.compression,
        )?))
    }

    fn fault(&self) -> impl FnOnce(std::io::Error) -> BenchError {
        BenchError::io("extract archive", &self.path)
    }

    /// Whether an extracted file has its size, its mode and, if asked for, its content.
    fn is_right(
        &self,
        entry: &mut tar::Entry<'_, Box<dyn std::io::Read>>,
        file: &Path,
    ) -> Result<bool> {
        let Ok(found) = file.symlink_metadata() else {
            return Ok(false);
        };
        let mode = entry.header().mode().unwrap_or(0);
        if found.len() != entry.size() || found.permissions().mode() & 0o777 != mode & 0o777 {
            return Ok(false);
        }
        Ok(!self.compare_content || archive::is_same(entry, file)?)
    }
}

impl Workload for RunUntar {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        match self.archive.clone() {
            Some(archive) => self.path = archive,
            None => {
                let name = format!("archive.{}", self.packing.compression.ending());
                self.path = at.own.path().join(name);
                self.make(at)?;
            }
        }
        // That it can be opened is known before the clock runs.
        self.open().map(|_| ())
    }

    fn set_up(&mut self, at: &mut Stage<'_>) -> Result<()> {
        at.own
            .make(&format!("extracted-{:05}", at.iteration))
            .map(|_| ())
    }

    fn reads(&self) -> Vec<PathBuf> {
        vec![self.path.clone()]
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let ops = ["extract_file", "fsync", "extract_total"].map(|name| at.op(name));
        let [extract, fsync, total] = ops;
        let target = Self::target(at);
        let mut work = Work::default();
        let mut lap = at.recorder.lap();
        let mut archive = self.open()?;
        archive.set_preserve_permissions(true);
        for entry in archive.entries().map_err(self.fault())? {
            at.go_on()?;
            let mut entry = entry.map_err(self.fault())?;
            let name = entry.path().map_err(self.fault())?.into_owned();
            // `unpack_in` also refuses a way through a link out of the folder.
            let inside = archive::is_plain(&name);
            if !inside || !entry.unpack_in(&target).map_err(self.fault())? {
                return Err(BenchError::Content(format!(
                    "`{}` leads out of its folder by `{}`: it is not extracted further",
                    self.path.display(),
                    name.display()
                )));
            }
            at.recorder.part(&mut lap, extract);
            let is_file = entry.header().entry_type().is_file();
            if is_file && at.spec.fsync != Fsync::None {
                let path = target.join(&name);
                File::open(&path)
                    .and_then(|file| file.sync_all())
                    .map_err(BenchError::io("write back", &path))?;
                at.recorder.part(&mut lap, fsync);
            }
            work.ops += 1;
            work.bytes += if is_file { entry.size() } else { 0 };
        }
        // The end of the archive is no file, but part of the whole.
        let lap = at.recorder.restarted(lap);
        at.recorder.whole(&lap, total);
        Ok(work)
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let target = Self::target(at);
        let mut found = Verify::default();
        let mut archive = self.open()?;
        for entry in archive.entries().map_err(self.fault())? {
            at.go_on()?;
            let mut entry = entry.map_err(self.fault())?;
            let path = target.join(entry.path().map_err(self.fault())?);
            let good = if entry.header().entry_type().is_file() {
                self.is_right(&mut entry, &path)?
            } else {
                path.symlink_metadata().is_ok()
            };
            found.checked += 1;
            found.bad += u64::from(!good);
        }
        Ok(found)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        at.own.remove(&format!("extracted-{:05}", at.iteration))
    }
}
