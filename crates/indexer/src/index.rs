//! `forebay index`: from files to one index file.

use std::fs;
use std::io::{self, Cursor, Seek, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay_dataset::index::{FieldSpec, IndexBuilder, Picks};
use forebay_dataset::{IndexError, SegmentIndex};
use forebay_origin::IndexFile;

use crate::error::Result;
use crate::files::{self, Inputs};
use crate::join::{self, Composition, Join, Keys, Order};
use crate::manifest::Manifest;
use crate::merge::{MergeRequest, merge, retain_new, root_of_added};
use crate::output::write_whole;
use crate::parts::{self, Part};
use crate::parts_folder::PartsFolder;
use crate::plan::Plan;
use crate::saved::Saved;
use crate::scan::FieldFilter;
use crate::{Format, IndexRequest, IndexerError, Progress, SampleRule, Stage, assemble, tree};

/// What was indexed.
#[derive(Clone, Debug)]
pub struct IndexSummary {
    /// Samples in the index.
    pub samples: u64,
    /// Samples left out, since their fields differ from those of the others.
    pub skipped: u64,
    /// Fields of every sample, in order.
    pub fields: Vec<FieldSpec>,
    /// Files that hold them.
    pub segments: u64,
    /// Shards that those files make.
    pub shards: u64,
    /// What a sample is, as found out or as asked for; empty if each file is one.
    pub rules: Vec<SampleRule>,
    /// Names of the classes, by number, if the samples have labels from folders.
    pub classes: Vec<String>,
    /// Bytes of those files.
    pub origin_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Identity of the index's content.
    pub generation: u128,
    /// Wall time, in seconds.
    pub seconds: f64,
}

/// Indexes the inputs of `request` and writes the index to its output.
///
/// # Errors
/// Whatever cannot be read, is not understood, or does not fit together, with the file and the
/// data set; see [`IndexerError`]. The output is then as it was before.
pub fn index(request: &IndexRequest, progress: &dyn Progress) -> Result<IndexSummary> {
    // Only for the summary; nothing depends on it.
    let started = Instant::now();
    if let Some(index) = &request.append_to {
        return append(request, index, progress);
    }
    let Gathered {
        content,
        saved,
        rules,
        skipped,
        classes,
    } = gather(request, true, progress)?;
    write_whole(&request.output, |out| {
        content
            .write(out, progress)
            .map_err(|error| unwritten(request, error))
    })?;
    saved.finish()?;
    let summary = IndexSummary {
        skipped,
        rules,
        classes,
        ..summary(&request.output)?
    };
    Ok(IndexSummary {
        seconds: started.elapsed().as_secs_f64(),
        ..summary
    })
}

/// Indexes what `index` does not have yet, and puts both together.
fn append(request: &IndexRequest, index: &Path, progress: &dyn Progress) -> Result<IndexSummary> {
    let started = Instant::now();
    if request.labels.is_some() {
        return Err(IndexerError::Request(
            "labels from folders number the classes of all files together, so an index with them \
             cannot grow: index the whole folder again"
                .to_owned(),
        ));
    }
    let mut added = request.output.as_os_str().to_owned();
    added.push(".added");
    let added = PathBuf::from(added);
    let request_of_new = IndexRequest {
        output: added.clone(),
        root: root_of_added(request, index)?,
        ..request.clone()
    };
    let Gathered {
        content,
        saved,
        rules,
        skipped,
        classes,
    } = match gather(&request_of_new, true, progress) {
        Ok(found) => found,
        Err(IndexerError::NothingNew) => {
            return Ok(IndexSummary {
                seconds: started.elapsed().as_secs_f64(),
                ..summary(index)?
            });
        }
        Err(error) => return Err(error),
    };
    write_whole(&added, |out| {
        let written = content.write(out, progress);
        written.map_err(|error| unwritten(&request_of_new, error))
    })?;
    let merged = merge(
        &MergeRequest {
            indexes: vec![index.to_path_buf(), added.clone()],
            output: request.output.clone(),
        },
        progress,
    );
    // A file of our own, which says nothing that the merged index does not.
    let removed = fs::remove_file(&added).map_err(IndexerError::io("remove", &added));
    let merged = merged?;
    removed?;
    saved.finish()?;
    Ok(IndexSummary {
        skipped,
        rules,
        classes,
        seconds: started.elapsed().as_secs_f64(),
        ..merged
    })
}

/// What an index says of itself.
pub(crate) fn summary(path: &Path) -> Result<IndexSummary> {
    let index = IndexFile::open(path)?;
    let metadata = fs::metadata(path).map_err(IndexerError::io("read", path))?;
    let fault = |source| IndexerError::Index {
        path: path.to_path_buf(),
        source,
    };
    Ok(IndexSummary {
        samples: index.len(),
        skipped: 0,
        fields: index.fields().to_vec(),
        segments: u64::from(index.segment_count()),
        shards: u64::from(index.shard_count()),
        rules: Vec::new(),
        classes: Vec::new(),
        origin_bytes: origin_bytes(&index).map_err(fault)?,
        index_bytes: metadata.len(),
        generation: index.generation(),
        seconds: 0.0,
    })
}

fn origin_bytes(index: &IndexFile) -> std::result::Result<u64, IndexError> {
    (0..index.segment_count()).try_fold(0, |sum: u64, number| {
        let segment = index.segment(SegmentIndex(number))?;
        Ok(sum.saturating_add(segment.fingerprint.size))
    })
}

/// The index of the inputs of `request`, in memory. Nothing is written.
pub(crate) fn index_bytes(request: &IndexRequest, progress: &dyn Progress) -> Result<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    gather(request, false, progress)?
        .content
        .write(&mut bytes, progress)
        .map_err(|error| unwritten(request, error))?;
    Ok(bytes.into_inner())
}

/// All that is needed to write an index.
struct Gathered {
    content: Content,
    saved: Saved,
    rules: Vec<SampleRule>,
    skipped: u64,
    classes: Vec<String>,
}

enum Content {
    Built(Box<IndexBuilder>),
    Composed(Composition),
}

impl Content {
    fn write(self, out: &mut (impl Write + Seek), progress: &dyn Progress) -> io::Result<()> {
        match self {
            Self::Built(builder) => builder.write(out),
            Self::Composed(composition) => {
                progress.begin(Stage::Write, composition.len());
                composition.write(out)?;
                progress.advance(composition.len());
                Ok(())
            }
        }
    }
}

/// Finds all samples. With `keep`, what a long run has found lies beside the output until the
/// index is complete.
fn gather(request: &IndexRequest, keep: bool, progress: &dyn Progress) -> Result<Gathered> {
    let mut folder = keep.then(|| PartsFolder::of(&request.output));
    let mut inputs = files::find(request, folder.as_mut(), progress)?;
    retain_new(request, &mut inputs)?;
    if inputs.files.is_empty() {
        return Err(IndexerError::NothingNew);
    }
    let root = assemble::root(&inputs)?.to_owned();
    let manifest = Manifest::of(request)?;
    let filter = FieldFilter::new(&request.fields);
    if inputs.format == Format::Files {
        if let Some(manifest) = &manifest {
            manifest.check_files_are_samples(inputs.format)?;
            filter.keeps("data");
        }
        let tree = tree::whole_files(request, &inputs, progress)?;
        let Some(manifest) = manifest else {
            return Ok(Gathered {
                content: Content::Built(Box::new(tree.builder)),
                saved: Saved::none(folder),
                rules: Vec::new(),
                skipped: tree.skipped,
                classes: tree.classes,
            });
        };
        let rules = manifest.rules().to_vec();
        let parts = vec![Part {
            rule: 0,
            samples: tree.builder.len(),
            fields: tree.fields,
            example: root.clone(),
            stems: false,
            files: Vec::new(),
            index: Some(parts::in_memory(tree.builder)?),
        }];
        let (content, skipped) = by_rows(request, &inputs, &manifest, parts, &filter)?;
        filter.check_all_met()?;
        return Ok(Gathered {
            content: Content::Composed(content),
            saved: Saved::none(folder),
            rules,
            skipped,
            classes: tree.classes,
        });
    }
    let plan = Plan::new(request, inputs, manifest.as_ref(), &filter)?;
    let (parts, saved) = parts::read(request, &plan, folder, progress)?;
    for field in parts.iter().flat_map(|part| &part.fields) {
        // Also those of parts that an earlier run has left.
        filter.keeps(&field.name);
    }
    if manifest.is_none() {
        filter.check_all_met()?;
    }
    let (content, skipped) = match &manifest {
        Some(manifest) => by_rows(request, &plan.inputs, manifest, parts, &filter)?,
        None => by_rules(request, &plan, root, parts)?,
    };
    filter.check_all_met()?;
    Ok(Gathered {
        content: Content::Composed(content),
        saved,
        rules: plan.rules,
        skipped,
        classes: Vec::new(),
    })
}

/// The samples of all rules: one after another, or joined by key.
fn by_rules(
    request: &IndexRequest,
    plan: &Plan<'_>,
    root: String,
    parts: Vec<Part>,
) -> Result<(Composition, u64)> {
    let rules = plan.rules.len().max(1);
    let (parts, fields, left_out) = join::chosen(request, &plan.inputs, parts, rules)?;
    let fields = assemble::all_fields(fields.iter().map(Vec::as_slice))?;
    if rules == 1 {
        return Ok((Composition::all(root, fields, parts)?, left_out));
    }
    let join = Join {
        request,
        inputs: &plan.inputs,
        rules: &plan.rules,
        parts: &parts,
    };
    let (picks, skipped) = join.run()?;
    let composition = Composition {
        root,
        fields,
        parts,
        order: Order::Joined(picks, rules),
        keys: Keys::Raw,
    };
    Ok((composition, left_out + skipped))
}

/// The samples that the rows of a manifest lead to.
fn by_rows(
    request: &IndexRequest,
    inputs: &Inputs,
    manifest: &Manifest,
    parts: Vec<Part>,
    filter: &FieldFilter,
) -> Result<(Composition, u64)> {
    let rules = manifest.rules().len();
    let (mut parts, mut fields, _) = join::chosen(request, inputs, parts, rules)?;
    let values = manifest.values(request.block_size, filter, rules)?;
    let at = values.as_ref().map(|_| parts.len() as u32);
    let (picks, skipped) = manifest.resolve(request, inputs, &parts, at)?;
    fields.extend(values.iter().map(|part| part.fields.clone()));
    parts.extend(values);
    let mut composition = Composition {
        root: assemble::root(inputs)?.to_owned(),
        fields: assemble::all_fields(fields.iter().map(Vec::as_slice))?,
        parts,
        order: Order::Joined(picks, rules + usize::from(at.is_some())),
        keys: Keys::Raw,
    };
    composition.choose_keys()?;
    Ok((composition, skipped))
}

/// What writes an index wraps what it finds wrong (a repeated key) in an I/O error.
fn unwritten(request: &IndexRequest, error: io::Error) -> IndexerError {
    known(error, IndexerError::io("write", &request.output)).at(&request.output)
}

/// The fault of an index inside an I/O error, or else that error.
pub(crate) fn known(
    error: io::Error,
    other: impl FnOnce(io::Error) -> IndexerError,
) -> IndexerError {
    let known = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<IndexError>())
        .cloned();
    match known {
        Some(source) => parts::damaged(source),
        None => other(error),
    }
}

impl IndexerError {
    /// The same, of the index at `path`.
    pub(crate) fn at(self, path: &Path) -> Self {
        match self {
            Self::Index { source, .. } => Self::Index {
                path: path.to_path_buf(),
                source,
            },
            other => other,
        }
    }
}
