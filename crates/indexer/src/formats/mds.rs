//! Shards of `MosaicML` Streaming: `index.json` says the columns and lists the shards of its
//! folder; a shard has a table of samples and then their bytes.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;

use forebay_dataset::DType;
use forebay_dataset::index::FieldSpec;
use serde::Deserialize;

use crate::IndexerError;
use crate::error::Result;
use crate::files::{InputFile, Inputs};
use crate::groups::GroupSamples;
use crate::h5::{Array, ArrayStorage};
use crate::scan::FieldFilter;
use crate::source::Source;

use super::add_sample;
use super::reader::Reader;

/// Largest `index.json` that is read.
const MAX_INDEX: u64 = 256 << 20;

#[derive(Deserialize)]
struct IndexJson {
    version: u64,
    shards: Vec<ShardJson>,
}

#[derive(Deserialize)]
struct ShardJson {
    format: String,
    #[serde(default)]
    compression: Option<String>,
    raw_data: FileJson,
    samples: u64,
    #[serde(default)]
    column_names: Vec<String>,
    #[serde(default)]
    column_encodings: Vec<String>,
    #[serde(default)]
    column_sizes: Vec<Option<u64>>,
}

#[derive(Deserialize)]
struct FileJson {
    basename: String,
    bytes: u64,
}

/// One shard, as its `index.json` describes it.
#[derive(Debug)]
pub(super) struct Shard {
    bytes: u64,
    samples: u64,
    columns: Vec<Column>,
}

#[derive(Clone, Debug)]
struct Column {
    field: FieldSpec,
    /// Shape of a value, if all have one.
    dims: Vec<u64>,
    /// Bytes of a value, if all have the same.
    size: Option<u64>,
}

/// The inputs in the order in which their `index.json` lists them, and what it says of each.
pub(super) fn shards(inputs: &Inputs) -> Result<(Inputs, Vec<Shard>)> {
    let mut folders: BTreeMap<&Path, Vec<&InputFile>> = BTreeMap::new();
    for file in &inputs.files {
        let folder = file.path.parent().unwrap_or(Path::new("/"));
        folders.entry(folder).or_default().push(file);
    }
    let mut ordered = Inputs {
        root: inputs.root.clone(),
        files: Vec::with_capacity(inputs.files.len()),
        format: inputs.format,
    };
    let mut shards = Vec::with_capacity(inputs.files.len());
    for (folder, files) in folders {
        for (file, shard) in of_folder(folder, &files)? {
            ordered.files.push(file.clone());
            shards.push(shard);
        }
    }
    Ok((ordered, shards))
}

fn of_folder<'a>(folder: &Path, files: &[&'a InputFile]) -> Result<Vec<(&'a InputFile, Shard)>> {
    let path = folder.join("index.json");
    let listed = match files.first() {
        Some(file) => read_index(file, &path)?,
        None => Vec::new(),
    };
    let mut by_name: HashMap<&str, &InputFile> = HashMap::new();
    for file in files {
        let name = file.name.rsplit('/').next().unwrap_or(&file.name);
        by_name.insert(name, file);
    }
    let mut found = Vec::with_capacity(files.len());
    for shard in listed {
        let name = shard.raw_data.basename.clone();
        let Some(file) = by_name.remove(name.as_str()) else {
            return Err(missing(&path, &name, shard.compression.as_deref()));
        };
        found.push((file, Shard::of(&path, shard)?));
    }
    match by_name.keys().min() {
        None => Ok(found),
        Some(name) => Err(IndexerError::Request(format!(
            "`{}` does not list `{name}`, which lies beside it: it belongs to another version of \
             the data set; remove it, or write `index.json` again",
            path.display()
        ))),
    }
}

fn missing(path: &Path, name: &str, compression: Option<&str>) -> IndexerError {
    match compression {
        Some(compression) => IndexerError::Unsupported {
            place: format!("`{name}` of `{}`", path.display()),
            feature: format!("a shard of which there is only a compressed file ({compression})"),
            remedy: "decompress the shards beside their `index.json`, or write them without \
                     compression",
        },
        None => IndexerError::Request(format!(
            "`{}` lists `{name}`, which is not among the inputs: name the whole folder, and check \
             that all shards are there",
            path.display()
        )),
    }
}

fn read_index(beside: &InputFile, path: &Path) -> Result<Vec<ShardJson>> {
    let damaged = |what: String| IndexerError::Damaged {
        place: format!("`{}`", path.display()),
        what,
    };
    let file = beside.sibling("index.json")?;
    let size = file.stat()?.size;
    if size > MAX_INDEX {
        return Err(damaged(format!("it has {size} bytes")));
    }
    let mut bytes = vec![0; size as usize];
    Source::open(&file)?
        .read_exact_at(&mut bytes, 0)
        .map_err(IndexerError::io("read", path))?;
    let index: IndexJson = serde_json::from_slice(&bytes)
        .map_err(|error| damaged(format!("it is no index of MDS shards: {error}")))?;
    if index.version != 2 {
        return Err(IndexerError::Unsupported {
            place: format!("`{}`", path.display()),
            feature: format!("version {} of the MDS index", index.version),
            remedy: "write the data set again with a current release of `mosaicml-streaming`",
        });
    }
    Ok(index.shards)
}

impl Shard {
    fn of(path: &Path, json: ShardJson) -> Result<Self> {
        let name = &json.raw_data.basename;
        if json.format != "mds" {
            return Err(IndexerError::Unsupported {
                place: format!("`{name}` of `{}`", path.display()),
                feature: format!("a shard in the format `{}`", json.format),
                remedy: "write the data set again as MDS shards",
            });
        }
        let lens = [json.column_encodings.len(), json.column_sizes.len()];
        if lens != [json.column_names.len(); 2] || json.column_names.is_empty() {
            return Err(IndexerError::Damaged {
                place: format!("`{}`", path.display()),
                what: format!("the columns of `{name}` do not have a name, encoding and size each"),
            });
        }
        let encodings = json.column_encodings.iter().zip(json.column_sizes);
        let columns = json.column_names.iter().zip(encodings);
        let column = |(name, (encoding, size)): (&String, (&String, Option<u64>))| {
            Column::of(name, encoding, size).map_err(|what| IndexerError::Damaged {
                place: format!("`{name}` of `{}`", path.display()),
                what,
            })
        };
        Ok(Self {
            bytes: json.raw_data.bytes,
            samples: json.samples,
            columns: columns.map(column).collect::<Result<_>>()?,
        })
    }

    /// Finds the samples of the shard.
    pub(super) fn scan(
        &self,
        reader: &mut Reader<'_>,
        filter: &FieldFilter,
    ) -> Result<GroupSamples> {
        if reader.len() != self.bytes {
            let (found, wanted) = (reader.len(), self.bytes);
            return Err(reader.damaged(format!("it has {found} bytes, `index.json` says {wanted}")));
        }
        let count = u32::from_le_bytes(reader.array(0, "the number of samples")?);
        if u64::from(count) != self.samples {
            let wanted = self.samples;
            return Err(reader.damaged(format!(
                "it has {count} samples, `index.json` says {wanted}"
            )));
        }
        let kept: Vec<bool> = self
            .columns
            .iter()
            .map(|column| filter.keeps(&column.field.name))
            .collect();
        let fields: Vec<FieldSpec> = self
            .columns
            .iter()
            .zip(&kept)
            .filter(|(_, kept)| **kept)
            .map(|(column, _)| column.field.clone())
            .collect();
        let mut found = GroupSamples::by_position();
        let mut first_free = 4 + 4 * (u64::from(count) + 1);
        let table = reader
            .at(4, first_free - 4, "the table of samples")?
            .to_vec();
        let (table, _) = table.as_chunks::<4>();
        for (number, pair) in table.windows(2).enumerate() {
            let [begin, end] = [pair[0], pair[1]].map(|le| u64::from(u32::from_le_bytes(le)));
            if begin < first_free || end < begin || end > reader.len() {
                return Err(reader.damaged(format!("sample {number} lies at [{begin}, {end})")));
            }
            first_free = end;
            let arrays = self.sample(reader, number, begin, end)?;
            let arrays = arrays.into_iter().zip(&kept);
            let arrays = arrays
                .filter_map(|(array, kept)| kept.then_some(array))
                .collect();
            add_sample(&mut found, reader, "", &fields, arrays)?;
        }
        Ok(found)
    }

    /// The values of a sample: first the sizes of those that need one, then the bytes of all.
    fn sample(
        &self,
        reader: &mut Reader<'_>,
        number: usize,
        begin: u64,
        end: u64,
    ) -> Result<Vec<Array>> {
        let sized = self.columns.iter().filter(|column| column.size.is_none());
        let head = 4 * sized.count() as u64;
        let beyond = |reader: &Reader<'_>| {
            reader.damaged(format!("sample {number} is not as long as its values"))
        };
        if head > end - begin {
            return Err(beyond(reader));
        }
        let sizes = reader.at(begin, head, "the sizes of a sample")?;
        let mut sizes = sizes.as_chunks::<4>().0.iter();
        let mut at = begin + head;
        let mut arrays = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let offset = at;
            let size = match column.size {
                Some(size) => size,
                None => u32::from_le_bytes(sizes.next().copied().unwrap_or_default()).into(),
            };
            // The sizes are bounded by 64 bits together, since each is tested before the next.
            at = at.saturating_add(size);
            if at > end {
                return Err(beyond(reader));
            }
            arrays.push(Array {
                dtype: column.field.dtype,
                dims: match column.size {
                    Some(_) => column.dims.clone(),
                    None => vec![size],
                },
                storage: ArrayStorage::Contiguous { offset },
                file: 0,
            });
        }
        if at != end {
            return Err(beyond(reader));
        }
        Ok(arrays)
    }
}

impl Column {
    /// Encodings of fixed size are arrays; the bytes of any other are handed out as they are.
    fn of(name: &str, encoding: &str, size: Option<u64>) -> std::result::Result<Self, String> {
        // The writer takes a size of 0 for none.
        let size = size.filter(|size| *size > 0);
        let (dtype, dims) = match (fixed(encoding), size) {
            (Some(fixed), Some(_)) => fixed,
            (_, Some(size)) => (DType::U8, vec![size]),
            (_, None) => (DType::U8, Vec::new()),
        };
        let bytes = dims
            .iter()
            .try_fold(u64::from(dtype.size()), |len, dim| len.checked_mul(*dim));
        if size.is_some() && bytes != size {
            return Err(format!(
                "encoding `{encoding}` has not {} bytes",
                size.unwrap_or(0)
            ));
        }
        Ok(Self {
            field: FieldSpec {
                name: name.to_owned(),
                dtype,
            },
            dims,
            size,
        })
    }
}

/// Type and shape of an encoding that says them.
fn fixed(encoding: &str) -> Option<(DType, Vec<u64>)> {
    if let Some(array) = encoding.strip_prefix("ndarray:") {
        let (name, shape) = array.split_once(':')?;
        let dims = shape
            .split(',')
            .map(|dim| dim.parse().ok())
            .collect::<Option<Vec<u64>>>()?;
        return (dims.len() <= 32).then_some((number(name)?, dims));
    }
    let name = if encoding == "int" { "int64" } else { encoding };
    Some((number(name)?, Vec::new()))
}

fn number(name: &str) -> Option<DType> {
    let text = match name {
        "int8" => "|i1",
        "uint8" => "|u1",
        "int16" => "<i2",
        "uint16" => "<u2",
        "int32" => "<i4",
        "uint32" => "<u4",
        "int64" => "<i8",
        "uint64" => "<u8",
        "float16" => "<f2",
        "float32" => "<f4",
        "float64" => "<f8",
        _ => return None,
    };
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_of_fixed_size_are_arrays() {
        let of = |encoding, size| {
            Column::of("x", encoding, size).map(|c| (c.field.dtype.to_string(), c.dims))
        };
        assert_eq!(of("int", Some(8)).unwrap(), ("<i8".to_owned(), vec![]));
        assert_eq!(of("float16", Some(2)).unwrap(), ("<f2".to_owned(), vec![]));
        assert_eq!(
            of("ndarray:float32:2,3", Some(24)).unwrap(),
            ("<f4".to_owned(), vec![2, 3])
        );
        assert_eq!(of("jpeg", None).unwrap(), ("|u1".to_owned(), vec![]));
        // One that is not known is bytes.
        assert_eq!(of("own", Some(5)).unwrap(), ("|u1".to_owned(), vec![5]));
        assert!(of("int", Some(4)).is_err());
        assert!(of("ndarray:float32:2,3", Some(20)).is_err());
        assert!(of("ndarray:float32:9999999999,9999999999", Some(20)).is_err());
    }
}
