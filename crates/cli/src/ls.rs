//! `forebay ls`

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use forebay_dataset::IndexError;
use forebay_dataset::index::{Field, FieldSpec};
use forebay_origin::IndexFile;
use serde_json::json;

use crate::Failure;
use crate::names;
use crate::output::count;

/// List the samples of an index: position, key, fields with their shapes, files that hold them.
/// With `--published`, the published files of all nodes: name, bytes, node.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The index file
    #[arg(required_unless_present = "published", conflicts_with = "published")]
    index: Option<PathBuf>,
    /// List published files instead
    #[arg(long)]
    published: bool,
    /// With --published: cache folder of the node's daemon [default: $FOREBAY_CACHE, else ~/.cache/forebay]
    #[arg(long, requires = "published")]
    cache: Option<PathBuf>,
    /// Samples or files to list [default: all]
    #[arg(long)]
    limit: Option<u64>,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let limit = arguments.limit.unwrap_or(u64::MAX);
    let Some(path) = &arguments.index else {
        return names::list(arguments.cache.as_deref(), limit, arguments.json);
    };
    let index = IndexFile::open(path)?;
    if !arguments.json {
        eprintln!(
            "{} of {} in {} below `{}`, generation {:032x}",
            count(index.len(), "sample"),
            count(index.fields().len() as u64, "field"),
            count(u64::from(index.segment_count()), "file"),
            index.resolve_root(None).display(),
            index.generation()
        );
    }
    let mut out = BufWriter::new(io::stdout().lock());
    for sample in 0..limit.min(index.len()) {
        let line = if arguments.json {
            json(&index, sample)?
        } else {
            words(&index, sample)?
        };
        if let Err(error) = writeln!(out, "{line}") {
            return written(Err(error));
        }
    }
    written(out.flush())
}

/// A reader that has seen enough, such as `head`, is no failure.
pub(crate) fn written(result: io::Result<()>) -> Result<(), Failure> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Failure::new(format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

fn words(index: &IndexFile, sample: u64) -> Result<String, IndexError> {
    let mut text = sample.to_string();
    if let Some(key) = index.key(sample)? {
        text.push_str(&format!("\t{key}"));
    }
    let mut files: Vec<&str> = Vec::new();
    for (number, spec) in index.fields().iter().enumerate() {
        let field = index.sample(sample)?.field(number)?;
        let shape: Vec<String> = field.shape().iter().map(|dim| dim.to_string()).collect();
        text.push_str(&format!(
            "\t{} {}[{}]",
            spec.name,
            spec.dtype,
            shape.join(",")
        ));
        let Some(segment) = field.segment() else {
            continue;
        };
        let path = index.segment(segment)?.path;
        if !files.contains(&path) {
            files.push(path);
        }
    }
    Ok(format!("{text}\t{}", files.join(" ")))
}

fn json(index: &IndexFile, sample: u64) -> Result<String, IndexError> {
    let found = index.sample(sample)?;
    let fields = index.fields().iter().enumerate();
    let fields = fields
        .map(|(number, spec)| field(index, spec, &found.field(number)?))
        .collect::<Result<Vec<_>, IndexError>>()?;
    let value = json!({
        "sample": sample,
        "key": index.key(sample)?,
        "crc32c": found.crc32c().map(|crc| format!("{crc:08x}")),
        "fields": fields,
    });
    Ok(value.to_string())
}

fn field(
    index: &IndexFile,
    spec: &FieldSpec,
    field: &Field<'_>,
) -> Result<serde_json::Value, IndexError> {
    let segment = field.segment().map(|segment| index.segment(segment));
    let segment = segment.transpose()?;
    let shape: Vec<u64> = field.shape().iter().collect();
    let (offset, chunks) = match field {
        Field::Contiguous { shard_range, .. } => {
            let start = segment.map_or(0, |segment| segment.shard_start);
            (shard_range.map(|range| range.start() - start), None)
        }
        Field::Chunked { chunks, .. } => (None, Some(chunks.len())),
        Field::Value { .. } => (None, None),
    };
    Ok(json!({
        "name": spec.name,
        "dtype": spec.dtype.to_string(),
        "shape": shape,
        "bytes": field.decoded_len(),
        "segment": segment.map(|segment| segment.path),
        "offset": offset,
        "chunks": chunks,
    }))
}
