//! One column of a manifest.

use std::borrow::Cow;

use forebay_dataset::DType;

/// Longest text that becomes bytes of a fixed length: each sample takes as many.
const MAX_TEXT: usize = 4096;

/// A column, in memory.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) name: String,
    pub(super) cells: Cells,
}

#[derive(Debug)]
pub(super) enum Cells {
    /// Numbers of a type of numpy, one after another.
    Fixed { dtype: DType, bytes: Vec<u8> },
    /// Text, end to end.
    Text { ends: Vec<u64>, bytes: Vec<u8> },
    /// A type that is no field, or values that are missing; and why.
    Unusable { rows: u64, why: String },
}

impl Column {
    /// Rows.
    pub(super) fn len(&self) -> u64 {
        match &self.cells {
            Cells::Fixed { dtype, bytes } => bytes.len() as u64 / u64::from(dtype.size()),
            Cells::Text { ends, .. } => ends.len() as u64,
            Cells::Unusable { rows, .. } => *rows,
        }
    }

    /// What samples have of it, or why it cannot be a field.
    pub(super) fn dtype(&self) -> Result<DType, String> {
        match &self.cells {
            Cells::Fixed { dtype, .. } => Ok(*dtype),
            Cells::Unusable { why, .. } => Err(why.clone()),
            Cells::Text { ends, .. } => {
                let longest = (0..ends.len()).map(|row| self.raw(row as u64).len()).max();
                let longest = longest.unwrap_or(0).max(1);
                if longest > MAX_TEXT {
                    return Err(format!(
                        "a text has {longest} bytes, at most {MAX_TEXT} are kept"
                    ));
                }
                format!("|S{longest}")
                    .parse()
                    .map_err(|error: forebay_dataset::DTypeError| error.to_string())
            }
        }
    }

    /// The bytes of a row, of text without what fills it up.
    fn raw(&self, row: u64) -> &[u8] {
        let row = row as usize;
        match &self.cells {
            Cells::Fixed { dtype, bytes } => {
                let size = usize::from(dtype.size());
                &bytes[row * size..(row + 1) * size]
            }
            Cells::Text { ends, bytes } => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                &bytes[start as usize..ends[row] as usize]
            }
            Cells::Unusable { .. } => &[],
        }
    }

    /// The value of a row, as long as its type says.
    pub(super) fn value(&self, row: u64, dtype: DType) -> Vec<u8> {
        let mut value = self.raw(row).to_vec();
        value.resize(dtype.size().into(), 0);
        value
    }

    /// The text of a row, for placeholders; `None` if it has none that is the same everywhere.
    pub(super) fn text(&self, row: u64) -> Option<Cow<'_, str>> {
        let raw = self.raw(row);
        match &self.cells {
            Cells::Text { .. } => std::str::from_utf8(raw).ok().map(Cow::Borrowed),
            Cells::Fixed { dtype, .. } => integer(&dtype.to_string(), raw).map(Cow::Owned),
            Cells::Unusable { .. } => None,
        }
    }

    /// Whether rows have a text: numbers that are no integers have several.
    pub(super) fn has_text(&self) -> bool {
        match &self.cells {
            Cells::Text { .. } => true,
            Cells::Fixed { dtype, .. } => matches!(dtype.to_string().as_bytes()[1], b'i' | b'u'),
            Cells::Unusable { .. } => false,
        }
    }
}

/// An integer, little-endian, in decimal.
fn integer(dtype: &str, raw: &[u8]) -> Option<String> {
    let negative = raw.last().is_some_and(|last| last & 0x80 != 0);
    let signed = dtype.as_bytes().get(1) == Some(&b'i');
    if !signed && dtype.as_bytes().get(1) != Some(&b'u') {
        return None;
    }
    let mut wide = [if signed && negative { 0xff } else { 0 }; 16];
    wide.get_mut(..raw.len())?.copy_from_slice(raw);
    Some(i128::from_le_bytes(wide).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_written_out() {
        assert_eq!(integer("<i2", &(-7_i16).to_le_bytes()).unwrap(), "-7");
        assert_eq!(
            integer("<u8", &u64::MAX.to_le_bytes()).unwrap(),
            u64::MAX.to_string()
        );
        assert_eq!(integer("|i1", &[0x80]).unwrap(), "-128");
        assert_eq!(integer("<f4", &[0; 4]), None);
    }

    #[test]
    fn text_is_filled_up_with_zeros() {
        let column = Column {
            name: "id".to_owned(),
            cells: Cells::Text {
                ends: vec![3, 3, 4],
                bytes: b"abcd".to_vec(),
            },
        };
        let dtype = column.dtype().unwrap();
        assert_eq!(dtype.to_string(), "|S3");
        assert_eq!(column.value(0, dtype), b"abc");
        assert_eq!(column.value(1, dtype), [0; 3]);
        assert_eq!(column.text(2).unwrap(), "d");
    }
}
