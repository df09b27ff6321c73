//! Tables of text with separators: CSV, or TSV by its name.

use std::path::Path;

use super::column::{Cells, Column};
use crate::IndexerError;
use crate::error::Result;

/// Reads all columns; the first line names them.
pub(super) fn columns(path: &Path) -> Result<Vec<Column>> {
    let tabs = path.extension().is_some_and(|extension| extension == "tsv");
    let reader = csv::ReaderBuilder::new()
        .delimiter(if tabs { b'\t' } else { b',' })
        .from_path(path);
    let mut reader = reader.map_err(fault(path))?;
    let header = reader.byte_headers().map_err(fault(path))?.clone();
    let mut texts: Vec<(Vec<u64>, Vec<u8>)> = vec![Default::default(); header.len()];
    let mut record = csv::ByteRecord::new();
    while reader.read_byte_record(&mut record).map_err(fault(path))? {
        for ((ends, bytes), cell) in texts.iter_mut().zip(&record) {
            bytes.extend(cell);
            ends.push(bytes.len() as u64);
        }
    }
    let mut columns = Vec::with_capacity(texts.len());
    for (name, (ends, bytes)) in header.iter().zip(texts) {
        let name = std::str::from_utf8(name)
            .ok()
            .filter(|name| !name.is_empty());
        let name = name.ok_or_else(|| IndexerError::Damaged {
            place: format!("`{}`", path.display()),
            what: "a column has no name, or none that is UTF-8".to_owned(),
        })?;
        columns.push(Column {
            name: name.trim_start_matches('\u{feff}').to_owned(),
            cells: Cells::Text { ends, bytes },
        });
    }
    Ok(columns)
}

fn fault(path: &Path) -> impl Fn(csv::Error) -> IndexerError + use<> {
    let path = path.to_path_buf();
    move |error| match error.into_kind() {
        csv::ErrorKind::Io(source) => IndexerError::io("read", &path)(source),
        csv::ErrorKind::UnequalLengths {
            pos,
            expected_len,
            len,
        } => IndexerError::Damaged {
            place: format!("`{}`", path.display()),
            what: format!(
                "line {} has {len} cells, the first has {expected_len}",
                pos.map_or(0, |pos| pos.line())
            ),
        },
        other => IndexerError::Damaged {
            place: format!("`{}`", path.display()),
            what: format!("{other:?}"),
        },
    }
}

/// Numbers where all cells of the column are numbers, as a reader of such tables expects: integers
/// to 64 bits, else floating point, with NaN for what is empty; `true` and `false`; else text.
pub(super) fn numbers(cells: Cells) -> Cells {
    let Cells::Text { ends, bytes } = &cells else {
        return cells;
    };
    let starts = std::iter::once(&0).chain(ends);
    let texts = || {
        starts.clone().zip(ends).map(|(start, end)| {
            std::str::from_utf8(&bytes[*start as usize..*end as usize]).unwrap_or("?")
        })
    };
    fixed(texts(), "<i8", |text| {
        text.parse::<i64>().ok().map(i64::to_le_bytes)
    })
    .or_else(|| {
        fixed(texts(), "|b1", |text| {
            truth(text).map(|truth| [u8::from(truth)])
        })
    })
    .or_else(|| {
        let any = texts().any(|text| !text.is_empty());
        any.then(|| fixed(texts(), "<f8", |text| float(text).map(f64::to_le_bytes)))?
    })
    .unwrap_or(cells)
}

fn fixed<'a, const N: usize>(
    texts: impl Iterator<Item = &'a str>,
    dtype: &str,
    parse: impl Fn(&str) -> Option<[u8; N]>,
) -> Option<Cells> {
    let mut bytes = Vec::new();
    for text in texts {
        bytes.extend(parse(text.trim())?);
    }
    Some(Cells::Fixed {
        dtype: dtype.parse().ok()?,
        bytes,
    })
}

fn truth(text: &str) -> Option<bool> {
    match text {
        "true" | "True" | "TRUE" => Some(true),
        "false" | "False" | "FALSE" => Some(false),
        _ => None,
    }
}

fn float(text: &str) -> Option<f64> {
    if text.is_empty() {
        return Some(f64::NAN);
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(texts: &[&str]) -> (String, Vec<u8>) {
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        for text in texts {
            bytes.extend(text.as_bytes());
            ends.push(bytes.len() as u64);
        }
        let column = Column {
            name: "c".to_owned(),
            cells: numbers(Cells::Text { ends, bytes }),
        };
        let dtype = column.dtype().unwrap();
        (
            dtype.to_string(),
            column.value(texts.len() as u64 - 1, dtype),
        )
    }

    #[test]
    fn columns_of_numbers_are_numbers() {
        assert_eq!(
            of(&["1", "-2"]),
            ("<i8".to_owned(), (-2_i64).to_le_bytes().to_vec())
        );
        assert_eq!(
            of(&["1", "2.5"]),
            ("<f8".to_owned(), 2.5_f64.to_le_bytes().to_vec())
        );
        assert_eq!(of(&["1", ""]).0, "<f8");
        assert_eq!(of(&["True", "false"]), ("|b1".to_owned(), vec![0]));
        assert_eq!(of(&["1", "b"]), ("|S1".to_owned(), b"b".to_vec()));
        assert_eq!(of(&["", ""]).0, "|S1");
        // Beyond 64 bits nothing is cut off unseen.
        assert_eq!(of(&["9223372036854775808"]).0, "<f8");
    }
}
