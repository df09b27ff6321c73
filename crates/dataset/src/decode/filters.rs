//! Undoes a chunk's filters, last applied first.

use flate2::{Decompress, FlushDecompress, Status};

use super::{fletcher, lzf, shuffle};
use crate::DecodeError;
use crate::index::Filter;

/// Most bytes that one byte of a zlib stream can stand for.
const DEFLATE_EXPANSION: u64 = 1032;
/// Most bytes that one byte of an LZF stream can stand for: 264 from 3.
const LZF_EXPANSION: u64 = 88;

/// Memory that decoding reuses from chunk to chunk: at most two decoded chunks.
#[derive(Debug, Default)]
pub struct Scratch {
    /// Output of the last stage.
    current: Vec<u8>,
    next: Vec<u8>,
    inflate: Option<Decompress>,
    inflate_raw: Option<Decompress>,
}

impl Scratch {
    /// Bytes it holds on to.
    pub fn capacity(&self) -> usize {
        self.current.capacity() + self.next.capacity()
    }
}

/// Where a decoded chunk is.
pub(super) enum Decoded<'a> {
    InTarget,
    At(&'a [u8]),
}

/// Bytes that undoing a filter must give.
#[derive(Clone, Copy, Debug)]
enum Wanted {
    Exactly(u64),
    /// What lies under a second compression has a length that only its data tells.
    AtMost(u64),
}

impl Wanted {
    fn most(self) -> u64 {
        match self {
            Self::Exactly(len) | Self::AtMost(len) => len,
        }
    }

    fn allows(self, len: u64) -> bool {
        match self {
            Self::Exactly(wanted) => len == wanted,
            Self::AtMost(most) => len <= most,
        }
    }
}

/// The filters that were applied to one chunk.
pub(super) struct Pipeline<'a> {
    filters: &'a [Filter],
    mask: u32,
    chunk_bytes: u32,
}

impl<'a> Pipeline<'a> {
    pub(super) fn new(
        filters: &'a [Filter],
        mask: u32,
        chunk_bytes: u32,
    ) -> Result<Self, DecodeError> {
        // Bits beyond the last filter mean nothing to anyone: they are damage.
        if mask.checked_shr(filters.len() as u32).unwrap_or(0) != 0 {
            return Err(DecodeError::Layout(format!(
                "filter mask {mask:#x} names more than {} filters",
                filters.len()
            )));
        }
        Ok(Self {
            filters,
            mask,
            chunk_bytes,
        })
    }

    fn applied(&self) -> impl DoubleEndedIterator<Item = (usize, Filter)> {
        self.filters
            .iter()
            .copied()
            .enumerate()
            .filter(|(nth, _)| self.mask >> nth & 1 == 0)
    }

    /// Length of the data before each filter was applied.
    fn wanted(&self) -> [Wanted; 32] {
        let mut len = Wanted::Exactly(self.chunk_bytes.into());
        let mut out = [len; 32];
        for (nth, filter) in self.applied() {
            out[nth] = len;
            len = match (filter, len) {
                (Filter::Shuffle { .. }, len) => len,
                (Filter::Fletcher32, Wanted::Exactly(len)) => Wanted::Exactly(len + 4),
                (Filter::Fletcher32, Wanted::AtMost(len)) => Wanted::AtMost(len + 4),
                // No compressor makes incompressible data longer than this.
                (Filter::Deflate | Filter::Lzf, len) => {
                    Wanted::AtMost(len.most() + len.most() / 16 + 64)
                }
                (Filter::RawDeflate { skipped }, len) => {
                    let held = len.most() + u64::from(skipped);
                    Wanted::AtMost(held + held / 16 + 64)
                }
            };
        }
        out
    }

    /// Decodes `stored` to exactly one chunk: into `target` if there is one and a filter moves
    /// bytes, else wherever it comes to lie.
    pub(super) fn undo<'s>(
        &self,
        stored: &'s [u8],
        mut target: Option<&mut [u8]>,
        scratch: &'s mut Scratch,
    ) -> Result<Decoded<'s>, DecodeError> {
        let wanted = self.wanted();
        // If the stage that runs last moves bytes, its output is the chunk. If it is a checksum, what
        // lies in front of it is too long to go to the target.
        let last = self.applied().next().map(|(nth, _)| nth);
        let (mut moved, mut len) = (false, stored.len());
        for (nth, filter) in self.applied().rev() {
            let Scratch {
                current,
                next,
                inflate,
                inflate_raw,
            } = &mut *scratch;
            let input = if moved {
                &current[..len]
            } else {
                &stored[..len]
            };
            if filter == Filter::Fletcher32 {
                len = fletcher::check(input)?.len();
                continue;
            }
            let into_target = target.take_if(|_| last == Some(nth));
            let direct = into_target.is_some();
            let out = match into_target {
                Some(target) => target,
                None => grown(next, room(filter, input, wanted[nth])?),
            };
            let made = match filter {
                Filter::RawDeflate { skipped } => {
                    inflate_raw_into(input, skipped, out, inflate_raw).map_err(|why| {
                        DecodeError::Damaged {
                            filter: name(filter),
                            why,
                        }
                    })?
                }
                filter => run(filter, input, out, inflate)?,
            };
            check_len(filter, made, wanted[nth])?;
            if direct {
                return Ok(Decoded::InTarget);
            }
            std::mem::swap(current, next);
            (moved, len) = (true, made);
        }
        let chunk = if moved {
            &scratch.current[..len]
        } else {
            &stored[..len]
        };
        if len as u64 == u64::from(self.chunk_bytes) {
            Ok(Decoded::At(chunk))
        } else {
            Err(DecodeError::Damaged {
                filter: "chunk",
                why: format!("{len} bytes where {} belong", self.chunk_bytes),
            })
        }
    }
}

/// Room that the output of `filter` needs, refused if `input` could never fill it: a small file
/// must not make a reader allocate gigabytes.
fn room(filter: Filter, input: &[u8], wanted: Wanted) -> Result<usize, DecodeError> {
    let expansion = match filter {
        Filter::Deflate | Filter::RawDeflate { .. } => DEFLATE_EXPANSION,
        Filter::Lzf => LZF_EXPANSION,
        Filter::Shuffle { .. } | Filter::Fletcher32 => 1,
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

/// The first `len` bytes of a buffer that only ever grows. Their content is whatever it was.
fn grown(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.resize(len, 0);
    }
    &mut buffer[..len]
}

/// Undoes one filter; the bytes written.
fn run(
    filter: Filter,
    input: &[u8],
    out: &mut [u8],
    inflate: &mut Option<Decompress>,
) -> Result<usize, DecodeError> {
    let damaged = |why: String| DecodeError::Damaged {
        filter: name(filter),
        why,
    };
    match filter {
        Filter::Deflate => inflate_into(input, out, inflate).map_err(damaged),
        Filter::Lzf => lzf::decode(input, out).map_err(|why| damaged(why.to_owned())),
        Filter::Shuffle { element_size } => {
            if out.len() != input.len() {
                return Err(damaged(format!(
                    "{} bytes where {} belong",
                    input.len(),
                    out.len()
                )));
            }
            shuffle::undo(input, element_size, out);
            Ok(input.len())
        }
        // One moves no bytes, the other has an inflater of its own; the caller does both.
        Filter::Fletcher32 | Filter::RawDeflate { .. } => {
            Err(damaged("it is not a stage of its own".to_owned()))
        }
    }
}

fn inflate_into(
    input: &[u8],
    out: &mut [u8],
    inflate: &mut Option<Decompress>,
) -> Result<usize, String> {
    let inflate = inflate.get_or_insert_with(|| Decompress::new(true));
    inflate.reset(true);
    match inflate.decompress(input, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => Ok(inflate.total_out() as usize),
        Ok(_) if inflate.total_out() as usize == out.len() => {
            Err(format!("it is longer than {} bytes", out.len()))
        }
        Ok(_) => Err("it ends too soon".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

/// Inflates a stream without a frame; its first `skipped` bytes are passed over.
fn inflate_raw_into(
    input: &[u8],
    skipped: u32,
    out: &mut [u8],
    inflate: &mut Option<Decompress>,
) -> Result<usize, String> {
    let inflate = inflate.get_or_insert_with(|| Decompress::new(false));
    inflate.reset(false);
    let mut passed = [0; 512];
    let skipped = u64::from(skipped);
    while inflate.total_out() < skipped {
        let now = (skipped - inflate.total_out()).min(passed.len() as u64) as usize;
        let before = inflate.total_out();
        let rest = input.get(inflate.total_in() as usize..).unwrap_or_default();
        let status = inflate
            .decompress(rest, &mut passed[..now], FlushDecompress::None)
            .map_err(|e| e.to_string())?;
        let stuck = inflate.total_out() == before || status == Status::StreamEnd;
        if stuck && inflate.total_out() < skipped {
            return Err("it ends inside the header".to_owned());
        }
    }
    let rest = input.get(inflate.total_in() as usize..).unwrap_or_default();
    match inflate.decompress(rest, out, FlushDecompress::Finish) {
        Ok(Status::StreamEnd) => Ok((inflate.total_out() - skipped) as usize),
        Ok(_) if inflate.total_out() - skipped == out.len() as u64 => {
            Err(format!("it is longer than {} bytes", out.len()))
        }
        Ok(_) => Err("it ends too soon".to_owned()),
        Err(e) => Err(e.to_string()),
    }
}

fn check_len(filter: Filter, made: usize, wanted: Wanted) -> Result<(), DecodeError> {
    if wanted.allows(made as u64) {
        return Ok(());
    }
    Err(DecodeError::Damaged {
        filter: name(filter),
        why: format!("it holds {made} bytes where {} belong", wanted.most()),
    })
}

fn name(filter: Filter) -> &'static str {
    match filter {
        Filter::Deflate => "deflate",
        Filter::Shuffle { .. } => "shuffle",
        Filter::Fletcher32 => "fletcher32",
        Filter::Lzf => "lzf",
        Filter::RawDeflate { .. } => "raw deflate",
    }
}
