//! `forebay flatten`: from samples that are scattered or compressed to packed shards.
//!
//! A folder of packed shards holds `shard-00000.fbs`, `shard-00001.fbs`, … and `index.forebay`,
//! which comes last: a folder without it is not complete. A shard is the decoded samples, one
//! after another; each sample and each field in it begins at a multiple of 64 bytes.
//!
//! A run that was killed goes on where it stopped: a shard is written as `.partial`, synced,
//! renamed, and described by a file beside it with its checksum. The next run checks that.

pub(crate) mod copy;
mod folder;
pub(crate) mod plan;

use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use forebay_dataset::index::{FieldExtent, Index, IndexBuilder, Storage};
use forebay_dataset::{IndexError, REGION_BYTES};
use forebay_origin::{IndexFile, Origin, Stores, open_origin};

use crate::error::Result;
use crate::files::fingerprint;
use crate::index::index_bytes;
use crate::output::write_whole;
use crate::scan::parallel;
use crate::{IndexRequest, IndexerError, Progress, Stage};
use copy::Copier;
use folder::{Folder, Receipt};
use plan::{Packing, ShardPlan};

/// Where the samples to flatten come from.
#[derive(Clone, Debug)]
pub enum FlattenSource {
    /// An index file.
    Index {
        /// The file.
        path: PathBuf,
        /// Folder of the origin's files, if it is not the one that the index names.
        root: Option<PathBuf>,
    },
    /// Files to index first. The request's `output` is not written.
    Inputs(IndexRequest),
}

/// What to flatten, and where to.
#[derive(Clone, Debug)]
pub struct FlattenRequest {
    /// The samples.
    pub source: FlattenSource,
    /// Folder to write. It is made if it does not exist; a folder that holds anything but an
    /// earlier run of the same request is refused.
    pub output: PathBuf,
    /// A shard ends before the sample with which it would have more bytes than this; 1 to
    /// [`REGION_BYTES`]. A larger sample is a shard of its own.
    pub shard_bytes: u64,
    /// Opens an index's origin that is a URL; without, it is refused.
    pub stores: Option<Arc<dyn Stores>>,
}

impl FlattenRequest {
    /// Flattens `source` into `output`, with shards of up to [`REGION_BYTES`].
    pub fn new(source: FlattenSource, output: PathBuf) -> Self {
        Self {
            source,
            output,
            shard_bytes: REGION_BYTES,
            stores: None,
        }
    }
}

/// What was flattened.
#[derive(Clone, Debug)]
pub struct FlattenSummary {
    /// Samples in the output.
    pub samples: u64,
    /// Shards in the output.
    pub shards: u64,
    /// Shards that an earlier run had written.
    pub shards_reused: u64,
    /// Bytes of all shards.
    pub bytes: u64,
    /// The index of the output.
    pub index: PathBuf,
    /// Identity of that index's content.
    pub generation: u128,
    /// Wall time, in seconds.
    pub seconds: f64,
}

/// Copies every sample of the source, decoded, into packed shards, and indexes them.
///
/// # Errors
/// What cannot be read, decoded or written; an origin file that changed since it was indexed. The
/// output then has no index, and the same request goes on from the shards that are complete.
pub fn flatten(request: &FlattenRequest, progress: &dyn Progress) -> Result<FlattenSummary> {
    if !(1..=REGION_BYTES).contains(&request.shard_bytes) {
        return Err(IndexerError::Request(format!(
            "a shard has 1 to {REGION_BYTES} bytes, not {}",
            request.shard_bytes
        )));
    }
    match &request.source {
        FlattenSource::Index { path, root } => {
            let index = IndexFile::open(path)?;
            let root = index.resolve_root(root.as_deref());
            let origin = open_origin(&root, request.stores.as_deref())?;
            run(request, &*index, &*origin, path.clone(), progress)
        }
        FlattenSource::Inputs(inputs) => {
            refuse_inside(request, &inputs.inputs)?;
            let decoding = IndexRequest {
                decode: true,
                ..inputs.clone()
            };
            let bytes = index_bytes(&decoding, progress)?;
            let path = inputs.inputs.first().cloned().unwrap_or_default();
            let index = Index::parse(bytes).map_err(in_index(&path))?;
            let root = PathBuf::from(index.root());
            let origin = open_origin(&root, inputs.stores.as_deref())?;
            run(request, &index, &*origin, path, progress)
        }
    }
}

fn in_index(path: &std::path::Path) -> impl Fn(IndexError) -> IndexerError + use<> {
    let path = path.to_path_buf();
    move |source| IndexerError::Index {
        path: path.clone(),
        source,
    }
}

/// An output among the inputs would be an input of the next run.
fn refuse_inside(request: &FlattenRequest, inputs: &[PathBuf]) -> Result<()> {
    let whole = |path: &std::path::Path| {
        let mut known = path.to_path_buf();
        let mut rest = Vec::new();
        // The output need not exist yet; its nearest parent that does decides.
        while !known.exists() {
            let Some(name) = known.file_name().map(ToOwned::to_owned) else {
                break;
            };
            rest.push(name);
            known.pop();
        }
        if known.as_os_str().is_empty() {
            known.push(".");
        }
        let mut known = known.canonicalize().unwrap_or(known);
        known.extend(rest.iter().rev());
        known
    };
    let output = whole(&request.output);
    for input in inputs {
        if input.is_dir() && output.starts_with(whole(input)) {
            return Err(IndexerError::Request(format!(
                "the output `{}` lies inside the input `{}`: choose a folder elsewhere",
                request.output.display(),
                input.display()
            )));
        }
    }
    Ok(())
}

fn run<B: AsRef<[u8]> + Sync>(
    request: &FlattenRequest,
    index: &Index<B>,
    origin: &dyn Origin,
    path: PathBuf,
    progress: &dyn Progress,
) -> Result<FlattenSummary> {
    let started = Instant::now();
    let folder = Folder::open(&request.output, index.generation(), request.shard_bytes)?;
    let shards = plan::shards(index, request.shard_bytes).map_err(in_index(&path))?;
    let bytes: u64 = shards.iter().map(|shard| shard.len).sum();
    let mut reused = shards.len() as u64;
    if !folder.is_complete() {
        progress.begin(Stage::Copy, bytes);
        let count = AtomicU64::new(0);
        let checksums = parallel(shards.len(), |number| {
            let mut copier = Copier::new(index, origin, &path);
            let found = one_shard(&folder, number, &shards[number], &mut copier, progress)?;
            if found.reused {
                // Relaxed: read after the threads are joined.
                count.fetch_add(1, Ordering::Relaxed);
            }
            Ok(found.checksums)
        })?;
        reused = count.into_inner();
        write_index(&folder, index, &path, &shards, &checksums)?;
    }
    folder.remove_receipts(shards.len())?;
    let packed = IndexFile::open(&folder.index())?;
    Ok(FlattenSummary {
        samples: packed.len(),
        shards: shards.len() as u64,
        shards_reused: reused,
        bytes,
        index: folder.index(),
        generation: packed.generation(),
        seconds: started.elapsed().as_secs_f64(),
    })
}

struct Done {
    /// CRC32C of each sample.
    checksums: Vec<u32>,
    reused: bool,
}

fn one_shard<B: AsRef<[u8]>>(
    folder: &Folder,
    number: usize,
    plan: &ShardPlan,
    copier: &mut Copier<'_, B>,
    progress: &dyn Progress,
) -> Result<Done> {
    let path = folder.shard(number);
    if let Some(receipt) = folder.receipt(number)
        && let Some(checksums) = copier.check(&path, plan, &receipt)?
    {
        progress.advance(plan.len);
        return Ok(Done {
            checksums,
            reused: true,
        });
    }
    let (checksums, receipt) = write_whole(&path, |out| {
        let mut packing = Packing::new(out, &path);
        let mut checksums = Vec::with_capacity((plan.end - plan.first) as usize);
        for sample in plan.first..plan.end {
            let before = packing.len();
            checksums.push(copier.sample(sample, &mut packing)?);
            progress.advance(packing.len() - before);
        }
        let receipt = Receipt {
            bytes: packing.len(),
            crc32c: packing.checksum(),
        };
        Ok((checksums, receipt))
    })?;
    folder.write_receipt(number, &receipt)?;
    Ok(Done {
        checksums,
        reused: false,
    })
}

/// Writes the index of the packed shards, which makes the output complete.
fn write_index<B: AsRef<[u8]>>(
    folder: &Folder,
    index: &Index<B>,
    source: &std::path::Path,
    shards: &[ShardPlan],
    checksums: &[Vec<u32>],
) -> Result<()> {
    let target = folder.index();
    let fail = in_index(&target);
    // Relative to the index itself, so that the folder can be moved.
    let mut builder =
        IndexBuilder::new(".", index.fields().to_vec(), index.block_size()).map_err(&fail)?;
    let mut extents = Vec::new();
    for (number, shard) in shards.iter().enumerate() {
        let path = folder.shard(number);
        let metadata = std::fs::metadata(&path).map_err(IndexerError::io("read", &path))?;
        let segment = builder
            .add_segment(&folder::shard_name(number), fingerprint(&metadata))
            .map_err(&fail)?;
        let mut at = 0;
        for sample in shard.first..shard.end {
            extents.clear();
            let fields = plan::fields(index, sample, &mut at).map_err(in_index(source))?;
            extents.extend(fields.into_iter().map(|field| FieldExtent {
                segment,
                shape: field.shape,
                storage: Storage::Contiguous {
                    offset: field.offset,
                },
            }));
            let key = index.key(sample).map_err(in_index(source))?;
            let checksum = checksums[number][(sample - shard.first) as usize];
            builder
                .add_sample(key, &extents, Some(checksum))
                .map_err(&fail)?;
        }
    }
    write_whole(&target, |out| {
        builder
            .write(out)
            .and_then(|()| out.flush())
            .map_err(IndexerError::io("write", &target))
    })
}
