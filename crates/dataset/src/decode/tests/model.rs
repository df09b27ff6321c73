//! Random arrays, chunks, rows and filters against slow models that are obviously right.

use std::io::Write;

use proptest::prelude::*;

use super::*;

/// Bytes `[i0, i1, …]` of the array, from one running number, so that no two places look alike.
fn array_bytes(elements: u64, element_size: u16) -> Vec<u8> {
    (0..elements * u64::from(element_size))
        .map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8)
        .collect()
}

/// All positions of a box, row-major.
fn positions(shape: &[u64]) -> Vec<Vec<u64>> {
    shape.iter().fold(vec![vec![]], |done, dim| {
        done.iter()
            .flat_map(|head| (0..*dim).map(|at| [&head[..], &[at]].concat()))
            .collect()
    })
}

fn flat(position: &[u64], shape: &[u64]) -> u64 {
    position
        .iter()
        .zip(shape)
        .fold(0, |flat, (at, dim)| flat * dim + at)
}

/// The chunk at `grid`, in full, with `0xAB` beyond the edge of the array.
fn cut_chunk(layout: &ChunkLayout, size: u16, array: &[u8], grid: &[u64]) -> Vec<u8> {
    let size = usize::from(size);
    let mut out = Vec::new();
    for inside in positions(&layout.chunk_shape) {
        let at: Vec<u64> = (0..grid.len())
            .map(|axis| grid[axis] * layout.chunk_shape[axis] + inside[axis])
            .collect();
        if at.iter().zip(&layout.array_shape).all(|(at, dim)| at < dim) {
            let start = flat(&at, &layout.array_shape) as usize * size;
            out.extend(&array[start..start + size]);
        } else {
            out.extend(std::iter::repeat_n(0xAB, size));
        }
    }
    out
}

fn shuffled(data: &[u8], size: usize) -> Vec<u8> {
    let count = data.len() / size;
    let mut out = data.to_vec();
    for element in 0..count {
        for byte in 0..size {
            out[byte * count + element] = data[element * size + byte];
        }
    }
    out
}

/// LZF, greedy, with a search that only a test can afford.
pub(super) fn lzf_encode(data: &[u8]) -> Vec<u8> {
    let (mut out, mut literals, mut at) = (Vec::new(), Vec::new(), 0);
    let flush = |out: &mut Vec<u8>, literals: &mut Vec<u8>| {
        for piece in literals.chunks(32) {
            out.push(piece.len() as u8 - 1);
            out.extend(piece);
        }
        literals.clear();
    };
    while at < data.len() {
        let best = (at.saturating_sub(8192)..at)
            .map(|start| {
                let len = (0..264.min(data.len() - at))
                    .take_while(|n| data[start + n] == data[at + n])
                    .count();
                (len, start)
            })
            .max();
        match best {
            Some((len, start)) if len >= 3 => {
                flush(&mut out, &mut literals);
                let back = at - start - 1;
                let high = (back >> 8) as u8;
                if len - 2 < 7 {
                    out.push(((len - 2) as u8) << 5 | high);
                } else {
                    out.extend([7 << 5 | high, (len - 9) as u8]);
                }
                out.push(back as u8);
                at += len;
            }
            _ => {
                literals.push(data[at]);
                at += 1;
            }
        }
    }
    flush(&mut out, &mut literals);
    out
}

fn apply(filter: Filter, data: &[u8]) -> Vec<u8> {
    match filter {
        Filter::Shuffle { element_size } => shuffled(data, element_size as usize),
        Filter::Lzf => lzf_encode(data),
        Filter::Fletcher32 => [data, &fletcher::sum(data).to_le_bytes()].concat(),
        Filter::Deflate => {
            let level = flate2::Compression::fast();
            let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
            encoder.write_all(data).unwrap();
            encoder.finish().unwrap()
        }
        Filter::RawDeflate { skipped } => raw_deflated(skipped as usize, data),
        Filter::Zstd => {
            let mut out = vec![0; zstd_safe::compress_bound(data.len())];
            let len = zstd_safe::compress(&mut out[..], data, 3).unwrap();
            out.truncate(len);
            out
        }
        Filter::Lz4 => lz4_encode(data),
        Filter::Bitshuffle(settings) => bitshuffle_encode(settings, data),
        _ => unreachable!("not in the strategy"),
    }
}

/// Blocks of 40 bytes.
fn lz4_encode(data: &[u8]) -> Vec<u8> {
    let mut out = [
        &(data.len() as u64).to_be_bytes()[..],
        &40_u32.to_be_bytes(),
    ]
    .concat();
    for block in data.chunks(40) {
        push_block(&mut out, block, lz4_flex::block::compress(block));
    }
    out
}

/// A block is stored as it is where compressing does not make it shorter.
fn push_block(out: &mut Vec<u8>, block: &[u8], packed: Vec<u8>) {
    let stored = if packed.len() < block.len() {
        &packed
    } else {
        block
    };
    out.extend((stored.len() as u32).to_be_bytes());
    out.extend(stored);
}

/// Blocks of 16 elements, each bit put where it belongs one by one.
fn bitshuffle_encode(settings: Bitshuffle, data: &[u8]) -> Vec<u8> {
    let size = usize::from(settings.element_size);
    let mut out = Vec::new();
    if settings.codec == BitshuffleCodec::Lz4 {
        out.extend((data.len() as u64).to_be_bytes());
        out.extend((16 * size as u32).to_be_bytes());
    }
    let whole = data.len() / (8 * size) * (8 * size);
    for block in data[..whole].chunks(16 * size) {
        let elements = block.len() / size;
        let mut bits = vec![0_u8; block.len()];
        for (nth, element) in block.chunks(size).enumerate() {
            for (byte, value) in element.iter().enumerate() {
                for bit in 0..8 {
                    let at = (byte * 8 + bit) * elements + nth;
                    bits[at / 8] |= (value >> bit & 1) << (at % 8);
                }
            }
        }
        if settings.codec == BitshuffleCodec::Lz4 {
            let packed = lz4_flex::block::compress(&bits);
            out.extend((packed.len() as u32).to_be_bytes());
            out.extend(packed);
        } else {
            out.extend(bits);
        }
    }
    out.extend(&data[whole..]);
    out
}

fn filter() -> impl Strategy<Value = Filter> {
    prop_oneof![
        Just(Filter::Deflate),
        Just(Filter::Lzf),
        Just(Filter::Fletcher32),
        (1..20u32).prop_map(|element_size| Filter::Shuffle { element_size }),
        (0..600u32).prop_map(|skipped| Filter::RawDeflate { skipped }),
        Just(Filter::Zstd),
        Just(Filter::Lz4),
        Just(Filter::Bitshuffle(Bitshuffle {
            element_size: 1,
            codec: BitshuffleCodec::Lz4
        })),
        Just(Filter::Bitshuffle(Bitshuffle {
            element_size: 1,
            codec: BitshuffleCodec::None(16)
        })),
    ]
}

#[derive(Debug)]
struct Case {
    layout: ChunkLayout,
    element_size: u16,
    first_row: u64,
    rows: u64,
    mask: u32,
}

fn case() -> impl Strategy<Value = Case> {
    let dims = prop::collection::vec((1..7u64, 1..5u64), 1..4);
    let filters = prop::collection::vec(filter(), 0..4);
    (dims, filters, 1..6u16, any::<(u64, u64)>(), any::<u32>()).prop_map(
        |(dims, filters, element_size, (a, b), mask)| {
            let (array, chunk): (Vec<_>, Vec<_>) = dims.into_iter().unzip();
            let first_row = a % (array[0] + 1);
            Case {
                first_row,
                rows: b % (array[0] - first_row + 1),
                mask: mask & ((1 << filters.len()) - 1),
                layout: layout(&array, &chunk, &filters),
                element_size,
            }
        },
    )
}

fn apply_unmasked(case: &Case, chunk: Vec<u8>) -> Vec<u8> {
    let filters = case.layout.filters.iter().enumerate();
    filters
        .filter(|(nth, _)| case.mask >> nth & 1 == 0)
        .fold(chunk, |data, (_, filter)| apply(*filter, &data))
}

proptest! {
    /// Every chunk, placed, makes exactly the rows asked for: no byte more, none less.
    #[test]
    fn placing_all_chunks_gives_the_rows(case in case()) {
        let Case { layout, element_size, first_row, rows: count, .. } = &case;
        let rows = Rows { layout, element_size: *element_size, first_row: *first_row, rows: *count };
        let array = array_bytes(layout.array_shape.iter().product(), *element_size);
        let mut out = vec![0xEE; rows.decoded_len().unwrap() as usize];
        let mut scratch = Scratch::default();
        let grid: Vec<u64> = layout.array_shape.iter().zip(&layout.chunk_shape)
            .map(|(a, c)| a.div_ceil(*c)).collect();
        for position in positions(&grid) {
            let stored = apply_unmasked(&case, cut_chunk(layout, *element_size, &array, &position));
            rows.place(flat(&position, &grid), case.mask, &stored, &mut scratch, &mut out).unwrap();
        }
        let row_bytes = array.len() / layout.array_shape[0] as usize;
        let start = *first_row as usize * row_bytes;
        prop_assert_eq!(&out[..], &array[start..start + *count as usize * row_bytes]);
    }

    /// One chunk writes its own elements and touches nothing else.
    #[test]
    fn one_chunk_touches_only_its_own_elements(case in case(), pick in any::<u64>()) {
        let Case { layout, element_size, first_row, rows: count, .. } = &case;
        let rows = Rows { layout, element_size: *element_size, first_row: *first_row, rows: *count };
        let grid: Vec<u64> = layout.array_shape.iter().zip(&layout.chunk_shape)
            .map(|(a, c)| a.div_ceil(*c)).collect();
        let all = positions(&grid);
        let position = &all[(pick % all.len() as u64) as usize];
        let chunk_len = layout.chunk_shape.iter().product::<u64>() as usize * usize::from(*element_size);
        let stored = apply_unmasked(&case, vec![0x11; chunk_len]);
        let out = place(rows, flat(position, &grid), case.mask, &stored).unwrap();

        let mut touched = 0;
        let field_shape = [&[*count], &layout.array_shape[1..]].concat();
        for (at, element) in positions(&field_shape).iter().zip(out.chunks(usize::from(*element_size))) {
            let of_chunk = (0..at.len()).all(|axis| {
                let global = at[axis] + if axis == 0 { *first_row } else { 0 };
                global / layout.chunk_shape[axis] == position[axis]
            });
            let byte = if of_chunk { 0x11 } else { 0xEE };
            prop_assert!(element.iter().all(|b| *b == byte), "{:?}", at);
            touched += u64::from(of_chunk);
        }
        prop_assert!(touched == 0 || rows.chunk_count().unwrap() > 0);
    }

    /// `chunk_count` is the number of chunks that hold one of the rows.
    #[test]
    fn chunk_count_is_exact(case in case()) {
        let Case { layout, element_size, first_row, rows: count, .. } = &case;
        let rows = Rows { layout, element_size: *element_size, first_row: *first_row, rows: *count };
        let holding: std::collections::HashSet<Vec<u64>> = positions(&layout.array_shape).into_iter()
            .filter(|at| (*first_row..first_row + count).contains(&at[0]))
            .map(|at| at.iter().zip(&layout.chunk_shape).map(|(a, c)| a / c).collect())
            .collect();
        prop_assert_eq!(rows.chunk_count().unwrap(), holding.len() as u64);
    }

    /// Compressible data with all distances, lengths and ends.
    #[test]
    fn lzf_gives_back_what_was_encoded(
        pieces in prop::collection::vec((prop::collection::vec(0..4u8, 1..24), 1..40usize), 0..12),
    ) {
        let data: Vec<u8> = pieces.iter().flat_map(|(piece, times)| piece.repeat(*times)).collect();
        let mut out = vec![0xEE; data.len()];
        prop_assert_eq!(lzf::decode(&lzf_encode(&data), &mut out), Ok(data.len()));
        prop_assert_eq!(&out, &data);
        if !data.is_empty() {
            let mut short = vec![0; data.len() - 1];
            prop_assert!(lzf::decode(&lzf_encode(&data), &mut short).is_err());
        }
    }

    #[test]
    fn unshuffling_undoes_shuffling(data in prop::collection::vec(any::<u8>(), 0..9000), size in 1..40u32) {
        let mut out = vec![0xEE; data.len()];
        shuffle::undo(&shuffled(&data, size as usize), size, &mut out);
        prop_assert_eq!(out, data);
    }

    /// Any bytes under any filters: an error or a field, never a panic.
    #[test]
    fn hostile_bytes_never_panic(case in case(), stored in prop::collection::vec(any::<u8>(), 0..200), at in any::<u64>()) {
        let rows = Rows {
            layout: &case.layout, element_size: case.element_size,
            first_row: case.first_row, rows: case.rows,
        };
        let mut out = vec![0; rows.decoded_len().unwrap() as usize];
        let _ = rows.place(at % 64, case.mask, &stored, &mut Scratch::default(), &mut out);
    }
}

#[test]
fn lzf_matches_from_every_distance() {
    for distance in 1..40usize {
        for len in 3..70usize {
            let head: Vec<u8> = (0..distance).map(|n| n as u8 + 1).collect();
            let data: Vec<u8> = head.iter().copied().cycle().take(distance + len).collect();
            let mut stream = Vec::new();
            for piece in head.chunks(32) {
                stream.push(piece.len() as u8 - 1);
                stream.extend(piece);
            }
            let code = len - 2;
            if code < 7 {
                stream.push((code as u8) << 5);
            } else {
                stream.extend([7 << 5, (code - 7) as u8]);
            }
            stream.push(distance as u8 - 1);
            // With room behind, the fast copies run; without, the careful ones.
            for room in [0, 64] {
                let mut out = vec![0xEE; data.len() + room];
                assert_eq!(lzf::decode(&stream, &mut out), Ok(data.len()));
                assert_eq!(out[..data.len()], data, "distance {distance}, length {len}");
            }
        }
    }
}

#[test]
fn fletcher32_of_long_data_does_not_overflow() {
    // By the definition, without any of the implementation's shortcuts.
    let slow = |data: &[u8]| {
        let (mut low, mut high) = (0u64, 0u64);
        for pair in data.chunks(2) {
            low += u64::from(pair[0]) << 8 | u64::from(pair.get(1).copied().unwrap_or(0));
            high += low;
        }
        // A sum that is not 0 never becomes 0 by folding: 65535 stands for it.
        let fold = |sum: u64| {
            if sum == 0 {
                0
            } else {
                ((sum - 1) % 65_535 + 1) as u32
            }
        };
        fold(high) << 16 | fold(low)
    };
    for len in [0, 1, 719, 720, 721, 722, 1441, 100_003] {
        for byte in [0, 1, 0xff] {
            let data = vec![byte; len];
            assert_eq!(fletcher::sum(&data), slow(&data), "{len} × {byte}");
        }
        let data = array_bytes(len as u64, 1);
        assert_eq!(fletcher::sum(&data), slow(&data), "{len}");
    }
}
