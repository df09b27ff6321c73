//! A record file line by line.

use std::collections::BTreeMap;
use std::io::{BufRead, Read};

use super::{Parsed, RecordError};
use crate::text;

/// Length of a line, in bytes.
pub const MAX_LINE_BYTES: usize = 1 << 20;

/// Names that are told apart among what is not used; the others are counted together.
const MAX_NAMES: usize = 64;

/// Gives each record with the number of its line to `take`. Blank lines are passed over. Returns
/// the number of lines.
pub(crate) fn each(
    mut records: impl BufRead,
    mut take: impl FnMut(Parsed, u64) -> Result<(), RecordError>,
) -> Result<u64, RecordError> {
    let mut bytes = Vec::new();
    let mut line = 1;
    while next(&mut records, &mut bytes, line)? {
        let words = std::str::from_utf8(&bytes).map_err(|_| RecordError::Malformed {
            line,
            why: "not UTF-8 text".into(),
        })?;
        if !words.trim().is_empty() {
            take(super::parse(words).map_err(|fault| fault.at(line))?, line)?;
        }
        line += 1;
    }
    Ok(line - 1)
}

/// Reads one line into `bytes`; false at the end of the records.
pub(crate) fn next(
    records: &mut impl BufRead,
    bytes: &mut Vec<u8>,
    line: u64,
) -> Result<bool, RecordError> {
    bytes.clear();
    // One byte over the limit, so that a line that is too long is told from one that fits.
    let limit = MAX_LINE_BYTES as u64 + 1;
    let read = records
        .by_ref()
        .take(limit)
        .read_until(b'\n', bytes)
        .map_err(|source| RecordError::Read { line, source })?;
    if bytes.len() > MAX_LINE_BYTES {
        return Err(RecordError::LineTooLong {
            line,
            limit_bytes: MAX_LINE_BYTES,
        });
    }
    Ok(read > 0)
}

/// Counts one more of a name.
pub(crate) fn count(names: &mut BTreeMap<String, u64>, name: &str) {
    let name = text::clip(&text::printable(name), 64);
    let full = names.len() >= MAX_NAMES && !names.contains_key(&name);
    let name = if full { "(others)".into() } else { name };
    *names.entry(name).or_default() += 1;
}
