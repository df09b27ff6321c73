//! Reads the structure of an HDF5 file: groups, links, and where the bytes of data sets lie.
//!
//! Object headers, data types, layouts and fill values are parsed here, because the index needs
//! what a value reader throws away: file offsets, unusual encodings, per-chunk flags. The trees
//! below them (group B-trees, fractal heaps, the chunk indexes) are walked by `hdf5-reader`.
//!
//! # Invariants
//! - *Refused, not guessed*: an encoding that is not understood is an error that names it.
//! - *Bounded*: all reads of one file are counted against a budget that grows with its size, so a
//!   file that refers to itself ends in an error.

mod chunks;
mod cursor;
mod dataset;
mod dtype;
mod external;
mod family;
mod filters;
mod header;
mod links;
mod messages;
mod part;
mod read;
mod references;
mod selection;
mod storage;
mod virtual_data;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use hdf5_reader::superblock::{HDF5_MAGIC, Superblock};

pub(crate) use dataset::{Array, ArrayStorage};
pub(crate) use family::{Family, OtherFile};
pub(crate) use links::{Link, Target};

use crate::source::Source;
use header::Header;
use storage::PagedFile;

/// What can be wrong with a file, without its name: callers add file and object.
#[derive(Debug)]
pub(crate) enum H5Error {
    /// The file cannot be read.
    Io(io::Error),
    /// The file contradicts its format.
    Damaged(String),
    /// A feature that is not supported, and what to do about it.
    Unsupported { feature: String, remedy: Remedy },
    /// Another file that this one leads to cannot be read.
    Missing { path: PathBuf, source: io::Error },
}

/// What a user can do about a feature that is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// The data set has to be rewritten in another form.
    Convert,
    /// `h5repack` writes the same file in a form that is read.
    Repack,
    /// The file has to be completed by the program that writes it.
    Complete,
    /// The same, or its state of now is taken.
    Swmr,
    /// `forebay flatten` decodes it.
    Flatten,
    /// A wider root holds the other file too.
    Root,
}

impl Remedy {
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Convert => "convert the data set, or leave it out with `--fields`",
            Self::Repack => "rewrite the file with `h5repack`, or leave it out with `--fields`",
            Self::Complete => {
                "close the file in the program that writes it, or, if none does, clear its mark \
                 with `h5clear -s`"
            }
            Self::Swmr => {
                "close the file in the program that writes it, or index what it holds now with \
                 `--swmr`"
            }
            Self::Flatten => {
                "decode it once with `forebay flatten`, or leave it out with `--fields`"
            }
            Self::Root => {
                "name a folder that holds both with `--root`, or leave the data set out with \
                 `--fields`"
            }
        }
    }
}

pub(crate) type H5Result<T> = Result<T, H5Error>;

/// A feature that is refused by name.
pub(crate) fn unsupported<T>(feature: impl Into<String>, remedy: Remedy) -> H5Result<T> {
    Err(H5Error::Unsupported {
        feature: feature.into(),
        remedy,
    })
}

/// A file that contradicts its format.
pub(crate) fn damaged<T>(what: impl Into<String>) -> H5Result<T> {
    Err(H5Error::Damaged(what.into()))
}

impl From<io::Error> for H5Error {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<hdf5_reader::error::Error> for H5Error {
    fn from(error: hdf5_reader::error::Error) -> Self {
        if let hdf5_reader::error::Error::Io(source) = error {
            return Self::Io(source);
        }
        let text = error.to_string();
        if text.starts_with("unsupported") {
            Self::Unsupported {
                feature: text,
                remedy: Remedy::Repack,
            }
        } else {
            Self::Damaged(text)
        }
    }
}

/// Where the superblock of an HDF5 file begins, or `None` if the file is not HDF5.
///
/// The signature stands at byte 0, or behind a user block at 512, 1024, 2048, …
pub(crate) fn signature_offset(source: &Source, len: u64) -> io::Result<Option<u64>> {
    let mut offset = 0_u64;
    while offset.checked_add(8).is_some_and(|end| end <= len) {
        let mut magic = [0_u8; 8];
        source.read_exact_at(&mut magic, offset)?;
        if magic == HDF5_MAGIC {
            return Ok(Some(offset));
        }
        offset = if offset == 0 { 512 } else { offset * 2 };
    }
    Ok(None)
}

/// Kind of the object at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectKind {
    Group,
    Dataset,
    /// A named data type.
    Other,
}

/// An object of the file, read once.
pub(crate) struct Object {
    pub(crate) address: u64,
    pub(crate) kind: ObjectKind,
    header: Header,
    /// The file that holds it, if a link led to another.
    file: Option<Arc<H5File>>,
}

impl Object {
    /// What tells it from any other object of a family: number of the file, and address.
    pub(crate) fn identity(&self) -> (u32, u64) {
        let number = self.file.as_ref().map_or(0, |file| file.place.number);
        (number, self.address)
    }
}

/// Where a file stands in its family.
pub(crate) struct Place {
    pub(crate) family: Arc<Family>,
    pub(crate) number: u32,
    pub(crate) path: PathBuf,
}

impl Place {
    /// Of the file that was to be indexed.
    pub(crate) fn first(family: Arc<Family>) -> Self {
        Self {
            path: family.path().to_path_buf(),
            family,
            number: 0,
        }
    }
}

/// An open HDF5 file. Addresses are relative to its superblock; offsets handed out by
/// [`Self::array`] are from the start of the file.
pub(crate) struct H5File {
    storage: PagedFile,
    /// Byte at which the superblock begins.
    base: u64,
    offset_size: u8,
    length_size: u8,
    root: u64,
    listings: links::Listings,
    paths: references::KnownPaths,
    place: Place,
}

impl H5File {
    /// Opens `source`, `len` bytes long, whose superblock begins at `base`. With `swmr`, a file that
    /// a single writer lets others read meanwhile is read as it stands.
    pub(crate) fn open(
        source: Arc<Source>,
        len: u64,
        base: u64,
        swmr: bool,
        place: Place,
    ) -> H5Result<Self> {
        const OPEN_FOR_WRITING: u32 = 1;
        const OTHERS_MAY_READ: u32 = 4;
        let storage = PagedFile::new(source, base, len);
        let superblock = Superblock::parse_from_storage(&storage)?;
        let (offset_size, length_size) = (superblock.offset_size, superblock.length_size);
        if !matches!(offset_size, 4 | 8) || !matches!(length_size, 4 | 8) {
            return unsupported(
                format!("addresses of {offset_size} and lengths of {length_size} bytes"),
                Remedy::Repack,
            );
        }
        let flags = match superblock.version {
            3.. => superblock.consistency_flags,
            _ => 0,
        };
        let shared = flags & OTHERS_MAY_READ != 0;
        if flags & OPEN_FOR_WRITING != 0 && !(swmr && shared) {
            // What was not flushed yet is missing.
            let remedy = if shared {
                Remedy::Swmr
            } else {
                Remedy::Complete
            };
            return unsupported("a file that is open for writing", remedy);
        }
        if superblock.eof_address > len && !shared {
            return damaged(format!(
                "it is truncated: {len} bytes, and it says that it has {}",
                superblock.eof_address
            ));
        }
        let root = superblock.root_object_header_address()?;
        Ok(Self {
            storage,
            base,
            offset_size,
            length_size,
            root,
            listings: links::Listings::default(),
            paths: references::KnownPaths::default(),
            place,
        })
    }

    /// Address of the root group.
    pub(crate) const fn root(&self) -> u64 {
        self.root
    }

    /// Reads the object at `address`.
    pub(crate) fn object(&self, address: u64) -> H5Result<Object> {
        let header = Header::read(self, address)?;
        Ok(Object {
            address,
            kind: header.kind(),
            header,
            file: None,
        })
    }

    /// The file that holds an object.
    fn of<'a>(&'a self, object: &'a Object) -> &'a Self {
        object.file.as_deref().unwrap_or(self)
    }

    /// Fails unless what cannot be read by ranges is decoded.
    fn must_decode(&self, feature: &str) -> H5Result<()> {
        if self.place.family.decodes() {
            Ok(())
        } else {
            unsupported(feature, Remedy::Flatten)
        }
    }
}
