//! One stage of a chunk's decoding: each filter with what it needs and how far it expands.

use std::fmt;

use flate2::Decompress;
use zstd_safe::DCtx;

use super::filters::{Chunk, Wanted};
use super::{bitshuffle, blosc, inflate, lzf, member, nbit, padding, scale_offset, shuffle, szip};
use crate::DecodeError;
use crate::index::Filter;

/// Most bytes that one byte of a zlib stream can stand for.
const DEFLATE_EXPANSION: u64 = 1032;
/// Most bytes that one byte of an LZF stream can stand for: 264 from 3.
const LZF_EXPANSION: u64 = 88;
/// Most bytes that one byte of LZ4 blocks can stand for.
const LZ4_EXPANSION: u64 = 256;
/// Most bytes that one byte of a Zstandard frame can stand for: a block of 128 KiB from four.
const ZSTD_EXPANSION: u64 = 1 << 15;
/// An element of eight bytes from one bit.
const N_BIT_EXPANSION: u64 = 64;

/// What the decoders of streams keep from chunk to chunk.
#[derive(Debug, Default)]
pub(super) struct Stages {
    inflate: Option<Decompress>,
    inflate_raw: Option<Decompress>,
    pub(super) zstd: Zstd,
}

/// A decoder of Zstandard frames.
#[derive(Default)]
pub(super) struct Zstd(Option<DCtx<'static>>);

impl fmt::Debug for Zstd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Zstd")
    }
}

impl Zstd {
    /// Decodes all frames of `input` into the front of `out`; the bytes written.
    pub(super) fn decode(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, String> {
        let state = match &mut self.0 {
            Some(state) => state,
            None => {
                let state = DCtx::try_create().ok_or("there is no memory for a decoder")?;
                self.0.insert(state)
            }
        };
        state
            .decompress(out, input)
            .map_err(|code| zstd_safe::get_error_name(code).to_owned())
    }
}

/// Decodes one LZ4 block into the front of `out`; the bytes written.
pub(super) fn lz4(input: &[u8], out: &mut [u8]) -> Result<usize, String> {
    lz4_flex::block::decompress_into(input, out).map_err(|error| error.to_string())
}

impl Stages {
    /// Decodes a zlib stream into the front of `out`; the bytes written.
    pub(super) fn inflate(&mut self, input: &[u8], out: &mut [u8]) -> Result<usize, String> {
        inflate::framed(input, out, &mut self.inflate)
    }

    /// Undoes one filter; the bytes written. `extra` is memory that some filters need.
    pub(super) fn run(
        &mut self,
        filter: Filter,
        chunk: &Chunk<'_>,
        input: &[u8],
        out: &mut [u8],
        extra: &mut Vec<u8>,
    ) -> Result<usize, DecodeError> {
        let own = |result: Result<usize, &'static str>| result.map_err(str::to_owned);
        let made = match filter {
            Filter::Deflate => self.inflate(input, out),
            Filter::RawDeflate { skipped } => {
                inflate::raw(input, skipped, out, &mut self.inflate_raw)
            }
            Filter::Lzf => own(lzf::decode(input, out)),
            Filter::Shuffle { element_size } => own(same_length(input, out).map(|()| {
                shuffle::undo(input, element_size, out);
                input.len()
            })),
            Filter::Szip(settings) => szip::decode(settings, input, out, extra),
            Filter::NBit(nbit) => own(nbit::decode(nbit, input, out)),
            Filter::ScaleOffset(scale) => {
                own(scale_offset::decode(scale, chunk.fill_value, input, out))
            }
            Filter::Blosc => blosc::decode(input, out, extra, self),
            Filter::Lz4 => lz4_blocks(input, out),
            Filter::Bitshuffle(bits) => bitshuffle::decode(bits, input, out, extra, &mut self.zstd),
            Filter::Zstd => self.zstd.decode(input, out),
            Filter::Member(taken) => own(member::take(
                input,
                taken.offset.into(),
                taken.stride.into(),
                chunk.bytes_inside(taken.axes),
                out,
            )),
            Filter::SpacePadded => own(same_length(input, out).map(|()| {
                out.copy_from_slice(input);
                padding::spaces_to_zeros(out, chunk.element_size);
                input.len()
            })),
            // It moves no bytes; the caller checks it.
            Filter::Fletcher32 => Err("it is not a stage of its own".to_owned()),
        };
        made.map_err(|why| DecodeError::Damaged {
            filter: name(filter),
            why,
        })
    }
}

fn same_length(input: &[u8], out: &[u8]) -> Result<(), &'static str> {
    if input.len() == out.len() {
        Ok(())
    } else {
        Err("it has another length than its chunk")
    }
}

/// LZ4 as HDF5's filter 32004 has it: the length of all and of a block (8 and 4 bytes, highest
/// first), then blocks with their lengths. A block that is as long as its content is copied.
fn lz4_blocks(input: &[u8], out: &mut [u8]) -> Result<usize, String> {
    const CUT: &str = "it ends too soon";
    let (header, mut rest) = input.split_first_chunk::<12>().ok_or(CUT)?;
    let [a, b, c, d, e, f, g, h, block @ ..] = *header;
    let len = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
    let block = u32::from_be_bytes(block) as usize;
    let out = usize::try_from(len).ok().and_then(|len| out.get_mut(..len));
    let out = out.ok_or_else(|| format!("it holds {len} bytes, more than its chunk"))?;
    if block == 0 {
        return Err("its blocks have no bytes".to_owned());
    }
    for piece in out.chunks_mut(block) {
        let (stored, behind) = rest.split_first_chunk::<4>().ok_or(CUT)?;
        let stored = u32::from_be_bytes(*stored) as usize;
        let (stored, behind) = behind.split_at_checked(stored).ok_or(CUT)?;
        rest = behind;
        if stored.len() == piece.len() {
            piece.copy_from_slice(stored);
        } else {
            let made = lz4(stored, piece)?;
            if made != piece.len() {
                return Err(format!("a block has {made} bytes, not {}", piece.len()));
            }
        }
    }
    Ok(out.len())
}

/// Room that the output of `filter` needs, refused if `input` could never fill it: a small file
/// must not make a reader allocate gigabytes.
pub(super) fn room(filter: Filter, input: &[u8], wanted: Wanted) -> Result<usize, DecodeError> {
    let expansion = match filter {
        Filter::Deflate | Filter::RawDeflate { .. } => DEFLATE_EXPANSION,
        Filter::Lzf => LZF_EXPANSION,
        Filter::Lz4 => LZ4_EXPANSION,
        Filter::Zstd | Filter::Blosc | Filter::Bitshuffle(_) => ZSTD_EXPANSION,
        Filter::Szip(_) => szip::EXPANSION,
        Filter::NBit(_) => N_BIT_EXPANSION,
        Filter::ScaleOffset(_) => scale_offset::EXPANSION,
        Filter::Shuffle { .. } | Filter::Fletcher32 | Filter::Member(_) | Filter::SpacePadded => 1,
    };
    let most = (input.len() as u64).saturating_mul(expansion);
    match wanted {
        Wanted::Exactly(len) if len > most => Err(DecodeError::Damaged {
            filter: name(filter),
            why: format!("{} stored bytes cannot hold {len}", input.len()),
        }),
        wanted => Ok(wanted.most().min(most) as usize),
    }
}

/// Length of what is stored under a filter, whose undoing gives `len`.
pub(super) fn stored_len(filter: Filter, len: Wanted, chunk: &Chunk<'_>) -> Wanted {
    match (filter, len) {
        (Filter::Shuffle { .. } | Filter::SpacePadded, len) => len,
        (Filter::Fletcher32, Wanted::Exactly(len)) => Wanted::Exactly(len + 4),
        (Filter::Fletcher32, Wanted::AtMost(len)) => Wanted::AtMost(len + 4),
        (Filter::Member(member), _) => {
            let size = chunk.bytes_inside(member.axes) as u64;
            let elements = u64::from(chunk.bytes).checked_div(size).unwrap_or(0);
            Wanted::Exactly(elements * u64::from(member.stride))
        }
        (Filter::RawDeflate { skipped }, len) => {
            let held = len.most() + u64::from(skipped);
            Wanted::AtMost(held + held / 16 + 64)
        }
        // Their blocks have lengths of their own, four bytes each, and may be as short as a byte.
        (Filter::Lz4 | Filter::Bitshuffle(_), len) => Wanted::AtMost(len.most() * 5 + 64),
        // No other compressor makes incompressible data longer than this: Blosc, with 16 bytes and four
        // for each of its blocks of at least 128 bytes, comes nearest.
        (_, len) => Wanted::AtMost(len.most() + len.most() / 16 + 64),
    }
}

/// Names a filter in messages.
pub(super) const fn name(filter: Filter) -> &'static str {
    match filter {
        Filter::Deflate => "deflate",
        Filter::Shuffle { .. } => "shuffle",
        Filter::Fletcher32 => "fletcher32",
        Filter::Szip(_) => "szip",
        Filter::NBit(_) => "n-bit",
        Filter::ScaleOffset(_) => "scale-offset",
        Filter::Lzf => "lzf",
        Filter::Blosc => "blosc",
        Filter::Lz4 => "lz4",
        Filter::Bitshuffle(_) => "bitshuffle",
        Filter::Zstd => "zstd",
        Filter::RawDeflate { .. } => "raw deflate",
        Filter::Member(_) => "member",
        Filter::SpacePadded => "space padding",
    }
}
