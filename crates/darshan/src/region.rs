//! Decompression. A region is a row of whole streams, one for each process that wrote to it.

use std::borrow::Cow;

use bzip2::Status as BzipStatus;
use flate2::{FlushDecompress, Status};

use crate::error::{Fault, Region};
use crate::header::{Compression, Place};

/// Streams of one region: more than a million processes have not written one log.
const MAX_STREAMS: usize = 1 << 20;

/// How much the output grows at a time.
const STEP: usize = 1 << 16;

/// A region's bytes, and what kept them from being all.
pub(crate) struct Inflated<'a> {
    pub(crate) bytes: Cow<'a, [u8]>,
    pub(crate) fault: Option<Fault>,
}

/// Reads a region of the file, at most `limit` bytes of it.
pub(crate) fn read<'a>(
    log: &'a [u8],
    region: Region,
    place: Place,
    compression: Compression,
    limit: usize,
) -> Inflated<'a> {
    let (compressed, truncated) = slice(log, region, place);
    let (bytes, stop) = match compression {
        Compression::None => {
            let kept = &compressed[..compressed.len().min(limit)];
            let stop = (kept.len() < compressed.len()).then_some(Stop::Limit);
            (Cow::Borrowed(kept), stop)
        }
        Compression::Zlib => inflate(compressed, limit, &mut Zlib(flate2::Decompress::new(true))),
        Compression::Bzip2 => inflate(compressed, limit, &mut Bzip2(bzip2::Decompress::new(false))),
    };
    let damaged = |why: &str| {
        Some(Fault::Damaged {
            region,
            why: why.into(),
        })
    };
    let fault = match stop {
        Some(Stop::Limit) => Some(Fault::Limit {
            region,
            limit,
            what: "bytes",
        }),
        // The cut explains whatever the decompressor says about it.
        _ if truncated.is_some() => truncated,
        Some(Stop::Ended) => damaged("the compressed data ends too early"),
        Some(Stop::Corrupt) => damaged("the compressed data is corrupt"),
        None => None,
    };
    Inflated { bytes, fault }
}

/// The part of a region that is in the file.
fn slice(log: &[u8], region: Region, place: Place) -> (&[u8], Option<Fault>) {
    let len = log.len() as u64;
    let start = place.start.min(len);
    let end = place.start.saturating_add(place.bytes).min(len);
    let found = &log[start as usize..end.max(start) as usize];
    let missing = place.bytes - found.len() as u64;
    let truncated = (missing > 0).then_some(Fault::Truncated {
        region,
        missing,
        bytes: place.bytes,
    });
    (found, truncated)
}

/// Why decompression ended before the region did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stop {
    Limit,
    Ended,
    Corrupt,
}

/// A decompressor that says where a stream ended.
trait Streams {
    /// Bytes taken, and whether the stream ended; `None` for corrupt data. `out` grows within its
    /// capacity.
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<(usize, bool)>;
    /// Makes ready for the next stream.
    fn restart(&mut self);
}

fn inflate(
    mut input: &[u8],
    limit: usize,
    streams: &mut impl Streams,
) -> (Cow<'static, [u8]>, Option<Stop>) {
    // Records compress well; most regions are small.
    let mut out = Vec::with_capacity(
        input
            .len()
            .saturating_mul(10)
            .min(STEP)
            .min(limit.saturating_add(1)),
    );
    let mut finished = 0;
    while !input.is_empty() {
        if out.len() == out.capacity() {
            // One more than the limit, so that a region that just fits is told from one that does not.
            let room = (limit.saturating_add(1) - out.len()).min(STEP.max(out.len()));
            out.reserve_exact(room);
        }
        let before = out.len();
        let Some((taken, ended)) = streams.step(input, &mut out) else {
            return (out.into(), Some(Stop::Corrupt));
        };
        input = &input[taken..];
        if out.len() > limit {
            out.truncate(limit);
            return (out.into(), Some(Stop::Limit));
        }
        if ended {
            finished += 1;
            if finished == MAX_STREAMS {
                return (out.into(), Some(Stop::Corrupt));
            }
            streams.restart();
        } else if taken == 0 && out.len() == before {
            return (out.into(), Some(Stop::Ended));
        } else if input.is_empty() {
            // The last input may still have output to give.
            return drain(out, limit, streams);
        }
    }
    (out.into(), None)
}

/// All input was taken and the stream has not ended: what it still holds, if that ends it.
fn drain(
    mut out: Vec<u8>,
    limit: usize,
    streams: &mut impl Streams,
) -> (Cow<'static, [u8]>, Option<Stop>) {
    loop {
        if out.len() == out.capacity() {
            out.reserve_exact((limit.saturating_add(1) - out.len()).min(STEP.max(out.len())));
        }
        let before = out.len();
        let Some((_, ended)) = streams.step(&[], &mut out) else {
            return (out.into(), Some(Stop::Corrupt));
        };
        if out.len() > limit {
            out.truncate(limit);
            return (out.into(), Some(Stop::Limit));
        }
        if ended {
            return (out.into(), None);
        }
        if out.len() == before {
            return (out.into(), Some(Stop::Ended));
        }
    }
}

struct Zlib(flate2::Decompress);

impl Streams for Zlib {
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<(usize, bool)> {
        let before = self.0.total_in();
        let status = self.0.decompress_vec(input, out, FlushDecompress::None);
        let taken = (self.0.total_in() - before) as usize;
        match status {
            Ok(Status::StreamEnd) => Some((taken, true)),
            Ok(Status::Ok | Status::BufError) => Some((taken, false)),
            Err(_) => None,
        }
    }

    fn restart(&mut self) {
        self.0.reset(true);
    }
}

struct Bzip2(bzip2::Decompress);

impl Streams for Bzip2 {
    fn step(&mut self, input: &[u8], out: &mut Vec<u8>) -> Option<(usize, bool)> {
        let before = self.0.total_in();
        let status = self.0.decompress_vec(input, out);
        let taken = (self.0.total_in() - before) as usize;
        match status {
            Ok(BzipStatus::StreamEnd) => Some((taken, true)),
            Ok(_) => Some((taken, false)),
            Err(_) => None,
        }
    }

    fn restart(&mut self) {
        self.0 = bzip2::Decompress::new(false);
    }
}
