//! Fills under failure and in company.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::os::unix::fs::FileExt;
use std::sync::{Arc, Barrier, Condvar, Mutex};
use std::time::{Duration, Instant};

use common::{BLOCK, Node, World, allocated, exact_folder, plan, range};
use forebay_cache::{FillError, Policy};
use forebay_origin::testing::MemoryOrigin;
use forebay_origin::{Origin, OriginError, SegmentRef};

const ROOMY: u64 = 1 << 30;

#[test]
fn eight_threads_of_one_cold_block_fetch_it_once() {
    let world = World::new(1, &[10 * BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, ROOMY));
    let origin = world.origin();
    origin.delay(Duration::from_millis(30));
    let start = Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8u64 {
            let (start, node, origin, world, folder) = (&start, &node, &origin, &world, &folder);
            scope.spawn(move || {
                start.wait();
                let asked = range(3 * BLOCK + thread, 9);
                assert!(node.stage(origin, asked).unwrap());
                assert!(world.read(&world.client(folder.path()).unwrap(), asked));
            });
        }
    });
    assert_eq!(origin.reads(), 1);
    assert_eq!(origin.bytes(), BLOCK);
    assert_eq!(node.cache.metrics().recovered_blocks.get(), 0);
}

#[test]
fn a_follower_takes_over_from_a_leader_that_fails() {
    let world = World::new(1, &[10 * BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, ROOMY));
    let origin = world.origin();
    origin.delay(Duration::from_millis(30));
    origin.fail_in(0);
    let start = Barrier::new(4);
    let failed: usize = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    start.wait();
                    node.stage(&origin, range(0, 1)).is_err()
                })
            })
            .collect();
        let failures = threads.into_iter().map(|thread| thread.join().unwrap());
        failures.filter(|failed| *failed).count()
    });
    assert_eq!((failed, origin.reads()), (1, 2));
}

#[test]
fn whichever_read_of_the_origin_fails_nothing_is_wrong_or_lost() {
    // Every second block first, so that the rest takes a read each.
    let world = World::new(1, &[9 * BLOCK, 100, 5 * BLOCK + 3]);
    for n in 0.. {
        let Some(folder) = exact_folder() else {
            eprintln!("skipped: no file system in memory");
            return;
        };
        let node = Node::start(&world, plan(folder.path(), Policy::Lru, ROOMY));
        let origin = world.origin();
        assert!(node.stage(&origin, range(0, 1)).unwrap());
        let slack = node.cache.used_bytes() - allocated(folder.path());
        origin.fail_in(n);
        let mut failures = 0;
        for block in (0..world.len() / BLOCK).step_by(2) {
            failures += u32::from(node.stage(&origin, range(block * BLOCK, 1)).is_err());
        }
        failures += u32::from(node.stage(&origin, world.all()).is_err());
        let client = world.client(folder.path()).unwrap();
        for block in 0..world.len() / BLOCK {
            let _ = world.read(&client, range(block * BLOCK, 1));
        }
        let taken = allocated(folder.path());
        assert_eq!(
            node.cache.used_bytes() - taken,
            slack,
            "room leaked at read {n}"
        );
        assert!(node.stage(&origin, world.all()).unwrap());
        assert!(world.read(&client, world.all()));
        if failures == 0 {
            assert!(n > 5, "only {n} reads were tried");
            return;
        }
        assert_eq!(failures, 1);
    }
}

/// An origin whose first segment hangs until it is let go.
#[derive(Debug)]
struct Hanging {
    rest: MemoryOrigin,
    let_go: Mutex<bool>,
    changed: Condvar,
}

impl Origin for Hanging {
    fn read_at(
        &self,
        segment: SegmentRef<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        if segment.index.0 == 0 {
            let let_go = self.let_go.lock().unwrap();
            drop(self.changed.wait_while(let_go, |let_go| !*let_go).unwrap());
        }
        self.rest.read_at(segment, offset, out)
    }
}

#[test]
fn a_follower_of_a_read_that_hangs_gets_its_deadline_and_others_go_on() {
    let world = World::new(1, &[BLOCK, 4 * BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, ROOMY));
    let origin = Hanging {
        rest: world.origin(),
        let_go: Mutex::new(false),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| node.stage(&origin, range(0, 1)));
        while node.cache.metrics().origin_reads.get() == 0 {
            std::thread::yield_now();
        }
        let soon = Instant::now() + Duration::from_millis(50);
        let followed = node.stage_by(&origin, range(0, 1), soon);
        assert!(matches!(
            followed,
            Err(FillError::Deadline {
                shard: 0,
                start: 0,
                end: 1
            })
        ));
        assert!(node.stage(&origin, range(BLOCK, 4 * BLOCK)).unwrap());
        *origin.let_go.lock().unwrap() = true;
        origin.changed.notify_all();
        assert!(leader.join().unwrap().unwrap());
    });
    assert!(world.read(&world.client(folder.path()).unwrap(), world.all()));
}

#[test]
fn what_is_filled_while_closing_does_not_belie_a_clean_map() {
    let world = World::new(1, &[BLOCK, 4 * BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, ROOMY));
    let origin = Hanging {
        rest: world.origin(),
        let_go: Mutex::new(false),
        changed: Condvar::new(),
    };
    std::thread::scope(|scope| {
        scope.spawn(|| node.stage(&origin, range(0, 1)));
        while node.cache.metrics().origin_reads.get() == 0 {
            std::thread::yield_now();
        }
        assert!(node.stage(&world.origin(), range(BLOCK, 1)).unwrap());
        node.cache.close();
        *origin.let_go.lock().unwrap() = true;
        origin.changed.notify_all();
    });
    assert!(is_clean(&world, folder.path()), "whatever was in flight");
    drop(node);
    let again = Node::start(&world, plan(folder.path(), Policy::Lru, ROOMY));
    assert_eq!(again.dataset.usage().resident_blocks, 1, "what had landed");
    again.cache.close();
    let late = again.stage(&world.origin(), range(BLOCK + BLOCK, 1));
    assert!(!late.unwrap(), "nothing lands after the close");
    let client = world.client(folder.path()).unwrap();
    assert!(world.read(&client, range(BLOCK, BLOCK)));
    assert!(!world.read(&client, range(0, 1)));
    assert!(!world.read(&client, range(2 * BLOCK, 1)));
}

#[test]
fn nothing_is_evicted_after_the_close() {
    let world = World::new(1, &[40 * BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Lru, 32 * BLOCK));
    assert!(node.stage(&world.origin(), range(0, 16 * BLOCK)).unwrap());
    node.cache.close();
    assert!(
        !node
            .stage(&world.origin(), range(20 * BLOCK, 20 * BLOCK))
            .unwrap()
    );
    let client = world.client(folder.path()).unwrap();
    assert!(
        world.read(&client, range(0, 16 * BLOCK)),
        "as the clean map says"
    );
}

fn is_clean(world: &World, cache: &std::path::Path) -> bool {
    let map = std::fs::File::open(world.paths(cache).map).unwrap();
    let mut state = [0; 8];
    map.read_exact_at(&mut state, 72).unwrap();
    u64::from_le_bytes(state) == 1
}

#[test]
fn flipped_bytes_are_found_after_a_crash_and_fetched_again() {
    let world = World::new(1, &[20 * BLOCK, 77]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, ROOMY));
    let origin = world.origin();
    assert!(node.stage(&origin, world.all()).unwrap());
    drop(node);
    let data = std::fs::OpenOptions::new()
        .write(true)
        .open(world.paths(folder.path()).data);
    let data = data.unwrap();
    for at in [5, 7 * BLOCK, 20 * BLOCK + 76] {
        data.write_all_at(&[!world.shard[at as usize]], at).unwrap();
    }
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, ROOMY));
    let client = world.client(folder.path()).unwrap();
    assert!(
        !world.read(&client, range(BLOCK, 1)),
        "candidates are absent until checked"
    );
    let before = origin.reads();
    assert!(node.stage(&origin, world.all()).unwrap());
    assert!(world.read(&client, world.all()));
    let metrics = node.cache.metrics();
    assert_eq!(metrics.corrupt_blocks.get(), 3);
    assert_eq!(metrics.recovered_blocks.get(), 18);
    assert_eq!(origin.reads() - before, 3);
}

#[test]
fn a_clean_stop_loses_nothing_and_checks_nothing() {
    let world = World::new(1, &[20 * BLOCK, 77]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, ROOMY));
    let origin = world.origin();
    assert!(node.stage(&origin, world.all()).unwrap());
    let used = node.cache.used_bytes();
    node.cache.close();
    drop(node);
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, ROOMY));
    assert_eq!(node.cache.used_bytes(), used);
    assert!(world.read(&world.client(folder.path()).unwrap(), world.all()));
    let before = origin.reads();
    assert!(node.stage(&origin, world.all()).unwrap());
    assert_eq!(origin.reads(), before);
}

#[test]
fn a_block_that_a_view_holds_is_not_punched_when_it_is_distrusted() {
    let world = World::new(1, &[20 * BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, ROOMY));
    let origin = world.origin();
    assert!(node.stage(&origin, world.all()).unwrap());
    let client = world.client(folder.path()).unwrap();
    let view = client.view(range(BLOCK, BLOCK)).unwrap().unwrap();
    let data = std::fs::OpenOptions::new()
        .write(true)
        .open(world.paths(folder.path()).data);
    data.unwrap().write_all_at(&[0xEE], BLOCK + 9).unwrap();
    let distrust = || {
        node.cache
            .distrust(&node.dataset, common::SHARD, range(BLOCK, 1))
    };
    distrust().unwrap();
    assert_eq!(
        view.bytes()[10..],
        world.shard[BLOCK as usize + 10..2 * BLOCK as usize]
    );
    assert!(
        !world.read(&client, range(BLOCK, 1)),
        "unreadable from now on"
    );
    assert!(
        !node.stage(&origin, range(BLOCK, 1)).unwrap(),
        "cannot be replaced while held"
    );
    drop(view);
    assert!(node.stage(&origin, range(BLOCK, 1)).unwrap());
    assert!(world.read(&client, world.all()));
}

#[test]
fn a_second_attach_is_the_same_data_set() {
    let world = World::new(1, &[BLOCK]);
    let folder = tempfile::tempdir().unwrap();
    let node = Node::start(&world, plan(folder.path(), Policy::Pin, ROOMY));
    let again = node.cache.attach(world.index()).unwrap();
    assert!(Arc::ptr_eq(&again, &node.dataset));
}
