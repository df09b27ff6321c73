//! Bytes to write, made before any clock runs.

use std::path::Path;

use forebay_analysis::random::Random;
use sha2::{Digest, Sha256};

use crate::{BenchError, Result};

/// Bytes of a block of deterministic content.
pub const BLOCK_BYTES: u64 = 32;

/// The deterministic content of file `index`: block `k` is SHA-256 of the seed, the index and
/// `k`, each as eight little-endian bytes. Any part can be made without those before it.
pub fn deterministic(seed: u64, index: u64, offset: u64, out: &mut [u8]) {
    let mut head = [0u8; 24];
    head[..8].copy_from_slice(&seed.to_le_bytes());
    head[8..16].copy_from_slice(&index.to_le_bytes());
    let mut block = offset / BLOCK_BYTES;
    let mut skip = (offset % BLOCK_BYTES) as usize;
    let mut rest = out;
    while !rest.is_empty() {
        head[16..].copy_from_slice(&block.to_le_bytes());
        let bytes = Sha256::digest(head);
        let take = (bytes.len() - skip).min(rest.len());
        let (now, later) = rest.split_at_mut(take);
        now.copy_from_slice(&bytes[skip..skip + take]);
        (rest, skip, block) = (later, 0, block + 1);
    }
}

/// Pseudo-random bytes that follow from the seed; much faster to make than [`deterministic`].
pub fn seeded(seed: u64, out: &mut [u8]) {
    let mut random = Random::new(seed);
    for chunk in out.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
    }
}

/// What [`seeded`] makes from `offset` on, without what is before.
pub fn seeded_at(seed: u64, offset: u64, out: &mut [u8]) {
    // SplitMix64 counts by this constant, so any of its numbers can be had at once.
    let skipped = (offset / 8).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let mut random = Random::new(seed.wrapping_add(skipped));
    let (inner, rest) = out.split_at_mut(((8 - offset % 8) as usize % 8).min(out.len()));
    if !inner.is_empty() {
        let word = random.next().to_le_bytes();
        let start = (offset % 8) as usize;
        inner.copy_from_slice(&word[start..start + inner.len()]);
    }
    for chunk in rest.chunks_mut(8) {
        chunk.copy_from_slice(&random.next().to_le_bytes()[..chunk.len()]);
    }
}

/// Bytes of the kernel's random number generator.
///
/// # Errors
/// [`BenchError::Io`] when the kernel gives none.
pub fn random(out: &mut [u8]) -> Result<()> {
    let mut rest = out;
    while !rest.is_empty() {
        let flags = rustix::rand::GetRandomFlags::empty();
        let got = rustix::rand::getrandom(&mut *rest, flags)
            .map_err(BenchError::os("read", Path::new("/dev/urandom")))?;
        rest = &mut rest[got..];
    }
    Ok(())
}

/// The greatest number of bytes that a pool holds.
const POOL_BYTES: u64 = 64 << 20;

/// Random bytes that files take their content from, so that many files cost no memory each. Files
/// share bytes only where all of them together are larger than the pool.
#[derive(Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    file_bytes: u64,
}

impl Pool {
    /// A pool for `files` files of `file_bytes` each.
    #[must_use]
    pub fn new(seed: u64, files: u64, file_bytes: u64) -> Self {
        let wanted = files.saturating_mul(file_bytes).clamp(1, POOL_BYTES);
        let mut bytes = vec![0; wanted as usize];
        seeded(seed, &mut bytes);
        Self { bytes, file_bytes }
    }

    /// The content of file `index`, in the parts that it is written in.
    pub fn parts(&self, index: u64) -> impl Iterator<Item = &[u8]> {
        let len = self.bytes.len() as u64;
        // A file larger than the pool begins at a place of its own and goes round.
        let mut at = index.wrapping_mul(self.file_bytes) % len;
        if at + self.file_bytes > len && self.file_bytes <= len {
            at = len - self.file_bytes;
        }
        let mut left = self.file_bytes;
        std::iter::from_fn(move || {
            let take = left.min(len - at);
            let part = (take > 0).then(|| &self.bytes[at as usize..(at + take) as usize]);
            (left, at) = (left - take, 0);
            part
        })
    }

    /// Whether `found` is the whole content of file `index`.
    #[must_use]
    pub fn is(&self, index: u64, found: &[u8]) -> bool {
        let mut rest = found;
        for part in self.parts(index) {
            match rest.split_at_checked(part.len()) {
                Some((now, later)) if now == part => rest = later,
                _ => return false,
            }
        }
        rest.is_empty()
    }
}

/// Lower-case hexadecimal digits.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn deterministic_content_is_frozen() {
        let mut bytes = [0; 40];
        deterministic(7, 3, 0, &mut bytes);
        let block = |k: u64| {
            let words = [7u64, 3, k].map(u64::to_le_bytes).concat();
            Sha256::digest(words)
        };
        assert_eq!(bytes[..32], block(0)[..]);
        assert_eq!(bytes[32..], block(1)[..8]);
        assert_eq!(
            hex(&bytes[..8]),
            "2285ee57a8910456",
            "content changed: data sets made before would fail their check"
        );
    }

    proptest! {
        #[test]
        fn any_part_is_that_of_the_whole(offset in 0u64..300, len in 0usize..300) {
            let mut whole = [0; 600];
            deterministic(1, 2, 0, &mut whole);
            let mut part = vec![0; len];
            deterministic(1, 2, offset, &mut part);
            prop_assert_eq!(&part[..], &whole[offset as usize..][..len]);
        }

        #[test]
        fn any_seeded_part_is_that_of_the_whole(offset in 0u64..100, len in 0usize..100, seed: u64) {
            let mut whole = [0; 200];
            seeded(seed, &mut whole);
            let mut part = vec![0; len];
            seeded_at(seed, offset, &mut part);
            prop_assert_eq!(&part[..], &whole[offset as usize..][..len]);
        }

        #[test]
        fn a_pool_gives_every_file_its_size_and_knows_it(
            files in 1u64..50, size in 0u64..5_000, index in 0u64..60,
        ) {
            let pool = Pool::new(9, files, size);
            let mut content: Vec<u8> = pool.parts(index).flatten().copied().collect();
            prop_assert_eq!(content.len() as u64, size);
            prop_assert!(pool.is(index, &content));
            if let Some(last) = content.last_mut() {
                *last ^= 1;
                prop_assert!(!pool.is(index, &content));
            }
            content.push(0);
            prop_assert!(!pool.is(index, &content));
        }
    }

    #[test]
    fn files_larger_than_the_pool_go_round() {
        let pool = Pool {
            bytes: vec![1, 2, 3],
            file_bytes: 7,
        };
        let content: Vec<u8> = pool.parts(1).flatten().copied().collect();
        assert_eq!(content, [2, 3, 1, 2, 3, 1, 2]);
    }
}
