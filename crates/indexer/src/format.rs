//! What kind of files the inputs are.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use crate::error::Result;
use crate::{IndexRequest, IndexerError, Pattern};

/// Kind of the files in which samples are found. `docs/FORMATS.md` says what each gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Format {
    /// Any files: each is a sample of bytes.
    Files,
    /// HDF5: a sample is a group or a row.
    Hdf5,
    /// Uncompressed tar archives as WebDataset has them: a sample is the members of one stem.
    Tar,
    /// Arrays of numpy: a sample is a row or a file.
    Npy,
    /// Several arrays of numpy in a zip archive: a sample is a row of each, or a file.
    Npz,
    /// Tensors of safetensors: a sample is a row of each, or a file.
    Safetensors,
    /// Records of `TensorFlow`: each is a sample of bytes.
    TfRecord,
    /// Tables of Arrow's IPC format: a sample is a record batch, or a row.
    Arrow,
    /// Tables of Parquet: a sample is a row group.
    Parquet,
    /// Shards of `MosaicML` Streaming, with the `index.json` beside them.
    Mds,
}

impl Format {
    /// Every format.
    pub const ALL: [Self; 10] = [
        Self::Files,
        Self::Hdf5,
        Self::Tar,
        Self::Npy,
        Self::Npz,
        Self::Safetensors,
        Self::TfRecord,
        Self::Mds,
        Self::Arrow,
        Self::Parquet,
    ];

    /// As the command line names it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Files => "files",
            Self::Hdf5 => "hdf5",
            Self::Tar => "tar",
            Self::Npy => "npy",
            Self::Npz => "npz",
            Self::Safetensors => "safetensors",
            Self::TfRecord => "tfrecord",
            Self::Mds => "mds",
            Self::Arrow => "arrow",
            Self::Parquet => "parquet",
        }
    }

    /// Whether a file of this name is one that `--format` with this format is about.
    pub(crate) fn claims(self, name: &str) -> bool {
        matches!(Kind::of(name), Kind::In(format) | Kind::Compressed(format) if format == self)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Format {
    type Err = IndexerError;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|format| format.name() == text)
            .ok_or_else(|| {
                let names = Self::ALL.map(Self::name).join("`, `");
                IndexerError::Request(format!("format `{text}` is unknown: one of `{names}`"))
            })
    }
}

/// What a file's name says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// It holds samples in this format.
    In(Format),
    /// It does, but compressed as a whole.
    Compressed(Format),
    /// It says something about files beside it.
    Side,
    /// Anything else.
    Other,
}

const COMPRESSED: [&str; 9] = [
    "gz", "tgz", "bz2", "tbz2", "xz", "txz", "zst", "zstd", "lz4",
];

const SIDE: [&str; 17] = [
    "cfg", "csv", "idx", "index", "ini", "json", "jsonl", "log", "md", "md5", "rst", "sha256",
    "toml", "tsv", "txt", "yaml", "yml",
];

impl Kind {
    fn of(name: &str) -> Self {
        let name = name.rsplit('/').next().unwrap_or(name).to_ascii_lowercase();
        let (stem, extension) = name.rsplit_once('.').unwrap_or((&name, ""));
        if extension.starts_with("tfrecord") {
            return Self::In(Format::TfRecord);
        }
        let format = |extension: &str| match extension {
            "tar" => Some(Format::Tar),
            "npy" => Some(Format::Npy),
            "npz" => Some(Format::Npz),
            "safetensors" => Some(Format::Safetensors),
            "mds" => Some(Format::Mds),
            "arrow" | "arrows" | "feather" | "ipc" => Some(Format::Arrow),
            "parquet" | "pq" => Some(Format::Parquet),
            _ if extension.starts_with("tfrecord") => Some(Format::TfRecord),
            _ => None,
        };
        if COMPRESSED.contains(&extension) {
            let inner = match extension {
                "tgz" | "tbz2" | "txz" => Some(Format::Tar),
                _ => stem.rsplit_once('.').and_then(|(_, inner)| format(inner)),
            };
            return inner.map_or(Self::Other, Self::Compressed);
        }
        let bare = ["readme", "license", "licence", "makefile"];
        match format(extension) {
            Some(format) => Self::In(format),
            None if SIDE.contains(&extension) || bare.contains(&name.as_str()) => Self::Side,
            None => Self::Other,
        }
    }
}

/// The format of files that are not HDF5, by their names: one that holds samples if all files but
/// those that describe others have it, else [`Format::Files`].
pub(crate) fn recognise<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Result<Format> {
    let kinds = names.clone().map(|name| (name, Kind::of(name)));
    let mut formats = BTreeSet::new();
    let (mut example, mut other) = (None, None);
    for (name, kind) in kinds {
        match kind {
            Kind::In(format) | Kind::Compressed(format) => {
                example = example.or(Some((name, format)));
                if formats.insert(format) && formats.len() > 1 {
                    other = other.or(Some(name));
                }
            }
            Kind::Other => other = other.or(Some(name)),
            Kind::Side => {}
        }
    }
    let Some((name, format)) = example else {
        return Ok(Format::Files);
    };
    if let Some(other) = other {
        return Err(IndexerError::Request(format!(
            "`{name}` is a file of format {format}, `{other}` is not: index them separately, say \
             `--format {format}` for the one kind, or `--format files` to make each file a sample"
        )));
    }
    Ok(format)
}

/// Those of the files that a format asked for by name is about: those with its extension, or if
/// there are none, all that do not describe others.
pub(crate) fn retained<'a>(
    format: Format,
    names: impl Iterator<Item = &'a str>,
) -> BTreeSet<&'a str> {
    let names: Vec<&str> = names.collect();
    let claimed: BTreeSet<&str> = names
        .iter()
        .copied()
        .filter(|name| format.claims(name))
        .collect();
    if !claimed.is_empty() || format == Format::Mds {
        return claimed;
    }
    let kept = |name: &&str| Kind::of(name) != Kind::Side;
    names.into_iter().filter(kept).collect()
}

/// Fails if one of the files is compressed as a whole, so that no sample lies in it as it is.
pub(crate) fn refuse_compressed<'a>(names: impl Iterator<Item = &'a str>) -> Result<()> {
    for name in names {
        if matches!(Kind::of(name), Kind::Compressed(_)) {
            return Err(IndexerError::Unsupported {
                place: format!("`{name}`"),
                feature: "a file that is compressed as a whole".to_owned(),
                remedy: "decompress it (`gunzip`, `unzstd`, `unxz`, `bunzip2`), or make each file \
                         a sample with `--format files`",
            });
        }
    }
    Ok(())
}

/// Refuses what a request asks of files that cannot give it.
pub(crate) fn check_request(format: Format, request: &IndexRequest) -> Result<()> {
    let refuse = |what: &str| Err(IndexerError::Request(what.to_owned()));
    let patterns = !request.samples.is_empty() && request.manifest.is_none();
    match format {
        Format::Files if patterns || !request.fields.is_empty() && request.manifest.is_none() => {
            refuse(
                "sample patterns and field names are for HDF5 files and archives, and there is none \
             among the inputs",
            )
        }
        Format::Arrow
            if patterns
                && !matches!(
                    request.samples.as_slice(),
                    [one] if matches!(one.pattern, Pattern::Rows(_)) && one.files.is_none()
                ) =>
        {
            refuse("a sample of Arrow files is a record batch, or a row with `--sample rows`")
        }
        Format::Tar | Format::TfRecord | Format::Mds | Format::Parquet if patterns => {
            Err(IndexerError::Request(format!(
                "sample patterns are for HDF5 files and arrays: the format {format} says itself \
                 what a sample is"
            )))
        }
        _ if format != Format::Files && request.labels.is_some() => refuse(
            "labels from folders are for trees of files: make each file a sample with \
             `--format files`",
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recognised(names: &[&str]) -> Result<Format> {
        recognise(names.iter().copied())
    }

    #[test]
    fn formats_are_known_by_their_names() {
        for format in Format::ALL {
            assert_eq!(format.to_string().parse::<Format>().unwrap(), format);
        }
        let error = "zarr".parse::<Format>().unwrap_err().to_string();
        assert!(error.contains("`safetensors`"), "{error}");
    }

    #[test]
    fn files_of_one_format_beside_notes_are_recognised() {
        for (names, format) in [
            (
                vec!["a/000.tar", "a/001.TAR", "sizes.json", "README"],
                Format::Tar,
            ),
            (
                vec!["x.tfrecord-00000-of-00010", "y.tfrecords"],
                Format::TfRecord,
            ),
            (vec!["index.json", "shard.00000.mds"], Format::Mds),
            (vec!["a.jpg", "b.txt"], Format::Files),
            (vec!["brain.nii.gz"], Format::Files),
            (vec!["a.json"], Format::Files),
            (vec!["a.arrow", "state.json"], Format::Arrow),
            (vec!["a.parquet"], Format::Parquet),
            (vec!["a.npz"], Format::Npz),
            (vec!["b.npy"], Format::Npy),
            (vec!["c.safetensors"], Format::Safetensors),
        ] {
            assert_eq!(recognised(&names).unwrap(), format, "{names:?}");
        }
    }

    #[test]
    fn a_mixture_is_refused_with_a_way_out() {
        for names in [
            vec!["a.tar", "b.jpg"],
            vec!["b.jpg", "a.tar"],
            vec!["x.npy", "a.tar"],
        ] {
            let error = recognised(&names).unwrap_err().to_string();
            assert!(error.contains("--format files"), "{error}");
            assert!(names.iter().all(|name| error.contains(name)), "{error}");
        }
    }

    #[test]
    fn a_named_format_takes_its_own_files_or_all() {
        let kept = |names: &[&'static str]| -> Vec<&str> {
            retained(Format::TfRecord, names.iter().copied())
                .into_iter()
                .collect()
        };
        assert_eq!(kept(&["a.tfrecord", "b.jpg"]), ["a.tfrecord"]);
        assert_eq!(
            kept(&["train-00000-of-00002", "sizes.json"]),
            ["train-00000-of-00002"]
        );
    }

    #[test]
    fn what_is_compressed_as_a_whole_is_refused() {
        for name in [
            "a/x.tar.gz",
            "x.tgz",
            "x.tfrecord.gz",
            "shard.00000.mds.zstd",
        ] {
            let error = refuse_compressed([name].into_iter())
                .unwrap_err()
                .to_string();
            assert!(
                error.contains(name) && error.contains("decompress"),
                "{error}"
            );
        }
        assert!(refuse_compressed(["x.nii.gz", "x.tar"].into_iter()).is_ok());
    }
}
