//! Undoes the byte transposition of HDF5's shuffle filter.

/// Elements that are put together at a time, so that all their planes stay in the nearest cache.
const TILE: usize = 512;

/// Writes `input` to `out`, of one length, with the bytes of each element together again. Bytes
/// that make no whole element lie at the end as they are.
pub(super) fn undo(input: &[u8], element_size: u32, out: &mut [u8]) {
    let size = element_size as usize;
    let count = input.len().checked_div(size).unwrap_or(0);
    if size <= 1 || count <= 1 {
        out.copy_from_slice(input);
        return;
    }
    match size {
        2 => interleave::<2>(input, count, out),
        4 => interleave::<4>(input, count, out),
        8 => interleave::<8>(input, count, out),
        16 => interleave::<16>(input, count, out),
        _ => interleave_any(input, size, count, out),
    }
    let whole = size * count;
    out[whole..].copy_from_slice(&input[whole..]);
}

fn interleave<const N: usize>(input: &[u8], count: usize, out: &mut [u8]) {
    let planes: [&[u8]; N] = std::array::from_fn(|plane| &input[plane * count..][..count]);
    let (elements, _) = out.as_chunks_mut::<N>();
    for (n, element) in elements[..count].iter_mut().enumerate() {
        for (byte, plane) in element.iter_mut().zip(planes) {
            *byte = plane[n];
        }
    }
}

fn interleave_any(input: &[u8], size: usize, count: usize, out: &mut [u8]) {
    for (nth, tile) in out[..size * count].chunks_mut(size * TILE).enumerate() {
        let elements = tile.len() / size;
        for plane in 0..size {
            let bytes = &input[plane * count + nth * TILE..][..elements];
            for (element, byte) in tile.chunks_exact_mut(size).zip(bytes) {
                element[plane] = *byte;
            }
        }
    }
}
