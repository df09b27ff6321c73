//! What to index.

use std::path::PathBuf;
use std::sync::Arc;

use forebay_dataset::BlockSize;
use forebay_origin::Stores;

use crate::{Format, Labels, SampleRule};

/// What to index, and where to write the index.
///
/// Inputs are HDF5 files, recognised by their signature; files of another [`Format`], recognised
/// by their names; or any other files, each of which is a sample with the single field `data`
/// (`|u1`) and its path as key. A folder stands for all files below it: for its HDF5 files if it
/// has any. Hidden files are left out, unless asked for; symbolic links are followed where they lead to something
/// below the root, each folder once.
#[derive(Clone, Debug)]
pub struct IndexRequest {
    /// Files and folders, or URLs of objects and of prefixes of them, all of one store.
    pub inputs: Vec<PathBuf>,
    /// What a sample is; empty: found out from the files. With several rules, samples of the same
    /// key are joined, and a sample has the fields of all rules.
    pub samples: Vec<SampleRule>,
    /// What the files are; `None`: found out.
    pub format: Option<Format>,
    /// Each file is a sample, even HDF5 files.
    pub files_as_samples: bool,
    /// Where a field `label` (`<i8`) comes from; `None`: there is none. For trees of files.
    pub labels: Option<Labels>,
    /// Index an HDF5 file that a single writer lets others read meanwhile (SWMR) as it stands.
    pub swmr: bool,
    /// Decode what of HDF5 files cannot be read by ranges, and keep it in the index: for
    /// [`crate::flatten`], whose index is in memory. At most 1 GiB of each file.
    pub decode: bool,
    /// Index hidden files and what lies in hidden folders too.
    pub hidden: bool,
    /// Read all data once and compare it with the checksums in the files, where they have some.
    pub verify_data: bool,
    /// Names of the fields to keep, `*` and `?` as wildcards; empty: all.
    pub fields: Vec<String>,
    /// A table, CSV or Parquet, with a row for each sample: columns in braces in `samples` say
    /// where a sample lies, all others become fields.
    pub manifest: Option<PathBuf>,
    /// Leave out samples whose fields differ from those of the others, and count them; and rows of
    /// the manifest whose sample is missing.
    pub skip_incomplete: bool,
    /// Folder or URL that paths in the index are relative to; `None`: the folder that holds all inputs.
    pub root: Option<PathBuf>,
    /// An index that is to have the samples of the inputs too: those of files that it does not
    /// name yet. It is written to `output`, which may be the same.
    pub append_to: Option<PathBuf>,
    /// The index file to write. It is replaced in one step, when it is complete.
    pub output: PathBuf,
    /// Unit of caching.
    pub block_size: BlockSize,
    /// Fields of samples that are held in memory at most before they are put on disk, in
    /// `OUTPUT.parts`; a run that was ended goes on from there.
    pub part_records: u64,
    /// Opens inputs that are URLs; without, they are refused.
    pub stores: Option<Arc<dyn Stores>>,
}

impl IndexRequest {
    /// All samples and fields of `inputs`, with the defaults.
    pub fn new(inputs: Vec<PathBuf>, output: PathBuf) -> Self {
        Self {
            inputs,
            samples: Vec::new(),
            format: None,
            files_as_samples: false,
            labels: None,
            swmr: false,
            decode: false,
            hidden: false,
            verify_data: false,
            fields: Vec::new(),
            skip_incomplete: false,
            root: None,
            output,
            block_size: BlockSize::DEFAULT,
            manifest: None,
            append_to: None,
            part_records: 1 << 22,
            stores: None,
        }
    }
}
