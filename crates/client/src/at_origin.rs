//! How much of a wait was for the origin's metadata.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use forebay_dataset::ShardIndex;
use forebay_origin::{Spent, spent};
use forebay_residency::Counter;

use crate::answers;
use crate::dataset::Dataset;
use crate::parts::Part;

/// A wait for bytes that are not resident. Dropped, it counts what of it was for metadata.
///
/// What this thread reads itself it knows. What the daemon does for others and ahead of need goes
/// on at the same time, so its part of the wait is taken to be as the daemon's time at the origin
/// was, for the same shards and meanwhile.
pub(crate) struct AtOrigin<'a> {
    dataset: &'a Dataset,
    shards: BTreeSet<ShardIndex>,
    began: Instant,
    here: Spent,
    by_daemon: Spent,
}

impl Dataset {
    /// Begins a wait for these parts.
    pub(crate) fn at_origin(&self, parts: &[Part]) -> AtOrigin<'_> {
        let shards = parts.iter().map(|part| part.shard).collect();
        AtOrigin {
            by_daemon: self.by_daemon(&shards),
            dataset: self,
            shards,
            began: Instant::now(),
            here: spent(),
        }
    }

    /// What the daemons of this node have spent at the origin for these shards, as far as it is
    /// known.
    fn by_daemon(&self, shards: &BTreeSet<ShardIndex>) -> Spent {
        let mut sum = Spent::default();
        for shard in shards {
            if let Ok(Some(open)) = self.process().shards.get(&self.index, *shard) {
                let of = |counter| Duration::from_nanos(open.counted(counter));
                sum.metadata = sum.metadata.saturating_add(of(Counter::OriginMetadataNs));
                sum.reading = sum.reading.saturating_add(of(Counter::OriginReadNs));
            }
        }
        sum
    }
}

impl Drop for AtOrigin<'_> {
    fn drop(&mut self) {
        let here = spent().since(self.here);
        let waited = self
            .began
            .elapsed()
            .saturating_sub(here.metadata + here.reading);
        let daemon = self.dataset.by_daemon(&self.shards).since(self.by_daemon);
        answers::for_origin_metadata(here.metadata + waited.mul_f64(metadata_share(daemon)));
    }
}

/// From 0 to 1.
fn metadata_share(spent: Spent) -> f64 {
    let all = spent.metadata.saturating_add(spent.reading);
    if all.is_zero() {
        return 0.0;
    }
    (spent.metadata.as_secs_f64() / all.as_secs_f64()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_that_of_the_time_and_nothing_without_any() {
        let of = |metadata, reading| {
            metadata_share(Spent {
                metadata: Duration::from_millis(metadata),
                reading: Duration::from_millis(reading),
            })
        };
        assert_eq!((of(0, 0), of(5, 0), of(0, 5)), (0.0, 1.0, 0.0));
        assert!((of(1, 3) - 0.25).abs() < 1e-12);
        // Counters in a shared file are no accounts.
        let absurd = Spent {
            metadata: Duration::from_nanos(u64::MAX),
            reading: Duration::MAX,
        };
        assert!((0.0..=1.0).contains(&metadata_share(absurd)));
    }
}
