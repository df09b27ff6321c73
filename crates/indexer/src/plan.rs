//! What is to be read: files, the rules by which, and how.

use std::collections::{BTreeMap, HashSet};

use crate::error::Result;
use crate::files::{InputFile, Inputs};
use crate::manifest::Manifest;
use crate::scan::{self, FieldFilter, Scanned, parallel_over};
use crate::{Format, IndexRequest, IndexerError, Pattern, SampleRule, detect, formats};

/// Reads one file by one rule.
pub(crate) type Scan<'a> = Box<dyn Fn(&InputFile, Job) -> Result<Scanned> + Sync + 'a>;

/// One file, to be read by one rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Job {
    /// Position of the file among the inputs.
    pub(crate) file: usize,
    /// Position of the rule.
    pub(crate) rule: usize,
}

/// All that is to be read.
pub(crate) struct Plan<'a> {
    pub(crate) inputs: Inputs,
    /// Empty where the format says itself what a sample is.
    pub(crate) rules: Vec<SampleRule>,
    /// By rule, then by file.
    pub(crate) jobs: Vec<Job>,
    pub(crate) scan: Scan<'a>,
}

impl<'a> Plan<'a> {
    pub(crate) fn new(
        request: &'a IndexRequest,
        inputs: Inputs,
        manifest: Option<&Manifest>,
        filter: &'a FieldFilter,
    ) -> Result<Self> {
        if inputs.format != Format::Hdf5 {
            return formats::plan(request, inputs, manifest, filter);
        }
        let rules = hdf5_rules(request, &inputs, manifest)?;
        let jobs = cover(&inputs, &rules, manifest)?;
        let patterns: Vec<Pattern> = rules.iter().map(|rule| rule.pattern.clone()).collect();
        let scan =
            move |input: &InputFile, job: Job| scan::scan(input, job, &patterns[job.rule], filter);
        Ok(Self {
            inputs,
            rules,
            jobs,
            scan: Box::new(scan),
        })
    }

    pub(crate) fn input(&self, job: Job) -> &InputFile {
        &self.inputs.files[job.file]
    }
}

fn hdf5_rules(
    request: &IndexRequest,
    inputs: &Inputs,
    manifest: Option<&Manifest>,
) -> Result<Vec<SampleRule>> {
    if request.samples.is_empty() {
        return Ok(vec![SampleRule {
            files: None,
            pattern: detect_all(inputs)?,
        }]);
    }
    let rows = |rule: &SampleRule| matches!(rule.pattern, Pattern::Rows(_));
    if request.samples.iter().any(rows) && (request.samples.len() > 1 || manifest.is_some()) {
        return Err(IndexerError::Request(
            "rows have no key, so they cannot be joined: use one sample rule with `rows`"
                .to_owned(),
        ));
    }
    Ok(match manifest {
        Some(manifest) => manifest.rules().to_vec(),
        None => request.samples.clone(),
    })
}

/// The files of each rule.
pub(crate) fn cover(
    inputs: &Inputs,
    rules: &[SampleRule],
    manifest: Option<&Manifest>,
) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    for (number, rule) in rules.iter().enumerate() {
        let before = jobs.len();
        let named = manifest.and_then(|manifest| manifest.files(number));
        for (file, input) in inputs.files.iter().enumerate() {
            let covered = match &named {
                Some(named) => named.covers(&input.name),
                None => rule.covers(&input.name),
            };
            if covered {
                jobs.push(Job { file, rule: number });
            }
        }
        if jobs.len() == before {
            return Err(IndexerError::Request(format!(
                "no {} below `{}` is called like `{rule}` says: check `--sample`",
                if inputs.format == Format::Hdf5 {
                    "HDF5 file"
                } else {
                    "file"
                },
                inputs.root.display()
            )));
        }
    }
    Ok(jobs)
}

/// Files that a manifest names, row by row.
#[derive(Debug, Default)]
pub(crate) struct Named {
    exact: HashSet<String>,
    globs: BTreeMap<String, SampleRule>,
}

impl Named {
    /// Adds what a rule's glob is for one row.
    pub(crate) fn add(&mut self, glob: &str) {
        if glob.contains(['*', '?']) {
            self.globs
                .entry(glob.to_owned())
                .or_insert_with(|| SampleRule {
                    files: Some(glob.to_owned()),
                    pattern: Pattern::Groups(Vec::new()),
                });
        } else if !self.exact.contains(glob) {
            self.exact.insert(glob.to_owned());
        }
    }

    fn covers(&self, name: &str) -> bool {
        let last = name.rsplit('/').next().unwrap_or(name);
        self.exact.contains(name)
            || self.exact.contains(last)
            || self.globs.values().any(|rule| rule.covers(name))
    }
}

/// The pattern that all files agree on.
fn detect_all(inputs: &Inputs) -> Result<Pattern> {
    let found = parallel_over(&inputs.files, inputs.files.len(), |number| {
        detect::detect(&inputs.files[number])
    })?;
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
