//! Finds the samples of many files batch by batch. Each batch becomes a part, an index of its own;
//! parts of a long run are kept on disk, so that memory is bounded and a run that was ended goes on.

use std::time::{Duration, Instant};

use forebay_dataset::index::{FieldSpec, Index, IndexBuilder};
use forebay_dataset::{Fingerprint, IndexError};
use memmap2::Mmap;

use crate::assemble::{self, in_output};
use crate::error::Result;
use crate::groups::stem;
use crate::parts_folder::PartsFolder;
use crate::plan::{Job, Plan};
use crate::saved::Saved;
use crate::scan::{Scanned, parallel_over};
use crate::{IndexRequest, IndexerError, Progress, Stage};

/// Time after which what was found is put on disk.
const KEPT_AFTER: Duration = Duration::from_secs(30);

/// Bytes of a part.
#[derive(Debug)]
pub(crate) enum Bytes {
    Memory(Vec<u8>),
    Mapped(Mmap),
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        match self {
            Self::Memory(bytes) => bytes,
            Self::Mapped(map) => map,
        }
    }
}

/// The files of a part in order, each with the position of its first sample.
pub(crate) type PartFiles = Vec<(u64, String)>;

/// Samples of some files by one rule, all with the same fields.
#[derive(Debug)]
pub(crate) struct Part {
    pub(crate) rule: usize,
    pub(crate) fields: Vec<FieldSpec>,
    pub(crate) samples: u64,
    /// One of them, for messages.
    pub(crate) example: String,
    /// Keys begin with the stem of the sample's file, since they would repeat without.
    pub(crate) stems: bool,
    /// None where each sample is a file.
    pub(crate) files: PartFiles,
    /// `None` if the samples have no fields: there is nothing to read.
    pub(crate) index: Option<Index<Bytes>>,
}

impl Part {
    /// Key of a sample as its rule found it.
    pub(crate) fn raw_key(&self, sample: u64) -> Result<&str, IndexError> {
        let key = self.stored_key(sample)?;
        if !self.stems {
            return Ok(key);
        }
        let below = key.strip_prefix(stem(self.file(sample)?));
        Ok(below.and_then(|key| key.strip_prefix('/')).unwrap_or(key))
    }

    /// Appends the key with the stem of its file before it.
    pub(crate) fn push_long_key(&self, sample: u64, out: &mut String) -> Result<(), IndexError> {
        if !self.stems {
            out.push_str(stem(self.file(sample)?));
            out.push('/');
        }
        out.push_str(self.stored_key(sample)?);
        Ok(())
    }

    fn stored_key(&self, sample: u64) -> Result<&str, IndexError> {
        let index = self.index.as_ref();
        let key = index.map(|index| index.key(sample)).transpose()?;
        Ok(key.flatten().unwrap_or_default())
    }

    /// Whether samples have keys.
    pub(crate) fn has_keys(&self) -> bool {
        self.index.as_ref().is_some_and(Index::has_keys)
    }

    /// Path of the file that holds a sample, relative to the root.
    pub(crate) fn file(&self, sample: u64) -> Result<&str, IndexError> {
        let after = self.files.partition_point(|(first, _)| *first <= sample);
        if let Some((_, name)) = after.checked_sub(1).and_then(|at| self.files.get(at)) {
            return Ok(name);
        }
        let Some(index) = &self.index else {
            return Ok("");
        };
        let found = index.sample(sample)?;
        for field in 0..index.fields().len() {
            if let Some(segment) = found.field(field)?.segment() {
                return Ok(index.segment(segment)?.path);
            }
        }
        Ok("")
    }
}

/// A part is this program's own output: what does not fit is damage on disk.
pub(crate) fn damaged(source: IndexError) -> IndexerError {
    IndexerError::Index {
        path: "a part of the index".into(),
        source,
    }
}

/// Reads all that is planned. Parts of a long run lie in `folder`, if one is given, until the
/// index is complete, and those of an earlier run that was ended are used.
pub(crate) fn read(
    request: &IndexRequest,
    plan: &Plan<'_>,
    folder: Option<PartsFolder>,
    progress: &dyn Progress,
) -> Result<(Vec<Part>, Saved)> {
    let mut saved = Saved::open(request, plan, folder)?;
    progress.begin(Stage::Scan, plan.jobs.len() as u64);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let mut parts = Vec::new();
    let mut batch = Batch::new();
    let mut at = 0;
    while at < plan.jobs.len() {
        if let Some((jobs, found)) = saved.take(plan, at)? {
            parts.extend(found);
            at += jobs;
            progress.advance(jobs as u64);
            continue;
        }
        let rule = plan.jobs[at].rule;
        let wave = &plan.jobs[at..plan.jobs.len().min(at + threads * 4)];
        let fresh = |next: usize| wave[next].rule == rule && !saved.begins_at(plan, at + next);
        let count = (1..wave.len()).find(|next| !fresh(*next));
        let wave = &wave[..count.unwrap_or(wave.len())];
        batch
            .scans
            .extend(parallel_over(&plan.inputs.files, wave.len(), |number| {
                let job = wave[number];
                let scanned = (plan.scan)(plan.input(job), job)?;
                progress.advance(1);
                Ok(scanned)
            })?);
        at += wave.len();
        let last = plan.jobs.get(at).is_none_or(|job| job.rule != rule);
        let full = batch.is_full(request);
        if last || full || saved.begins_at(plan, at) {
            let jobs = &plan.jobs[at - batch.scans.len()..at];
            let made = std::mem::replace(&mut batch, Batch::new()).parts(request, plan)?;
            // What ends soon is not worth a file.
            parts.extend(match full || saved.is_begun() {
                true => saved.put(plan, jobs, made)?,
                false => made
                    .into_iter()
                    .map(Made::in_memory)
                    .collect::<Result<_>>()?,
            });
        }
    }
    Ok((parts, saved))
}

/// A part that is not written yet.
pub(crate) struct Made {
    pub(crate) part: Part,
    pub(crate) builder: Option<IndexBuilder>,
    /// What the files were.
    pub(crate) fingerprints: Vec<Fingerprint>,
    /// The files that those lead to.
    pub(crate) others: Vec<(String, Fingerprint)>,
}

impl Made {
    pub(crate) fn in_memory(self) -> Result<Part> {
        let mut part = self.part;
        if let Some(builder) = self.builder {
            part.index = Some(in_memory(builder)?);
        }
        Ok(part)
    }
}

/// An index that is not worth a file.
pub(crate) fn in_memory(builder: IndexBuilder) -> Result<Index<Bytes>> {
    let mut bytes = Vec::new();
    builder.write(&mut bytes).map_err(|error| {
        crate::index::known(error, |source| IndexerError::Io {
            act: "make",
            path: "a part of the index".into(),
            source,
        })
    })?;
    Index::parse(Bytes::Memory(bytes)).map_err(damaged)
}

/// Files that were read and are in no part yet; all of one rule.
struct Batch {
    scans: Vec<Scanned>,
    begun: Instant,
}

impl Batch {
    fn new() -> Self {
        Self {
            scans: Vec::new(),
            // Only for how often is written; nothing that is written depends on it.
            begun: Instant::now(),
        }
    }

    fn is_full(&self, request: &IndexRequest) -> bool {
        let records = self.scans.iter().flat_map(|scan| scan.samples.schemas());
        let records = records.map(|kind| kind.samples * kind.fields.len() as u64);
        records.sum::<u64>() >= request.part_records || self.begun.elapsed() >= KEPT_AFTER
    }

    /// One part for each kind of sample.
    fn parts(self, request: &IndexRequest, plan: &Plan<'_>) -> Result<Vec<Made>> {
        let stems = assemble::keys_repeat(&self.scans);
        assemble::check_one_version(&plan.inputs, &self.scans)?;
        let others = self.scans.iter().flat_map(|scan| &scan.others);
        let others: Vec<(String, Fingerprint)> = others
            .map(|other| (other.name.clone(), other.fingerprint))
            .collect();
        let fingerprints: Vec<_> = self.scans.iter().map(|scan| scan.fingerprint).collect();
        let mut kinds: Vec<(&[FieldSpec], u64, String)> = Vec::new();
        for scan in &self.scans {
            for kind in scan.samples.schemas() {
                match kinds.iter_mut().find(|(fields, ..)| *fields == kind.fields) {
                    Some((_, samples, _)) => *samples += kind.samples,
                    None => {
                        let path = plan.inputs.files[scan.file].path.display();
                        let example = format!("`{}` of `{path}`", kind.example);
                        kinds.push((&kind.fields, kind.samples, example));
                    }
                }
            }
        }
        let rule = self.scans.first().map_or(0, |scan| scan.rule);
        let mut made = Vec::with_capacity(kinds.len());
        for (fields, samples, example) in kinds {
            let (builder, files) = match fields.is_empty() {
                true => (None, PartFiles::new()),
                false => {
                    let made = assemble::part(request, plan, &self.scans, fields, stems);
                    let (builder, files) = made.map_err(in_output(request))?;
                    (Some(builder), files)
                }
            };
            made.push(Made {
                part: Part {
                    rule,
                    fields: fields.to_vec(),
                    samples,
                    example,
                    stems,
                    files,
                    index: None,
                },
                builder,
                fingerprints: fingerprints.clone(),
                others: others.clone(),
            });
        }
        Ok(made)
    }
}

/// The jobs of a part, as it lies on disk.
pub(crate) fn names<'a>(plan: &'a Plan<'_>, jobs: &'a [Job]) -> impl Iterator<Item = &'a str> {
    jobs.iter().map(|job| plan.input(*job).name.as_str())
}
