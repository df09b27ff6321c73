//! Threads that read and view while another evicts and refills at random: never a wrong byte.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use common::{Daemon, range};
use forebay_residency::ReadOutcome;

const BLOCKS: u64 = 96;

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

fn churn(daemon: &Daemon, done: &AtomicBool, evicted: &AtomicU64) {
    let mut dice = Dice(0xC0FF_EE11);
    while !done.load(Ordering::Relaxed) {
        let start = dice.below(BLOCKS);
        // Few at a time, so that most of the shard is there for long reads.
        let blocks = start..(start + 1 + dice.below(3)).min(BLOCKS);
        if daemon.evict(&blocks) {
            evicted.fetch_add(1, Ordering::Relaxed);
            daemon.fill(blocks);
        }
    }
}

fn use_it(daemon: &Daemon, seed: u64, done: &AtomicBool) -> (u64, u64) {
    let client = daemon.client().unwrap();
    let mut out = vec![0; daemon.content.len()];
    let (mut dice, mut good, mut viewed) = (Dice(seed), 0, 0);
    while !done.load(Ordering::Relaxed) {
        let start = dice.below(daemon.identity.shard_len - 1);
        // Long reads take long enough to be overtaken by an eviction.
        let asked = range(start, 1 + dice.below(daemon.identity.shard_len - start));
        let wanted = &daemon.content[asked.start() as usize..asked.end() as usize];
        let out = &mut out[..wanted.len()];
        if let ReadOutcome::Done = client.read(asked, out) {
            assert!(out == wanted, "a read of {asked:?} returned other bytes");
            good += 1;
        }
        // Seldom, or nothing could be evicted.
        if dice.below(64) == 0
            && let Some(view) = client.view(asked).unwrap()
        {
            for _ in 0..2 {
                assert!(view.bytes() == wanted, "a view of {asked:?} changed");
            }
            viewed += 1;
        }
    }
    (good, viewed)
}

#[test]
fn no_reader_meets_a_wrong_byte() {
    // In memory where that can be: evictions are quick there, so more of them fall into a read.
    let folder = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let daemon = Daemon::in_folder(folder.unwrap(), BLOCKS);
    daemon.fill(0..BLOCKS);
    let (done, evicted) = (AtomicBool::new(false), AtomicU64::new(0));
    let end = Instant::now() + Duration::from_millis(2500);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (1..3)
            .map(|seed| {
                scope.spawn({
                    let (daemon, done) = (&daemon, &done);
                    move || use_it(daemon, seed * 977, done)
                })
            })
            .collect();
        let churner = scope.spawn(|| churn(&daemon, &done, &evicted));
        while Instant::now() < end && !readers.iter().any(|reader| reader.is_finished()) {
            std::thread::sleep(Duration::from_millis(10));
        }
        done.store(true, Ordering::Relaxed);
        for reader in readers {
            let (good, viewed) = reader.join().unwrap();
            assert!(
                good > 0 && viewed > 0,
                "{good} reads and {viewed} views succeeded"
            );
        }
        churner.join().unwrap();
    });
    assert!(evicted.into_inner() > 0);
}
