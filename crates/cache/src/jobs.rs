//! Turns the ranges of a request into runs of blocks to fill. Pure.

use std::ops::Range;

use forebay_dataset::{BlockSize, ByteRange, ShardIndex};

/// Most bytes in one read of the origin.
pub(crate) const READ_BYTES: u64 = 4 << 20;

/// A run of blocks of one shard, at most 4 MiB long, to be filled by one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Shard in the index.
    pub shard: ShardIndex,
    /// The blocks.
    pub blocks: Range<u64>,
}

/// The runs that cover `ranges`, each block once, neighbours merged, large runs cut.
pub fn jobs(ranges: &[(ShardIndex, ByteRange)], block_size: BlockSize) -> Vec<Job> {
    let mut runs: Vec<Job> = ranges
        .iter()
        .map(|(shard, range)| Job {
            shard: *shard,
            blocks: block_size.covering(*range),
        })
        .collect();
    runs.sort_unstable_by_key(|job| (job.shard, job.blocks.start));
    let mut merged: Vec<Job> = Vec::with_capacity(runs.len());
    for job in runs {
        match merged.last_mut() {
            Some(last) if last.shard == job.shard && job.blocks.start <= last.blocks.end => {
                last.blocks.end = last.blocks.end.max(job.blocks.end);
            }
            _ => merged.push(job),
        }
    }
    let most = (READ_BYTES / u64::from(block_size.bytes())).max(1);
    merged.into_iter().flat_map(|job| cut(job, most)).collect()
}

fn cut(job: Job, most: u64) -> impl Iterator<Item = Job> {
    let Job { shard, blocks } = job;
    (blocks.start..blocks.end)
        .step_by(most as usize)
        .map(move |start| Job {
            shard,
            blocks: start..blocks.end.min(start + most),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn every_block_that_is_needed_is_in_one_job(
            ranges in proptest::collection::vec((0u32..3, 0u64..1 << 26, 1u64..1 << 23), 0..20),
        ) {
            let size = BlockSize::DEFAULT;
            let ranges: Vec<_> = ranges.into_iter()
                .map(|(shard, start, len)| (ShardIndex(shard), ByteRange::new(start, len).unwrap()))
                .collect();
            let wanted: BTreeSet<_> = ranges.iter()
                .flat_map(|(shard, range)| size.covering(*range).map(|block| (*shard, block)))
                .collect();
            let jobs = jobs(&ranges, size);
            let given: Vec<_> = jobs.iter()
                .flat_map(|job| job.blocks.clone().map(|block| (job.shard, block)))
                .collect();
            prop_assert_eq!(given, wanted.into_iter().collect::<Vec<_>>());
            prop_assert!(jobs.iter().all(|job| (job.blocks.end - job.blocks.start) << 16 <= READ_BYTES));
        }
    }
}
