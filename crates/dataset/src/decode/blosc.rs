//! Decodes a Blosc 1 buffer: blocks, each shuffled, split into streams and compressed.
//!
//! It begins with version, version of the codec, flags, bytes of an element (1 byte each), then
//! bytes of the content, of a block and of the buffer (4 bytes each, lowest first), then where each
//! block begins (4 bytes).

use super::stages::{Stages, lz4};
use super::{bitshuffle, blosclz, shuffle};

const HEADER: usize = 16;
const SHUFFLED: u8 = 0x01;
const COPIED: u8 = 0x02;
const BITSHUFFLED: u8 = 0x04;
const WHOLE_BLOCKS: u8 = 0x10;
/// A block is split into one stream for each byte of an element only up to this element size, and
/// only if each stream then has so many bytes.
const MAX_STREAMS: usize = 16;
const MIN_STREAM: usize = 128;
const CUT: &str = "it ends too soon";

#[derive(Clone, Copy)]
struct Buffer<'a> {
    bytes: &'a [u8],
    flags: u8,
    element_size: usize,
    block_len: usize,
}

/// Decodes `input` to all of `out`. `block` is memory for one block.
pub(super) fn decode(
    input: &[u8],
    out: &mut [u8],
    block: &mut Vec<u8>,
    stages: &mut Stages,
) -> Result<usize, String> {
    let header = input.first_chunk::<HEADER>().ok_or(CUT)?;
    let (version, flags, element_size) = (header[0], header[2], usize::from(header[3]));
    let (len, block_len, stored) = (word(input, 4)?, word(input, 8)?, word(input, 12)?);
    if version != 2 {
        return Err(format!("version {version} is unknown"));
    }
    let Some(out) = out.get_mut(..len) else {
        return Err(format!("it holds {len} bytes, more than its chunk"));
    };
    let bytes = input.get(..stored).ok_or(CUT)?;
    if len == 0 {
        return Ok(0);
    }
    if flags & COPIED != 0 {
        let content = bytes.get(HEADER..HEADER + len).ok_or(CUT)?;
        out.copy_from_slice(content);
        return Ok(len);
    }
    if block_len == 0 || element_size == 0 {
        return Err("its blocks or elements have no bytes".to_owned());
    }
    let buffer = Buffer {
        bytes,
        flags,
        element_size,
        block_len,
    };
    for (nth, piece) in out.chunks_mut(block_len).enumerate() {
        buffer.block(nth, piece, block, stages)?;
    }
    Ok(len)
}

impl Buffer<'_> {
    fn block(
        &self,
        nth: usize,
        out: &mut [u8],
        scratch: &mut Vec<u8>,
        stages: &mut Stages,
    ) -> Result<(), String> {
        let start = word(self.bytes, HEADER + 4 * nth)?;
        let size = self.element_size;
        let bits = self.flags & BITSHUFFLED != 0 && self.block_len >= size;
        let bytes = self.flags & SHUFFLED != 0 && size > 1;
        if !bits && !bytes {
            return self.streams(start, out, stages);
        }
        if scratch.len() < out.len() {
            scratch.resize(out.len(), 0);
        }
        let block = &mut scratch[..out.len()];
        self.streams(start, block, stages)?;
        if bytes {
            shuffle::undo(block, size as u32, out);
        } else {
            // Blosc leaves a block alone whose elements make no whole groups of eight.
            let whole = match out.len() / size {
                elements if elements % 8 == 0 => elements * size,
                _ => 0,
            };
            bitshuffle::undo(&block[..whole], size, &mut out[..whole]);
            out[whole..].copy_from_slice(&block[whole..]);
        }
        Ok(())
    }

    fn streams(&self, start: usize, out: &mut [u8], stages: &mut Stages) -> Result<(), String> {
        let size = self.element_size;
        let split = self.flags & WHOLE_BLOCKS == 0
            && size <= MAX_STREAMS
            && self.block_len / size >= MIN_STREAM
            && out.len() == self.block_len;
        let stream_len = if split { out.len() / size } else { out.len() };
        let mut at = start;
        // A block has a multiple of the element's bytes where it is split.
        if stream_len == 0 || !out.len().is_multiple_of(stream_len) {
            return Err("a block cannot be split into its streams".to_owned());
        }
        for piece in out.chunks_mut(stream_len) {
            let len = word(self.bytes, at)?;
            at += 4;
            let end = at.checked_add(len).ok_or(CUT)?;
            let stored = self.bytes.get(at..end).ok_or(CUT)?;
            at = end;
            if len == piece.len() {
                piece.copy_from_slice(stored);
                continue;
            }
            let made = self.codec(stored, piece, stages)?;
            if made != piece.len() {
                return Err(format!("a stream has {made} bytes, not {}", piece.len()));
            }
        }
        Ok(())
    }

    fn codec(&self, stored: &[u8], out: &mut [u8], stages: &mut Stages) -> Result<usize, String> {
        match self.flags >> 5 {
            0 => blosclz::decode(stored, out).map_err(str::to_owned),
            1 => lz4(stored, out),
            2 => snappy(stored, out),
            3 => stages.inflate(stored, out),
            4 => stages.zstd.decode(stored, out),
            other => Err(format!("codec {other} is unknown")),
        }
    }
}

/// Decodes a Snappy block into the front of `out`; the bytes written.
fn snappy(stored: &[u8], out: &mut [u8]) -> Result<usize, String> {
    let made = snap::raw::Decoder::new().decompress(stored, out);
    made.map_err(|error| error.to_string())
}

/// A length or an offset.
fn word(bytes: &[u8], at: usize) -> Result<usize, &'static str> {
    let word = bytes.get(at..).and_then(<[u8]>::first_chunk).ok_or(CUT)?;
    Ok(u32::from_le_bytes(*word) as usize)
}
