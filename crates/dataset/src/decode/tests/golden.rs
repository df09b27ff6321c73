//! Chunks as HDF5 2.0 and h5py 3.16 wrote them (`read_direct_chunk`).

use super::*;

pub(super) fn unhex(text: &str) -> Vec<u8> {
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

fn bytes(values: impl IntoIterator<Item = f32>) -> Vec<u8> {
    values.into_iter().flat_map(f32::to_le_bytes).collect()
}

/// `arange(12).reshape(4, 3) * 1000` as `<i4`.
fn thousands() -> Vec<u8> {
    (0..12i32).flat_map(|n| (n * 1000).to_le_bytes()).collect()
}

/// `repeat(arange(6), 20).reshape(12, 10)` as `<f4`.
fn steps() -> Vec<u8> {
    bytes((0..120u8).map(|n| f32::from(n / 20)))
}

/// Places all chunks, in order, of an array with chunks along axis 0.
fn decode(layout: &ChunkLayout, element_size: u16, chunks: &[&str]) -> Vec<u8> {
    let rows = all_rows(layout, element_size);
    let mut out = vec![0xEE; rows.decoded_len().unwrap() as usize];
    let mut scratch = Scratch::default();
    for (grid_index, chunk) in (0..).zip(chunks) {
        rows.place(grid_index, 0, &unhex(chunk), &mut scratch, &mut out)
            .unwrap();
    }
    out
}

const SHUFFLE_4: Filter = Filter::Shuffle { element_size: 4 };

#[test]
fn fletcher32() {
    let layout = layout(&[4, 3], &[2, 3], &[Filter::Fletcher32]);
    let stored = [
        "00000000e8030000d0070000b80b0000a00f0000881300003a981171",
        "70170000581b0000401f00002823000010270000f82a0000c738e9d4",
    ];
    assert_eq!(decode(&layout, 4, &stored), thousands());
}

#[test]
fn fletcher32_of_an_odd_length() {
    let layout = layout(&[7], &[7], &[Filter::Fletcher32]);
    let decoded = decode(&layout, 1, &["010203040506070c10201e"]);
    assert_eq!(decoded, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn fletcher32_where_the_sum_is_a_multiple_of_65535() {
    let layout = layout(&[6], &[6], &[Filter::Fletcher32]);
    assert_eq!(decode(&layout, 1, &["ffffffffffffffffffff"]), [0xff; 6]);
}

#[test]
fn fletcher32_as_hdf5_1_6_2_wrote_it() {
    let layout = layout(&[7], &[7], &[Filter::Fletcher32]);
    let decoded = decode(&layout, 1, &["01020304050607100c1e20"]);
    assert_eq!(decoded, [1, 2, 3, 4, 5, 6, 7]);
}

#[test]
fn shuffle() {
    let layout = layout(&[4, 3], &[2, 3], &[SHUFFLE_4]);
    let stored = [
        "00e8d0b8a0880003070b0f13000000000000000000000000",
        "7058402810f8171b1f23272a000000000000000000000000",
    ];
    assert_eq!(decode(&layout, 4, &stored), thousands());
}

#[test]
fn shuffle_of_three_byte_strings_under_fletcher32() {
    let filters = [Filter::Shuffle { element_size: 3 }, Filter::Fletcher32];
    let layout = layout(&[3], &[3], &filters);
    let decoded = decode(&layout, 3, &["61646762656863666995fa85e4"]);
    assert_eq!(decoded, b"abcdefghi");
}

#[test]
fn deflate() {
    let layout = layout(&[4, 3], &[2, 3], &[Filter::Deflate]);
    let stored = [
        "785e6360606078c1ccc070819d8161073703c3027e06860e6106060030b503d0",
        "785e2b1067608890666070906760d050666010506760f8a1c5c0000024ab02fe",
    ];
    assert_eq!(decode(&layout, 4, &stored), thousands());
}

#[test]
fn lzf() {
    let layout = layout(&[12, 10], &[12, 10], &[Filter::Lzf]);
    let stored = "010000e0470002803f00e0440301004020a1e042030040204be043030080204f\
                  e0430300a0204fe03f0301a040";
    assert_eq!(decode(&layout, 4, &[stored]), steps());
}

#[test]
fn shuffle_then_lzf_then_fletcher32() {
    let filters = [SHUFFLE_4, Filter::Lzf, Filter::Fletcher32];
    let layout = layout(&[12, 10], &[6, 10], &filters);
    let stored = [
        "010000e081000080e00a00e01f9d003fe00a000040e00a0012af71f5",
        "010000e06d000040e00a000080e00a0000a0e00a00e00a3ae01e0001404030e62a72",
    ];
    assert_eq!(decode(&layout, 4, &stored), steps());
}

#[test]
fn shuffle_then_deflate_then_fletcher32() {
    let filters = [SHUFFLE_4, Filter::Deflate, Filter::Fletcher32];
    let layout = layout(&[12, 10], &[6, 10], &filters);
    let stored = [
        "785e6360183ca0010b4057830bd863010e58000054ca13eda8dc8a67",
        "785e63601818e080053460010bb000747da40000edc62a819ddbb9cd",
    ];
    assert_eq!(decode(&layout, 4, &stored), steps());
}

/// Six chunks of `arange(15).reshape(3, 5)` as `<u2`, each too small for LZF to shorten: the mask
/// says that filter 1 was not applied. Chunks at the edge are stored in full.
#[test]
fn masked_filters_and_chunks_at_the_edge() {
    let filters = [Filter::Shuffle { element_size: 2 }, Filter::Lzf];
    let layout = layout(&[3, 5], &[2, 2], &filters);
    let rows = all_rows(&layout, 2);
    let mut out = vec![0xEE; 30];
    let stored = [
        "0001050600000000",
        "0203070800000000",
        "0400090000000000",
        "0a0b000000000000",
        "0c0d000000000000",
        "0e00000000000000",
    ];
    for (grid_index, chunk) in (0..).zip(stored) {
        let scratch = &mut Scratch::default();
        rows.place(grid_index, 0b10, &unhex(chunk), scratch, &mut out)
            .unwrap();
    }
    let expected: Vec<u8> = (0..15u16).flat_map(u16::to_le_bytes).collect();
    assert_eq!(out, expected);
}

#[test]
fn each_flipped_bit_under_a_checksum_is_found() {
    for (filters, chunk) in [
        (
            [SHUFFLE_4, Filter::Lzf, Filter::Fletcher32],
            "010000e081000080e00a00e01f9d003fe00a000040e00a0012af71f5",
        ),
        (
            [SHUFFLE_4, Filter::Deflate, Filter::Fletcher32],
            "785e6360183ca0010b4057830bd863010e58000054ca13eda8dc8a67",
        ),
    ] {
        let layout = layout(&[6, 10], &[6, 10], &filters);
        let whole = unhex(chunk);
        for bit in 0..whole.len() * 8 {
            let mut stored = whole.clone();
            stored[bit / 8] ^= 1 << (bit % 8);
            let refused = place(all_rows(&layout, 4), 0, 0, &stored);
            assert!(matches!(refused, Err(DecodeError::Damaged { .. })));
        }
        for len in 0..whole.len() {
            let refused = place(all_rows(&layout, 4), 0, 0, &whole[..len]);
            assert!(matches!(refused, Err(DecodeError::Damaged { .. })));
        }
    }
}
