//! Decodes LZF, the compression of h5py's filter 32000.
//!
//! A stream is a row of tokens. A control byte below 32 is followed by that many plus one literal
//! bytes. Any other holds a length in its upper three bits (7: the next byte is added) and, with
//! the byte after that, a distance of 13 bits: copy length plus two bytes from there.

/// Bytes that the fast copies move at once. They may write past a token's end, never past `out`;
/// the next token overwrites what they left.
const WIDE: usize = 16;

const CUT: &str = "it ends in the middle of a token";
const LONG: &str = "it decodes to more than one chunk";
const FAR: &str = "it copies from before its start";

/// Decodes all of `input` into the front of `out`; the bytes written.
pub(super) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, &'static str> {
    let (mut at, mut end) = (0, 0);
    while let Some(&control) = input.get(at) {
        at += 1;
        if control < 32 {
            let len = usize::from(control) + 1;
            literals(input, at, out, end, len)?;
            at += len;
            end += len;
            continue;
        }
        let mut len = usize::from(control >> 5) + 2;
        if len == 9 {
            len += usize::from(*input.get(at).ok_or(CUT)?);
            at += 1;
        }
        let low = *input.get(at).ok_or(CUT)?;
        at += 1;
        let distance = (usize::from(control & 31) << 8 | usize::from(low)) + 1;
        repeat(out, end, distance, len)?;
        end += len;
    }
    Ok(end)
}

/// Copies `len` of at most 32 bytes.
#[inline(always)]
fn literals(
    input: &[u8],
    at: usize,
    out: &mut [u8],
    end: usize,
    len: usize,
) -> Result<(), &'static str> {
    let from = input.get(at..).and_then(<[u8]>::first_chunk::<32>);
    let to = out.get_mut(end..).and_then(<[u8]>::first_chunk_mut::<32>);
    if let (Some(from), Some(to)) = (from, to) {
        *to = *from;
        return Ok(());
    }
    let from = input.get(at..at + len).ok_or(CUT)?;
    out.get_mut(end..end + len)
        .ok_or(LONG)?
        .copy_from_slice(from);
    Ok(())
}

/// Copies `len` bytes that lie `distance` back. They may overlap: the bytes repeat then.
#[inline(always)]
fn repeat(out: &mut [u8], end: usize, distance: usize, len: usize) -> Result<(), &'static str> {
    let start = end.checked_sub(distance).ok_or(FAR)?;
    let room = out.len();
    if distance >= WIDE && end + len.next_multiple_of(WIDE) <= room {
        wide::<WIDE>(out, start, end, len);
    } else if distance >= 8 && end + len.next_multiple_of(8) <= room {
        wide::<8>(out, start, end, len);
    } else if end + len > room {
        return Err(LONG);
    } else if distance == 1 {
        let byte = out[start];
        out[end..end + len].fill(byte);
    } else {
        overlapping(out, start, end, len);
    }
    Ok(())
}

/// In steps of `N`, no more than the distance, so that each step reads what is already written.
#[inline(always)]
fn wide<const N: usize>(out: &mut [u8], start: usize, end: usize, len: usize) {
    let mut done = 0;
    while done < len {
        let mut piece = [0; N];
        piece.copy_from_slice(&out[start + done..start + done + N]);
        out[end + done..end + done + N].copy_from_slice(&piece);
        done += N;
    }
}

/// Byte by byte: a distance below 8, or the last bytes of the chunk.
fn overlapping(out: &mut [u8], start: usize, end: usize, len: usize) {
    for n in 0..len {
        out[end + n] = out[start + n];
    }
}
