//! HDF5's checksum of a chunk: Fletcher's, over big-endian 16-bit words, stored little-endian.

use crate::DecodeError;

/// Words that can be summed before 32 bits overflow.
const WORDS: usize = 360;

/// The bytes in front of the checksum, if it is theirs.
pub(super) fn check(stored: &[u8]) -> Result<&[u8], DecodeError> {
    let damaged = |why: String| DecodeError::Damaged {
        filter: "fletcher32",
        why,
    };
    let (data, checksum) = stored
        .split_last_chunk::<4>()
        .ok_or_else(|| damaged("no room for a checksum".to_owned()))?;
    let (found, computed) = (u32::from_le_bytes(*checksum), sum(data));
    // HDF5 up to 1.6.2 swapped the bytes of each half on little-endian machines; its readers
    // accept both, so such files are still about.
    let [a, b, c, d] = computed.to_le_bytes();
    if found == computed || found == u32::from_le_bytes([b, a, d, c]) {
        Ok(data)
    } else {
        Err(damaged(format!(
            "checksum is {computed:08x}, stored {found:08x}"
        )))
    }
}

pub(super) fn sum(data: &[u8]) -> u32 {
    let (words, odd) = data.as_chunks::<2>();
    let (mut low, mut high) = (0u32, 0u32);
    for block in words.chunks(WORDS) {
        for word in block {
            low += u32::from(u16::from_be_bytes(*word));
            high += low;
        }
        (low, high) = (fold(low), fold(high));
    }
    if let [byte] = odd {
        low = fold(low + (u32::from(*byte) << 8));
        high = fold(high + low);
    }
    fold(high) << 16 | fold(low)
}

/// One step of the sum modulo 65535, in which 65535 itself may stand for 0.
fn fold(sum: u32) -> u32 {
    (sum & 0xffff) + (sum >> 16)
}
