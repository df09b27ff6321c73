//! The read protocol, apart from where its words live, so that a schedule explorer can try it.
//!
//! Reader: [`begin`] → copy the bytes → [`Snapshot::holds`]. Evictor: clear the bits → raise the
//! counter → punch the hole. Filler: write the bytes → set the bit.
//!
//! Why it suffices: a reader that copied bytes of a hole read them after the punch, so after the
//! counter was raised, and its second look at the counter differs from its first. Looking at the
//! bits again would add nothing: a block can be evicted and filled again between two looks, and
//! then the bits agree although the copy does not.

use std::ops::Range;

use crate::layout::WORD_BLOCKS;

/// The words that readers look at. Loads have acquire order.
pub trait Words {
    /// Resident bits of blocks `[64 * word, 64 * word + 64)`.
    fn resident(&self, word: u64) -> u64;
    /// Times that any of those blocks was evicted. Never falls.
    fn evictions(&self, word: u64) -> u64;
}

/// What a reader saw before it copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "bytes copied without a second look may be those of a hole"]
pub struct Snapshot {
    evictions: u64,
}

/// Sees whether all of `blocks` are resident; `None` if one is not.
pub fn begin(words: &impl Words, blocks: &Range<u64>) -> Option<Snapshot> {
    // Counters first: an eviction between the two looks then shows either here as a cleared bit
    // or afterwards as a raised counter.
    let evictions = sum_of_evictions(words, blocks);
    all_resident(words, blocks).then_some(Snapshot { evictions })
}

impl Snapshot {
    /// True if no block near `blocks` was evicted since [`begin`], so the copy is good.
    pub fn holds(self, words: &impl Words, blocks: &Range<u64>) -> bool {
        // The copy must not drift below the second look.
        std::sync::atomic::fence(std::sync::atomic::Ordering::Acquire);
        sum_of_evictions(words, blocks) == self.evictions
    }
}

/// True if every block of the range is resident now.
pub fn all_resident(words: &impl Words, blocks: &Range<u64>) -> bool {
    word_masks(blocks).all(|(word, mask)| words.resident(word) & mask == mask)
}

/// Each counter only rises, so equal sums mean that none moved.
fn sum_of_evictions(words: &impl Words, blocks: &Range<u64>) -> u64 {
    word_masks(blocks).fold(0, |sum: u64, (word, _)| {
        sum.wrapping_add(words.evictions(word))
    })
}

/// The words that hold `blocks`, each with the bits that are theirs.
pub fn word_masks(blocks: &Range<u64>) -> impl Iterator<Item = (u64, u64)> + use<> {
    let Range { start, end } = *blocks;
    (start / WORD_BLOCKS..end.div_ceil(WORD_BLOCKS)).map(move |word| {
        let first = start.saturating_sub(word * WORD_BLOCKS).min(WORD_BLOCKS);
        let last = end.saturating_sub(word * WORD_BLOCKS).min(WORD_BLOCKS);
        let below = |n: u64| if n == 64 { u64::MAX } else { (1 << n) - 1 };
        (word, below(last) & !below(first))
    })
}

#[cfg(test)]
mod tests;
