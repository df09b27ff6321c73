//! `forebay index`: from files to one index file.

use std::collections::HashMap;
use std::fs;
use std::io;
use std::time::Instant;

use forebay_dataset::index::FieldSpec;
use forebay_dataset::{IndexError, SegmentIndex};
use forebay_origin::IndexFile;

use crate::assemble::{self, Assembled};
use crate::detect::detect;
use crate::error::Result;
use crate::files::{self, Inputs};
use crate::output::write_whole;
use crate::scan::{self, FieldFilter, Job, Scanned, parallel};
use crate::{Format, IndexRequest, IndexerError, Pattern, Progress, SampleRule, formats, tree};

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
    let found = gather(request, progress)?;
    let Assembled {
        builder,
        fields,
        skipped,
        classes,
    } = found.assembled;
    write_whole(&request.output, |out| {
        builder
            .write(out)
            .map_err(|error| unwritten(request, error))
    })?;
    let index = IndexFile::open(&request.output)?;
    let metadata = fs::metadata(&request.output);
    Ok(IndexSummary {
        samples: index.len(),
        skipped,
        fields,
        segments: u64::from(index.segment_count()),
        shards: u64::from(index.shard_count()),
        rules: found.rules,
        classes,
        origin_bytes: origin_bytes(&index).map_err(|error| in_output(request, error))?,
        index_bytes: metadata
            .map_err(IndexerError::io("read", &request.output))?
            .len(),
        generation: index.generation(),
        seconds: started.elapsed().as_secs_f64(),
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
    let mut bytes = Vec::new();
    gather(request, progress)?
        .assembled
        .builder
        .write(&mut bytes)
        .map_err(|error| unwritten(request, error))?;
    Ok(bytes)
}

struct Gathered {
    assembled: Assembled,
    rules: Vec<SampleRule>,
}

fn gather(request: &IndexRequest, progress: &dyn Progress) -> Result<Gathered> {
    let inputs = files::find(request)?;
    if inputs.format == Format::Files {
        return Ok(Gathered {
            assembled: tree::whole_files(request, &inputs, progress)?,
            rules: Vec::new(),
        });
    }
    let filter = FieldFilter::new(&request.fields);
    let (rules, scans) = if inputs.format == Format::Hdf5 {
        let (rules, jobs) = jobs(request, &inputs)?;
        let scans = scan::run(&jobs, &filter, progress)?;
        (rules, scans)
    } else {
        formats::scan(request, &inputs, &filter, progress)?
    };
    filter.check_all_met()?;
    check_one_version(&inputs, &scans)?;
    Ok(Gathered {
        assembled: assemble::scanned(request, &inputs, &scans, rules.len().max(1), progress)?,
        rules,
    })
}

/// The builder's writer wraps what it finds wrong (a repeated key) in an I/O error.
fn unwritten(request: &IndexRequest, error: io::Error) -> IndexerError {
    let known = error
        .get_ref()
        .and_then(|inner| inner.downcast_ref::<IndexError>())
        .cloned();
    match known {
        Some(source) => in_output(request, source),
        None => IndexerError::io("write", &request.output)(error),
    }
}

fn in_output(request: &IndexRequest, source: IndexError) -> IndexerError {
    IndexerError::Index {
        path: request.output.clone(),
        source,
    }
}

/// What to read, file by file, and the rules by which it is read.
fn jobs<'a>(request: &IndexRequest, inputs: &'a Inputs) -> Result<(Vec<SampleRule>, Vec<Job<'a>>)> {
    if request.samples.is_empty() {
        let pattern = detect_all(inputs)?;
        let rule = SampleRule {
            files: None,
            pattern,
        };
        return Ok((vec![rule.clone()], cover(inputs, &[rule])?));
    }
    let rows = |rule: &SampleRule| matches!(rule.pattern, Pattern::Rows(_));
    if request.samples.len() > 1 && request.samples.iter().any(rows) {
        return Err(IndexerError::Request(
            "rows have no key, so they cannot be joined: use one sample rule with `rows`"
                .to_owned(),
        ));
    }
    let jobs = cover(inputs, &request.samples)?;
    Ok((request.samples.clone(), jobs))
}

fn cover<'a>(inputs: &'a Inputs, rules: &[SampleRule]) -> Result<Vec<Job<'a>>> {
    let mut jobs = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let before = jobs.len();
        for (file, input) in inputs.files.iter().enumerate() {
            if rule.covers(&input.name) {
                jobs.push(Job {
                    file,
                    input,
                    rule: number,
                    pattern: rule.pattern.clone(),
                });
            }
        }
        if jobs.len() == before {
            return Err(IndexerError::Request(format!(
                "no HDF5 file below `{}` is called like `{rule}` says: check `--sample`",
                inputs.root.display()
            )));
        }
    }
    Ok(jobs)
}

/// The pattern that all files agree on.
fn detect_all(inputs: &Inputs) -> Result<Pattern> {
    let found = parallel(inputs.files.len(), |number| detect(&inputs.files[number]))?;
    for (number, pattern) in found.iter().enumerate() {
        if *pattern != found[0] {
            let (one, other) = (&inputs.files[0].name, &inputs.files[number].name);
            return Err(IndexerError::Request(format!(
                "files differ in what a sample looks like: `{pattern}` in `{other}`, `{}` in \
                 `{one}`; say which file holds what, as in `--sample '{other}={pattern}' --sample \
                 '{one}={}'` (samples of one key are joined), or index them separately",
                found[0], found[0]
            )));
        }
    }
    Ok(found[0].clone())
}

/// A file that two rules read, or that another leads to, has to be the same file for both.
fn check_one_version(inputs: &Inputs, scans: &[Scanned]) -> Result<()> {
    let own = scans.iter().map(|scan| {
        let input = &inputs.files[scan.file];
        (&input.name, &input.path, scan.fingerprint)
    });
    let others = scans.iter().flat_map(|scan| &scan.others);
    let others = others.map(|other| (&other.name, &other.path, other.fingerprint));
    let mut known = HashMap::new();
    for (name, path, fingerprint) in own.chain(others) {
        if *known.entry(name).or_insert(fingerprint) != fingerprint {
            return Err(IndexerError::Stale {
                path: path.clone(),
                what: "it was written to while it was read".to_owned(),
            });
        }
    }
    Ok(())
}
