//! The bytes of blocks on their way in.

use super::{Arrived, Bytes};

/// Bytes that are handed out at one time, or a block where blocks are larger: few enough to be still
/// in the processor's cache when they are summed and written.
const PART_BYTES: usize = 64 << 10;

/// Blocks whose bytes follow. They are taken in parts, so that what came is checked and written
/// while the rest is on its way.
pub(super) struct Body {
    pub(super) shard: u32,
    pub(super) first: u64,
    pub(super) checksums: Vec<u32>,
    pub(super) len: usize,
}

/// Some whole blocks of a body.
pub(super) struct Part<'a> {
    shard: u32,
    first: u64,
    checksums: &'a [u32],
    pub(super) len: usize,
}

impl Body {
    /// All of it, in order. `None` if so many blocks, of which only the last may be short, never
    /// have so many bytes.
    pub(super) fn parts(&self) -> Option<impl Iterator<Item = Part<'_>>> {
        let block = block_bytes(self.len, self.checksums.len())?;
        let blocks = (PART_BYTES / block).max(1);
        let parts = self.checksums.chunks(blocks).enumerate();
        Some(parts.map(move |(number, checksums)| Part {
            shard: self.shard,
            first: self.first.wrapping_add((number * blocks) as u64),
            checksums,
            len: (self.len - number * blocks * block).min(checksums.len() * block),
        }))
    }
}

impl<'a> Part<'a> {
    pub(super) fn with(&self, bytes: Bytes<'a>) -> Arrived<'a> {
        Arrived {
            shard: self.shard,
            first: self.first,
            checksums: self.checksums,
            bytes,
        }
    }
}

/// Bytes of a block, where `count` of them have `len` together: a power of two, of which there is
/// one at most between `len / count` and twice that. A single one is as large as it is.
fn block_bytes(len: usize, count: usize) -> Option<usize> {
    if count == 1 {
        return Some(len.max(1));
    }
    let before_last = count.checked_sub(1)?;
    let size = len.div_ceil(count).next_power_of_two();
    (len > before_last.checked_mul(size)?).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(len: usize, count: usize) -> Body {
        Body {
            shard: 3,
            first: 10,
            checksums: (0..count as u32).collect(),
            len,
        }
    }

    fn parts(len: usize, count: usize) -> Option<Vec<(u64, usize, usize)>> {
        let body = body(len, count);
        let parts = body.parts()?;
        Some(
            parts
                .map(|part| (part.first, part.checksums.len(), part.len))
                .collect(),
        )
    }

    #[test]
    fn small_blocks_are_taken_together_and_large_ones_one_by_one() {
        let kib = 1 << 10;
        assert_eq!(
            parts(130 * kib, 33),
            Some(vec![
                (10, 16, 64 * kib),
                (26, 16, 64 * kib),
                (42, 1, 2 * kib)
            ])
        );
        assert_eq!(
            parts(600 * kib, 3),
            Some(vec![
                (10, 1, 256 * kib),
                (11, 1, 256 * kib),
                (12, 1, 88 * kib)
            ])
        );
        assert_eq!(parts(1000, 1), Some(vec![(10, 1, 1000)]));
    }

    #[test]
    fn parts_are_the_whole_for_any_block_size_and_end() {
        for size in [1, 2, 4096, 65536, 262_144] {
            for count in 1..40 {
                for short in [0, 1, size / 2, size - 1] {
                    let len = count * size - short.min(size - 1);
                    let parts = parts(len, count).unwrap();
                    assert_eq!(parts.iter().map(|part| part.2).sum::<usize>(), len);
                    assert_eq!(parts.iter().map(|part| part.1).sum::<usize>(), count);
                    let whole = &parts[..parts.len() - 1];
                    let of_size = |part: &&(u64, usize, usize)| part.2 == part.1 * size;
                    assert!(count == 1 || whole.iter().all(|part| of_size(&part)));
                }
            }
        }
    }

    #[test]
    fn what_no_blocks_can_have_is_refused() {
        assert_eq!(parts(10, 100), None, "more blocks than bytes");
        assert_eq!(parts(9, 6), None, "two each would fill five");
        assert_eq!(parts(10, 0), None);
    }
}
