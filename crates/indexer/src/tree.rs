//! Trees of files: each file is a sample, and the folder it lies in may be its class.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;

use forebay_dataset::index::{FieldExtent, FieldSpec, IndexBuilder, Storage};
use forebay_dataset::{DType, Fingerprint, SegmentIndex};
use forebay_origin::StoreUrl;

use crate::assemble::{Assembled, builder, in_output};
use crate::error::Result;
use crate::files::{InputFile, Inputs};
use crate::scan::parallel;
use crate::{IndexRequest, IndexerError, Progress, Stage};

/// Where labels come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Labels {
    /// The first folder below the input is the class of all files in it. Classes are numbered
    /// from 0 in the order of their names, as torchvision's `ImageFolder` does.
    Folders,
}

impl FromStr for Labels {
    type Err = IndexerError;

    fn from_str(text: &str) -> Result<Self> {
        match text {
            "folders" => Ok(Self::Folders),
            _ => Err(IndexerError::Request(format!(
                "labels from `{text}` are unknown: `folders` is what there is"
            ))),
        }
    }
}

/// Makes each file a sample.
pub(crate) fn whole_files(
    request: &IndexRequest,
    inputs: &Inputs,
    progress: &dyn Progress,
) -> Result<Assembled> {
    let labelled = match request.labels {
        None => Labelled::none(inputs),
        Some(Labels::Folders) => Labelled::by_folder(request, inputs)?,
    };
    let mut fields = vec![FieldSpec {
        name: "data".to_owned(),
        dtype: DType::U8,
    }];
    if request.labels.is_some() {
        fields.push(FieldSpec {
            name: "label".to_owned(),
            dtype: label_type()?,
        });
    }
    let mut builder = builder(request, inputs, fields.clone())?;
    let found = stat(&labelled.files, progress)?;
    progress.begin(Stage::Write, labelled.files.len() as u64);
    for ((file, class), fingerprint) in labelled.files.iter().zip(found) {
        add(request, &mut builder, (file, fingerprint), *class)?;
        progress.advance(1);
    }
    Ok(Assembled {
        builder,
        fields,
        skipped: labelled.skipped,
        classes: labelled.classes,
    })
}

/// What each file is: as it was listed, or asked on all processors.
fn stat(
    files: &[(&InputFile, Option<usize>)],
    progress: &dyn Progress,
) -> Result<Vec<Fingerprint>> {
    /// Files that a thread takes at a time.
    const SHARE: usize = 512;
    progress.begin(Stage::Scan, files.len() as u64);
    let shares: Vec<_> = files.chunks(SHARE).collect();
    let found = parallel(shares.len(), |number| {
        let share = shares[number];
        let found = share.iter().map(|(file, _)| match file.listed {
            Some(listed) => Ok(listed),
            None => file.stat(),
        });
        let found: Result<Vec<Fingerprint>> = found.collect();
        progress.advance(share.len() as u64);
        found
    })?;
    Ok(found.concat())
}

fn add(
    request: &IndexRequest,
    builder: &mut IndexBuilder,
    (file, fingerprint): (&InputFile, Fingerprint),
    class: Option<usize>,
) -> Result<()> {
    let segment = builder.add_segment(&file.name, fingerprint);
    let segment = segment.map_err(in_output(request))?;
    let mut extents = vec![FieldExtent {
        segment,
        shape: vec![fingerprint.size],
        storage: Storage::Contiguous { offset: 0 },
    }];
    extents.extend(class.map(label));
    builder
        .add_sample(Some(&file.name), &extents, None)
        .map_err(in_output(request))
}

fn label_type() -> Result<DType> {
    let dtype = "<i8".parse();
    dtype.map_err(|error: forebay_dataset::DTypeError| IndexerError::Request(error.to_string()))
}

fn label(class: usize) -> FieldExtent {
    FieldExtent {
        segment: SegmentIndex(0),
        shape: Vec::new(),
        storage: Storage::Value {
            bytes: (class as i64).to_le_bytes().to_vec(),
        },
    }
}

/// The files in the order of their samples, with their classes.
struct Labelled<'a> {
    files: Vec<(&'a InputFile, Option<usize>)>,
    classes: Vec<String>,
    skipped: u64,
}

impl<'a> Labelled<'a> {
    fn none(inputs: &'a Inputs) -> Self {
        Self {
            files: inputs.files.iter().map(|file| (file, None)).collect(),
            classes: Vec::new(),
            skipped: 0,
        }
    }

    fn by_folder(request: &IndexRequest, inputs: &'a Inputs) -> Result<Self> {
        let base = base(request)?;
        let prefix = base.strip_prefix(&inputs.root).unwrap_or(&base);
        let prefix = prefix.to_str().unwrap_or_default();
        let mut by_class: BTreeMap<&str, Vec<&InputFile>> = BTreeMap::new();
        let mut skipped = 0;
        for file in &inputs.files {
            let below = file.name.strip_prefix(prefix).unwrap_or(&file.name);
            match below.trim_start_matches('/').split_once('/') {
                Some((class, _)) => by_class.entry(class).or_default().push(file),
                None if request.skip_incomplete => skipped += 1,
                None => return Err(without_class(file, &base)),
            }
        }
        refuse_empty_classes(&base, &by_class, request.hidden)?;
        let mut files = Vec::with_capacity(inputs.files.len());
        for (number, class) in by_class.values_mut().enumerate() {
            // Folder by folder, as `ImageFolder` walks: not the order of whole paths.
            class.sort_by_key(|file| file.name.rsplit_once('/'));
            files.extend(class.iter().map(|file| (*file, Some(number))));
        }
        Ok(Self {
            files,
            classes: by_class.keys().map(|class| (*class).to_owned()).collect(),
            skipped,
        })
    }
}

/// The folder whose folders are the classes.
fn base(request: &IndexRequest) -> Result<PathBuf> {
    match request.inputs.as_slice() {
        // A store has no folders: what its keys have in common is taken for one.
        [input] if input.to_str().is_some_and(StoreUrl::is_url) => {
            let url = StoreUrl::parse(&input.to_string_lossy())?;
            Ok(url.to_string().into())
        }
        [input] if input.is_dir() => {
            fs::canonicalize(input).map_err(IndexerError::io("find", input))
        }
        _ => Err(IndexerError::Request(
            "labels from folders need one input: the folder that holds the class folders"
                .to_owned(),
        )),
    }
}

fn without_class(file: &InputFile, base: &std::path::Path) -> IndexerError {
    IndexerError::Uneven(format!(
        "`{}` lies in no class folder: move it out of `{}`, or leave out such files with \
         `--skip-incomplete`",
        file.path.display(),
        base.display()
    ))
}

/// `ImageFolder` counts a folder without files as a class or refuses it. To leave it out unseen
/// would move the numbers of the classes behind it.
fn refuse_empty_classes(
    base: &std::path::Path,
    classes: &BTreeMap<&str, Vec<&InputFile>>,
    with_hidden: bool,
) -> Result<()> {
    if classes.is_empty() {
        return Err(IndexerError::Request(format!(
            "there is no class folder in `{}`",
            base.display()
        )));
    }
    if base.to_str().is_some_and(StoreUrl::is_url) {
        return Ok(());
    }
    for entry in fs::read_dir(base).map_err(IndexerError::io("list", base))? {
        let entry = entry.map_err(IndexerError::io("list", base))?;
        let name = entry.file_name();
        let hidden = !with_hidden && name.as_encoded_bytes().starts_with(b".");
        let known = name.to_str().is_some_and(|name| classes.contains_key(name));
        if !hidden && !known && entry.path().is_dir() {
            return Err(IndexerError::Request(format!(
                "the class folder `{}` holds no file that can be indexed: remove it, or put its \
                 files there",
                entry.path().display()
            )));
        }
    }
    Ok(())
}
