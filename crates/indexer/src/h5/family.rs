//! A file, and the files that its links, its virtual and its external data lead to.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_dataset::Fingerprint;

use super::{H5Error, H5File, H5Result, Remedy, signature_offset, unsupported};
use crate::IndexerError;
use crate::error::Result;
use crate::files::InputFile;
use crate::source::Source;

/// Files that one file may lead to: each stays open while it is read.
const MAX_OTHERS: usize = 256;
/// Bytes that are decoded into memory, of all files of a family: at most this, and no more than
/// these files could hold.
const MAX_DECODED: u64 = 1 << 30;
const SMALL: u64 = 16 << 20;
const EXPANSION: u64 = 1024;

/// A file that another leads to.
#[derive(Clone, Debug)]
pub(crate) struct OtherFile {
    /// Where it is.
    pub(crate) path: PathBuf,
    /// Relative to the root, `/` between names.
    pub(crate) name: String,
    pub(crate) fingerprint: Fingerprint,
}

struct Other {
    file: OtherFile,
    source: Arc<Source>,
    /// Open as HDF5, if it was asked for as such.
    hdf5: Option<Arc<H5File>>,
}

/// Files are numbered: 0 is the one that was to be indexed, the others follow as they are met.
pub(crate) struct Family {
    input: InputFile,
    source: Arc<Source>,
    root: PathBuf,
    others: Mutex<Vec<Other>>,
    decoded: Mutex<u64>,
}

impl Family {
    /// The family of an open input.
    pub(crate) fn new(input: &InputFile, source: Arc<Source>) -> Arc<Self> {
        let depth = Path::new(&input.name).components().count();
        let root = input.path.ancestors().nth(depth).unwrap_or(Path::new("/"));
        Arc::new(Self {
            input: input.clone(),
            source,
            root: root.to_path_buf(),
            others: Mutex::default(),
            decoded: Mutex::default(),
        })
    }

    fn others(&self) -> std::sync::MutexGuard<'_, Vec<Other>> {
        self.others.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where its first file is.
    pub(super) fn path(&self) -> &Path {
        &self.input.path
    }

    /// Whether what cannot be read by ranges is decoded.
    pub(super) fn decodes(&self) -> bool {
        self.input.decode
    }

    /// Counts bytes that are decoded into memory.
    pub(super) fn charge_decoded(&self, len: u64) -> H5Result<()> {
        let mut decoded = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        *decoded = decoded.saturating_add(len);
        let own = self.source.fingerprint()?.size;
        let others = self.others();
        let files = others.iter().map(|other| other.file.fingerprint.size);
        let stored = files.fold(own, u64::saturating_add);
        let most = SMALL.saturating_add(stored.saturating_mul(EXPANSION));
        if *decoded <= most.min(MAX_DECODED) {
            return Ok(());
        }
        unsupported(
            format!("data of {decoded} bytes that have to be decoded in memory"),
            Remedy::Convert,
        )
    }

    /// The bytes of file number `number`.
    pub(super) fn source(&self, number: u32) -> H5Result<Arc<Source>> {
        let at = (number as usize).checked_sub(1);
        let others = self.others();
        match at {
            None => Ok(Arc::clone(&self.source)),
            Some(at) => match others.get(at) {
                Some(other) => Ok(Arc::clone(&other.source)),
                None => super::damaged(format!("there is no file number {number}")),
            },
        }
    }

    /// The HDF5 file that is called `name` in the file at `from`.
    pub(super) fn hdf5(self: &Arc<Self>, name: &str, from: &Path) -> H5Result<Arc<H5File>> {
        let at = self.find(name, from)?;
        let (source, other) = {
            let others = self.others();
            let other = &others[at];
            if let Some(file) = &other.hdf5 {
                return Ok(Arc::clone(file));
            }
            (Arc::clone(&other.source), other.file.clone())
        };
        let missing = |source| H5Error::Missing {
            path: other.path.clone(),
            source,
        };
        let len = other.fingerprint.size;
        let Some(base) = signature_offset(&source, len).map_err(missing)? else {
            let path = other.path.display();
            return super::damaged(format!("it leads to `{path}`, which is not HDF5"));
        };
        let place = super::Place {
            family: Arc::clone(self),
            number: at as u32 + 1,
            path: other.path,
        };
        let file = Arc::new(H5File::open(source, len, base, self.input.swmr, place)?);
        self.others()[at].hdf5 = Some(Arc::clone(&file));
        Ok(file)
    }

    /// Number and length of the file of bare bytes that is called `name` in the file at `from`.
    pub(super) fn raw(&self, name: &str, from: &Path) -> H5Result<(u32, u64)> {
        let at = self.find(name, from)?;
        Ok((at as u32 + 1, self.others()[at].file.fingerprint.size))
    }

    /// Position of a file among the others, which it is added to if it is new.
    fn find(&self, name: &str, from: &Path) -> H5Result<usize> {
        if self.input.object.is_some() {
            return unsupported("a link out of an object of a store", Remedy::Convert);
        }
        let missing = |path: &Path| {
            let path = path.to_path_buf();
            |source| H5Error::Missing { path, source }
        };
        let path = look_for(name, from);
        let path = path.canonicalize().map_err(missing(&path))?;
        let mut others = self.others();
        if let Some(at) = others.iter().position(|other| other.file.path == path) {
            return Ok(at);
        }
        if others.len() == MAX_OTHERS {
            return unsupported(format!("links to over {MAX_OTHERS} files"), Remedy::Convert);
        }
        let below = self.root.canonicalize().map_err(missing(&self.root))?;
        let name = path.strip_prefix(below).ok().and_then(Path::to_str);
        let Some(name) = name else {
            let feature = format!(
                "data in `{}`, outside of the root `{}`,",
                path.display(),
                self.root.display()
            );
            return unsupported(feature, Remedy::Root);
        };
        let file = std::fs::File::open(&path).map_err(missing(&path))?;
        let source = Source::File(file);
        let file = OtherFile {
            name: name.to_owned(),
            fingerprint: source.fingerprint().map_err(missing(&path))?,
            path,
        };
        others.push(Other {
            file,
            source: Arc::new(source),
            hdf5: None,
        });
        Ok(others.len() - 1)
    }

    /// The other files, each checked to be what it was when it was opened.
    pub(crate) fn finish(&self) -> Result<Vec<OtherFile>> {
        let others = self.others();
        let checked = others.iter().map(|other| {
            let OtherFile {
                path, fingerprint, ..
            } = &other.file;
            other.source.check_unchanged(path, *fingerprint)?;
            Ok::<_, IndexerError>(other.file.clone())
        });
        checked.collect()
    }
}

/// Where HDF5 would find a file: beside the one that names it, even if an absolute path leads
/// nowhere.
fn look_for(name: &str, from: &Path) -> PathBuf {
    let folder = from.parent().unwrap_or(Path::new("/"));
    let named = folder.join(name);
    if named.exists() {
        return named;
    }
    match Path::new(name).file_name() {
        Some(last) if folder.join(last).exists() => folder.join(last),
        _ => named,
    }
}
