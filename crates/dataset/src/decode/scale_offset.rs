//! Undoes HDF5's scale-offset filter: numbers less their minimum, in as few bits as they need.
//!
//! A chunk is the number of bits (4 bytes), the size of the minimum (1), the minimum (8), 8 bytes
//! that mean nothing, and then the codes, highest bit first. The largest code stands for the fill
//! value, where there is one. Of floats, the codes are decimal digits.

use super::bits::{Bits, get, put};
use crate::index::ScaleOffset;

const HEADER: usize = 21;
/// The most bytes that one stored byte is taken to stand for: a chunk of one value has no codes.
pub(super) const EXPANSION: u64 = 1 << 22;

/// Decodes `input` to all of `out`. `fill` is the fill value as it is stored, empty for zeros.
pub(super) fn decode(
    scale: ScaleOffset,
    fill: &[u8],
    input: &[u8],
    out: &mut [u8],
) -> Result<usize, &'static str> {
    let size = usize::from(scale.element_size);
    let (header, codes) = input.split_at_checked(HEADER).ok_or("it has no header")?;
    let width = get(&header[..4], false);
    let minimum_len = usize::from(header[4]).min(8);
    let minimum = get(&header[5..5 + minimum_len], false);
    if !out.len().is_multiple_of(size) {
        return Err("it is no whole number of elements");
    }
    if width > 8 * size as u64 {
        return Err("it has more bits than its elements");
    }
    let width = width as u32;
    if width == 8 * u32::from(scale.element_size) {
        return whole(scale, codes, out);
    }
    let fill = match fill {
        [] => 0,
        fill if fill.len() == size => get(fill, scale.big_endian),
        _ => return Err("its fill value has another size"),
    };
    let filled = scale.fills.then_some((1_u64 << width) - 1);
    let value = decoder(scale, minimum);
    let mut bits = Bits::new(codes);
    for element in out.chunks_exact_mut(size) {
        let code = bits.take(width).ok_or("it ends too soon")?;
        let value = if filled == Some(code) {
            fill
        } else {
            value(code)
        };
        put(value, scale.big_endian, element);
    }
    Ok(out.len())
}

/// Elements that were left as they are, lowest byte first.
fn whole(scale: ScaleOffset, codes: &[u8], out: &mut [u8]) -> Result<usize, &'static str> {
    let size = usize::from(scale.element_size);
    let elements = codes.get(..out.len()).ok_or("it ends too soon")?;
    for (from, to) in elements.chunks_exact(size).zip(out.chunks_exact_mut(size)) {
        put(get(from, false), scale.big_endian, to);
    }
    Ok(out.len())
}

/// What a code stands for, as the bits of an element.
fn decoder(scale: ScaleOffset, minimum: u64) -> impl Fn(u64) -> u64 {
    let ten = scale.digits.map(|digits| 10_f64.powf(digits.into()));
    move |code| match (ten, scale.element_size) {
        (None, _) => code.wrapping_add(minimum),
        // As HDF5 computes it: in the type of the elements.
        (Some(ten), 4) => {
            let least = f32::from_bits(minimum as u32);
            let value = (code as u32).cast_signed() as f32 / ten as f32 + least;
            value.to_bits().into()
        }
        (Some(ten), _) => (code.cast_signed() as f64 / ten + f64::from_bits(minimum)).to_bits(),
    }
}
