//! Makes parts of an index of what was found in files, and chooses those that are used.

use std::collections::{HashMap, HashSet};

use forebay_dataset::index::{FieldSpec, IndexBuilder};
use forebay_dataset::{Fingerprint, IndexError, SegmentIndex};

use crate::error::Result;
use crate::extents::Emitter;
use crate::files::Inputs;
use crate::groups::stem;
use crate::parts::{Part, PartFiles};
use crate::plan::Plan;
use crate::rows::RowEmitter;
use crate::scan::{Samples, Scanned};
use crate::{IndexRequest, IndexerError};

/// An index that is ready to be written.
pub(crate) struct Assembled {
    pub(crate) builder: IndexBuilder,
    pub(crate) fields: Vec<FieldSpec>,
    /// Samples left out since their fields differ.
    pub(crate) skipped: u64,
    /// Names of the classes, by number.
    pub(crate) classes: Vec<String>,
}

pub(crate) fn in_output(request: &IndexRequest) -> impl Fn(IndexError) -> IndexerError + use<> {
    let path = request.output.clone();
    move |source| IndexerError::Index {
        path: path.clone(),
        source,
    }
}

/// The root as it stands in the index.
pub(crate) fn root(inputs: &Inputs) -> Result<&str> {
    let root = &inputs.root;
    root.to_str().ok_or_else(|| IndexerError::not_utf8(root))
}

pub(crate) fn builder(
    request: &IndexRequest,
    inputs: &Inputs,
    fields: Vec<FieldSpec>,
) -> Result<IndexBuilder> {
    IndexBuilder::new(root(inputs)?, fields, request.block_size).map_err(in_output(request))
}

/// The samples of `scans` that have `fields`, in order; with `stems`, the stem of its file stands
/// before each key.
pub(crate) fn part(
    request: &IndexRequest,
    plan: &Plan<'_>,
    scans: &[Scanned],
    fields: &[FieldSpec],
    stems: bool,
) -> std::result::Result<(IndexBuilder, PartFiles), IndexError> {
    let mut files = PartFiles::new();
    let mut segments = HashMap::new();
    let root = plan.inputs.root.to_string_lossy();
    let mut builder = IndexBuilder::new(&root, fields.to_vec(), request.block_size)?;
    let mut extents = Vec::new();
    for scan in scans {
        if scan
            .samples
            .schemas()
            .iter()
            .all(|kind| kind.fields != fields)
        {
            continue;
        }
        let name = &plan.inputs.files[scan.file].name;
        files.push((builder.len(), name.clone()));
        let led_to = add_files(scan, name, &mut segments, &mut builder)?;
        let mut key = String::new();
        match &scan.samples {
            Samples::Groups(groups) => {
                let emitter = Emitter::new(&groups.extents, led_to, &mut builder)?;
                for sample in 0..groups.len() {
                    if groups.schemas[groups.schema(sample)].fields != fields {
                        continue;
                    }
                    extents.clear();
                    let first = groups.first_extent(sample);
                    for at in first..first + fields.len() {
                        emitter.emit(at, &mut builder, &mut extents)?;
                    }
                    key.clear();
                    if stems {
                        key.push_str(stem(name));
                        key.push('/');
                    }
                    key.push_str(groups.key(sample));
                    let key = (!groups.without_keys).then_some(key.as_str());
                    builder.add_sample(key, &extents, None)?;
                }
            }
            Samples::Rows(rows) => {
                let mut emitter = RowEmitter::new(rows, &led_to, &mut builder)?;
                for row in 0..rows.rows {
                    extents.clear();
                    emitter.emit(row, &mut builder, &mut extents)?;
                    builder.add_sample(None, &extents, None)?;
                }
            }
        }
    }
    Ok((builder, files))
}

/// Adds a file and those that it leads to, an input or not, as far as they are not there yet.
fn add_files(
    scan: &Scanned,
    name: &String,
    segments: &mut HashMap<String, SegmentIndex>,
    builder: &mut IndexBuilder,
) -> std::result::Result<Vec<SegmentIndex>, IndexError> {
    let own = std::iter::once((name, scan.fingerprint));
    let others = scan.others.iter();
    let others = others.map(|other| (&other.name, other.fingerprint));
    let add = |(name, fingerprint): (&String, Fingerprint)| {
        if let Some(segment) = segments.get(name) {
            return Ok(*segment);
        }
        let segment = builder.add_segment(name, fingerprint)?;
        segments.insert(name.clone(), segment);
        Ok(segment)
    };
    own.chain(others).map(add).collect()
}

/// A file that several files lead to has to be the same file for all.
pub(crate) fn check_one_version(inputs: &Inputs, scans: &[Scanned]) -> Result<()> {
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

/// Whether two samples have one key: those of two files, since those of one cannot.
pub(crate) fn keys_repeat(scans: &[Scanned]) -> bool {
    let mut keys = HashSet::new();
    scans.len() > 1
        && scans.iter().any(|scan| match &scan.samples {
            Samples::Groups(groups) => {
                !groups.without_keys
                    && (0..groups.len()).any(|sample| !keys.insert(groups.key(sample)))
            }
            Samples::Rows(_) => false,
        })
}

/// The parts of one rule that are used: those with the fields that most samples have.
pub(crate) struct Chosen<'a> {
    pub(crate) parts: Vec<&'a Part>,
    pub(crate) fields: Vec<FieldSpec>,
    /// Samples with other fields.
    pub(crate) left_out: u64,
}

/// Chooses the parts of a rule. Without leave to skip, all samples have to have the same fields.
pub(crate) fn choose<'a>(
    request: &IndexRequest,
    inputs: &Inputs,
    parts: &'a [Part],
    rule: usize,
) -> Result<Chosen<'a>> {
    let mut kinds: Vec<(&'a Part, u64)> = Vec::new();
    let of_rule = || parts.iter().filter(move |part| part.rule == rule);
    for part in of_rule() {
        match kinds
            .iter_mut()
            .find(|(known, _)| known.fields == part.fields)
        {
            Some((_, samples)) => *samples += part.samples,
            None => kinds.push((part, part.samples)),
        }
    }
    let mut best = 0;
    for (position, (part, samples)) in kinds.iter().enumerate() {
        // Groups that hold nothing wanted are no samples, however many there are.
        let rank = |part: &Part, samples: u64| (!part.fields.is_empty(), samples);
        if rank(part, *samples) > rank(kinds[best].0, kinds[best].1) {
            best = position;
        }
    }
    let Some(&(part, samples)) = kinds.get(best) else {
        return Err(IndexerError::Request(format!(
            "there is no sample in any file of format {} below `{}`",
            inputs.format,
            inputs.root.display()
        )));
    };
    if part.fields.is_empty() {
        return Err(IndexerError::Request(format!(
            "{} holds no data set that is wanted: check `--sample` and `--fields`",
            part.example
        )));
    }
    let odd = kinds
        .iter()
        .map(|(odd, _)| odd)
        .find(|odd| odd.fields != part.fields);
    if let Some(odd) = odd.filter(|_| !request.skip_incomplete) {
        return Err(IndexerError::Uneven(format!(
            "samples differ in their fields: {} has {}, {} has {}; leave out what differs with \
             `--fields`, or such samples with `--skip-incomplete`",
            part.example,
            list(&part.fields),
            odd.example,
            list(&odd.fields),
        )));
    }
    Ok(Chosen {
        parts: of_rule()
            .filter(|found| found.fields == part.fields)
            .collect(),
        fields: part.fields.clone(),
        left_out: of_rule().map(|part| part.samples).sum::<u64>() - samples,
    })
}

fn list(fields: &[FieldSpec]) -> String {
    const SHOWN: usize = 12;
    if fields.is_empty() {
        return "none".to_owned();
    }
    let mut names: Vec<String> = fields
        .iter()
        .take(SHOWN)
        .map(|field| format!("`{}` ({})", field.name, field.dtype))
        .collect();
    if fields.len() > SHOWN {
        names.push(format!("{} more", fields.len() - SHOWN));
    }
    names.join(", ")
}

/// The fields of all groups of fields, one after another.
pub(crate) fn all_fields<'a>(
    groups: impl IntoIterator<Item = &'a [FieldSpec]>,
) -> Result<Vec<FieldSpec>> {
    let mut names = HashSet::new();
    let mut fields = Vec::new();
    for field in groups.into_iter().flatten() {
        if !names.insert(&field.name) {
            return Err(IndexerError::Request(format!(
                "two sample rules find a field `{}`: keep one of them with `--fields`, or use one \
                 rule",
                field.name
            )));
        }
        fields.push(field.clone());
    }
    Ok(fields)
}
