//! Files of named arrays: npy, npz, safetensors. A sample is a row of each array, or a file.

use forebay_dataset::Fingerprint;
use forebay_dataset::index::FieldSpec;

use crate::error::Result;
use crate::files::{InputFile, Inputs};
use crate::groups::GroupSamples;
use crate::h5::{Array, ArrayStorage};
use crate::rows::RowSamples;
use crate::scan::{FieldFilter, Samples, Scanned, parallel};
use crate::{Format, IndexRequest, IndexerError, Pattern, Progress, SampleRule, Stage};

use super::reader::{Reader, with_reader};
use super::{key_of, npy, npz, safetensors};

/// Bytes of a compressed array of which each sample is a row: each read decodes all of it.
const MAX_SHARED: u64 = 64 << 20;

/// The arrays of a file, sorted by name.
pub(super) type Arrays = Vec<(String, Array)>;

struct Read {
    file: usize,
    fingerprint: Fingerprint,
    arrays: Arrays,
}

/// Finds the samples of all files.
pub(super) fn scan(
    request: &IndexRequest,
    inputs: &Inputs,
    filter: &FieldFilter,
    progress: &dyn Progress,
) -> Result<(Vec<SampleRule>, Vec<Scanned>)> {
    let asked = asked_rule(request)?;
    let covered =
        |number: &usize| asked.is_none_or(|rule| rule.covers(&inputs.files[*number].name));
    let files: Vec<usize> = (0..inputs.files.len()).filter(covered).collect();
    if let Some(rule) = asked.filter(|_| files.is_empty()) {
        return Err(IndexerError::Request(format!(
            "no file below `{}` is called like `{rule}` says: check `--sample`",
            inputs.root.display()
        )));
    }
    progress.begin(Stage::Scan, files.len() as u64);
    let read = parallel(files.len(), |number| {
        let file = files[number];
        let input = &inputs.files[file];
        let arrays = |reader: &mut Reader<'_>| match inputs.format {
            Format::Npy => npy::arrays(reader, filter),
            Format::Npz => npz::arrays(reader, filter, request.verify_data),
            _ => safetensors::arrays(reader, filter),
        };
        let (fingerprint, arrays) = with_reader(input, arrays)?;
        progress.advance(1);
        Ok(Read {
            file,
            fingerprint,
            arrays,
        })
    })?;
    let rule = match asked {
        Some(rule) => rule.clone(),
        None => SampleRule {
            files: None,
            pattern: found_pattern(&read),
        },
    };
    let scans = read
        .into_iter()
        .map(|read| scanned(&inputs.files[read.file], read, &rule.pattern))
        .collect::<Result<_>>()?;
    Ok((vec![rule], scans))
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
fn found_pattern(read: &[Read]) -> Pattern {
    let rows = |(_, array): &(String, Array)| array.dims.first().copied();
    let equally_long = |arrays: &Arrays| {
        let first = arrays.first().and_then(rows);
        first.is_some() && arrays.iter().all(|array| rows(array) == first)
    };
    match read {
        [one] if equally_long(&one.arrays) => Pattern::Rows(Vec::new()),
        _ => Pattern::Groups(Vec::new()),
    }
}

fn scanned(input: &InputFile, read: Read, pattern: &Pattern) -> Result<Scanned> {
    let samples = match pattern {
        Pattern::Groups(_) => {
            let (fields, arrays) = split(read.arrays);
            let mut samples = GroupSamples::default();
            samples.add(key_of(input), &fields, arrays);
            Samples::Groups(samples)
        }
        Pattern::Rows(names) => Samples::Rows(rows(input, read.arrays, names)?),
    };
    Ok(Scanned {
        file: read.file,
        rule: 0,
        fingerprint: read.fingerprint,
        samples,
        others: Vec::new(),
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
