//! Samples in files that are not HDF5. `docs/FORMATS.md` says what each format gives.
//!
//! # Invariants
//! - *Refused, not guessed*: a feature that is not understood is an error that names it, the file
//!   and the way out.
//! - *Bounded*: no length that a file states is believed before the file is seen to be as long.

mod arrays;
mod mds;
mod npy;
mod npz;
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
use crate::scan::{FieldFilter, Samples, Scanned, parallel};
use crate::{Format, IndexRequest, IndexerError, Progress, SampleRule, Stage};
use reader::Reader;

/// Kinds of samples in one file. More would be no data set, and finding each among them slow.
const MAX_KINDS: usize = 1024;

/// Finds the samples of all files.
pub(crate) fn scan(
    request: &IndexRequest,
    inputs: &Inputs,
    filter: &FieldFilter,
    progress: &dyn Progress,
) -> Result<(Vec<SampleRule>, Vec<Scanned>)> {
    let verify = request.verify_data;
    let none = |scans| (Vec::new(), scans);
    match inputs.format {
        Format::Tar => {
            let read = |_, reader: &mut Reader<'_>| tar::scan(reader, filter);
            files(inputs, progress, read).map(none)
        }
        Format::TfRecord => {
            let read = |_, reader: &mut Reader<'_>| tfrecord::scan(reader, filter, verify);
            files(inputs, progress, read).map(none)
        }
        Format::Mds => {
            let (inputs, shards) = mds::shards(inputs)?;
            let read = |file: usize, reader: &mut Reader<'_>| shards[file].scan(reader, filter);
            files(&inputs, progress, read).map(none)
        }
        Format::Npy | Format::Npz | Format::Safetensors => {
            arrays::scan(request, inputs, filter, progress)
        }
        Format::Files | Format::Hdf5 => Err(IndexerError::Request(format!(
            "files of format {} are not read here",
            inputs.format
        ))),
    }
}

/// Reads every file by `read`.
fn files(
    inputs: &Inputs,
    progress: &dyn Progress,
    read: impl Fn(usize, &mut Reader<'_>) -> Result<GroupSamples> + Sync,
) -> Result<Vec<Scanned>> {
    progress.begin(Stage::Scan, inputs.files.len() as u64);
    let scans = parallel(inputs.files.len(), |file| {
        let (fingerprint, samples) =
            reader::with_reader(&inputs.files[file], |reader| read(file, reader))?;
        progress.advance(1);
        Ok(Scanned {
            file,
            rule: 0,
            fingerprint,
            samples: Samples::Groups(samples),
            others: Vec::new(),
        })
    })?;
    let found = |scan: &Scanned| scan.samples.schemas().iter().any(|kind| kind.samples > 0);
    if scans.iter().any(found) {
        return Ok(scans);
    }
    Err(IndexerError::Request(format!(
        "there is no sample in any file of format {} below `{}`",
        inputs.format,
        inputs.root.display()
    )))
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
