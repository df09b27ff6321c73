//! String keys: a sorted table of hashes, searched from where a hash should be.

use xxhash_rust::xxh3::xxh3_64;

use super::build::unindexable;
use super::check::{MAX_EQUAL_HASHES, text_fault};
use super::format::{Section, damaged, u64_at};
use super::record::HashRecord;
use super::view::{View, slice};
use crate::IndexError;

pub(super) fn hash(key: &str) -> u64 {
    xxh3_64(key.as_bytes())
}

/// Fails if two samples have one key, or too many keys one hash. `hashes` are sorted.
pub(super) fn check_unique(
    hashes: &[HashRecord],
    key: impl Fn(u64) -> Result<String, IndexError>,
) -> Result<(), IndexError> {
    for equal in hashes.chunk_by(|a, b| a.hash == b.hash) {
        if equal.len() == 1 {
            continue;
        }
        let keys = equal
            .iter()
            .map(|found| Ok((key(found.sample)?, found.sample)));
        let mut same: Vec<(String, u64)> = keys.collect::<Result<_, IndexError>>()?;
        same.sort_unstable();
        if let Some(pair) = same.windows(2).find(|pair| pair[0].0 == pair[1].0) {
            return Err(unindexable(
                format!("key `{}`", pair[0].0),
                format!("samples {} and {} both have it", pair[0].1, pair[1].1),
            ));
        }
        if equal.len() > MAX_EQUAL_HASHES {
            return Err(unindexable(
                format!("key `{}`", same[0].0),
                "over 64 keys share its hash",
            ));
        }
    }
    Ok(())
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
///
/// Hashes are evenly spread, so the place to look is known to within a few entries after three
/// reads, two of them close together. The search then widens from there, doubling its step: that
/// ends after few more reads, and after few enough if the hashes are not spread at all.
fn lower_bound(entries: &[Entry], wanted: u64) -> usize {
    let hash_at = |n: usize| HashRecord::decode(&entries[n]).hash;
    let (mut low, mut high) = (0, entries.len());
    if high == 0 {
        return 0;
    }
    let at = near(entries, wanted);
    let mut step = 8;
    if hash_at(at) < wanted {
        low = at + 1;
        while low + step < high {
            if hash_at(low + step) >= wanted {
                high = low + step;
                break;
            }
            low += step + 1;
            step *= 2;
        }
    } else {
        high = at;
        while high > step {
            if hash_at(high - step) < wanted {
                low = high - step + 1;
                break;
            }
            high -= step;
            step *= 2;
        }
    }
    low + entries[low..high].partition_point(|entry| HashRecord::decode(entry).hash < wanted)
}

/// An entry close to where `wanted` belongs among evenly spread hashes; there is at least one.
fn near(entries: &[Entry], wanted: u64) -> usize {
    let count = entries.len();
    let entries_in = |hashes: u64| ((u128::from(hashes) * count as u128) >> 64) as usize;
    let mut at = entries_in(wanted);
    for _ in 0..2 {
        let found = HashRecord::decode(&entries[at]).hash;
        at = if found < wanted {
            (at + entries_in(wanted - found)).min(count - 1)
        } else {
            at.saturating_sub(entries_in(found - wanted))
        };
    }
    at
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
