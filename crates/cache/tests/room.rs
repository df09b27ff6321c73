//! The room that a cache takes: never more than it may, whatever happens.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use common::{BLOCK, Node, SmallDevice, World, allocated, exact_folder, plan, range};
use forebay_cache::{Cache, Policy};

/// A little more than maps and stamps of the data sets here take.
const OVERHEAD: u64 = 256 << 10;

/// A small generator: the schedule of threads is random anyway.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

fn stage_at_random(
    node: &Node,
    world: &World,
    folder: &std::path::Path,
    seed: u64,
    done: &AtomicBool,
) {
    let origin = world.origin();
    let mut dice = Dice(seed);
    while !done.load(Ordering::Relaxed) {
        let start = dice.below(world.len());
        let asked = range(start, 1 + dice.below((world.len() - start).min(40 * BLOCK)));
        let _ = node.stage(&origin, asked).unwrap();
        if let Some(client) = world.client(folder) {
            let _ = world.read(&client, asked);
        }
    }
}

fn the_bound_holds_in(folder: &std::path::Path) {
    let world = World::new(1, &[8 << 20]);
    let capacity = 2 << 20;
    let node = Node::start(&world, plan(folder, Policy::Lru, capacity));
    let done = AtomicBool::new(false);
    let mut most = 0;
    std::thread::scope(|scope| {
        for seed in 1..=8 {
            let (node, world, done) = (&node, &world, &done);
            scope.spawn(move || stage_at_random(node, world, folder, seed * 7919, done));
        }
        let end = Instant::now() + Duration::from_secs(2);
        while Instant::now() < end {
            most = most.max(allocated(folder));
        }
        done.store(true, Ordering::Relaxed);
    });
    assert!(
        most <= capacity,
        "{most} bytes were taken, {capacity} are allowed"
    );
    assert!(
        node.cache.metrics().evicted_blocks.get() > 0,
        "nothing had to go"
    );
    assert!(
        most > capacity / 2,
        "only {most} bytes of {capacity} were used"
    );
    assert!(allocated(folder) <= node.cache.used_bytes());
}

#[test]
fn the_capacity_is_never_passed_on_a_disk() {
    the_bound_holds_in(tempfile::tempdir().unwrap().path());
}

#[test]
fn the_capacity_is_never_passed_in_memory() {
    if let Some(folder) = exact_folder() {
        the_bound_holds_in(folder.path());
    }
}

#[test]
fn scattered_blocks_do_not_pass_the_capacity_by_what_the_file_system_notes_about_them() {
    let world = World::new(1, &[16 << 20]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, 64 << 20));
    let origin = world.origin();
    for block in (0..world.len() / BLOCK).step_by(2) {
        assert!(node.stage(&origin, range(block * BLOCK, 1)).unwrap());
    }
    // Only now does the file system decide where they lie, and notes it.
    node.cache.close();
    let (taken, used) = (allocated(folder.path()), node.cache.used_bytes());
    assert!(taken <= used, "{taken} bytes taken, {used} counted");
}

#[test]
fn pin_admits_until_full_and_keeps_what_it_admitted() {
    let world = World::new(1, &[2 << 20]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, 1 << 20));
    let origin = world.origin();
    let blocks = || (0..world.len() / BLOCK).map(|block| range(block * BLOCK, BLOCK));
    let admitted: Vec<bool> = blocks()
        .map(|block| node.stage(&origin, block).unwrap())
        .collect();
    let count = admitted.iter().filter(|admitted| **admitted).count() as u64;
    assert!(
        count * BLOCK > (1 << 20) - OVERHEAD,
        "only {count} blocks fit"
    );
    assert!(count * BLOCK < 1 << 20);
    let client = world.client(folder.path()).unwrap();
    let resident: Vec<bool> = blocks().map(|block| world.read(&client, block)).collect();
    assert_eq!(resident, admitted);
    let metrics = node.cache.metrics();
    assert_eq!(metrics.evicted_blocks.get(), 0);
    assert_eq!(metrics.refused_blocks.get(), world.len() / BLOCK - count);
}

#[test]
fn lru_keeps_what_was_used_last() {
    let world = World::new(1, &[2 << 20]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, 1 << 20));
    let origin = world.origin();
    let part = |n: u64| range(n * (256 << 10), 256 << 10);
    assert!(node.stage(&origin, part(0)).unwrap());
    let client = world.client(folder.path()).unwrap();
    for n in 1..8 {
        // Stamps count tenths of a second.
        std::thread::sleep(Duration::from_millis(120));
        assert!(node.stage(&origin, part(n)).unwrap());
        assert!(
            world.read(&client, part(0)),
            "used each time, evicted at {n}"
        );
    }
    assert!(!world.read(&client, part(1)));
}

#[test]
fn a_job_that_can_never_fit_evicts_nothing() {
    let world = World::new(1, &[8 << 20]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, 1 << 20));
    let origin = world.origin();
    assert!(node.stage(&origin, range(0, 512 << 10)).unwrap());
    assert!(!node.stage(&origin, range(4 << 20, 4 << 20)).unwrap());
    let client = world.client(folder.path()).unwrap();
    assert!(world.read(&client, range(0, 512 << 10)));
}

#[test]
fn data_sets_that_nobody_uses_go_first() {
    let (first, second) = (World::new(1, &[1 << 20]), World::new(2, &[1 << 20]));
    let folder = tempfile::tempdir().unwrap();
    let capacity = (1 << 20) + OVERHEAD;
    let node = Node::start(&first, plan(folder.path(), Policy::Pin, capacity));
    assert!(node.stage(&first.origin(), first.all()).unwrap());
    node.cache.close();
    drop(node);
    let node = Node::start(&second, plan(folder.path(), Policy::Pin, capacity));
    assert!(
        node.cache.used_bytes() > 1 << 20,
        "what lies there is counted"
    );
    assert!(node.stage(&second.origin(), second.all()).unwrap());
    assert_eq!(node.cache.metrics().evicted_datasets.get(), 1);
    assert!(first.client(folder.path()).is_none());
    assert!(allocated(folder.path()) <= capacity);
    let again = node.cache.attach(first.index()).unwrap();
    let node = Node {
        cache: node.cache,
        dataset: again,
    };
    assert!(
        !node.stage(&first.origin(), first.all()).unwrap(),
        "now the other is in use"
    );
}

#[test]
fn a_data_set_that_is_attached_while_unused_ones_go_keeps_its_files() {
    let (first, second) = (World::new(1, &[1 << 20]), World::new(2, &[1 << 20]));
    let capacity = (1 << 20) + OVERHEAD;
    for _ in 0..60 {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(&first, plan(folder.path(), Policy::Lru, capacity));
        assert!(node.stage(&first.origin(), first.all()).unwrap());
        node.cache.close();
        drop(node);
        let node = Node::start(&second, plan(folder.path(), Policy::Lru, capacity));
        let start = Barrier::new(2);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                start.wait();
                let _ = node.stage(&second.origin(), range(0, 512 << 10)).unwrap();
            });
            start.wait();
            let dataset = node.cache.attach(first.index()).unwrap();
            let cache = node.cache.clone();
            let attached = Node { cache, dataset };
            if attached.stage(&first.origin(), range(0, 1)).unwrap() {
                let client = first.client(folder.path());
                assert!(client.is_some(), "resident in files that are gone");
            }
        });
        assert!(allocated(folder.path()) <= node.cache.used_bytes());
    }
}

#[test]
fn a_lowered_capacity_is_kept_from_the_start() {
    let world = World::new(1, &[2 << 20]);
    for (policy, clean) in [
        (Policy::Pin, true),
        (Policy::Lru, false),
        (Policy::Lru, true),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let node = Node::start(&world, plan(folder.path(), policy, 1 << 30));
        assert!(node.stage(&world.origin(), world.all()).unwrap());
        if clean {
            node.cache.close();
        }
        drop(node);
        let node = Node::start(&world, plan(folder.path(), policy, 1 << 20));
        assert!(
            allocated(folder.path()) <= 1 << 20,
            "{policy:?}, clean {clean}"
        );
        assert!(node.cache.used_bytes() <= 1 << 20);
        let part = range(0, 100 << 10);
        let admitted = node.stage(&world.origin(), part).unwrap();
        if policy == Policy::Lru {
            assert!(admitted && world.read(&world.client(folder.path()).unwrap(), part));
        }
        assert!(allocated(folder.path()) <= 1 << 20);
    }
}

#[test]
fn what_a_crash_left_half_made_takes_no_room() {
    let world = World::new(1, &[1 << 20]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, 1 << 30));
    assert!(node.stage(&world.origin(), world.all()).unwrap());
    drop(node);
    let paths = world.paths(folder.path());
    std::fs::write(paths.map.with_extension("map-partial"), vec![1; 1 << 20]).unwrap();
    std::fs::remove_file(&paths.map).unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, 1 << 30));
    assert_eq!((allocated(folder.path()), node.cache.used_bytes()), (0, 0));
    assert!(node.stage(&world.origin(), world.all()).unwrap());
    assert!(world.read(&world.client(folder.path()).unwrap(), world.all()));
}

#[test]
fn a_full_device_means_no_room_and_not_an_error() {
    let Some(device) = SmallDevice::mount(2 << 20) else {
        return;
    };
    let world = World::new(1, &[4 << 20]);
    let ballast = device.path().join("ballast");
    std::fs::write(&ballast, vec![1; 1 << 20]).unwrap();
    let node = Node::start(
        &world,
        plan(&device.path().join("cache"), Policy::Pin, 1 << 30),
    );
    let folder = device.path().join("cache");
    let stage_all = || {
        std::thread::scope(|scope| {
            let fill = |from: u64| {
                let origin = world.origin();
                let blocks = (from..world.len() / BLOCK).step_by(8);
                blocks
                    .filter(|block| node.stage(&origin, range(block * BLOCK, BLOCK)).unwrap())
                    .count()
            };
            let threads: Vec<_> = (0..8).map(|from| scope.spawn(move || fill(from))).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap())
                .sum::<usize>()
        })
    };
    let first = stage_all() as u64;
    assert!(
        (1..=(1 << 20) / BLOCK).contains(&first),
        "{first} blocks fit"
    );
    let slack = node.cache.used_bytes() - allocated(&folder);
    std::fs::remove_file(&ballast).unwrap();
    let second = stage_all() as u64;
    assert!(
        second > first,
        "{first} blocks, then {second} with more space"
    );
    assert_eq!(
        node.cache.used_bytes() - allocated(&folder),
        slack,
        "room leaked"
    );
    let client = world.client(&folder).unwrap();
    let resident =
        (0..world.len() / BLOCK).filter(|block| world.read(&client, range(block * BLOCK, BLOCK)));
    assert_eq!(resident.count() as u64, second);
}

#[test]
fn a_device_too_full_for_a_shards_files_means_no_room() {
    let Some(device) = SmallDevice::mount(1 << 20) else {
        return;
    };
    let world = World::new(1, &[4 << 20]);
    let ballast = device.path().join("ballast");
    let full = std::fs::write(&ballast, vec![1; 2 << 20]);
    assert!(full.is_err(), "the device is full");
    let folder = device.path().join("cache");
    let cache = Cache::open(plan(&folder, Policy::Lru, 1 << 30)).unwrap();
    let dataset = cache.attach(world.index()).unwrap();
    let node = Node {
        cache: cache.into(),
        dataset,
    };
    assert!(!node.stage(&world.origin(), range(0, 1)).unwrap());
    assert_eq!((node.cache.used_bytes(), allocated(&folder)), (0, 0));
    std::fs::remove_file(&ballast).unwrap();
    assert!(node.stage(&world.origin(), range(0, 1)).unwrap());
}

#[test]
fn a_shard_whose_files_could_not_all_be_made_leaves_none() {
    // Room for four folders, a block file and a map, and for no stamps.
    let Some(device) = SmallDevice::mount_with("size=4m,nr_inodes=6") else {
        return;
    };
    let world = World::new(1, &[1 << 20]);
    let folder = device.path().join("cache");
    let node = Node::start(&world, plan(&folder, Policy::Lru, 1 << 30));
    assert!(!node.stage(&world.origin(), range(0, 1)).unwrap());
    assert_eq!(node.cache.metrics().device_errors.get(), 1);
    assert_eq!((node.cache.used_bytes(), allocated(&folder)), (0, 0));
    assert!(device.remount("nr_inodes=100"));
    assert!(node.stage(&world.origin(), range(0, 1)).unwrap());
}

#[test]
fn old_blocks_that_views_hold_do_not_hide_the_others() {
    // More groups of blocks are held than are looked at at one time.
    let (held, all) = (1760 * BLOCK, 2000 * BLOCK);
    let world = World::new(1, &[all]);
    let folder = tempfile::tempdir().unwrap();
    let capacity = 1900 * BLOCK + OVERHEAD;
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, capacity));
    let origin = world.origin();
    assert!(node.stage(&origin, range(0, held)).unwrap());
    let client = world.client(folder.path()).unwrap();
    let view = client.view(range(0, held)).unwrap().unwrap();
    // Stamps count tenths of a second.
    std::thread::sleep(Duration::from_millis(120));
    for block in held / BLOCK..all / BLOCK {
        assert!(node.stage(&origin, range(block * BLOCK, 1)).unwrap());
    }
    assert!(node.cache.metrics().evicted_blocks.get() > 0);
    assert_eq!(view.bytes(), &world.shard[..held as usize]);
}

#[test]
fn room_is_made_before_it_is_needed() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(1, &[8 << 20]);
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, 4 << 20));
    let origin = world.origin();
    node.cache.keep_room(Duration::ZERO);
    // Until little is left; then it takes no fill to make room.
    let mut start = 0;
    while node.cache.used_bytes() < (4 << 20) - (16 << 10) {
        assert!(node.stage(&origin, range(start, BLOCK)).unwrap());
        start += BLOCK;
    }
    assert_eq!(node.cache.metrics().evicted_blocks.get(), 0);
    node.cache.keep_room(Duration::from_secs(60));
    assert!(
        node.cache.metrics().evicted_blocks.get() >= 16,
        "a 64th of the capacity"
    );
    let evicted = node.cache.metrics().evicted_blocks.get();
    node.cache.keep_room(Duration::ZERO);
    assert_eq!(
        node.cache.metrics().evicted_blocks.get(),
        evicted,
        "there is enough"
    );
}

#[test]
fn what_is_pinned_is_kept_however_short_room_is() {
    let folder = tempfile::tempdir().unwrap();
    let world = World::new(1, &[8 << 20]);
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, 4 << 20));
    let origin = world.origin();
    assert!(!node.stage(&origin, world.all()).unwrap());
    node.cache.keep_room(Duration::ZERO);
    assert_eq!(node.cache.metrics().evicted_blocks.get(), 0);
}
