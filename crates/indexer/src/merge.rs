//! Puts indexes together: parts that were made on many nodes, or one that grows.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

use forebay_dataset::index::{Part, Pick, Picks, compose};
use forebay_dataset::{Fingerprint, IndexError, SegmentIndex, is_store_url};
use forebay_origin::{IndexFile, StoreUrl};
use memmap2::Mmap;

use crate::error::Result;
use crate::files::{InputFile, Inputs};
use crate::index::{IndexSummary, known, summary};
use crate::objects::common_prefix;
use crate::output::write_whole;
use crate::{IndexRequest, IndexerError, Progress, Stage};

/// What to put together.
#[derive(Clone, Debug)]
pub struct MergeRequest {
    /// Indexes with the same fields, in the order in which their samples come.
    pub indexes: Vec<PathBuf>,
    /// The index to write; it may be one of those. It is replaced in one step.
    pub output: PathBuf,
}

/// Writes one index of the samples of several, one after another. Its root is the folder, or the
/// prefix of the store, that holds the roots of all. Memory does not grow with the samples, but for
/// 16 bytes of each key.
///
/// # Errors
/// An index that cannot be read or is damaged; indexes that differ in their fields, in whether
/// samples have keys, in block size, or in what they know of one file; a key that two of them
/// have. The output is then as it was before.
pub fn merge(request: &MergeRequest, progress: &dyn Progress) -> Result<IndexSummary> {
    // Only for the summary; nothing depends on it.
    let started = Instant::now();
    let open = request.indexes.iter().map(|path| IndexFile::open(path));
    let indexes: Vec<IndexFile> = open.collect::<std::result::Result<_, _>>()?;
    let Some(first) = indexes.first() else {
        return Err(IndexerError::Request(
            "there is nothing to merge: name indexes".to_owned(),
        ));
    };
    check_alike(&indexes)?;
    let (root, prefixes) = roots(&indexes)?;
    let parts: Vec<Part<'_, Mmap>> = indexes
        .iter()
        .zip(&prefixes)
        .map(|(index, prefix)| Part { index, prefix })
        .collect();
    let all = Concatenation::new(&parts);
    progress.begin(Stage::Write, all.len());
    write_whole(&request.output, |out| {
        let written = compose(&root, first.fields(), &parts, &all, out);
        let failed = IndexerError::io("write", &request.output);
        written.map_err(|error| known(error, failed).at(&request.output))
    })?;
    progress.advance(all.len());
    Ok(IndexSummary {
        seconds: started.elapsed().as_secs_f64(),
        ..summary(&request.output)?
    })
}

fn check_alike(indexes: &[IndexFile]) -> Result<()> {
    let first = &indexes[0];
    let keys = |index: &IndexFile| if index.has_keys() { "keys" } else { "no keys" };
    for other in indexes {
        let (one, two) = (first.path().display(), other.path().display());
        if other.fields() != first.fields() {
            let names = |index: &IndexFile| -> String {
                let fields = index.fields().iter();
                let fields = fields.map(|field| format!("{} {}", field.name, field.dtype));
                fields.collect::<Vec<_>>().join(", ")
            };
            return Err(IndexerError::Uneven(format!(
                "`{one}` has the fields {}, `{two}` has {}: make them with the same `--fields`",
                names(first),
                names(other)
            )));
        }
        // An empty index has room for either.
        if first.has_keys() != other.has_keys() && !first.is_empty() && !other.is_empty() {
            return Err(IndexerError::Uneven(format!(
                "samples of `{one}` have {}, those of `{two}` have {}: they cannot be in one index",
                keys(first),
                keys(other)
            )));
        }
        if first.block_size() != other.block_size() {
            return Err(IndexerError::Uneven(format!(
                "blocks of `{one}` have {} bytes, those of `{two}` have {}: make one again with \
                 `--block-size`",
                first.block_size().bytes(),
                other.block_size().bytes()
            )));
        }
    }
    Ok(())
}

/// The folder that holds all roots, and the way from there to each.
fn roots(indexes: &[IndexFile]) -> Result<(String, Vec<String>)> {
    let recorded: Vec<&str> = indexes.iter().map(|index| index.root()).collect();
    if recorded.iter().any(|root| is_store_url(root)) {
        return prefixes_in_store(&recorded);
    }
    let folders: Vec<PathBuf> = indexes.iter().map(folder).collect();
    let mut common = folders[0].clone();
    for folder in &folders {
        while !folder.starts_with(&common) {
            common.pop();
        }
    }
    let text = |path: &Path| {
        let text = path.to_str().map(str::to_owned);
        text.ok_or_else(|| IndexerError::not_utf8(path))
    };
    let prefix = |folder: &PathBuf| {
        let below = text(folder.strip_prefix(&common).unwrap_or(folder))?;
        Ok(if below.is_empty() { below } else { below + "/" })
    };
    let prefixes = folders.iter().map(prefix).collect::<Result<_>>()?;
    Ok((text(&common)?, prefixes))
}

/// The prefix of a store that holds all roots, and the way from there to each.
fn prefixes_in_store(roots: &[&str]) -> Result<(String, Vec<String>)> {
    let in_first = |root: &&&str| {
        let urls = (StoreUrl::parse(roots[0]), StoreUrl::parse(root));
        matches!(urls, (Ok(first), Ok(other)) if first.same_store(&other))
    };
    if let Some(other) = roots.iter().find(|root| !in_first(root)) {
        return Err(IndexerError::Request(format!(
            "indexes of `{}` and of `{other}` cannot be in one index: merge those of one store",
            roots[0]
        )));
    }
    let urls = roots.iter().map(|root| StoreUrl::parse(root));
    let urls: Vec<StoreUrl> = urls.collect::<std::result::Result<_, _>>()?;
    let keys: Vec<&str> = urls.iter().map(StoreUrl::key).collect();
    let common = urls[0].with_key(&common_prefix(&keys));
    let prefix = |key: &&str| {
        let below = common.name_of(key).filter(|name| !name.is_empty());
        below.map_or(String::new(), |name| format!("{name}/"))
    };
    let prefixes = keys.iter().map(prefix).collect();
    Ok((common.to_string(), prefixes))
}

/// The root of an index, without links where it is there.
fn folder(index: &IndexFile) -> PathBuf {
    let root = index.resolve_root(None);
    root.canonicalize().unwrap_or(root)
}

/// All samples of the parts, one after another.
struct Concatenation<'a> {
    parts: &'a [Part<'a, Mmap>],
    /// Where each part begins, and the end.
    starts: Vec<u64>,
    keys: bool,
}

impl<'a> Concatenation<'a> {
    fn new(parts: &'a [Part<'a, Mmap>]) -> Self {
        let mut starts = vec![0];
        for part in parts {
            starts.push(starts[starts.len() - 1] + part.index.len());
        }
        Self {
            parts,
            starts,
            keys: parts.iter().any(|part| part.index.has_keys()),
        }
    }

    fn place(&self, sample: u64) -> (usize, u64) {
        let part = self.starts.partition_point(|start| *start <= sample) - 1;
        (part, sample - self.starts[part])
    }
}

impl Picks for Concatenation<'_> {
    fn len(&self) -> u64 {
        self.starts.last().copied().unwrap_or(0)
    }

    fn has_keys(&self) -> bool {
        self.keys
    }

    fn picks(&self, sample: u64, out: &mut Vec<Pick>) {
        let (part, sample) = self.place(sample);
        out.push(Pick {
            part: part as u32,
            sample,
        });
    }

    fn key(&self, sample: u64, out: &mut String) -> Result<(), IndexError> {
        let (part, sample) = self.place(sample);
        out.push_str(self.parts[part].index.key(sample)?.unwrap_or_default());
        Ok(())
    }
}

/// The URL that an index of objects has as its root.
fn store_of(index: &IndexFile) -> Result<Option<StoreUrl>> {
    let url = Some(index.root()).filter(|root| is_store_url(root));
    Ok(url.map(StoreUrl::parse).transpose()?)
}

/// The root that what is added to an index has: that of the index if it holds all inputs, so that
/// names and keys are made alike.
pub(crate) fn root_of_added(request: &IndexRequest, index: &Path) -> Result<Option<PathBuf>> {
    if request.root.is_some() {
        return Ok(request.root.clone());
    }
    let index = IndexFile::open(index)?;
    let mut inputs = request.inputs.iter();
    let (root, holds_all) = match store_of(&index)? {
        Some(url) => {
            let holds = |input: StoreUrl| {
                let key = input.key();
                input.same_store(&url) && (key == url.key() || url.name_of(key).is_some())
            };
            let parsed = |input: &PathBuf| StoreUrl::parse(input.to_str()?).ok();
            let all = inputs.all(|input| parsed(input).is_some_and(holds));
            (url.to_string().into(), all)
        }
        None => {
            let root = folder(&index);
            let holds =
                |input: &PathBuf| input.canonicalize().is_ok_and(|at| at.starts_with(&root));
            let all = inputs.all(holds);
            (root, all)
        }
    };
    Ok(holds_all.then_some(root))
}

/// Leaves the inputs that an index does not have yet. Fails if one that it has was written to.
pub(crate) fn retain_new(request: &IndexRequest, inputs: &mut Inputs) -> Result<()> {
    let Some(path) = &request.append_to else {
        return Ok(());
    };
    let index = IndexFile::open(path)?;
    let root = folder(&index);
    let store = store_of(&index)?;
    let place = |name: &str| match &store {
        Some(url) => url.with_key(&url.key_of(name)).to_string().into(),
        None => root.join(name),
    };
    let mut listed: HashMap<PathBuf, Fingerprint> = HashMap::new();
    for number in 0..index.segment_count() {
        let segment = index.segment(SegmentIndex(number));
        let segment = segment.map_err(|source| IndexerError::Index {
            path: path.clone(),
            source,
        })?;
        listed.insert(place(segment.path), segment.fingerprint);
    }
    let is_new = |file: &InputFile| -> Result<bool> {
        let Some(known) = listed.get(&file.path) else {
            return Ok(true);
        };
        match file.stat()? == *known {
            true => Ok(false),
            false => Err(IndexerError::Stale {
                path: file.path.clone(),
                what: format!("`{}` has an earlier version of it", path.display()),
            }),
        }
    };
    let mut kept = Vec::with_capacity(inputs.files.len());
    for file in std::mem::take(&mut inputs.files) {
        if is_new(&file)? {
            kept.push(file);
        }
    }
    inputs.files = kept;
    Ok(())
}
