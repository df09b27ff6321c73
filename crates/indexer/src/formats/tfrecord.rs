//! Records of `TensorFlow`: length, its checksum, bytes, their checksum; again and again.

use crc_fast::{CrcAlgorithm, Digest};

use crate::error::Result;
use crate::groups::GroupSamples;
use crate::scan::FieldFilter;

use super::reader::Reader;
use super::{add_sample, byte_field, bytes_at};

/// Bytes before a record's data: its length and the checksum of that.
const HEAD: u64 = 12;
/// Bytes behind it: the checksum of the data.
const FOOT: u64 = 4;

/// Finds the records of a file. `verify`: compare all data with its checksums.
pub(super) fn scan(
    reader: &mut Reader<'_>,
    filter: &FieldFilter,
    verify: bool,
) -> Result<GroupSamples> {
    let mut found = GroupSamples::by_position();
    let wanted = filter.keeps("data");
    let fields = [byte_field("data")];
    let mut at = 0;
    while at < reader.len() {
        let head: [u8; HEAD as usize] = reader.array(at, "the length of a record")?;
        let (len, sum) = (&head[..8], &head[8..]);
        if masked(len).to_le_bytes() != *sum {
            return Err(wrong_length(reader, at, &head));
        }
        let mut le = [0; 8];
        le.copy_from_slice(len);
        let len = u64::from_le_bytes(le);
        let data = at + HEAD;
        let whole = len.saturating_add(FOOT);
        let end = reader.check(data, whole, "a record")?;
        if verify {
            check_data(reader, at, data, len)?;
        }
        if wanted {
            add_sample(&mut found, reader, "", &fields, vec![bytes_at(data, len)])?;
        }
        at = end;
    }
    Ok(found)
}

fn wrong_length(reader: &Reader<'_>, at: u64, head: &[u8]) -> crate::IndexerError {
    let packed = match head {
        [0x1f, 0x8b, ..] => Some("gzip"),
        [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => Some("zlib"),
        _ => None,
    };
    match packed.filter(|_| at == 0) {
        Some(name) => reader.unsupported(
            "",
            format!("a TFRecord file that is compressed as a whole ({name})"),
            "write it again without compression (`TFRecordOptions(compression_type=\"\")`)",
        ),
        None => reader.damaged(format!(
            "the length of the record at byte {at} fails its checksum"
        )),
    }
}

fn check_data(reader: &mut Reader<'_>, at: u64, data: u64, len: u64) -> Result<()> {
    let mut sum = Digest::new(CrcAlgorithm::Crc32Iscsi);
    reader.pieces(data, len, "a record", |piece| {
        sum.update(piece);
        true
    })?;
    let stored: [u8; FOOT as usize] = reader.array(data + len, "the checksum of a record")?;
    if mask(sum.finalize() as u32).to_le_bytes() == stored {
        return Ok(());
    }
    Err(reader.damaged(format!("the record at byte {at} fails its checksum")))
}

fn masked(bytes: &[u8]) -> u32 {
    mask(crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32)
}

/// The format stores checksums rotated and shifted, so that a checksum over data with checksums
/// in it keeps its strength.
const fn mask(crc: u32) -> u32 {
    crc.rotate_right(15).wrapping_add(0xa282_ead8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksums_are_masked_crc32c() {
        // The check value of CRC32C, 0xe3069283, masked by hand:
        // 0x2507c60d rotated, plus 0xa282ead8.
        assert_eq!(masked(b"123456789"), 0xc78a_b0e5);
        // A length of 3, as every TFRecord reader checks it.
        assert_eq!(masked(&3_u64.to_le_bytes()), masked3());
    }

    /// CRC32C bit by bit, then the mask as its definition writes it.
    fn masked3() -> u32 {
        let mut crc = u32::MAX;
        for byte in 3_u64.to_le_bytes() {
            crc ^= u32::from(byte);
            for _ in 0..8 {
                crc = crc >> 1 ^ if crc & 1 == 1 { 0x82f6_3b78 } else { 0 };
            }
        }
        crc = !crc;
        (crc / (1 << 15) + crc % (1 << 15) * (1 << 17)).wrapping_add(0xa282_ead8)
    }
}
