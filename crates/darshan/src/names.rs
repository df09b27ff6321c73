//! Names of files, by the hash that stands for each in the records.

use std::collections::HashMap;

use crate::bytes::{Bytes, text};
use crate::header::Version;

/// Reads names until the bytes or `limit` end. Returns what is left over.
pub(crate) fn read<'a>(
    mut bytes: Bytes<'a>,
    version: Version,
    limit: usize,
) -> (HashMap<u64, String>, Bytes<'a>) {
    let mut names = HashMap::new();
    while names.len() < limit {
        let before = bytes;
        let Some((id, name)) = one(&mut bytes, version) else {
            return (names, before);
        };
        if !name.is_empty() {
            // The first name stands, as others with the same hash came later.
            names.entry(id).or_insert_with(|| text(name));
        }
    }
    (names, bytes)
}

fn one<'a>(bytes: &mut Bytes<'a>, version: Version) -> Option<(u64, &'a [u8])> {
    let id = bytes.u64()?;
    let name = if version < Version::V310 {
        let count = bytes.u32()?;
        bytes.take(usize::try_from(count).ok()?)?
    } else {
        bytes.take_until(0)?
    };
    Some((id, name))
}
