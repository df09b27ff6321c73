//! The header of an array of numpy, in a file of its own or in an archive.

use forebay_dataset::DType;

use crate::error::Result;
use crate::h5::{Array, ArrayStorage};
use crate::scan::FieldFilter;

use super::arrays::Arrays;
use super::reader::Reader;

/// Bytes that say how long the header is; fewer in version 1, and then they are part of it.
pub(super) const PREAMBLE: usize = 12;
/// Longest header that is read. One of a plain type has about 100 bytes.
const MAX_HEADER: u64 = 1 << 16;

/// Why a header is not used, without the name of the file.
#[derive(Debug, PartialEq)]
pub(super) enum Fault {
    Damaged(String),
    Unsupported(String, &'static str),
}

fn damaged<T>(what: impl Into<String>) -> std::result::Result<T, Fault> {
    Err(Fault::Damaged(what.into()))
}

impl Fault {
    /// The same as an error; `object` is empty for the file itself.
    pub(super) fn within(self, reader: &Reader<'_>, object: &str) -> crate::IndexerError {
        match self {
            Self::Damaged(what) if object.is_empty() => reader.damaged(what),
            Self::Damaged(what) => reader.damaged_in(object, what),
            Self::Unsupported(feature, remedy) => reader.unsupported(object, feature, remedy),
        }
    }
}

/// What a header says.
#[derive(Debug, PartialEq)]
pub(super) struct Npy {
    pub(super) dtype: DType,
    pub(super) dims: Vec<u64>,
    /// Bytes of the array.
    pub(super) bytes: u64,
}

/// The array of a file.
pub(super) fn arrays(reader: &mut Reader<'_>, filter: &FieldFilter) -> Result<Arrays> {
    let (npy, start) = at(reader, 0, "")?;
    let end = reader.check(start, npy.bytes, "the array")?;
    if end != reader.len() {
        let more = reader.len() - end;
        return Err(reader.unsupported(
            "",
            format!("{more} bytes behind the array (several arrays in one file)"),
            "save each array in a file of its own, or all in one with `np.savez`",
        ));
    }
    let name = "data".to_owned();
    if !filter.keeps(&name) {
        return Ok(Vec::new());
    }
    Ok(vec![(name, npy.contiguous(start))])
}

/// Reads the header at `offset`: what it says, and where the array begins.
pub(super) fn at(reader: &mut Reader<'_>, offset: u64, object: &str) -> Result<(Npy, u64)> {
    let first = reader.array(offset, "an npy header")?;
    let (skipped, len) = lengths(&first).map_err(|fault| fault.within(reader, object))?;
    let text = reader.at(offset + skipped, len, "an npy header")?;
    let npy = parse(text).map_err(|fault| fault.within(reader, object))?;
    Ok((npy, offset + skipped + len))
}

/// Bytes before the header's text, and bytes of it.
pub(super) fn lengths(first: &[u8; PREAMBLE]) -> std::result::Result<(u64, u64), Fault> {
    if first[..6] != *b"\x93NUMPY" {
        return damaged("it does not begin like an npy array");
    }
    let (skipped, len) = match first[6] {
        1 => (10, u64::from(u16::from_le_bytes([first[8], first[9]]))),
        2 | 3 => {
            let len = [first[8], first[9], first[10], first[11]];
            (12, u64::from(u32::from_le_bytes(len)))
        }
        version => {
            return Err(Fault::Unsupported(
                format!("version {version} of the npy format"),
                "save the array again with `np.save`",
            ));
        }
    };
    if len > MAX_HEADER {
        return Err(Fault::Unsupported(
            format!("an npy header of {len} bytes"),
            "save the array as one of a plain type",
        ));
    }
    Ok((skipped, len))
}

/// Reads the text of a header: a dict of Python with three known keys.
pub(super) fn parse(text: &[u8]) -> std::result::Result<Npy, Fault> {
    let Ok(text) = std::str::from_utf8(text) else {
        return damaged("its npy header is not text");
    };
    let mut input = Literal { rest: text };
    let (mut descr, mut fortran, mut shape) = (None, None, None);
    input.expect('{')?;
    while !input.take('}') {
        let key = input.string()?;
        input.expect(':')?;
        match key {
            "descr" => descr = Some(input.dtype()?),
            "fortran_order" => fortran = Some(input.boolean()?),
            "shape" => shape = Some(input.tuple()?),
            key => return damaged(format!("its npy header has an unknown key `{key}`")),
        }
        if !input.take(',') {
            input.expect('}')?;
            break;
        }
    }
    let (Some(dtype), Some(fortran), Some(dims)) = (descr, fortran, shape) else {
        return damaged("its npy header lacks a key");
    };
    if dims.len() > 32 {
        return damaged(format!("it has {} axes", dims.len()));
    }
    if fortran && dims.iter().filter(|dim| **dim > 1).count() > 1 && !dims.contains(&0) {
        return Err(Fault::Unsupported(
            "Fortran order".to_owned(),
            "save it row by row: `np.save(path, np.ascontiguousarray(array))`",
        ));
    }
    let elements = if dims.contains(&0) {
        Some(0)
    } else {
        dims.iter()
            .try_fold(1_u64, |count, dim| count.checked_mul(*dim))
    };
    match elements.and_then(|count| count.checked_mul(dtype.size().into())) {
        Some(bytes) => Ok(Npy { dtype, dims, bytes }),
        None => damaged(format!("its shape {dims:?} overflows")),
    }
}

impl Npy {
    /// The array, whose bytes lie in order from `offset` on.
    pub(super) fn contiguous(self, offset: u64) -> Array {
        Array {
            dtype: self.dtype,
            dims: self.dims,
            storage: ArrayStorage::Contiguous { offset },
            file: 0,
        }
    }
}

/// Literals of Python, as `repr` writes them.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn take(&mut self, wanted: char) -> bool {
        self.rest = self.rest.trim_start();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, wanted: char) -> std::result::Result<(), Fault> {
        if self.take(wanted) {
            Ok(())
        } else {
            damaged(format!("its npy header lacks a `{wanted}`"))
        }
    }

    fn string(&mut self) -> std::result::Result<&'a str, Fault> {
        let quote = if self.take('\'') { '\'' } else { '"' };
        if quote == '"' {
            self.expect('"')?;
        }
        let Some((text, rest)) = self.rest.split_once(quote) else {
            return damaged("its npy header has a text without an end");
        };
        self.rest = rest;
        Ok(text)
    }

    fn boolean(&mut self) -> std::result::Result<bool, Fault> {
        self.rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = self.rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        damaged("its npy header has no truth value for `fortran_order`")
    }

    fn tuple(&mut self) -> std::result::Result<Vec<u64>, Fault> {
        self.expect('(')?;
        let mut dims = Vec::new();
        while !self.take(')') {
            self.rest = self.rest.trim_start();
            let digits = self.rest.bytes().take_while(u8::is_ascii_digit).count();
            let Ok(dim) = self.rest[..digits].parse() else {
                return damaged("its npy header has a shape that is not a list of numbers");
            };
            dims.push(dim);
            self.rest = &self.rest[digits..];
            // As Python 2 wrote it.
            self.take('L');
            if !self.take(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(dims)
    }

    fn dtype(&mut self) -> std::result::Result<DType, Fault> {
        const REMEDY: &str =
            "convert the array (`array.astype(...)`) or leave it out with `--fields`";
        self.rest = self.rest.trim_start();
        if self.rest.starts_with(['[', '(', '{']) {
            return Err(Fault::Unsupported("a structured type".to_owned(), REMEDY));
        }
        let text = self.string()?;
        text.parse().map_err(|_| {
            let feature = match text.trim_start_matches(['<', '>', '|', '=']).chars().next() {
                Some('O') => "an array of Python objects".to_owned(),
                Some('U') => format!("text of four bytes a character (`{text}`)"),
                Some('M' | 'm') => format!("the time type `{text}`"),
                _ => format!("the type `{text}`"),
            };
            Fault::Unsupported(feature, REMEDY)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> std::result::Result<(String, Vec<u64>), Fault> {
        parse(text.as_bytes()).map(|npy| (npy.dtype.to_string(), npy.dims))
    }

    #[test]
    fn headers_of_all_writers_are_read() {
        for (text, dtype, dims) in [
            (
                "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }      \n",
                "<f4",
                vec![3, 4],
            ),
            (
                "{\"shape\":(7L,),\"fortran_order\":True,\"descr\":\"|u1\"}",
                "|u1",
                vec![7],
            ),
            (
                "{'descr': '>i8', 'fortran_order': False, 'shape': (), }",
                ">i8",
                vec![],
            ),
            // The order of one column is the order of its rows.
            (
                "{'descr': '<f2', 'fortran_order': True, 'shape': (5, 1), }",
                "<f2",
                vec![5, 1],
            ),
        ] {
            assert_eq!(parsed(text).unwrap(), (dtype.to_owned(), dims), "{text}");
        }
    }

    #[test]
    fn what_is_not_plain_is_named() {
        for (descr, order, shape, word) in [
            ("'|O'", "False", "(3,)", "objects"),
            ("'<U5'", "False", "(3,)", "four bytes a character"),
            ("'<M8[ns]'", "False", "(3,)", "time type"),
            ("'<f16'", "False", "(3,)", "`<f16`"),
            ("[('a', '<f4')]", "False", "(3,)", "structured"),
            ("'<f4'", "True", "(3, 2)", "Fortran"),
        ] {
            let text = format!("{{'descr': {descr}, 'fortran_order': {order}, 'shape': {shape}}}");
            match parsed(&text) {
                Err(Fault::Unsupported(feature, _)) => assert!(feature.contains(word), "{feature}"),
                other => panic!("{text}: {other:?}"),
            }
        }
    }

    #[test]
    fn nonsense_is_damage() {
        for text in [
            "",
            "{",
            "{'descr': '<f4'}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1 2)}",
            "{'descr': '<f4', 'fortran_order': 0, 'shape': (1,)}",
            "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'x': 1}",
            "{'descr': '<f8', 'fortran_order': False, 'shape': (4294967296, 4294967296)}",
            "{'descr': '<f8",
        ] {
            assert!(matches!(parsed(text), Err(Fault::Damaged(_))), "{text}");
        }
    }
}
