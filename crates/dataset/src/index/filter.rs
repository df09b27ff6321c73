//! What was done to a chunk before it was stored, and how the index writes that down.
//!
//! An id of 16 bits is that of HDF5; one beyond is Forebay's own. All that a filter needs to be
//! undone fits in one number of 32 bits, in which each setting has exactly one spelling.

/// One stage of a chunk's filter pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// zlib stream (HDF5 filter 1).
    Deflate,
    /// Bytes of elements of this size, transposed (HDF5 filter 2).
    Shuffle {
        /// Bytes of one element.
        element_size: u32,
    },
    /// Four bytes of checksum at the end (HDF5 filter 3).
    Fletcher32,
    /// CCSDS 121.0 code, as libaec and szip write it (HDF5 filter 4).
    Szip(Szip),
    /// Only the bits that a type uses (HDF5 filter 5).
    NBit(NBit),
    /// Numbers less their minimum, in as few bits as they need (HDF5 filter 6).
    ScaleOffset(ScaleOffset),
    /// LZF stream (HDF5 filter 32000).
    Lzf,
    /// Blosc 1 buffer (HDF5 filter 32001), of any codec.
    Blosc,
    /// LZ4 blocks with their lengths (HDF5 filter 32004).
    Lz4,
    /// Bits of elements, transposed block by block (HDF5 filter 32008).
    Bitshuffle(Bitshuffle),
    /// Zstandard frames (HDF5 filter 32015).
    Zstd,
    /// Deflate stream without a frame, as zip archives have it (not a filter of HDF5).
    RawDeflate {
        /// Bytes at the start of what it holds that are not part of the chunk: a header.
        skipped: u32,
    },
    /// A member of a compound type: stored are whole elements (not a filter of HDF5).
    Member(Member),
    /// Text whose elements are filled up with spaces, as Fortran does it; decoded, zeros stand there
    /// (not a filter of HDF5, but what it does itself).
    SpacePadded,
}

/// How szip coded a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Szip {
    /// Pixels are differences from the pixel before.
    pub predicted: bool,
    /// Bytes of a pixel are stored highest first.
    pub big_endian: bool,
    /// Bits of a pixel: 8, 16, 32 or 64.
    pub pixel_bits: u8,
    /// Pixels of a block: even, 2 to 32.
    pub block: u8,
    /// Pixels of a scanline: 1 to 4096.
    pub scanline: u16,
}

/// Integers of which a part of the bits is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct NBit {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_size: u8,
    /// Bytes of an element lie highest first.
    pub big_endian: bool,
    /// The highest bit that is used is the sign.
    pub signed: bool,
    /// Bits that are used: 1 to 8 for each byte.
    pub bits: u8,
}

/// Numbers that are stored less their minimum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ScaleOffset {
    /// Bytes of an element: 1, 2, 4 or 8.
    pub element_size: u8,
    /// Bytes of an element lie highest first.
    pub big_endian: bool,
    /// The largest code stands for the fill value.
    pub fills: bool,
    /// Power of ten that floats were multiplied with; `None` for integers.
    pub digits: Option<i16>,
}

/// How bits are shuffled.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bitshuffle {
    /// Bytes of an element, not 0.
    pub element_size: u16,
    /// How each block is compressed.
    pub codec: BitshuffleCodec,
}

/// How a block of shuffled bits is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BitshuffleCodec {
    /// Not; blocks of this many elements, a multiple of 8 below 65,536.
    None(u16),
    /// LZ4; the chunk says how long its blocks are.
    Lz4,
    /// Zstandard; the chunk says how long its blocks are.
    Zstd,
}

/// Which bytes of each stored element are the field's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// First byte in the stored element.
    pub offset: u16,
    /// Bytes of a stored element, not 0.
    pub stride: u16,
    /// Last axes of the field that lie inside one stored element: at most [`Self::MAX_AXES`].
    pub axes: u8,
}

impl Member {
    /// Most axes of a member that is itself an array.
    pub const MAX_AXES: u8 = 7;
}

const DEFLATE: u32 = 1;
const SHUFFLE: u32 = 2;
const FLETCHER32: u32 = 3;
const SZIP: u32 = 4;
const N_BIT: u32 = 5;
const SCALE_OFFSET: u32 = 6;
const LZF: u32 = 32_000;
const BLOSC: u32 = 32_001;
const LZ4: u32 = 32_004;
const BITSHUFFLE: u32 = 32_008;
const ZSTD: u32 = 32_015;
/// Beyond the 16 bits that HDF5 has for its filters.
const RAW_DEFLATE: u32 = 65_537;
/// Of a member without axes; those with axes follow.
const MEMBER: u32 = 65_538;
const LAST_MEMBER: u32 = MEMBER + Member::MAX_AXES as u32;
const SPACE_PADDED: u32 = 65_546;

impl Filter {
    /// Id and parameter, as the index holds them.
    pub(super) fn encode(self) -> (u32, u32) {
        match self {
            Self::Deflate => (DEFLATE, 0),
            Self::Shuffle { element_size } => (SHUFFLE, element_size),
            Self::Fletcher32 => (FLETCHER32, 0),
            Self::Szip(szip) => (SZIP, szip.encode()),
            Self::NBit(nbit) => (N_BIT, nbit.encode()),
            Self::ScaleOffset(scale) => (SCALE_OFFSET, scale.encode()),
            Self::Lzf => (LZF, 0),
            Self::Blosc => (BLOSC, 0),
            Self::Lz4 => (LZ4, 0),
            Self::Bitshuffle(bits) => (BITSHUFFLE, bits.encode()),
            Self::Zstd => (ZSTD, 0),
            Self::RawDeflate { skipped } => (RAW_DEFLATE, skipped),
            Self::Member(member) => (
                MEMBER + u32::from(member.axes),
                u32::from(member.offset) | u32::from(member.stride) << 16,
            ),
            Self::SpacePadded => (SPACE_PADDED, 0),
        }
    }

    /// The filter of an id and a parameter, if this version knows it.
    pub(super) fn decode(id: u32, parameter: u32) -> Option<Self> {
        let filter = match (id, parameter) {
            (DEFLATE, 0) => Self::Deflate,
            (SHUFFLE, element_size) => Self::Shuffle { element_size },
            (FLETCHER32, 0) => Self::Fletcher32,
            (SZIP, word) => Self::Szip(Szip::decode(word)),
            (N_BIT, word) => Self::NBit(NBit::decode(word)),
            (SCALE_OFFSET, word) => Self::ScaleOffset(ScaleOffset::decode(word)),
            (LZF, 0) => Self::Lzf,
            (BLOSC, 0) => Self::Blosc,
            (LZ4, 0) => Self::Lz4,
            (BITSHUFFLE, word) => Self::Bitshuffle(Bitshuffle::decode(word)?),
            (ZSTD, 0) => Self::Zstd,
            (RAW_DEFLATE, skipped) => Self::RawDeflate { skipped },
            (MEMBER..=LAST_MEMBER, word) => Self::Member(Member {
                offset: word as u16,
                stride: (word >> 16) as u16,
                axes: (id - MEMBER) as u8,
            }),
            (SPACE_PADDED, 0) => Self::SpacePadded,
            _ => return None,
        };
        // Bits without a meaning may get one in a later version.
        (filter.encode() == (id, parameter)).then_some(filter)
    }

    /// What is wrong with its settings, if anything. An index with such a filter is refused.
    pub fn fault(&self) -> Option<String> {
        let sound = match self {
            Self::Shuffle { element_size } => *element_size != 0,
            Self::Szip(szip) => {
                matches!(szip.pixel_bits, 8 | 16 | 32 | 64)
                    && matches!(szip.block, 2..=32)
                    && szip.block % 2 == 0
                    && matches!(szip.scanline, 1..=4096)
            }
            Self::NBit(nbit) => {
                matches!(nbit.element_size, 1 | 2 | 4 | 8)
                    && (1..=8 * nbit.element_size).contains(&nbit.bits)
            }
            Self::ScaleOffset(scale) => match scale.digits {
                Some(_) => matches!(scale.element_size, 4 | 8),
                None => matches!(scale.element_size, 1 | 2 | 4 | 8),
            },
            Self::Bitshuffle(bits) => match bits.codec {
                BitshuffleCodec::None(block) => {
                    block != 0 && block % 8 == 0 && bits.element_size != 0
                }
                BitshuffleCodec::Lz4 | BitshuffleCodec::Zstd => bits.element_size != 0,
            },
            Self::Member(member) => {
                member.offset < member.stride && member.axes <= Member::MAX_AXES
            }
            _ => true,
        };
        (!sound).then(|| format!("the filter {self:?} cannot be"))
    }
}

const fn bit(word: u32, at: u32) -> bool {
    word >> at & 1 != 0
}

impl Szip {
    /// Bit 0 predicted, 1 big-endian, 2 to 3 power of two of the bytes of a pixel, 8 to 15 block,
    /// 16 to 31 scanline.
    fn encode(self) -> u32 {
        u32::from(self.predicted)
            | u32::from(self.big_endian) << 1
            | size_code(self.pixel_bits / 8) << 2
            | u32::from(self.block) << 8
            | u32::from(self.scanline) << 16
    }

    fn decode(word: u32) -> Self {
        Self {
            predicted: bit(word, 0),
            big_endian: bit(word, 1),
            pixel_bits: 8 << (word >> 2 & 3),
            block: (word >> 8) as u8,
            scanline: (word >> 16) as u16,
        }
    }
}

impl NBit {
    /// Bits 0 to 1 power of two of the element's size, 2 big-endian, 3 signed, 8 to 15 bits.
    fn encode(self) -> u32 {
        size_code(self.element_size)
            | u32::from(self.big_endian) << 2
            | u32::from(self.signed) << 3
            | u32::from(self.bits) << 8
    }

    fn decode(word: u32) -> Self {
        Self {
            element_size: 1 << (word & 3),
            big_endian: bit(word, 2),
            signed: bit(word, 3),
            bits: (word >> 8) as u8,
        }
    }
}

impl ScaleOffset {
    /// Bits 0 to 1 power of two of the element's size, 2 big-endian, 3 fills, 4 floats, 16 to 31
    /// digits, signed.
    fn encode(self) -> u32 {
        let digits = self.digits.unwrap_or(0).cast_unsigned();
        size_code(self.element_size)
            | u32::from(self.big_endian) << 2
            | u32::from(self.fills) << 3
            | u32::from(self.digits.is_some()) << 4
            | u32::from(digits) << 16
    }

    fn decode(word: u32) -> Self {
        let digits = ((word >> 16) as u16).cast_signed();
        Self {
            element_size: 1 << (word & 3),
            big_endian: bit(word, 2),
            fills: bit(word, 3),
            digits: bit(word, 4).then_some(digits),
        }
    }
}

impl Bitshuffle {
    /// Bits 0 to 15 the element's size, 16 to 17 codec, 18 to 31 eighths of a block's elements.
    fn encode(self) -> u32 {
        let (codec, block) = match self.codec {
            BitshuffleCodec::None(block) => (0, block),
            BitshuffleCodec::Lz4 => (1, 0),
            BitshuffleCodec::Zstd => (2, 0),
        };
        u32::from(self.element_size) | codec << 16 | u32::from(block / 8) << 18
    }

    fn decode(word: u32) -> Option<Self> {
        let codec = match word >> 16 & 3 {
            0 => BitshuffleCodec::None(((word >> 18) * 8) as u16),
            1 => BitshuffleCodec::Lz4,
            2 => BitshuffleCodec::Zstd,
            _ => return None,
        };
        Some(Self {
            element_size: word as u16,
            codec,
        })
    }
}

/// 0 to 3 for 1, 2, 4 and 8 bytes.
const fn size_code(bytes: u8) -> u32 {
    bytes.trailing_zeros() & 3
}

#[cfg(test)]
mod tests;
