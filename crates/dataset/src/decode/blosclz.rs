//! Decodes BloscLZ, Blosc's own codec.
//!
//! A control byte below 32 is followed by that many plus one literal bytes. Any other holds a
//! length in its upper three bits (7: bytes are added, up to one that is not 255) and the upper
//! five bits of a distance, whose lower eight follow; where all thirteen are ones, two more bytes
//! are added to the distance. The first control byte is always one of literals.

/// All thirteen bits of a distance.
const FAR: usize = 8191;
const CUT: &str = "it ends in the middle of a token";
const LONG: &str = "it decodes to more than its stream";

/// Decodes all of `input` into the front of `out`; the bytes written.
pub(super) fn decode(input: &[u8], out: &mut [u8]) -> Result<usize, &'static str> {
    let (mut at, mut end) = (0, 0);
    let next = |at: &mut usize| -> Result<usize, &'static str> {
        let byte = *input.get(*at).ok_or(CUT)?;
        *at += 1;
        Ok(usize::from(byte))
    };
    while at < input.len() {
        let first = at == 0;
        let mut control = next(&mut at)?;
        if first {
            control &= 31;
        }
        if control < 32 {
            let len = control + 1;
            let from = input.get(at..at + len).ok_or(CUT)?;
            let to = out.get_mut(end..end + len).ok_or(LONG)?;
            to.copy_from_slice(from);
            at += len;
            end += len;
            continue;
        }
        let mut len = (control >> 5) + 2;
        if len == 9 {
            loop {
                let more = next(&mut at)?;
                len += more;
                if more != 255 {
                    break;
                }
            }
        }
        let mut distance = (control & 31) << 8 | next(&mut at)?;
        if distance == FAR {
            distance += next(&mut at)? << 8;
            distance += next(&mut at)?;
        }
        repeat(out, end, distance + 1, len)?;
        end += len;
    }
    Ok(end)
}

/// Copies `len` bytes that lie `distance` back, piece by piece where they overlap.
fn repeat(out: &mut [u8], end: usize, distance: usize, len: usize) -> Result<(), &'static str> {
    let start = end
        .checked_sub(distance)
        .ok_or("it copies from before its start")?;
    if len > out.len() - end {
        return Err(LONG);
    }
    let mut done = 0;
    while done < len {
        // What was copied can be copied again, so each piece is as long as all before it.
        let piece = (distance + done).min(len - done);
        out.copy_within(start..start + piece, end + done);
        done += piece;
    }
    Ok(())
}
