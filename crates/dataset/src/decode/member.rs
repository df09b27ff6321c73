//! Takes one member of a compound type out of whole elements.

/// Copies from each `stride` bytes of `input` those at `offset` to `out`, `size` bytes each.
pub(super) fn take(
    input: &[u8],
    offset: usize,
    stride: usize,
    size: usize,
    out: &mut [u8],
) -> Result<usize, &'static str> {
    let end = offset.checked_add(size).filter(|end| *end <= stride);
    let Some(end) = end.filter(|_| size > 0) else {
        return Err("a member lies outside its element");
    };
    if !input.len().is_multiple_of(stride) || input.len() / stride != out.len() / size {
        return Err("it holds another number of elements");
    }
    for (from, to) in input.chunks_exact(stride).zip(out.chunks_exact_mut(size)) {
        to.copy_from_slice(&from[offset..end]);
    }
    Ok(out.len())
}
