//! String keys: a sorted table of hashes, searched by interpolation.

use xxhash_rust::xxh3::xxh3_64;

use super::check::{MAX_EQUAL_HASHES, text_fault};
use super::format::{Section, damaged, u64_at};
use super::record::HashRecord;
use super::view::{View, slice};
use crate::IndexError;

/// Steps of interpolation before the search falls back to halving. Hashes are evenly spread, so
/// two or three are enough for millions of keys; a hostile table must not make it linear.
const INTERPOLATIONS: u32 = 8;
/// Below this many entries, going through them one by one is faster than another guess.
const NEAR: usize = 16;

pub(super) fn hash(key: &str) -> u64 {
    xxh3_64(key.as_bytes())
}

impl<'a> View<'a> {
    pub(super) fn key(&self, sample: u64) -> Result<&'a str, IndexError> {
        let (offsets, _) = self.section(Section::KeyOffsets).as_chunks::<8>();
        let text = || {
            let n = usize::try_from(sample).ok()?;
            let pair = offsets.get(n..n.checked_add(2)?)?.as_flattened();
            let (start, end) = (u64_at(pair, 0), u64_at(pair, 8));
            let bytes = slice(
                self.section(Section::KeyBytes),
                start,
                end.checked_sub(start)?,
            )?;
            let key = std::str::from_utf8(bytes).ok()?;
            text_fault(key).is_none().then_some(key)
        };
        text().ok_or_else(|| damaged(format!("the key of sample {sample} cannot be read")))
    }

    pub(super) fn find(&self, key: &str) -> Result<Option<u64>, IndexError> {
        let (entries, _) = self.section(Section::KeyHashes).as_chunks();
        let wanted = hash(key);
        let first = lower_bound(entries, wanted);
        for (nth, entry) in entries[first..].iter().enumerate() {
            let entry = HashRecord::decode(entry);
            if entry.hash != wanted {
                break;
            }
            if nth == MAX_EQUAL_HASHES {
                return Err(damaged("more than 64 keys share one hash"));
            }
            if entry.sample >= self.head.header.samples {
                return Err(damaged(format!("a key names sample {}", entry.sample)));
            }
            if self.key(entry.sample)? == key {
                return Ok(Some(entry.sample));
            }
        }
        Ok(None)
    }
}

type Entry = [u8; HashRecord::LEN];

/// First entry whose hash is `wanted` or more. The answer is in `[0, entries.len()]` whatever the
/// table holds; it is the right one if the table is sorted.
fn lower_bound(entries: &[Entry], wanted: u64) -> usize {
    let (mut low, mut high) = (0, entries.len());
    let (mut low_hash, mut high_hash) = (0, u64::MAX);
    for step in 0.. {
        let width = high - low;
        if width <= NEAR {
            break;
        }
        let middle = if step < INTERPOLATIONS {
            low + guess(width, low_hash, high_hash, wanted)
        } else {
            low + width / 2
        };
        let found = HashRecord::decode(&entries[middle]).hash;
        if found < wanted {
            (low, low_hash) = (middle + 1, found);
        } else {
            (high, high_hash) = (middle, found);
        }
    }
    low + entries[low..high]
        .iter()
        .take_while(|entry| HashRecord::decode(entry).hash < wanted)
        .count()
}

/// Where `wanted` would stand among `width` evenly spread hashes; less than `width`.
fn guess(width: usize, low: u64, high: u64, wanted: u64) -> usize {
    let span = u128::from(high.saturating_sub(low)) + 1;
    let above = u128::from(wanted.saturating_sub(low));
    let at = (above * width as u128 / span) as usize;
    at.min(width - 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn encoded(hashes: &[u64]) -> Vec<Entry> {
        let entry = |hash: &u64| HashRecord {
            hash: *hash,
            sample: 0,
        };
        hashes.iter().map(|hash| entry(hash).encode()).collect()
    }

    proptest! {
        /// Also where guessing goes wrong each time: crowded hashes, with a few far off.
        #[test]
        fn lower_bound_agrees_with_halving(
            mut hashes in prop::collection::vec(
                prop_oneof![0..900u64, any::<u64>(), u64::MAX - 9..=u64::MAX, (0..64u32).prop_map(|n| 1 << n)],
                0..700,
            ),
            probes in prop::collection::vec(prop_oneof![0..1000u64, any::<u64>(), Just(u64::MAX)], 20),
        ) {
            hashes.sort_unstable();
            let entries = encoded(&hashes);
            for wanted in probes.iter().chain(&hashes) {
                let expected = hashes.partition_point(|hash| hash < wanted);
                prop_assert_eq!(lower_bound(&entries, *wanted), expected);
            }
        }

        #[test]
        fn an_unsorted_table_ends_too(hashes in prop::collection::vec(any::<u64>(), 0..300), wanted in any::<u64>()) {
            prop_assert!(lower_bound(&encoded(&hashes), wanted) <= hashes.len());
        }
    }
}
