//! Eviction that knows the order to come, against Belady's own.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use common::{BLOCK, Node, World, plan, range};
use forebay_cache::{Future, NextUse, Policy};
use forebay_dataset::ShardIndex;
use proptest::prelude::*;

/// Accesses to blocks, and how many have been made.
#[derive(Clone, Debug)]
struct Order {
    blocks: Arc<Vec<u64>>,
    now: Arc<AtomicUsize>,
}

impl Future for Order {
    fn of(&self, _generation: u128) -> Option<Box<dyn NextUse>> {
        Some(Box::new(self.clone()))
    }
}

impl NextUse for Order {
    fn needed_in(&self, _shard: ShardIndex, block: u64) -> Option<u64> {
        let rest = &self.blocks[self.now.load(Ordering::Relaxed)..];
        rest.iter()
            .position(|other| *other == block)
            .map(|at| at as u64)
    }
}

/// Fewest blocks that have to be read from the origin with room for `room` of them, where each has
/// to be admitted before it is used.
fn belady_misses(order: &[u64], room: usize) -> u64 {
    let mut held: Vec<u64> = Vec::new();
    let mut misses = 0;
    for (now, block) in order.iter().enumerate() {
        if held.contains(block) {
            continue;
        }
        misses += 1;
        if held.len() == room {
            let next = |held: &u64| order[now + 1..].iter().position(|other| other == held);
            let farthest = (0..held.len()).max_by_key(|at| next(&held[*at]).unwrap_or(usize::MAX));
            held.swap_remove(farthest.unwrap());
        }
        held.push(*block);
    }
    misses
}

/// Blocks read from the origin under a policy, with room for `room` of them.
fn misses(world: &World, order: &[u64], room: u64, policy: Policy) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    // What the files of the shard themselves take.
    let overhead = {
        let roomy = tempfile::tempdir().unwrap();
        let node = Node::start(world, plan(roomy.path(), policy, 1 << 30));
        node.stage(&world.origin(), range(0, 1)).unwrap();
        node.cache.used_bytes() - BLOCK
    };
    let node = Node::start(world, plan(folder.path(), policy, overhead + room * BLOCK));
    let future = Order {
        blocks: Arc::new(order.to_vec()),
        now: Arc::default(),
    };
    node.cache.set_future(Arc::new(future.clone()));
    let origin = world.origin();
    for (now, block) in order.iter().enumerate() {
        future.now.store(now, Ordering::Relaxed);
        let admitted = node.stage(&origin, range(block * BLOCK, 1)).unwrap();
        // LRU evicts groups of blocks and spares the group that it fills.
        assert!(admitted || policy == Policy::Lru, "there is room for one");
    }
    let metrics = node.cache.metrics();
    metrics.filled_blocks.get() + metrics.refused_blocks.get()
}

/// Epochs in orders of their own, as a sampler makes them.
fn epochs(seeds: &[u64], blocks: u64) -> Vec<u64> {
    let shuffled = |seed: &u64| {
        let mut order: Vec<u64> = (0..blocks).collect();
        order.sort_by_key(|block| {
            (block + 1)
                .wrapping_mul(seed | 1)
                .wrapping_mul(0x9E37_79B9_7F4A_7C15)
                >> 20
        });
        order
    };
    seeds.iter().flat_map(shuffled).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]

    #[test]
    fn a_known_order_is_evicted_as_belady_would(
        seeds in proptest::collection::vec(any::<u64>(), 3),
        room in 3u64..40,
    ) {
        let world = World::new(1, &[48 * BLOCK]);
        let order = epochs(&seeds, 48);
        let best = belady_misses(&order, room as usize);
        let plan = misses(&world, &order, room, Policy::Plan);
        prop_assert_eq!(plan, best);
        prop_assert!(misses(&world, &order, room, Policy::Lru) >= best);
    }
}

#[test]
fn without_a_known_order_plan_is_lru() {
    let world = World::new(2, &[48 * BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Plan, 24 * BLOCK));
    let origin = world.origin();
    for block in 0..48 {
        assert!(node.stage(&origin, range(block * BLOCK, 1)).unwrap());
    }
    assert!(node.cache.metrics().evicted_blocks.get() > 0);
}
