//! Undoes HDF5's n-bit filter: elements one after the other, only the bits that their type uses.

use super::bits::{Bits, put};
use crate::index::NBit;

/// Decodes `input` to all of `out`: whole integers, their sign in every bit that was left out.
pub(super) fn decode(nbit: NBit, input: &[u8], out: &mut [u8]) -> Result<usize, &'static str> {
    let size = usize::from(nbit.element_size);
    if !out.len().is_multiple_of(size) {
        return Err("it is no whole number of elements");
    }
    let unused = 64 - u32::from(nbit.bits);
    let mut bits = Bits::new(input);
    for element in out.chunks_exact_mut(size) {
        let value = bits.take(nbit.bits.into()).ok_or("it ends too soon")?;
        let value = if nbit.signed {
            ((value << unused).cast_signed() >> unused).cast_unsigned()
        } else {
            value
        };
        put(value, nbit.big_endian, element);
    }
    Ok(out.len())
}
