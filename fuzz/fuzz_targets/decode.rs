//! Any stored bytes under any layout: an error or a whole field, never a panic or gigabytes.
#![no_main]

use forebay_dataset::decode::{Rows, Scratch};
use forebay_dataset::index::{
    Bitshuffle, BitshuffleCodec, ChunkLayout, Filter, Member, NBit, ScaleOffset, Szip,
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: &[u8]| {
    let Some((settings, stored)) = input.split_at_checked(16) else {
        return;
    };
    let dim = |at: usize| u64::from(settings[at]) % 24 + 1;
    let rank = usize::from(settings[0]) % 3 + 1;
    let filters: Vec<Filter> = settings[1..1 + usize::from(settings[0] >> 4) % 4]
        .iter()
        .map(|byte| filter(byte % 16, byte / 16, settings[15]))
        .collect();
    if filters.iter().any(|filter| filter.fault().is_some()) {
        return;
    }
    let layout = ChunkLayout {
        array_shape: (0..rank).map(|axis| dim(5 + axis)).collect(),
        chunk_shape: (0..rank).map(|axis| dim(8 + axis)).collect(),
        filters,
        fill_value: Vec::new(),
    };
    let first_row = u64::from(settings[11]) % layout.array_shape[0];
    let rows = Rows {
        layout: &layout,
        element_size: u16::from(settings[12]) % 16 + 1,
        first_row,
        rows: layout.array_shape[0] - first_row,
    };
    let len = rows.decoded_len().expect("small numbers");
    let mut out = vec![0; len as usize];
    rows.fill(&mut out).expect("zeros are always a fill value");
    let (grid_index, mask) = (u64::from(settings[13]), u32::from(settings[14]));
    let mut scratch = Scratch::default();
    let _ = rows.place(grid_index, mask, stored, &mut scratch, &mut out);
    // A chunk here has at most 24³ × 16 bytes, and there are three buffers; a member stands for
    // elements of up to 64 bytes.
    assert!(scratch.capacity() <= 16 << 20);
});

/// A filter of each kind, with settings from `small` (0 to 15) and `more`.
fn filter(kind: u8, small: u8, more: u8) -> Filter {
    let element_size = 1 << (small % 4);
    let (big_endian, flag) = (more & 1 != 0, more & 2 != 0);
    match kind {
        0 => Filter::Deflate,
        1 => Filter::Lzf,
        2 => Filter::Fletcher32,
        3 => Filter::RawDeflate {
            skipped: u32::from(small),
        },
        4 => Filter::Szip(Szip {
            predicted: flag,
            big_endian,
            pixel_bits: 8 << (small % 4),
            block: 2 + 2 * (more % 16),
            scanline: 1 + u16::from(small) * u16::from(more),
        }),
        5 => Filter::NBit(NBit {
            element_size,
            big_endian,
            signed: flag,
            bits: 1 + more % (8 * element_size),
        }),
        6 => Filter::ScaleOffset(ScaleOffset {
            element_size,
            big_endian,
            fills: flag,
            digits: (more & 4 != 0).then_some(i16::from(small) - 8),
        }),
        7 => Filter::Blosc,
        8 => Filter::Lz4,
        9..=11 => Filter::Bitshuffle(Bitshuffle {
            element_size: u16::from(small) + 1,
            codec: match kind {
                9 => BitshuffleCodec::None(8 + 8 * u16::from(more % 8)),
                10 => BitshuffleCodec::Lz4,
                _ => BitshuffleCodec::Zstd,
            },
        }),
        12 => Filter::Zstd,
        13 => Filter::Member(Member {
            offset: u16::from(small),
            stride: u16::from(small) + 1 + u16::from(more % 40),
            axes: more % 3,
        }),
        14 => Filter::SpacePadded,
        _ => Filter::Shuffle {
            element_size: u32::from(small) + 1,
        },
    }
}
