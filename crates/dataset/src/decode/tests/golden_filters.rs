//! Chunks as h5py and hdf5plugin wrote them, one for each filter and codec.
//!
//! `make_golden.py` writes `golden_filters.txt`.

use super::*;
use crate::index::{NBit, ScaleOffset, Szip};

const STORED: &str = include_str!("golden_filters.txt");

/// `arange(256) // 9 * 1000` as `<i4`.
fn steps() -> Vec<u8> {
    (0..256_i32)
        .flat_map(|n| (n / 9 * 1000).to_le_bytes())
        .collect()
}

/// `arange(64) ** 3 % 1009`.
fn cubes() -> impl Iterator<Item = i32> {
    (0..64).map(|n: i32| n * n * n % 1009)
}

/// The filter, the bytes of an element, the fill value and the decoded chunk of a line.
fn case(name: &str) -> (Filter, u16, Vec<u8>, Vec<u8>) {
    let bits = |codec| {
        Filter::Bitshuffle(Bitshuffle {
            element_size: 4,
            codec,
        })
    };
    let szip = |predicted, pixel_bits, scanline| {
        Filter::Szip(Szip {
            predicted,
            big_endian: false,
            pixel_bits,
            block: 8,
            scanline,
        })
    };
    let scaled = |element_size, big_endian, fills, digits| {
        Filter::ScaleOffset(ScaleOffset {
            element_size,
            big_endian,
            fills,
            digits,
        })
    };
    let short = || cubes().flat_map(|n| (n as u16).to_le_bytes()).collect();
    let none = Vec::new;
    match name {
        "zstd" => (Filter::Zstd, 4, none(), steps()),
        "lz4" => (Filter::Lz4, 4, none(), steps()),
        "bitshuffle-none" => (bits(BitshuffleCodec::None(2048)), 4, none(), steps()),
        "bitshuffle-lz4" => (bits(BitshuffleCodec::Lz4), 4, none(), steps()),
        "bitshuffle-zstd" => (bits(BitshuffleCodec::Zstd), 4, none(), steps()),
        "scale-offset-fill" => (scaled(2, false, true, None), 2, vec![8, 0], short()),
        "scale-offset-big" => {
            let data = cubes().flat_map(|n| (-i64::from(n)).to_be_bytes());
            (scaled(8, true, true, None), 8, none(), data.collect())
        }
        "scale-offset-digits" => {
            let data = (0..40_u8).flat_map(|n| (f32::from(n) * 0.25 - 3.0).to_le_bytes());
            (scaled(4, false, true, Some(2)), 4, none(), data.collect())
        }
        "n-bit" => {
            let nbit = NBit {
                element_size: 4,
                big_endian: false,
                signed: true,
                bits: 17,
            };
            let data = cubes().flat_map(|n| (n - 500).to_le_bytes());
            (Filter::NBit(nbit), 4, none(), data.collect())
        }
        "szip-predicted-u2" => (szip(true, 16, 64), 2, none(), short()),
        "szip-plain-u2" => (szip(false, 16, 64), 2, none(), short()),
        "szip-predicted-i4" => (szip(true, 32, 64), 4, none(), steps()[..256].to_vec()),
        "szip-plain-i4" => (szip(false, 32, 64), 4, none(), steps()[..256].to_vec()),
        _ if name.starts_with("blosc-") => (Filter::Blosc, 4, none(), steps()),
        _ => panic!("no case for {name}"),
    }
}

fn cases() -> impl Iterator<Item = (&'static str, ChunkLayout, u16, Vec<u8>, Vec<u8>)> {
    STORED.lines().map(|line| {
        let (name, stored) = line.split_once(' ').unwrap();
        let (filter, size, fill_value, data) = case(name);
        let elements = data.len() as u64 / u64::from(size);
        let layout = ChunkLayout {
            fill_value,
            ..layout(&[elements], &[elements], &[filter])
        };
        (name, layout, size, golden::unhex(stored), data)
    })
}

#[test]
fn every_filter_gives_what_was_written() {
    assert_eq!(STORED.lines().count(), 28);
    for (name, layout, size, stored, data) in cases() {
        let found = place(all_rows(&layout, size), 0, 0, &stored);
        assert_eq!(found, Ok(data.clone()), "{name}");
        // Only a part of the chunk, so that it is decoded elsewhere first.
        let rows = Rows {
            first_row: 5,
            rows: 9,
            ..all_rows(&layout, size)
        };
        let part = data[5 * usize::from(size)..14 * usize::from(size)].to_vec();
        assert_eq!(place(rows, 0, 0, &stored), Ok(part), "{name}");
    }
}

#[test]
fn what_is_cut_short_is_damage() {
    for (name, layout, size, stored, data) in cases() {
        for len in 0..stored.len() - 1 {
            match place(all_rows(&layout, size), 0, 0, &stored[..len]) {
                Err(DecodeError::Damaged { .. }) => {}
                // Padding behind the last code is not needed.
                Ok(found) => assert!(found == data && len + 8 > stored.len(), "{name} at {len}"),
                Err(other) => panic!("{name}: {other}"),
            }
        }
    }
}

#[test]
fn flipped_bits_neither_panic_nor_grow() {
    for (name, layout, size, stored, data) in cases() {
        let mut scratch = Scratch::default();
        for bit in 0..8 * stored.len() {
            let mut flipped = stored.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let mut out = vec![0; data.len()];
            let rows = all_rows(&layout, size);
            let _ = rows.place(0, 0, &flipped, &mut scratch, &mut out);
        }
        assert!(scratch.capacity() < 1 << 16, "{name}");
    }
}

#[test]
fn a_member_is_taken_from_each_element() {
    use crate::index::Member;
    // Elements of 12 bytes: an integer, then two of two bytes, then one left over.
    let stored: Vec<u8> = (0..60).collect();
    let member = |offset, axes| {
        Filter::Member(Member {
            offset,
            stride: 12,
            axes,
        })
    };
    let scalar = layout(&[5], &[5], &[member(0, 0)]);
    let wanted: Vec<u8> = (0..5)
        .flat_map(|n| [12 * n, 12 * n + 1, 12 * n + 2, 12 * n + 3])
        .collect();
    assert_eq!(place(all_rows(&scalar, 4), 0, 0, &stored), Ok(wanted));
    let pair = layout(&[5, 2], &[5, 2], &[member(4, 1), Filter::Zstd]);
    let wanted: Vec<u8> = (0..5)
        .flat_map(|n| [4, 5, 6, 7].map(|at| 12 * n + at))
        .collect();
    let mut packed = [0; 200];
    let len = zstd_safe::compress(&mut packed[..], &stored, 1).unwrap();
    assert_eq!(place(all_rows(&pair, 2), 0, 0, &packed[..len]), Ok(wanted));
    // One that ends behind its element.
    let beyond = layout(&[5], &[5], &[member(10, 0)]);
    let refused = place(all_rows(&beyond, 4), 0, 0, &stored);
    assert!(matches!(refused, Err(DecodeError::Damaged { .. })));
}

#[test]
fn padding_with_spaces_becomes_padding_with_zeros() {
    let texts = layout(&[6], &[6], &[Filter::SpacePadded]);
    let stored = b"ab      full c d\0 f     ";
    let wanted = b"ab\0\0\0\0\0\0full c d\0 f\0\0\0\0\0";
    assert_eq!(
        place(all_rows(&texts, 4), 0, 0, stored),
        Ok(wanted.to_vec())
    );
    // Taken off last, behind a compression and the member that it is.
    let member = Filter::Member(crate::index::Member {
        offset: 1,
        stride: 4,
        axes: 0,
    });
    let member = layout(&[2], &[2], &[Filter::SpacePadded, member, Filter::Zstd]);
    let mut packed = [0; 64];
    let len = zstd_safe::compress(&mut packed[..], b"1a  2  b", 1).unwrap();
    let found = place(all_rows(&member, 3), 0, 0, &packed[..len]);
    assert_eq!(found, Ok(b"a\0\0  b".to_vec()));
    let cut = place(all_rows(&texts, 4), 0, 0, &stored[1..]);
    assert!(matches!(cut, Err(DecodeError::Damaged { .. })));
}
