//! What the index holds for each filter.

use super::*;

/// What an index holds for each filter. An id or a parameter that changes makes old indexes
/// unreadable: raise the version of the index then.
const FROZEN: &[(u32, u32, Filter)] = &[
    (1, 0, Filter::Deflate),
    (2, 12, Filter::Shuffle { element_size: 12 }),
    (3, 0, Filter::Fletcher32),
    (
        4,
        0x0100_200d,
        Filter::Szip(Szip {
            predicted: true,
            big_endian: false,
            pixel_bits: 64,
            block: 32,
            scanline: 256,
        }),
    ),
    (
        5,
        0x110a,
        Filter::NBit(NBit {
            element_size: 4,
            big_endian: false,
            signed: true,
            bits: 17,
        }),
    ),
    (
        6,
        0xfffe_001a,
        Filter::ScaleOffset(ScaleOffset {
            element_size: 4,
            big_endian: false,
            fills: true,
            digits: Some(-2),
        }),
    ),
    (
        6,
        0x7,
        Filter::ScaleOffset(ScaleOffset {
            element_size: 8,
            big_endian: true,
            fills: false,
            digits: None,
        }),
    ),
    (32_000, 0, Filter::Lzf),
    (32_001, 0, Filter::Blosc),
    (32_004, 0, Filter::Lz4),
    (
        32_008,
        0x1000_0004,
        Filter::Bitshuffle(Bitshuffle {
            element_size: 4,
            codec: BitshuffleCodec::None(8192),
        }),
    ),
    (
        32_008,
        0x0001_0008,
        Filter::Bitshuffle(Bitshuffle {
            element_size: 8,
            codec: BitshuffleCodec::Lz4,
        }),
    ),
    (
        32_008,
        0x0002_0002,
        Filter::Bitshuffle(Bitshuffle {
            element_size: 2,
            codec: BitshuffleCodec::Zstd,
        }),
    ),
    (32_015, 0, Filter::Zstd),
    (65_537, 128, Filter::RawDeflate { skipped: 128 }),
    (
        65_540,
        0x0018_0004,
        Filter::Member(Member {
            offset: 4,
            stride: 24,
            axes: 2,
        }),
    ),
    (65_546, 0, Filter::SpacePadded),
];

#[test]
fn filters_are_frozen_at_version_1() {
    for (id, parameter, filter) in FROZEN {
        assert_eq!(filter.encode(), (*id, *parameter), "{filter:?}");
        assert_eq!(Filter::decode(*id, *parameter), Some(*filter));
        assert_eq!(filter.fault(), None);
    }
}

#[test]
fn what_no_filter_says_is_unknown() {
    for (id, parameter) in [
        (0, 0),
        (1, 1),
        (7, 0),
        (4, 0x10),
        (5, 0x10),
        (6, 0x20),
        (6, 0x0001_0000),
        (32_008, 0x0003_0004),
        (32_015, 1),
        (32_026, 0),
        (65_536, 0),
        (65_546, 1),
        (65_547, 0),
    ] {
        assert_eq!(Filter::decode(id, parameter), None, "{id} {parameter:#x}");
    }
}

#[test]
fn settings_that_cannot_be_are_faults() {
    let member = |offset, stride, axes| {
        Filter::Member(Member {
            offset,
            stride,
            axes,
        })
    };
    let bits = |element_size, codec| {
        Filter::Bitshuffle(Bitshuffle {
            element_size,
            codec,
        })
    };
    for filter in [
        Filter::Shuffle { element_size: 0 },
        member(4, 4, 0),
        member(0, 4, 8),
        bits(0, BitshuffleCodec::Lz4),
        bits(2, BitshuffleCodec::None(0)),
        bits(2, BitshuffleCodec::None(12)),
    ] {
        assert!(filter.fault().is_some(), "{filter:?}");
    }
    // Block of 0, scanline of 0; 33 bits of 32.
    assert!(Filter::decode(4, 0x0100_0000).is_some_and(|f| f.fault().is_some()));
    assert!(Filter::decode(4, 0x0800).is_some_and(|f| f.fault().is_some()));
    assert!(Filter::decode(5, 0x2102).is_some_and(|f| f.fault().is_some()));
}
