//! Reads what an index leads to, and finds out whether it still leads there.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use forebay_dataset::{IndexError, SegmentIndex};
use forebay_origin::{IndexFile, Objects, Origin, OriginError, StoreUrl, Stores, open_origin};
use memmap2::Mmap;

use crate::error::Result;
use crate::files::check_unchanged;
use crate::flatten::copy::Copier;
use crate::flatten::plan::Packing;
use crate::objects::REQUESTS;
use crate::scan::{parallel, parallel_on};
use crate::{IndexerError, Progress, Stage};

/// Faults that a report lists; the others are counted.
const LISTED: usize = 1000;
/// Files or samples that one thread takes at a time.
const SHARE: u64 = 256;

/// Reads samples from the origin, decoded, without a cache.
pub struct SampleReader<'a> {
    copier: Copier<'a, Mmap>,
    path: &'a Path,
}

impl<'a> SampleReader<'a> {
    /// Reads the samples of `index` from `origin`.
    pub fn new(index: &'a IndexFile, origin: &'a dyn Origin) -> Self {
        Self {
            copier: Copier::new(index, origin, index.path()),
            path: index.path(),
        }
    }

    /// Writes the decoded bytes of field number `field` of a sample to `out`.
    ///
    /// # Errors
    /// No such sample or field; an origin file that cannot be read or changed; stored bytes that
    /// do not decode; what `out` reports. Part of the bytes may then be written.
    pub fn field(&mut self, sample: u64, field: usize, out: &mut impl Write) -> Result<()> {
        let mut packing = Packing::new(out, self.path);
        self.copier.field(sample, field, &mut packing)
    }

    /// Reads a whole sample, and returns the CRC32C of its decoded bytes.
    ///
    /// # Errors
    /// As [`Self::field`].
    pub fn crc32c(&mut self, sample: u64) -> Result<u32> {
        let mut nowhere = io::sink();
        let mut packing = Packing::new(&mut nowhere, self.path);
        self.copier.sample(sample, &mut packing)
    }
}

/// What to verify.
#[derive(Clone, Debug)]
pub struct VerifyRequest {
    /// The index file.
    pub index: PathBuf,
    /// Folder of the origin's files, if it is not the one that the index names.
    pub root: Option<PathBuf>,
    /// Read and decode every sample too, and compare it with its checksum where there is one.
    pub data: bool,
    /// Opens an origin that is a URL; without, it is refused.
    pub stores: Option<Arc<dyn Stores>>,
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// Samples in the index.
    pub samples: u64,
    /// Origin files that it names.
    pub segments: u64,
    /// Samples that were read and decoded.
    pub read: u64,
    /// Those of them that were compared with a checksum.
    pub compared: u64,
    /// Number of faults.
    pub faults: u64,
    /// The first faults, in words.
    pub listed: Vec<String>,
    /// Wall time, in seconds.
    pub seconds: f64,
}

impl VerifyReport {
    fn add(&mut self, faults: impl IntoIterator<Item = String>) {
        for fault in faults {
            self.faults += 1;
            if self.listed.len() < LISTED {
                self.listed.push(fault);
            }
        }
    }
}

/// Checks every record of an index, compares every origin file with it, and reads every sample if
/// asked to. Faults are found and listed; they are not errors.
///
/// # Errors
/// [`IndexerError::Origin`] if the index cannot be opened.
pub fn verify(request: &VerifyRequest, progress: &dyn Progress) -> Result<VerifyReport> {
    // Only for the report; nothing depends on it.
    let started = Instant::now();
    let index = IndexFile::open(&request.index)?;
    let mut report = VerifyReport {
        samples: index.len(),
        segments: u64::from(index.segment_count()),
        ..VerifyReport::default()
    };
    if let Err(fault) = index.verify() {
        // Nothing that it says about files could be relied on.
        report.add([format!("`{}`: {fault}", request.index.display())]);
    } else {
        let root = index.resolve_root(request.root.as_deref());
        let place = Place::of(&root, request.stores.as_deref())?;
        let changed = check_files(&index, &place, progress, &mut report)?;
        if request.data {
            let origin = open_origin(&root, request.stores.as_deref())?;
            check_data(&index, &*origin, &changed, progress, &mut report)?;
        }
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Shares of `0..count`, each for one thread.
fn shares(count: u64) -> Vec<std::ops::Range<u64>> {
    let starts = (0..count).step_by(SHARE as usize);
    starts
        .map(|start| start..count.min(start + SHARE))
        .collect()
}

/// Compares every file with what the index recorded; returns those that are not the same.
fn check_files(
    index: &IndexFile,
    place: &Place<'_>,
    progress: &dyn Progress,
    report: &mut VerifyReport,
) -> Result<HashSet<SegmentIndex>> {
    let shares = shares(u64::from(index.segment_count()));
    progress.begin(Stage::Check, u64::from(index.segment_count()));
    let found = parallel_on(place.threads(), shares.len(), |number| {
        let mut faults = Vec::new();
        for segment in shares[number].clone() {
            let segment = SegmentIndex(segment as u32);
            if let Err(error) = place.check(index, segment) {
                faults.push((segment, words(&error)));
            }
            progress.advance(1);
        }
        Ok(faults)
    })?;
    let mut changed = HashSet::new();
    for (segment, fault) in found.into_iter().flatten() {
        changed.insert(segment);
        report.add([fault]);
    }
    Ok(changed)
}

/// Where the files of an index are.
enum Place<'a> {
    Folder(&'a Path),
    Store(StoreUrl, Arc<dyn Objects>),
}

impl<'a> Place<'a> {
    fn of(root: &'a Path, stores: Option<&dyn Stores>) -> Result<Self> {
        let Some(url) = root.to_str().filter(|text| StoreUrl::is_url(text)) else {
            return Ok(Self::Folder(root));
        };
        let url = StoreUrl::parse(url)?;
        let Some(stores) = stores else {
            let url = url.to_string();
            return Err(OriginError::NoStores { url }.into());
        };
        let objects = stores.open(&url)?;
        Ok(Self::Store(url, objects))
    }

    fn threads(&self) -> usize {
        match self {
            Self::Folder(_) => thread::available_parallelism().map_or(1, usize::from),
            Self::Store(..) => REQUESTS,
        }
    }

    /// Fails unless a file is what the index recorded.
    fn check(&self, index: &IndexFile, segment: SegmentIndex) -> Result<()> {
        let known = index.segment(segment).map_err(in_index(index))?;
        match self {
            Self::Folder(root) => {
                let path = root.join(known.path);
                let file = File::open(&path).map_err(IndexerError::io("open", &path))?;
                check_unchanged(&file, &path, known.fingerprint)
            }
            Self::Store(root, objects) => {
                let key = root.key_of(known.path);
                let found = objects.stat(&key)?;
                if found == known.fingerprint {
                    return Ok(());
                }
                Err(OriginError::StaleObject {
                    url: root.with_key(&key).to_string(),
                    indexed: known.fingerprint,
                    found,
                }
                .into())
            }
        }
    }
}

/// What one thread found in its samples.
#[derive(Default)]
struct Read {
    read: u64,
    compared: u64,
    faults: Vec<String>,
}

fn check_data(
    index: &IndexFile,
    origin: &dyn Origin,
    changed: &HashSet<SegmentIndex>,
    progress: &dyn Progress,
    report: &mut VerifyReport,
) -> Result<()> {
    let shares = shares(index.len());
    progress.begin(Stage::Read, index.len());
    let found = parallel(shares.len(), |number| {
        let mut reader = SampleReader::new(index, origin);
        let mut found = Read::default();
        for sample in shares[number].clone() {
            // A file that changed is one fault, not one for each sample in it.
            if !touches(index, sample, changed).map_err(in_index(index))? {
                check_sample(index, &mut reader, sample, &mut found);
            }
            progress.advance(1);
        }
        Ok(found)
    })?;
    for found in found {
        report.read += found.read;
        report.compared += found.compared;
        report.add(found.faults);
    }
    Ok(())
}

fn touches(
    index: &IndexFile,
    sample: u64,
    changed: &HashSet<SegmentIndex>,
) -> std::result::Result<bool, IndexError> {
    if changed.is_empty() {
        return Ok(false);
    }
    let sample = index.sample(sample)?;
    for field in 0..index.fields().len() {
        let segment = sample.field(field)?.segment();
        if segment.is_some_and(|segment| changed.contains(&segment)) {
            return Ok(true);
        }
    }
    Ok(false)
}

fn check_sample(index: &IndexFile, reader: &mut SampleReader<'_>, sample: u64, found: &mut Read) {
    let name = || match index.key(sample) {
        Ok(Some(key)) => format!("sample {sample} (`{key}`)"),
        _ => format!("sample {sample}"),
    };
    let wanted = index.sample(sample).ok().and_then(|sample| sample.crc32c());
    match reader.crc32c(sample) {
        Err(error) => found.faults.push(format!("{}: {}", name(), words(&error))),
        Ok(crc) => {
            found.read += 1;
            found.compared += u64::from(wanted.is_some());
            if let Some(wanted) = wanted.filter(|wanted| *wanted != crc) {
                found.faults.push(format!(
                    "{}: its checksum is {crc:08x}, the index has {wanted:08x}",
                    name()
                ));
            }
        }
    }
}

fn in_index(index: &IndexFile) -> impl Fn(IndexError) -> IndexerError + use<> {
    let path = index.path().to_path_buf();
    move |source| IndexerError::Index {
        path: path.clone(),
        source,
    }
}

/// An error with its causes.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(&format!(": {error}"));
        cause = error.source();
    }
    text
}
