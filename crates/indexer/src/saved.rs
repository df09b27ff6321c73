//! Parts of an index that is being made, beside it: a run that was ended goes on from them.
//!
//! `OUTPUT.parts/state.json` says of which request; `part-NNNNNN.json` of which files, with their
//! fingerprints, and `part-NNNNNN-K.forebay` has their samples. The JSON comes last, so a part
//! without it is none. Nothing here is ever taken for an index: only the parts of the same
//! request over unchanged files are used, and the folder goes when the index is complete.

use std::fs;
use std::path::{Path, PathBuf};

use forebay_dataset::Fingerprint;
use forebay_dataset::index::Index;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::files::fingerprint;
use crate::output::write_whole;
use crate::parts::{Bytes, Made, Part, PartFiles, damaged, names};
use crate::parts_folder::{PartsFolder, read_json, write_json};
use crate::plan::{Job, Plan};
use crate::{IndexRequest, IndexerError};

/// Version of the folder's files.
const VERSION: u32 = 1;

/// The parts of a run.
pub(crate) struct Saved {
    folder: Option<PartsFolder>,
    request: String,
    parts: Vec<Listed>,
    next: usize,
}

#[derive(Deserialize, PartialEq, Eq, Serialize)]
struct State {
    version: u32,
    request: String,
}

#[derive(Deserialize, Serialize)]
struct Listed {
    #[serde(default)]
    number: usize,
    rule: usize,
    files: Vec<SavedFile>,
    /// Files that those lead to.
    others: Vec<SavedFile>,
    kinds: Vec<SavedKind>,
}

#[derive(Deserialize, Serialize)]
struct SavedFile {
    name: String,
    size: u64,
    mtime_ns: i64,
    inode: u64,
}

#[derive(Deserialize, Serialize)]
struct SavedKind {
    samples: u64,
    example: String,
    stems: bool,
    has_index: bool,
    /// Each with the position of its first sample.
    files: PartFiles,
}

impl Saved {
    /// For runs that leave no parts.
    pub(crate) fn none(folder: Option<PartsFolder>) -> Self {
        Self {
            folder,
            request: String::new(),
            parts: Vec::new(),
            next: 0,
        }
    }

    /// Finds what an earlier run of the same request has left.
    pub(crate) fn open(
        request: &IndexRequest,
        plan: &Plan<'_>,
        folder: Option<PartsFolder>,
    ) -> Result<Self> {
        let mut saved = Self {
            request: words(request, plan),
            ..Self::none(folder)
        };
        let Some(folder) = &mut saved.folder else {
            return Ok(saved);
        };
        if !folder.find()? {
            return Ok(saved);
        }
        let state = State {
            version: VERSION,
            request: saved.request.clone(),
        };
        if read_json::<State>(&folder.path().join("state.json")).as_ref() != Some(&state) {
            // Of another request: nothing of it fits.
            folder.remove(&["part-", "state.json"])?;
            return Ok(saved);
        }
        for number in 0.. {
            let Some(mut listed) = read_json::<Listed>(&json_path(folder.path(), number)) else {
                break;
            };
            listed.number = number;
            saved.parts.push(listed);
            saved.next = number + 1;
        }
        Ok(saved)
    }

    /// Whether there are parts on disk.
    pub(crate) const fn is_begun(&self) -> bool {
        self.next > 0
    }

    /// Whether a part that is left begins with job `at`.
    pub(crate) fn begins_at(&self, plan: &Plan<'_>, at: usize) -> bool {
        self.first_at(plan, at).is_some()
    }

    fn first_at(&self, plan: &Plan<'_>, at: usize) -> Option<usize> {
        let job = plan.jobs.get(at)?;
        let name = &plan.input(*job).name;
        self.parts.iter().position(|part| {
            part.rule == job.rule && part.files.first().is_some_and(|file| file.name == *name)
        })
    }

    /// The part that begins with job `at`, if its files are as they were; and how many jobs it is.
    pub(crate) fn take(
        &mut self,
        plan: &Plan<'_>,
        at: usize,
    ) -> Result<Option<(usize, Vec<Part>)>> {
        let Some(folder) = self.path() else {
            return Ok(None);
        };
        let Some(position) = self.first_at(plan, at) else {
            return Ok(None);
        };
        let listed = self.parts.remove(position);
        let end = at + listed.files.len();
        let jobs = plan.jobs.get(at..end).unwrap_or_default();
        let names = names(plan, jobs).eq(listed.files.iter().map(|file| file.name.as_str()));
        if !names || jobs.iter().any(|job| job.rule != listed.rule) {
            return Ok(None);
        }
        for (job, file) in jobs.iter().zip(&listed.files) {
            if plan.input(*job).stat()? != file.fingerprint() {
                return Ok(None);
            }
        }
        for other in &listed.others {
            let path = plan.inputs.root.join(&other.name);
            let found = fs::metadata(&path).map(|metadata| fingerprint(&metadata));
            if found.ok() != Some(other.fingerprint()) {
                return Ok(None);
            }
        }
        let mut parts = Vec::new();
        for (number, kind) in listed.kinds.iter().enumerate() {
            let Some(part) = kind.open(&folder, &listed, number) else {
                return Ok(None);
            };
            parts.push(part);
        }
        Ok(Some((listed.files.len(), parts)))
    }

    fn path(&self) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.path().to_owned())
    }

    /// Puts the parts of some jobs on disk.
    pub(crate) fn put(
        &mut self,
        plan: &Plan<'_>,
        jobs: &[Job],
        made: Vec<Made>,
    ) -> Result<Vec<Part>> {
        let Some(folder) = self.path() else {
            return made.into_iter().map(Made::in_memory).collect();
        };
        self.begin()?;
        let number = self.next;
        self.next += 1;
        let fingerprints = made.first().map_or(&[][..], |made| &made.fingerprints);
        let files = names(plan, jobs).zip(fingerprints);
        let others = made.first().map_or(&[][..], |made| &made.others);
        let mut listed = Listed {
            number,
            rule: jobs.first().map_or(0, |job| job.rule),
            files: files
                .map(|(name, file)| SavedFile::new(name, file))
                .collect(),
            others: others
                .iter()
                .map(|(name, file)| SavedFile::new(name, file))
                .collect(),
            kinds: Vec::new(),
        };
        let mut parts = Vec::new();
        for (kind, made) in made.into_iter().enumerate() {
            let mut part = made.part;
            listed.kinds.push(SavedKind {
                samples: part.samples,
                example: part.example.clone(),
                stems: part.stems,
                has_index: made.builder.is_some(),
                files: part.files.clone(),
            });
            if let Some(builder) = made.builder {
                let path = index_path(&folder, number, kind);
                write_whole(&path, |out| {
                    let written = builder.write(out);
                    written.map_err(|error| {
                        crate::index::known(error, IndexerError::io("write", &path))
                    })
                })?;
                part.index = Some(map(&path)?);
            }
            parts.push(part);
        }
        write_json(&json_path(&folder, number), &listed)?;
        Ok(parts)
    }

    fn begin(&mut self) -> Result<()> {
        let Some(folder) = &mut self.folder else {
            return Ok(());
        };
        folder.create()?;
        let path = folder.path().join("state.json");
        if path.exists() {
            return Ok(());
        }
        let state = State {
            version: VERSION,
            request: self.request.clone(),
        };
        write_json(&path, &state)
    }

    /// The index is complete: nothing of this is needed any more.
    pub(crate) fn finish(self) -> Result<()> {
        self.folder.map_or(Ok(()), PartsFolder::finish)
    }
}

/// What a part depends on, beside its files.
fn words(request: &IndexRequest, plan: &Plan<'_>) -> String {
    format!(
        "{} {:?} {:?} {:?} {:?} {:?} {}",
        env!("CARGO_PKG_VERSION"),
        plan.inputs.root,
        plan.inputs.format,
        plan.rules,
        request.fields,
        request.block_size,
        request.verify_data
    )
}

impl SavedFile {
    fn new(name: &str, found: &Fingerprint) -> Self {
        Self {
            name: name.to_owned(),
            size: found.size,
            mtime_ns: found.mtime_ns,
            inode: found.inode,
        }
    }

    const fn fingerprint(&self) -> Fingerprint {
        Fingerprint {
            size: self.size,
            mtime_ns: self.mtime_ns,
            inode: self.inode,
        }
    }
}

impl SavedKind {
    fn open(&self, folder: &Path, listed: &Listed, number: usize) -> Option<Part> {
        let index = match self.has_index {
            // A part that cannot be used is made again.
            true => Some(map(&index_path(folder, listed.number, number)).ok()?),
            false => None,
        };
        if index.as_ref().is_some_and(|index| index.verify().is_err()) {
            return None;
        }
        Some(Part {
            rule: listed.rule,
            fields: index
                .as_ref()
                .map_or(Vec::new(), |index| index.fields().to_vec()),
            samples: self.samples,
            example: self.example.clone(),
            stems: self.stems,
            files: self.files.clone(),
            index,
        })
    }
}

fn json_path(folder: &Path, number: usize) -> PathBuf {
    folder.join(format!("part-{number:06}.json"))
}

fn index_path(folder: &Path, number: usize, kind: usize) -> PathBuf {
    folder.join(format!("part-{number:06}-{kind}.forebay"))
}

fn map(path: &Path) -> Result<Index<Bytes>> {
    let map = forebay_origin::map_index_file(path).map_err(IndexerError::io("read", path))?;
    Index::parse(Bytes::Mapped(map)).map_err(damaged)
}
