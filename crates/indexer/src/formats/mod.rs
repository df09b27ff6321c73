//! Samples in files that are not HDF5. `docs/FORMATS.md` says what each format gives.
//!
//! # Invariants
//! - *Refused, not guessed*: a feature that is not understood is an error that names it, the file
//!   and the way out.
//! - *Bounded*: no length that a file states is believed before the file is seen to be as long.

mod arrays;
mod arrow;
mod flatbuffer;
mod mds;
mod npy;
mod npz;
mod parquet;
mod reader;
mod safetensors;
mod tar;
mod tar_header;
mod tfrecord;
mod zip;

use forebay_dataset::DType;
use forebay_dataset::index::FieldSpec;

use crate::error::Result;
use crate::files::{InputFile, Inputs};
use crate::groups::GroupSamples;
use crate::h5::{Array, ArrayStorage};
use crate::manifest::Manifest;
use crate::plan::{Job, Plan};
use crate::scan::{FieldFilter, Samples, Scanned};
use crate::{Format, IndexRequest, IndexerError, Pattern, SampleRule};
use reader::Reader;

/// Kinds of samples in one file. More would be no data set, and finding each among them slow.
const MAX_KINDS: usize = 1024;

/// How the files are read.
pub(crate) fn plan<'a>(
    request: &'a IndexRequest,
    inputs: Inputs,
    manifest: Option<&Manifest>,
    filter: &'a FieldFilter,
) -> Result<Plan<'a>> {
    let verify = request.verify_data;
    match inputs.format {
        Format::Tar => by_record(inputs, manifest, move |_, reader| tar::scan(reader, filter)),
        Format::TfRecord => by_record(inputs, manifest, move |_, reader| {
            tfrecord::scan(reader, filter, verify)
        }),
        Format::Mds => {
            let (inputs, shards) = mds::shards(&inputs)?;
            by_record(inputs, manifest, move |file, reader| {
                shards[file].scan(reader, filter)
            })
        }
        Format::Arrow => {
            let pattern = request.samples.first().map(|rule| rule.pattern.clone());
            by_record(inputs, manifest, move |_, reader| {
                arrow::scan(reader, filter, pattern.as_ref())
            })
        }
        Format::Parquet => by_record(inputs, manifest, move |_, reader| {
            parquet::scan(reader, filter)
        }),
        Format::Npy | Format::Npz | Format::Safetensors => {
            arrays::plan(request, inputs, manifest, filter)
        }
        Format::Files | Format::Hdf5 => Err(IndexerError::Request(format!(
            "files of format {} are not read here",
            inputs.format
        ))),
    }
}

/// Files that say themselves what a sample is, each read by `read`.
fn by_record<'a>(
    inputs: Inputs,
    manifest: Option<&Manifest>,
    read: impl Fn(usize, &mut Reader<'_>) -> Result<GroupSamples> + Sync + 'a,
) -> Result<Plan<'a>> {
    let all = [SampleRule {
        files: None,
        pattern: Pattern::Groups(Vec::new()),
    }];
    let rules = manifest.map_or(&all[..], Manifest::rules);
    let scan = move |input: &InputFile, job: Job| {
        let (fingerprint, samples) = reader::with_reader(input, |reader| read(job.file, reader))?;
        Ok(Scanned {
            file: job.file,
            rule: job.rule,
            fingerprint,
            samples: Samples::Groups(samples),
            others: Vec::new(),
        })
    };
    Ok(Plan {
        jobs: crate::plan::cover(&inputs, rules, manifest)?,
        rules: manifest.map_or(Vec::new(), |manifest| manifest.rules().to_vec()),
        inputs,
        scan: Box::new(scan),
    })
}

/// Bytes that lie in the file as they are.
fn bytes_at(offset: u64, len: u64) -> Array {
    Array {
        dtype: DType::U8,
        dims: vec![len],
        storage: ArrayStorage::Contiguous { offset },
        file: 0,
    }
}

/// A field of bytes.
fn byte_field(name: &str) -> FieldSpec {
    FieldSpec {
        name: name.to_owned(),
        dtype: DType::U8,
    }
}

/// Adds a sample, unless the file would then have too many kinds of them.
fn add_sample(
    samples: &mut GroupSamples,
    reader: &Reader<'_>,
    key: &str,
    fields: &[FieldSpec],
    arrays: Vec<Array>,
) -> Result<()> {
    samples.add(key, fields, arrays);
    if samples.kinds() > MAX_KINDS {
        return Err(IndexerError::Uneven(format!(
            "samples of `{}` differ in their fields in over {MAX_KINDS} ways: choose fields with \
             `--fields`",
            reader.path().display()
        )));
    }
    Ok(())
}

/// What a sample of this file is called, where the file is the sample.
fn key_of(input: &InputFile) -> &str {
    crate::groups::stem(&input.name)
}
