//! Puts the samples of all files together: fields, keys, joins.

use std::collections::{HashMap, HashSet};

use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder};
use forebay_dataset::{Fingerprint, IndexError, SegmentIndex};

use crate::error::Result;
use crate::extents::Emitter;
use crate::files::{InputFile, Inputs};
use crate::groups::{GroupSamples, stem};
use crate::rows::{RowEmitter, RowSamples};
use crate::scan::{Samples, Scanned, Schema};
use crate::{IndexRequest, IndexerError, Progress, Stage};

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

pub(crate) fn builder(
    request: &IndexRequest,
    inputs: &Inputs,
    fields: Vec<FieldSpec>,
) -> Result<IndexBuilder> {
    let Some(root) = inputs.root.to_str() else {
        return Err(IndexerError::Request(format!(
            "the name of `{}` is not UTF-8",
            inputs.root.display()
        )));
    };
    IndexBuilder::new(root, fields, request.block_size).map_err(in_output(request))
}

/// Makes an index of what was found in files, by `rules` rules.
pub(crate) fn scanned(
    request: &IndexRequest,
    inputs: &Inputs,
    scans: &[Scanned],
    rules: usize,
    progress: &dyn Progress,
) -> Result<Assembled> {
    let of_rule = |rule| {
        scans
            .iter()
            .filter(move |scan: &&Scanned| scan.rule == rule)
    };
    let mut wanted = Vec::with_capacity(rules);
    for rule in 0..rules {
        wanted.push(common_schema(request, inputs, of_rule(rule))?);
    }
    let fields = all_fields(&wanted)?;
    let mut builder = builder(request, inputs, fields.clone())?;
    let segments = add_segments(inputs, scans, &mut builder).map_err(in_output(request))?;
    let total: u64 = scans
        .iter()
        .filter(|scan| scan.rule == 0)
        .flat_map(|scan| scan.samples.schemas())
        .map(|schema| schema.samples)
        .sum();
    progress.begin(Stage::Write, total);
    let mut emitters = Vec::with_capacity(scans.len());
    for scan in scans {
        let emitter = AnyEmitter::new(scan, segments.of(inputs, scan), &mut builder);
        emitters.push(emitter.map_err(in_output(request))?);
    }
    let mut writer = Writer {
        request,
        inputs,
        scans,
        wanted: &wanted,
        emitters,
        builder,
        fields: Vec::new(),
        skipped: 0,
        progress,
    };
    if rules == 1 {
        writer.single()?;
    } else {
        writer.joined(rules)?;
    }
    Ok(Assembled {
        builder: writer.builder,
        fields,
        skipped: writer.skipped,
        classes: Vec::new(),
    })
}

/// The fields that most samples of a rule have. Without leave to skip, all have to have them.
fn common_schema<'a>(
    request: &IndexRequest,
    inputs: &Inputs,
    scans: impl Iterator<Item = &'a Scanned> + Clone,
) -> Result<&'a [FieldSpec]> {
    let mut counts: Vec<(&'a Schema, &'a Scanned, u64)> = Vec::new();
    for scan in scans {
        for schema in scan.samples.schemas() {
            match counts
                .iter_mut()
                .find(|(known, ..)| known.fields == schema.fields)
            {
                Some((.., count)) => *count += schema.samples,
                None => counts.push((schema, scan, schema.samples)),
            }
        }
    }
    let mut best = 0;
    for (position, (schema, _, count)) in counts.iter().enumerate() {
        // Groups that hold nothing wanted are no samples, however many there are.
        let rank = |schema: &Schema, count: u64| (!schema.fields.is_empty(), count);
        let (known, _, most) = &counts[best];
        if rank(schema, *count) > rank(known, *most) {
            best = position;
        }
    }
    let Some(&(schema, scan, _)) = counts.get(best) else {
        return Err(IndexerError::Request("no file was read".to_owned()));
    };
    let place = |schema: &Schema, scan: &Scanned| {
        let file = &inputs.files[scan.file];
        format!("`{}` of `{}`", schema.example, file.path.display())
    };
    if schema.fields.is_empty() {
        return Err(IndexerError::Request(format!(
            "{} holds no data set that is wanted: check `--sample` and `--fields`",
            place(schema, scan)
        )));
    }
    let odd = counts
        .iter()
        .enumerate()
        .find(|(position, _)| *position != best)
        .map(|(_, (odd, odd_scan, _))| (odd, odd_scan));
    if let Some((odd, odd_scan)) = odd
        && !request.skip_incomplete
    {
        return Err(IndexerError::Uneven(format!(
            "samples differ in their fields: {} has {}, {} has {}; leave out what differs with \
             `--fields`, or such samples with `--skip-incomplete`",
            place(schema, scan),
            list(&schema.fields),
            place(odd, odd_scan),
            list(&odd.fields),
        )));
    }
    Ok(&schema.fields)
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

fn all_fields(rules: &[&[FieldSpec]]) -> Result<Vec<FieldSpec>> {
    let mut names = HashSet::new();
    let mut fields = Vec::new();
    for field in rules.iter().copied().flatten() {
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

/// The segments of an index, by name.
struct Segments(HashMap<String, SegmentIndex>);

impl Segments {
    /// The segment of a file, then those of the files that it leads to.
    fn of(&self, inputs: &Inputs, scan: &Scanned) -> Vec<SegmentIndex> {
        let own = &inputs.files[scan.file].name;
        let others = scan.others.iter().map(|other| &other.name);
        std::iter::once(own)
            .chain(others)
            .map(|name| self.0[name])
            .collect()
    }
}

fn add_segments(
    inputs: &Inputs,
    scans: &[Scanned],
    builder: &mut IndexBuilder,
) -> std::result::Result<Segments, IndexError> {
    let mut files: Vec<(usize, Fingerprint)> = scans
        .iter()
        .map(|scan| (scan.file, scan.fingerprint))
        .collect();
    files.sort_unstable_by_key(|(file, _)| *file);
    files.dedup_by_key(|(file, _)| *file);
    let mut segments = HashMap::new();
    for (file, fingerprint) in files {
        let name = &inputs.files[file].name;
        segments.insert(name.clone(), builder.add_segment(name, fingerprint)?);
    }
    // An input may lead to another input, and two to one file.
    for other in scans.iter().flat_map(|scan| &scan.others) {
        if !segments.contains_key(&other.name) {
            let segment = builder.add_segment(&other.name, other.fingerprint)?;
            segments.insert(other.name.clone(), segment);
        }
    }
    Ok(Segments(segments))
}

enum AnyEmitter<'a> {
    Groups(&'a GroupSamples, Emitter<'a>),
    Rows(&'a RowSamples, RowEmitter<'a>),
}

impl<'a> AnyEmitter<'a> {
    fn new(
        scan: &'a Scanned,
        segments: Vec<SegmentIndex>,
        builder: &mut IndexBuilder,
    ) -> std::result::Result<Self, IndexError> {
        Ok(match &scan.samples {
            Samples::Groups(groups) => {
                Self::Groups(groups, Emitter::new(&groups.extents, segments, builder)?)
            }
            Samples::Rows(rows) => Self::Rows(rows, RowEmitter::new(rows, &segments, builder)?),
        })
    }
}

struct Writer<'a> {
    request: &'a IndexRequest,
    inputs: &'a Inputs,
    scans: &'a [Scanned],
    /// Fields of each rule.
    wanted: &'a [&'a [FieldSpec]],
    /// One for each scan.
    emitters: Vec<AnyEmitter<'a>>,
    builder: IndexBuilder,
    /// Extents of the current sample.
    fields: Vec<FieldExtent>,
    skipped: u64,
    progress: &'a dyn Progress,
}

/// Scan and sample, by key.
type ByKey<'a> = HashMap<&'a str, (usize, u64)>;

impl<'a> Writer<'a> {
    /// One rule: the samples of all files in order.
    fn single(&mut self) -> Result<()> {
        let with_file_name = self.keys_repeat();
        for scan in 0..self.scans.len() {
            let stem = stem(&self.inputs.files[self.scans[scan].file].name).to_owned();
            let count = match &self.scans[scan].samples {
                Samples::Groups(groups) => groups.len() as u64,
                Samples::Rows(rows) => rows.rows,
            };
            for sample in 0..count {
                self.fields.clear();
                if !self.emit(scan, sample)? {
                    self.skipped += 1;
                    continue;
                }
                let key = match &self.scans[scan].samples {
                    Samples::Groups(groups) if groups.without_keys => None,
                    Samples::Groups(groups) if with_file_name => {
                        Some(format!("{stem}/{}", groups.key(sample as usize)))
                    }
                    Samples::Groups(groups) => Some(groups.key(sample as usize).to_owned()),
                    Samples::Rows(_) => None,
                };
                self.add(key.as_deref())?;
            }
            self.progress.advance(count);
        }
        Ok(())
    }

    /// Whether two files have samples of one key.
    fn keys_repeat(&self) -> bool {
        if self.scans.len() < 2 {
            return false;
        }
        let mut keys = HashSet::new();
        self.scans.iter().any(|scan| match &scan.samples {
            Samples::Groups(groups) => {
                !groups.without_keys
                    && (0..groups.len()).any(|sample| !keys.insert(groups.key(sample)))
            }
            Samples::Rows(_) => false,
        })
    }

    /// Several rules: the samples of the first, each joined with those of the same key by the
    /// others.
    fn joined(&mut self, rules: usize) -> Result<()> {
        let mut by_key: Vec<ByKey<'a>> = Vec::with_capacity(rules);
        for rule in 0..rules {
            by_key.push(self.keys_of(rule)?);
        }
        let mut matched = 0_u64;
        let scans = self.scans;
        for (scan, scanned) in scans.iter().enumerate() {
            let Samples::Groups(groups) = &scanned.samples else {
                continue;
            };
            if scanned.rule != 0 {
                continue;
            }
            for sample in 0..groups.len() {
                let key = groups.key(sample);
                self.fields.clear();
                let mut complete = self.emit(scan, sample as u64)?;
                for (rule, keys) in by_key.iter().enumerate().skip(1) {
                    complete &= match keys.get(key) {
                        Some((scan, sample)) => self.emit(*scan, *sample)?,
                        None => self.without_partner(scan, key, rule)?,
                    };
                }
                if complete {
                    self.add(Some(key))?;
                    matched += 1;
                } else {
                    self.skipped += 1;
                }
            }
            self.progress.advance(groups.len() as u64);
        }
        self.check_leftover(&by_key, matched)
    }

    /// Where the samples of a rule are, by key.
    fn keys_of(&self, rule: usize) -> Result<ByKey<'a>> {
        let mut keys = ByKey::new();
        for (scan, scanned) in self.scans.iter().enumerate() {
            if scanned.rule != rule {
                continue;
            }
            // Rows are not joined: the request was checked.
            let Samples::Groups(groups) = &scanned.samples else {
                continue;
            };
            for sample in 0..groups.len() {
                let key = groups.key(sample);
                if let Some((other, _)) = keys.insert(key, (scan, sample as u64)) {
                    return Err(IndexerError::Request(format!(
                        "the sample `{key}` is in `{}` and in `{}`, so it cannot be joined",
                        self.input(other).path.display(),
                        self.input(scan).path.display()
                    )));
                }
            }
        }
        Ok(keys)
    }

    fn input(&self, scan: usize) -> &InputFile {
        &self.inputs.files[self.scans[scan].file]
    }

    fn without_partner(&self, scan: usize, key: &str, rule: usize) -> Result<bool> {
        if self.request.skip_incomplete {
            return Ok(false);
        }
        Err(IndexerError::Uneven(format!(
            "the sample `{key}` of `{}` is not complete: no file of the rule `{}` holds it; leave \
             out such samples with `--skip-incomplete`",
            self.input(scan).path.display(),
            self.request.samples[rule]
        )))
    }

    /// Samples of later rules that no sample of the first was joined with.
    fn check_leftover(&mut self, by_key: &[ByKey<'a>], matched: u64) -> Result<()> {
        for keys in &by_key[1..] {
            let lone = keys.keys().filter(|key| !by_key[0].contains_key(*key));
            // The least, so that the message does not depend on the order of a hash table.
            if let Some(key) = lone.clone().min() {
                self.without_partner(keys[key].0, key, 0)?;
            }
            self.skipped += lone.count() as u64;
        }
        if matched == 0 {
            return Err(IndexerError::Uneven(
                "no sample is complete: check that the sample rules give the same keys".to_owned(),
            ));
        }
        Ok(())
    }

    /// Adds the extents of one sample to the current one; false if its fields differ.
    fn emit(&mut self, scan: usize, sample: u64) -> Result<bool> {
        let wanted = self.wanted[self.scans[scan].rule];
        let result = match &mut self.emitters[scan] {
            AnyEmitter::Groups(groups, emitter) => {
                let sample = sample as usize;
                let schema = &groups.schemas[groups.schema(sample)];
                if schema.fields != wanted {
                    return Ok(false);
                }
                let first = groups.first_extent(sample);
                (first..first + wanted.len())
                    .try_for_each(|at| emitter.emit(at, &mut self.builder, &mut self.fields))
            }
            AnyEmitter::Rows(rows, emitter) => {
                if rows.schema.fields != wanted {
                    return Ok(false);
                }
                emitter.emit(sample, &mut self.builder, &mut self.fields)
            }
        };
        result.map_err(in_output(self.request))?;
        Ok(true)
    }

    fn add(&mut self, key: Option<&str>) -> Result<()> {
        self.builder
            .add_sample(key, &self.fields, None)
            .map_err(in_output(self.request))
    }
}
