//! Blocks that come from other nodes, and those that go there.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use common::{BLOCK, Node, SHARD, World, plan, range};
use forebay_cache::{Claim, Delivered, Filled, Job, Ownership, Policy};
use forebay_dataset::Region;

const ROOMY: u64 = 1 << 30;

fn job(blocks: std::ops::Range<u64>) -> Job {
    Job {
        shard: SHARD,
        blocks,
    }
}

/// What an owner sends for the blocks `[start, end)`: first block, checksums and bytes.
fn lent(owner: &Node, start: u64, end: u64, most: u64) -> Vec<(u64, Vec<u32>, Vec<u8>)> {
    let mut sent = Vec::new();
    let mut at = start;
    while at < end {
        let lent = owner.cache.lend(&owner.dataset, SHARD, &(at..end), most);
        let Some(lent) = lent.unwrap() else {
            at += 1;
            continue;
        };
        let mut bytes = vec![0; lent.len() as usize];
        lent.file()
            .read_exact_at(&mut bytes, lent.offset())
            .unwrap();
        sent.push((at, lent.checksums().to_vec(), bytes));
        at += lent.checksums().len() as u64;
    }
    sent
}

fn deliver(claim: &Claim, sent: &[(u64, Vec<u32>, Vec<u8>)]) {
    for (first, checksums, bytes) in sent {
        let delivered = claim.deliver(*first, checksums, bytes);
        assert_eq!(delivered, Delivered::Landed, "{first}");
    }
}

struct Pair {
    world: World,
    _folders: [tempfile::TempDir; 2],
    owner: Node,
    other: Node,
}

impl Pair {
    fn new(policy: Policy, capacity: u64) -> Self {
        let world = World::new(5, &[9 * BLOCK, 100, 5 * BLOCK + 3, 0, 64 * BLOCK]);
        let folders = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let owner = Node::start(&world, plan(folders[0].path(), Policy::Lru, ROOMY));
        let other = Node::start(&world, plan(folders[1].path(), policy, capacity));
        assert!(owner.stage(&world.origin(), world.all()).unwrap());
        Self {
            world,
            _folders: folders,
            owner,
            other,
        }
    }

    fn blocks(&self) -> u64 {
        self.world.len().div_ceil(BLOCK)
    }
}

#[test]
fn what_is_lent_lands_elsewhere_to_the_byte() {
    for most in [1, 3 * BLOCK, 1 << 20] {
        let pair = Pair::new(Policy::Lru, ROOMY);
        let (world, other) = (&pair.world, &pair.other);
        let claim = other.cache.claim(&other.dataset, &job(0..pair.blocks()));
        let claim = claim.unwrap().unwrap();
        let sent = lent(&pair.owner, 0, pair.blocks(), most);
        deliver(&claim, &sent);
        drop(claim);
        let client = world.client(&other.cache.plan().folder).unwrap();
        assert!(world.read(&client, world.all()));
        assert_eq!(other.cache.metrics().origin_reads.get(), 0);
        let (peer, lent) = (
            other.cache.metrics().peer_blocks.get(),
            pair.owner.cache.metrics().lent_blocks.get(),
        );
        assert_eq!(peer, lent);
        let none = other.cache.claim(&other.dataset, &job(0..pair.blocks()));
        assert!(none.unwrap().is_none(), "nothing is absent");
    }
}

#[test]
fn wrong_bytes_and_blocks_that_nobody_wants_are_not_written() {
    let pair = Pair::new(Policy::Lru, ROOMY);
    let other = &pair.other;
    let claim = other.cache.claim(&other.dataset, &job(0..12));
    let claim = claim.unwrap().unwrap();
    let sent = lent(&pair.owner, 0, 16, 4 * BLOCK);
    let (first, checksums, bytes) = &sent[0];
    for at in [0, bytes.len() / 2, bytes.len() - 1] {
        let mut hurt = bytes.clone();
        hurt[at] ^= 1;
        assert_eq!(claim.deliver(*first, checksums, &hurt), Delivered::Corrupt);
    }
    let cut = &bytes[..bytes.len() - 1];
    assert_eq!(claim.deliver(*first, checksums, cut), Delivered::Unasked);
    assert_eq!(claim.deliver(*first, &[], &[]), Delivered::Unasked);
    assert_eq!(
        claim.deliver(u64::MAX, &[1], &[0; 4096]),
        Delivered::Unasked
    );
    // Past the claim's end, and across the end of a segment.
    let (first, checksums, bytes) = sent.last().unwrap();
    assert!(*first >= 12 || first + checksums.len() as u64 > 12);
    assert_eq!(claim.deliver(*first, checksums, bytes), Delivered::Unasked);
    assert_eq!(claim.deliver(8, &[0, 0], &[0; 8192]), Delivered::Unasked);
    drop(claim);
    assert_eq!(other.dataset.usage().resident_blocks, 0);
    assert!(
        other
            .stage(&pair.world.origin(), range(0, 12 * BLOCK))
            .unwrap()
    );
    let client = pair.world.client(&other.cache.plan().folder).unwrap();
    assert!(pair.world.read(&client, range(0, 12 * BLOCK)));
}

#[test]
fn who_wants_what_is_claimed_waits_and_goes_on_when_the_claim_is_dropped() {
    let pair = Pair::new(Policy::Lru, ROOMY);
    let (other, origin) = (&pair.other, pair.world.origin());
    let claim = other.cache.claim(&other.dataset, &job(0..4));
    let claim = claim.unwrap().unwrap();
    let second = other.cache.claim(&other.dataset, &job(0..4));
    assert!(second.unwrap().is_none(), "it is led");
    let soon = Instant::now() + Duration::from_millis(50);
    let late = other.cache.fill(&other.dataset, &origin, &job(2..6), soon);
    assert!(late.is_err());
    assert_eq!(origin.reads(), 1, "what was not claimed was read");
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let later = Instant::now() + Duration::from_secs(60);
            other.cache.fill(&other.dataset, &origin, &job(0..4), later)
        });
        deliver(&claim, &lent(&pair.owner, 0, 3, BLOCK));
        drop(claim);
        assert_eq!(reader.join().unwrap().unwrap(), Filled::Resident);
    });
    assert_eq!(
        origin.bytes(),
        3 * BLOCK,
        "the last block, once the claim was gone"
    );
}

#[test]
fn what_was_checked_lands_later_and_others_wait_for_it() {
    let pair = Pair::new(Policy::Lru, ROOMY);
    let other = &pair.other;
    let claim = other.cache.claim(&other.dataset, &job(0..4));
    let claim = claim.unwrap().unwrap();
    let held = || lent(other, 0, 4, BLOCK);
    let sent = lent(&pair.owner, 0, 4, 2 * BLOCK);
    let checked = sent.iter().map(|(first, checksums, bytes)| {
        assert!(claim.expects(*first, checksums.len() as u64, bytes.len() as u64));
        claim.check(*first, checksums, &bytes[..]).unwrap()
    });
    let checked: Vec<_> = checked.collect();
    assert!(held().is_empty(), "it is written when it lands");
    for blocks in &checked {
        assert_eq!(claim.land(blocks), Delivered::Landed);
        assert_eq!(
            claim.land(blocks),
            Delivered::Landed,
            "once more is the same"
        );
    }
    assert_eq!(other.cache.metrics().peer_blocks.get(), 4);
    assert_eq!(held()[1].2, &sent[0].2[BLOCK as usize..]);
}

#[derive(Debug)]
struct EvenOnes;

/// Regions are too large for a test, so a data set is owned or not as a whole.
impl Ownership for EvenOnes {
    fn owns(&self, generation: u128, _region: Region) -> bool {
        generation.is_multiple_of(2)
    }
}

fn two_data_sets(policy: Policy) {
    let worlds: Vec<World> = (0..40)
        .map(|salt| World::new(salt, &[64 * BLOCK]))
        .collect();
    let is_owned = |world: &&World| EvenOnes.owns(world.index().generation(), region());
    let owned = worlds.iter().find(is_owned).unwrap();
    let replica = worlds.iter().find(|world| !is_owned(world)).unwrap();
    let folder = tempfile::tempdir().unwrap();
    // Room for all that is owned and a part of the replicas.
    let capacity = 84 * BLOCK + 64 * 1024;
    let node = Node::start(owned, plan(folder.path(), policy, capacity));
    node.cache.set_ownership(Arc::new(EvenOnes));
    assert!(node.stage(&owned.origin(), range(0, 48 * BLOCK)).unwrap());
    let other = node.cache.attach(replica.index()).unwrap();
    let fill = |dataset: &Arc<_>, world: &World, blocks| {
        let later = Instant::now() + Duration::from_secs(60);
        let filled = (node.cache).fill(dataset, &world.origin(), &job(blocks), later);
        assert_eq!(filled.unwrap(), Filled::Resident);
    };
    fill(&other, replica, 0..32);
    // Used later than what is owned, but not within the time of a reader who waits.
    std::thread::sleep(Duration::from_millis(2300));
    fill(&node.dataset, owned, 48..64);
    let all_owned = node.dataset.usage().resident_blocks;
    assert_eq!(all_owned, 64, "all that is owned");
    assert!(other.usage().resident_blocks < 32, "replicas made room");
}

#[test]
fn replicas_are_evicted_before_what_is_owned() {
    two_data_sets(Policy::Lru);
}

#[test]
fn who_pins_evicts_replicas_for_what_it_owns() {
    two_data_sets(Policy::Pin);
}

fn region() -> Region {
    Region {
        shard: SHARD,
        number: 0,
    }
}
