//! `forebay cat`

use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

use clap::Args;
use forebay_indexer::{IndexerError, SampleReader};
use forebay_origin::{IndexFile, open_origin};

use crate::Failure;
use crate::ls::written;
use crate::output::hinted;
use crate::stores::stores;

/// Write one field of one sample, decoded, to stdout. It is read from the origin, not the cache.
#[derive(Args)]
pub(crate) struct Arguments {
    /// The index file
    index: PathBuf,
    /// Key of the sample, or its position if no sample has such a key
    sample: String,
    /// Name of the field; needed if samples have several
    #[arg(long)]
    field: Option<String>,
    /// Write an npy file instead of bare bytes
    #[arg(long)]
    npy: bool,
    /// Folder of the origin's files [default: the one that the index names]
    #[arg(long)]
    root: Option<PathBuf>,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let index = IndexFile::open(&arguments.index)?;
    let sample = find(&index, &arguments.sample)?;
    let field = field(&index, arguments.field.as_deref())?;
    let root = index.resolve_root(arguments.root.as_deref());
    let origin = open_origin(&root, Some(&*stores()?))?;
    let mut out = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    if arguments.npy {
        let spec = &index.fields()[field];
        let shape: Vec<u64> = index.sample(sample)?.field(field)?.shape().iter().collect();
        let header = npy_header(&spec.dtype.to_string(), &shape);
        if let Err(error) = out.write_all(&header) {
            return written(Err(error));
        }
    }
    match SampleReader::new(&index, &*origin).field(sample, field, &mut out) {
        Ok(()) => written(out.flush()),
        Err(IndexerError::Io {
            act: "write",
            source,
            ..
        }) => written(Err(source)),
        Err(error) => Err(hinted(error)),
    }
}

/// Position of the sample that is called `name`, or that stands at the position `name`.
fn find(index: &IndexFile, name: &str) -> Result<u64, Failure> {
    if let Some(sample) = index.find(name)? {
        return Ok(sample);
    }
    let position = name.parse().ok().filter(|sample| *sample < index.len());
    position.ok_or_else(|| {
        let hint = if index.has_keys() {
            "`forebay ls INDEX` lists the keys"
        } else {
            "the samples have no keys: give a position"
        };
        let len = index.len();
        Failure::new(format!("no sample `{name}`: the index has {len} samples")).hint(hint)
    })
}

fn field(index: &IndexFile, name: Option<&str>) -> Result<usize, Failure> {
    let names: Vec<&str> = index
        .fields()
        .iter()
        .map(|spec| spec.name.as_str())
        .collect();
    let found = match name {
        Some(name) => names.iter().position(|known| *known == name),
        None => (names.len() == 1).then_some(0),
    };
    found.ok_or_else(|| {
        let message = match name {
            Some(name) => format!("samples have no field `{name}`"),
            None => "samples have several fields".to_owned(),
        };
        Failure::usage(message).hint(format!("name one with --field: `{}`", names.join("`, `")))
    })
}

/// Header of an npy file, version 1.0.
fn npy_header(dtype: &str, shape: &[u64]) -> Vec<u8> {
    let mut dims: String = shape.iter().map(|dim| format!("{dim},")).collect();
    if shape.len() > 1 {
        dims.pop();
    }
    let mut text = format!("{{'descr': '{dtype}', 'fortran_order': False, 'shape': ({dims}), }}");
    // The array begins at a multiple of 64; 32 axes of 20 digits stay far below 65,536.
    let len = (10 + text.len() + 1).next_multiple_of(64) - 10;
    text.push_str(&" ".repeat(len - text.len() - 1));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    header.extend((len as u16).to_le_bytes());
    header.extend(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn npy_headers_are_what_numpy_writes() {
        let wanted = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
        let header = npy_header("<f4", &[2, 3]);
        assert_eq!(header.len(), 128);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00\x76\x00");
        let text = std::str::from_utf8(&header[10..]).unwrap();
        assert_eq!(text.trim_end().replace(' ', ""), wanted.replace(' ', ""));
        for (shape, words) in [(vec![], "()"), (vec![7], "(7,)")] {
            let header = npy_header("|u1", &shape);
            assert!(String::from_utf8_lossy(&header).contains(&format!("'shape': {words}")));
            assert_eq!(header.len() % 64, 0);
        }
    }
}
