//! Undoes the transposition of bits, and the filter of that name.
//!
//! In a block of elements, the lowest bits of all first bytes come first, then their next bits, and
//! so on. The filter of HDF5 stores block after block; a block may be compressed, and then its length stands in
//! front of it (4 bytes, highest first), and the chunk begins with its own length (8 bytes) and
//! that of a block (4 bytes).

use super::stages::{Zstd, lz4};
use crate::index::{Bitshuffle, BitshuffleCodec};

/// Blocks hold a multiple of this many elements.
const ELEMENTS: usize = 8;
const CUT: &str = "it ends too soon";

/// Decodes a chunk to all of `out`. `block` is memory for one block.
pub(super) fn decode(
    settings: Bitshuffle,
    input: &[u8],
    out: &mut [u8],
    block: &mut Vec<u8>,
    zstd: &mut Zstd,
) -> Result<usize, String> {
    let size = usize::from(settings.element_size);
    let (mut input, len, block_len) = match settings.codec {
        BitshuffleCodec::None(elements) => (input, input.len(), usize::from(elements) * size),
        BitshuffleCodec::Lz4 | BitshuffleCodec::Zstd => framed(input, size)?,
    };
    let out = out.get_mut(..len).filter(|_| len % size == 0);
    let out = out.ok_or_else(|| format!("it holds {len} bytes, which is no chunk"))?;
    let (whole, rest) = out.split_at_mut(out.len() / (size * ELEMENTS) * (size * ELEMENTS));
    for piece in whole.chunks_mut(block_len) {
        if let BitshuffleCodec::None(_) = settings.codec {
            undo(take(&mut input, piece.len())?, size, piece);
            continue;
        }
        let len = take(&mut input, 4)?;
        let len = u32::from_be_bytes([len[0], len[1], len[2], len[3]]) as usize;
        let stored = take(&mut input, len)?;
        if block.len() < piece.len() {
            block.resize(piece.len(), 0);
        }
        let block = &mut block[..piece.len()];
        let made = match settings.codec {
            BitshuffleCodec::Zstd => zstd.decode(stored, block)?,
            _ => lz4(stored, block)?,
        };
        if made != piece.len() {
            return Err(format!("a block has {made} bytes, not {}", piece.len()));
        }
        undo(block, size, piece);
    }
    rest.copy_from_slice(take(&mut input, rest.len())?);
    Ok(out.len())
}

/// What follows the header, the bytes of the content and of a block.
fn framed(input: &[u8], size: usize) -> Result<(&[u8], usize, usize), String> {
    let (header, rest) = input.split_first_chunk::<12>().ok_or(CUT)?;
    let [a, b, c, d, e, f, g, h, block @ ..] = *header;
    let len = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let len = usize::try_from(len).map_err(|_| format!("it holds {len} bytes"))?;
    let block = u32::from_be_bytes(block) as usize;
    if block == 0 || !block.is_multiple_of(size * ELEMENTS) {
        return Err(format!("its blocks have {block} bytes"));
    }
    Ok((rest, len, block))
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Result<&'a [u8], &'static str> {
    let (head, rest) = input.split_at_checked(len).ok_or(CUT)?;
    *input = rest;
    Ok(head)
}

/// Puts the bits of one block's elements together again. Both have one length, of a multiple of
/// eight elements of `size` bytes.
pub(super) fn undo(input: &[u8], size: usize, out: &mut [u8]) {
    let row = out.len() / size / ELEMENTS;
    let mut planes = input.chunks_exact(row.max(1));
    for byte in 0..size {
        let rows: [&[u8]; 8] = std::array::from_fn(|_| planes.next().unwrap_or_default());
        for group in 0..row {
            let mut lanes = [0; 8];
            for (lane, row) in lanes.iter_mut().zip(rows) {
                *lane = row.get(group).copied().unwrap_or(0);
            }
            let bytes = transposed(u64::from_le_bytes(lanes)).to_le_bytes();
            let elements = &mut out[group * ELEMENTS * size..][..ELEMENTS * size];
            for (element, value) in elements.chunks_exact_mut(size).zip(bytes) {
                element[byte] = value;
            }
        }
    }
}

/// Eight rows of eight bits, rows and columns exchanged.
const fn transposed(mut x: u64) -> u64 {
    let mut t = (x ^ (x >> 7)) & 0x00aa_00aa_00aa_00aa;
    x ^= t ^ (t << 7);
    t = (x ^ (x >> 14)) & 0x0000_cccc_0000_cccc;
    x ^= t ^ (t << 14);
    t = (x ^ (x >> 28)) & 0x0000_0000_f0f0_f0f0;
    x ^ t ^ (t << 28)
}
