//! Which inputs are HDF5 files, and where their superblocks begin.

use std::fs::File;
use std::path::Path;

use crate::error::Result;
use crate::files::InputFile;
use crate::source::Source;
use crate::{Format, IndexRequest, IndexerError, h5};

/// Extensions of files that may have their HDF5 signature behind a user block.
const HDF5_EXTENSIONS: [&str; 10] = [
    "h5", "hdf5", "hdf", "he5", "nc", "nc4", "h5ad", "mat", "loom", "cool",
];

/// Those of them that nothing else has: such a file without a signature is damaged.
const HDF5_NAMES: [&str; 4] = ["h5", "hdf5", "he5", "h5ad"];

/// Extensions of files that are never HDF5. They are not opened: there may be millions.
const OTHER_EXTENSIONS: [&str; 41] = [
    "arrow",
    "avi",
    "bmp",
    "bz2",
    "csv",
    "feather",
    "flac",
    "gif",
    "gz",
    "jpeg",
    "jpg",
    "json",
    "jsonl",
    "md",
    "mds",
    "mkv",
    "mov",
    "mp3",
    "mp4",
    "npy",
    "npz",
    "ogg",
    "parquet",
    "pdf",
    "png",
    "pt",
    "pth",
    "safetensors",
    "tar",
    "tfrecord",
    "tfrecords",
    "tif",
    "tiff",
    "tsv",
    "txt",
    "wav",
    "webp",
    "xml",
    "yaml",
    "zip",
    "zst",
];

/// Whether a request looks for HDF5 files.
pub(crate) fn may_be_hdf5(request: &IndexRequest) -> bool {
    !request.files_as_samples && request.format.is_none_or(|format| format == Format::Hdf5)
}

fn extension_of(path: &Path) -> String {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.unwrap_or_default().to_ascii_lowercase()
}

/// Where the HDF5 superblock of an object begins, if it has one. Objects whose names do not tell of
/// HDF5 are not asked, unless the request names them or the format: there may be millions, and each
/// is a request.
pub(crate) fn superblock_of_object(
    request: &IndexRequest,
    input: &InputFile,
    named: bool,
) -> Result<Option<u64>> {
    let known = HDF5_EXTENSIONS.contains(&extension_of(&input.path).as_str());
    if !may_be_hdf5(request) || !(known || named || request.format.is_some()) {
        return Ok(None);
    }
    let size = input.stat()?.size;
    let searched = if known { size } else { size.min(8) };
    superblock_in(&Source::open(input)?, &input.path, searched)
}

/// Where the HDF5 superblock of a file begins, if it has one.
pub(crate) fn superblock(path: &Path, named: bool) -> Result<Option<u64>> {
    let extension = extension_of(path);
    if !named && OTHER_EXTENSIONS.contains(&extension.as_str()) {
        return Ok(None);
    }
    let file = File::open(path).map_err(IndexerError::io("open", path))?;
    let metadata = file.metadata().map_err(IndexerError::io("read", path))?;
    let file = Source::File(file);
    // For files of other kinds, one look at the first bytes is enough.
    let searched = if named || HDF5_EXTENSIONS.contains(&extension.as_str()) {
        metadata.len()
    } else {
        metadata.len().min(8)
    };
    superblock_in(&file, path, searched)
}

fn superblock_in(source: &Source, path: &Path, searched: u64) -> Result<Option<u64>> {
    let found = h5::signature_offset(source, searched).map_err(IndexerError::io("read", path))?;
    let extension = extension_of(path);
    if found.is_none() && HDF5_NAMES.contains(&extension.as_str()) {
        return Err(IndexerError::Request(format!(
            "`{}` has the name of an HDF5 file and not its signature: it is empty or damaged; \
             remove it, or index files as they are with `--files`",
            path.display()
        )));
    }
    Ok(found)
}
