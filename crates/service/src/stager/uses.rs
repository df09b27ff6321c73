//! When each block of a data set is needed, from the order of one rank. Pure.

use forebay_dataset::index::Index;
use forebay_dataset::{IndexError, ShardIndex};

/// Uses that are remembered, at most: 64 MiB of them, and samples that are looked at. Those after
/// it are too far to matter.
const MOST_USES: usize = 1 << 24;
/// Blocks of a data set, at most: 128 MiB of offsets. For a larger one nothing is known.
const MOST_BLOCKS: u64 = 1 << 25;

/// For each block of a data set the times at which it is used, in order.
#[derive(Debug)]
pub(super) struct Uses {
    /// First block of each shard, counted over all shards.
    shards: Vec<u64>,
    /// Where the times of each block begin; one more at the end.
    starts: Vec<u32>,
    times: Vec<u32>,
}

impl Uses {
    /// The uses of samples in this order; the position in it is the time. `order` is asked for a
    /// window of entries at a time, from the beginning, twice.
    pub(super) fn of<B: AsRef<[u8]>>(
        index: &Index<B>,
        order: impl Fn(u64) -> Vec<u64>,
    ) -> Result<Option<Self>, IndexError> {
        let Some(shards) = first_blocks(index)? else {
            return Ok(None);
        };
        let blocks = shards.last().copied().unwrap_or(0) as usize;
        let mut counts = vec![0u32; blocks + 1];
        let mut total = 0;
        let horizon = each_use(index, &shards, &order, u64::MAX, |block, _| {
            counts[block as usize + 1] += 1;
            total += 1;
            total < MOST_USES
        });
        for block in 1..counts.len() {
            counts[block] += counts[block - 1];
        }
        let starts = counts;
        let mut next = starts.clone();
        // What a changed order leaves empty is as far away as can be.
        let mut times = vec![u32::MAX; starts.last().copied().unwrap_or(0) as usize];
        each_use(index, &shards, &order, horizon, |block, time| {
            let (at, end) = (next[block as usize], starts[block as usize + 1]);
            // The same order gives the same uses, and one that changed meanwhile other ones, but
            // none that is another block's.
            if at < end {
                times[at as usize] = time;
                next[block as usize] += 1;
            }
            true
        });
        Ok(Some(Self {
            shards,
            starts,
            times,
        }))
    }

    /// The first time, `now` or later, at which the block is used.
    pub(super) fn next(&self, shard: ShardIndex, block: u64, now: u64) -> Option<u64> {
        let first = self.shards.get(shard.0 as usize)?;
        let block = first.checked_add(block)? as usize;
        let (start, end) = (*self.starts.get(block)?, *self.starts.get(block + 1)?);
        let times = self.times.get(start as usize..end as usize)?;
        let at = times.partition_point(|time| u64::from(*time) < now);
        times.get(at).map(|time| u64::from(*time))
    }
}

fn first_blocks<B: AsRef<[u8]>>(index: &Index<B>) -> Result<Option<Vec<u64>>, IndexError> {
    let mut first = vec![0];
    let mut end = 0u64;
    for shard in 0..index.shard_count() {
        end = end.saturating_add(
            index
                .block_size()
                .blocks(index.shard_len(ShardIndex(shard))?),
        );
        first.push(end);
    }
    Ok((end <= MOST_BLOCKS).then_some(first))
}

/// Calls `use_of` with every block and time, until it says no or the time is `horizon`. Returns
/// the time at which it ended.
fn each_use<B: AsRef<[u8]>>(
    index: &Index<B>,
    shards: &[u64],
    order: impl Fn(u64) -> Vec<u64>,
    horizon: u64,
    mut use_of: impl FnMut(u64, u32) -> bool,
) -> u64 {
    let mut time = 0;
    let mut ranges = Vec::new();
    loop {
        let window = order(time);
        if window.is_empty() {
            return time;
        }
        for sample in window {
            if time >= horizon || time >= MOST_USES as u64 {
                return time;
            }
            ranges.clear();
            // A sample that does not exist is not used.
            let found = index.sample(sample);
            let _ = found.and_then(|sample| sample.add_stored_ranges(&mut ranges));
            let mut last = None;
            for (shard, range) in &ranges {
                // The shard's blocks lie between its first and the next one's.
                let shard = shard.0 as usize;
                let (Some(first), Some(end)) = (shards.get(shard), shards.get(shard + 1)) else {
                    continue;
                };
                for block in index.block_size().covering(*range) {
                    let block = first + block;
                    if block >= *end {
                        break;
                    }
                    // Neighbouring fields share a block, which is then used once.
                    if last.replace(block) != Some(block) && !use_of(block, time as u32) {
                        return time + 1;
                    }
                }
            }
            time += 1;
        }
    }
}

#[cfg(test)]
mod tests;
