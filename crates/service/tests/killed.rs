//! The daemon is killed at random points: no wrong byte, and the next one recovers.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::{BLOCK, Daemon, Link, PATIENCE, World};
use forebay_residency::SharedShard;
use forebay_wire::Reply;

/// Not a test of its own: the body of the processes that serve.
#[test]
fn helper_that_serves() {
    common::serve_if_asked();
}

/// A small generator: when the kill falls is random anyway.
struct Dice(u64);

impl Dice {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % n
    }
}

/// Half of the data and what maps and stamps take: something is always being evicted.
const SETTINGS: [(&str, &str); 2] = [("FOREBAY_CAPACITY", "2 MiB"), ("FOREBAY_POLICY", "lru")];

/// Stages and reads until told to stop; a daemon that is gone is connected to again.
fn train(world: &World, seed: u64, done: &AtomicBool, reads: &AtomicU64) {
    let mut dice = Dice(seed);
    let mut link: Option<Link> = None;
    let mut old: Option<SharedShard> = None;
    while !done.load(Ordering::Relaxed) {
        let start = dice.below(world.len());
        let len = 1 + dice.below((world.len() - start).min(30 * BLOCK));
        if link.is_none() {
            link = Link::try_connect(world.cache());
            if let Some(open) = &mut link
                && open.open(world).is_none()
            {
                link = None;
            }
        }
        match link
            .as_mut()
            .and_then(|link| link.stage(start, len, PATIENCE))
        {
            Some(Reply::Staged { .. }) => {}
            Some(other) => panic!("unexpected {other:?}"),
            None => link = None,
        }
        // One handle lives through the deaths of daemons, one is new each time.
        for shared in [old.as_ref(), world.shared().as_ref()]
            .into_iter()
            .flatten()
        {
            if world.read(shared, start, len) {
                reads.fetch_add(1, Ordering::Relaxed);
            }
        }
        if old.is_none() || dice.below(50) == 0 {
            old = world.shared();
        }
    }
}

fn kill_at_random(rounds: u64, seed: u64) {
    let world = World::new(&[3 << 20, 0, 100, 1 << 20]);
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    let mut dice = Dice(seed);
    std::thread::scope(|scope| {
        let trainers: Vec<_> = (1..=2)
            .map(|n| {
                scope.spawn({
                    let (world, done, reads) = (&world, &done, &reads);
                    move || train(world, seed * n, done, reads)
                })
            })
            .collect();
        for _ in 0..rounds {
            let daemon = Daemon::start(world.cache(), &SETTINGS);
            std::thread::sleep(Duration::from_micros(dice.below(60_000)));
            daemon.kill();
            if trainers.iter().any(|trainer| trainer.is_finished()) {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        trainers
            .into_iter()
            .for_each(|trainer| trainer.join().unwrap());
    });
    assert!(reads.into_inner() > rounds, "too little was read");
    recovers(&world);
}

fn recovers(world: &World) {
    let daemon = Daemon::start(world.cache(), &[]);
    let mut link = Link::connect(world.cache());
    link.open(world).unwrap();
    let staged = link.stage(0, world.len(), PATIENCE);
    assert_eq!(
        staged,
        Some(Reply::Staged {
            complete: true,
            peer_bytes: 0,
            handed: Vec::new(),
        })
    );
    assert!(world.read(&world.shared().unwrap(), 0, world.len()));
    daemon.terminate();
    assert_eq!(daemon.end(), "Stopped");
}

#[test]
fn a_killed_daemon_leaves_no_wrong_byte() {
    kill_at_random(20, 0x5EED);
}

#[test]
#[ignore = "a minute: the same with many more rounds"]
fn soak_a_killed_daemon_leaves_no_wrong_byte() {
    kill_at_random(200, 0xBEEF);
}
