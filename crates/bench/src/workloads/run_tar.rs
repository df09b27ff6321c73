//! A folder packed into an archive.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use forebay_dataset::tree::NodeKind;

use super::archive::{self, Encoder, Packing};
use super::dataset::{self, Plan};
use super::source::Source;
use crate::client::Client;
use crate::folder::Folder;
use crate::spec::{Fsync, Interface};
use crate::workload::{Registration, Stage, Work, Workload};
use crate::{BenchError, Kind, Param, Params, Result, Verify, sys};

pub(super) const REGISTRATION: Registration = Registration {
    category: "Mixed",
    help: "Pack a folder into a tar archive",
    interfaces: &[Interface::Native, Interface::Mount, Interface::Client],
    reads: &["src"],
    params: &[
        Param::new(
            "src",
            Kind::Path,
            "",
            "folder to pack [default: one that is made]",
        ),
        archive::NUM_FILES,
        archive::FILES_OF,
        Param::new(
            "compression",
            Kind::Choice(archive::COMPRESSIONS),
            "none",
            "of the archive",
        ),
        archive::LEVEL,
    ],
    ..Registration::new("run_tar", |params| {
        Ok(Box::new(RunTar {
            src: params.path("src")?,
            made: made(params)?,
            packing: Packing::new(params.text("compression")?, params)?,
            root: PathBuf::new(),
            source: Source::Calls(PathBuf::new()),
            members: Vec::new(),
            bytes: 0,
        }))
    })
};

/// The folder that is packed where none is named.
pub(super) fn made(params: &Params) -> Result<Plan> {
    let count = params.positive("num_files")?;
    if count > archive::MOST {
        return Err(BenchError::Usage(format!(
            "`num_files` must be at most {}: {count}",
            archive::MOST
        )));
    }
    Ok(Plan {
        classes: vec![(params.count("file_size")?, count)],
        shards: count.div_ceil(100).min(1_000),
        seed: 0,
    })
}

struct RunTar {
    src: Option<PathBuf>,
    made: Plan,
    packing: Packing,
    root: PathBuf,
    source: Source,
    members: Vec<PathBuf>,
    /// Of all files.
    bytes: u64,
}

impl RunTar {
    fn place(&self, at: &Stage<'_>) -> PathBuf {
        let name = format!(
            "archive-{:05}.{}",
            at.iteration,
            self.packing.compression.ending()
        );
        at.own.path().join(name)
    }
}

/// Packs `members` of a folder into a new file; the file, with all of it written.
pub(super) fn pack(
    at: &Stage<'_>,
    packing: Packing,
    source: &Source,
    members: &[PathBuf],
    file: &Path,
) -> Result<File> {
    let fault = || BenchError::io("write archive", file);
    let out = File::create_new(file).map_err(fault())?;
    let mut builder = tar::Builder::new(packing.encoder(out).map_err(fault())?);
    builder.follow_symlinks(false);
    for member in members {
        at.go_on()?;
        let packed = match source {
            Source::Calls(root) => builder.append_path_with_name(root.join(member), member),
            Source::Client(client) => append(&mut builder, source, client, member),
        };
        packed.map_err(|error| BenchError::io("pack", &source.shown(member))(error))?;
    }
    let encoder = builder.into_inner().map_err(fault())?;
    encoder.finish().map_err(fault())
}

/// Adds what a client has under this path: attributes of its index, bytes of the cache.
fn append(
    builder: &mut tar::Builder<Encoder>,
    source: &Source,
    client: &Client,
    member: &Path,
) -> io::Result<()> {
    let node = client.find(member).map_err(io::Error::other)?;
    let attributes = client.tree().attributes(node);
    let mut header = tar::Header::new_gnu();
    header.set_mode(attributes.permissions.into());
    header.set_uid(attributes.uid.into());
    header.set_gid(attributes.gid.into());
    header.set_mtime(u64::try_from(attributes.mtime_ns / 1_000_000_000).unwrap_or(0));
    header.set_size(0);
    match client.tree().kind(node) {
        NodeKind::Folder => {
            header.set_entry_type(tar::EntryType::Directory);
            builder.append_data(&mut header, member, io::empty())
        }
        NodeKind::Link => {
            header.set_entry_type(tar::EntryType::Symlink);
            let target = client.tree().target(node).unwrap_or_default();
            builder.append_link(&mut header, member, OsStr::from_bytes(target))
        }
        NodeKind::File(_) => {
            header.set_size(attributes.size);
            let file = source.file(member).map_err(io::Error::other)?;
            let file = BufReader::with_capacity(archive::BUFFER, file);
            builder.append_data(&mut header, member, file.take(attributes.size))
        }
    }
}

impl Workload for RunTar {
    fn prepare(&mut self, at: &mut Stage<'_>) -> Result<()> {
        self.made.seed = at.spec.seed;
        self.root = match &self.src {
            Some(src) => src.clone(),
            None => {
                let root: Folder = at.own.make("source")?;
                dataset::make(at, &self.made, &root)?;
                root.path().to_owned()
            }
        };
        self.members = archive::members(&self.root, at)?;
        self.source = Source::open(at, &self.root, self.src.is_some())?;
        for member in &self.members {
            let path = self.root.join(member);
            let found =
                std::fs::symlink_metadata(&path).map_err(BenchError::io("look at", &path))?;
            self.bytes += if found.is_file() { found.len() } else { 0 };
        }
        if self.members.is_empty() {
            let shown = self.root.display();
            return Err(BenchError::Usage(format!("`{shown}` has nothing to pack")));
        }
        Ok(())
    }

    fn reads(&self) -> Vec<PathBuf> {
        let paths = self.members.iter().map(|member| self.root.join(member));
        let is_file = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_file());
        paths.filter(is_file).collect()
    }

    fn held_elsewhere(&self) -> Option<String> {
        self.source.client().map(Client::served)
    }

    fn run(&mut self, at: &mut Stage<'_>) -> Result<Work> {
        let ops = ["archive", "fsync", "close", "archive_total"].map(|name| at.op(name));
        let [archive, fsync, close, total] = ops;
        let path = self.place(at);
        let mut lap = at.recorder.lap();
        let file = pack(at, self.packing, &self.source, &self.members, &path)?;
        at.recorder.part(&mut lap, archive);
        if at.spec.fsync != Fsync::None {
            file.sync_all()
                .map_err(BenchError::io("write back", &path))?;
            at.recorder.part(&mut lap, fsync);
        }
        sys::close(file.into()).map_err(BenchError::io("close", &path))?;
        at.recorder.part(&mut lap, close);
        at.recorder.whole(&lap, total);
        Ok(Work {
            ops: self.members.len() as u64,
            bytes: self.bytes,
            ..Work::default()
        })
    }

    fn verify(&mut self, at: &mut Stage<'_>) -> Result<Verify> {
        let path = self.place(at);
        let mut archive = tar::Archive::new(archive::open(&path, None)?);
        let fault = || BenchError::io("read archive", &path);
        let mut found = Verify::default();
        for entry in archive.entries().map_err(fault())? {
            at.go_on()?;
            let mut entry = entry.map_err(fault())?;
            let name = entry.path().map_err(fault())?.into_owned();
            let known = self
                .members
                .get(found.checked as usize)
                .is_some_and(|one| *one == name);
            let is_file = entry.header().entry_type().is_file();
            let good = known && (!is_file || archive::is_same(&mut entry, &self.root.join(&name))?);
            found.checked += 1;
            found.bad += u64::from(!good);
        }
        let missing = (self.members.len() as u64).saturating_sub(found.checked);
        found.checked += missing;
        found.bad += missing;
        Ok(found)
    }

    fn tear_down(&mut self, at: &mut Stage<'_>) -> Result<()> {
        let path = self.place(at);
        std::fs::remove_file(&path).map_err(BenchError::io("remove", &path))
    }
}
