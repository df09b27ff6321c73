//! Ranges and blocks. Half-open, checked once, pure.

use std::ops::Range;

use crate::RangeError;

/// A non-empty half-open byte range `[start, end)` inside one shard or one segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ByteRange {
    start: u64,
    end: u64,
}

impl ByteRange {
    /// The range of `len` bytes at `start`.
    pub fn new(start: u64, len: u64) -> Result<Self, RangeError> {
        if len == 0 {
            return Err(RangeError::Empty);
        }
        let end = start
            .checked_add(len)
            .ok_or(RangeError::Overflow { start, len })?;
        Ok(Self { start, end })
    }

    /// First byte.
    pub const fn start(self) -> u64 {
        self.start
    }

    /// One past the last byte.
    pub const fn end(self) -> u64 {
        self.end
    }

    /// Bytes in the range; never 0.
    #[expect(clippy::len_without_is_empty, reason = "a range is never empty")]
    pub const fn len(self) -> u64 {
        self.end - self.start
    }
}

/// Size of a block: a power of two from 4 KiB to 16 MiB, fixed for a data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BlockSize(u32);

impl BlockSize {
    /// 64 KiB.
    pub const DEFAULT: Self = Self(1 << 16);
    /// 4 KiB: below it, a file system allocates whole pages anyway.
    pub const MIN: u32 = 1 << 12;
    /// 16 MiB.
    pub const MAX: u32 = 1 << 24;

    /// A block size of `bytes`.
    pub fn new(bytes: u32) -> Result<Self, RangeError> {
        if bytes.is_power_of_two() && (Self::MIN..=Self::MAX).contains(&bytes) {
            Ok(Self(bytes))
        } else {
            Err(RangeError::BlockSize(bytes))
        }
    }

    /// In bytes.
    pub const fn bytes(self) -> u32 {
        self.0
    }

    /// The fewest blocks that together hold every byte of `range`.
    pub fn covering(self, range: ByteRange) -> Range<u64> {
        let size = u64::from(self.0);
        range.start / size..range.end.div_ceil(size)
    }

    /// How many blocks `len` bytes occupy.
    pub fn blocks(self, len: u64) -> u64 {
        len.div_ceil(u64::from(self.0))
    }

    /// `offset` moved up to the next block boundary, or `None` past 64 bits.
    pub fn align_up(self, offset: u64) -> Option<u64> {
        offset.checked_next_multiple_of(u64::from(self.0))
    }
}
