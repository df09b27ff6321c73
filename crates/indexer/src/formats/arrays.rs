//! Files of named arrays: npy, npz, safetensors. A sample is a row of each array, or a file.

use forebay_dataset::index::FieldSpec;

use crate::error::Result;
use crate::files::{InputFile, Inputs};
use crate::groups::GroupSamples;
use crate::h5::{Array, ArrayStorage};
use crate::manifest::Manifest;
use crate::plan::{Job, Plan};
use crate::rows::RowSamples;
use crate::scan::{FieldFilter, Samples, Scanned};
use crate::{Format, IndexRequest, IndexerError, Pattern, SampleRule};

use super::reader::{Reader, with_reader};
use super::{key_of, npy, npz, safetensors};

/// Bytes of a compressed array of which each sample is a row: each read decodes all of it.
const MAX_SHARED: u64 = 64 << 20;

/// The arrays of a file, sorted by name.
pub(super) type Arrays = Vec<(String, Array)>;

/// How the files are read: by row or as a whole.
pub(super) fn plan<'a>(
    request: &'a IndexRequest,
    inputs: Inputs,
    manifest: Option<&Manifest>,
    filter: &'a FieldFilter,
) -> Result<Plan<'a>> {
    let format = inputs.format;
    let read = move |input: &InputFile, verify: bool| {
        with_reader(input, |reader: &mut Reader<'_>| match format {
            Format::Npy => npy::arrays(reader, filter),
            Format::Npz => npz::arrays(reader, filter, verify),
            _ => safetensors::arrays(reader, filter),
        })
    };
    let asked = match manifest {
        Some(manifest) => {
            manifest.check_files_are_samples(format)?;
            None
        }
        None => asked_rule(request)?,
    };
    let rules = match (manifest, asked, inputs.files.as_slice()) {
        (Some(manifest), ..) => manifest.rules().to_vec(),
        (None, Some(rule), _) => vec![rule.clone()],
        (None, None, [one]) => vec![whole(found_pattern(&read(one, false)?.1))],
        (None, None, _) => vec![whole(Pattern::Groups(Vec::new()))],
    };
    let patterns: Vec<Pattern> = rules.iter().map(|rule| rule.pattern.clone()).collect();
    let verify = request.verify_data;
    let scan = move |input: &InputFile, job: Job| {
        let (fingerprint, arrays) = read(input, verify)?;
        Ok(Scanned {
            file: job.file,
            rule: job.rule,
            fingerprint,
            samples: samples(input, arrays, &patterns[job.rule])?,
            others: Vec::new(),
        })
    };
    Ok(Plan {
        jobs: crate::plan::cover(&inputs, &rules, manifest)?,
        inputs,
        rules,
        scan: Box::new(scan),
    })
}

fn whole(pattern: Pattern) -> SampleRule {
    SampleRule {
        files: None,
        pattern,
    }
}

fn asked_rule(request: &IndexRequest) -> Result<Option<&SampleRule>> {
    let fits = |pattern: &Pattern| match pattern {
        Pattern::Groups(parts) => parts.is_empty(),
        Pattern::Rows(_) => true,
    };
    match request.samples.as_slice() {
        [] => Ok(None),
        [rule] if fits(&rule.pattern) => Ok(Some(rule)),
        [rule] => Err(IndexerError::Request(format!(
            "the sample pattern `{}` is for HDF5 files: for arrays, `/` makes each file a sample \
             and `rows` each row",
            rule.pattern
        ))),
        _ => Err(IndexerError::Request(
            "several sample rules are for HDF5 files: give one for arrays, or index them apart"
                .to_owned(),
        )),
    }
}

/// One file of equally long arrays holds rows; else each file is a sample.
fn found_pattern(arrays: &Arrays) -> Pattern {
    let rows = |(_, array): &(String, Array)| array.dims.first().copied();
    let first = arrays.first().and_then(rows);
    match first.is_some() && arrays.iter().all(|array| rows(array) == first) {
        true => Pattern::Rows(Vec::new()),
        false => Pattern::Groups(Vec::new()),
    }
}

fn samples(input: &InputFile, arrays: Arrays, pattern: &Pattern) -> Result<Samples> {
    Ok(match pattern {
        Pattern::Groups(_) => {
            let (fields, arrays) = split(arrays);
            let mut samples = GroupSamples::default();
            samples.add(key_of(input), &fields, arrays);
            Samples::Groups(samples)
        }
        Pattern::Rows(names) => Samples::Rows(rows(input, arrays, names)?),
    })
}

fn split(arrays: Arrays) -> (Vec<FieldSpec>, Vec<Array>) {
    let field = |(name, array): (String, Array)| {
        let dtype = array.dtype;
        (FieldSpec { name, dtype }, array)
    };
    arrays.into_iter().map(field).unzip()
}

fn rows(input: &InputFile, mut arrays: Arrays, names: &[String]) -> Result<RowSamples> {
    for wanted in names {
        if arrays.iter().all(|(name, _)| name != wanted) {
            return Err(IndexerError::Request(format!(
                "there is no array `{wanted}` in `{}`",
                input.path.display()
            )));
        }
    }
    arrays.retain(|(name, _)| names.is_empty() || names.contains(name));
    for (name, array) in &arrays {
        let bytes = array.dims.iter().product::<u64>() * u64::from(array.dtype.size());
        if matches!(array.storage, ArrayStorage::Chunked { .. }) && bytes > MAX_SHARED {
            return Err(IndexerError::Unsupported {
                place: format!("`{name}` of `{}`", input.path.display()),
                feature: format!("rows of a compressed array of {bytes} bytes"),
                remedy: "each read of a row would decode all of it: save the arrays uncompressed \
                         (`np.savez`, `np.save`)",
            });
        }
    }
    let (fields, arrays) = split(arrays);
    RowSamples::new(input, fields, arrays)
}
