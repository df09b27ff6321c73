//! One header of a tar archive, and the extended headers that change what it says.

use std::collections::BTreeMap;

/// Headers begin, and members are padded, to multiples of this.
pub(super) const BLOCK: u64 = 512;

/// What one header block says.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) name: Vec<u8>,
    pub(super) link: Vec<u8>,
    pub(super) kind: u8,
    pub(super) size: u64,
}

impl Header {
    /// Reads a block that is not all zeros; the fault in words if it is no header.
    pub(super) fn parse(block: &[u8; BLOCK as usize]) -> Result<Self, &'static str> {
        let stored = number(&block[148..156]).ok_or("a header's checksum is not a number")?;
        let sum = |signed: bool| -> u64 {
            let bytes = block.iter().enumerate().map(|(at, byte)| match at {
                148..156 => 32,
                _ if signed => i64::from(byte.cast_signed()),
                _ => i64::from(*byte),
            });
            bytes.sum::<i64>().cast_unsigned()
        };
        // Old writers summed signed characters.
        if stored != sum(false) && stored != sum(true) {
            return Err("a header fails its checksum");
        }
        let mut name = text(&block[0..100]).to_vec();
        // GNU archives have other things where POSIX has the first part of a long name.
        if block[257..263] == *b"ustar\0" {
            let prefix = text(&block[345..500]);
            if !prefix.is_empty() {
                name = [prefix, b"/", &name].concat();
            }
        }
        Ok(Self {
            name,
            link: text(&block[157..257]).to_vec(),
            kind: block[156],
            size: number(&block[124..136]).ok_or("a member's size is not a number")?,
        })
    }
}

fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// Octal digits, or a binary number whose first bit is set (GNU, for 8 GiB and more).
fn number(field: &[u8]) -> Option<u64> {
    if field[0] & 0x80 != 0 {
        let (first, rest) = field.split_first()?;
        let mut value = u64::from(first & 0x7f);
        for byte in rest {
            value = value.checked_mul(256)?.checked_add(u64::from(*byte))?;
        }
        return Some(value);
    }
    let field = text(field).trim_ascii();
    if field.is_empty() {
        return Some(0);
    }
    let digits = field.iter().map(|byte| match byte {
        b'0'..=b'7' => Some(u64::from(byte - b'0')),
        _ => None,
    });
    digits.into_iter().try_fold(0_u64, |value, digit| {
        value.checked_mul(8)?.checked_add(digit?)
    })
}

/// The records of a pax header: `LENGTH KEY=VALUE\n`, where the length counts the whole record.
pub(super) fn pax_records(mut data: &[u8]) -> Result<BTreeMap<String, Vec<u8>>, &'static str> {
    const FAULT: &str = "a pax header is not a list of `length key=value`";
    let mut records = BTreeMap::new();
    while !data.is_empty() && data[0] != 0 {
        let space = data.iter().position(|byte| *byte == b' ').ok_or(FAULT)?;
        let len: usize = std::str::from_utf8(&data[..space])
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or(FAULT)?;
        let record = data.get(space + 1..len).ok_or(FAULT)?;
        let record = record.strip_suffix(b"\n").ok_or(FAULT)?;
        let equals = record.iter().position(|byte| *byte == b'=').ok_or(FAULT)?;
        let key = std::str::from_utf8(&record[..equals]).map_err(|_| FAULT)?;
        records.insert(key.to_owned(), record[equals + 1..].to_vec());
        data = &data[len..];
    }
    Ok(records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_octal_or_binary() {
        assert_eq!(number(b"0000644\0"), Some(0o644));
        assert_eq!(number(b"    12 \0"), Some(0o12));
        assert_eq!(number(b"\0\0\0\0"), Some(0));
        assert_eq!(number(b"\x80\0\0\0\0\0\0\x02\0\0\0\0"), Some(2 << 32));
        assert_eq!(number(b"0000008\0"), None);
        assert_eq!(number(b"-1\0\0"), None);
        // Negative, as GNU writes it, and more than 64 bits.
        assert_eq!(number(&[0xff; 12]), None);
    }

    #[test]
    fn pax_records_count_their_own_length() {
        let records = pax_records(b"12 path=a=b\n30 mtime=1700000000.123456789\n").unwrap();
        assert_eq!(records["path"], b"a=b");
        assert_eq!(records.len(), 2);
        for bad in [
            &b"12 path=a=b"[..],
            b"99 path=a\n",
            b"x path=a\n",
            b"4 a\n",
            b"0 a=b\n",
        ] {
            assert!(pax_records(bad).is_err(), "{bad:?}");
        }
    }
}
