//! A cluster in one thread: the daemons' own decisions, over links and clocks that are simulated.
//!
//! What runs is what daemons run: placement, which members are asked and in which order, requests
//! and their parts, hedges, refusals, how long a silent member is borne with and a failed one left
//! alone, claims and flights, what is handed over, checksums, the cache with its files, recovery
//! after a crash, and the frames on the wire. What is simulated: sockets, threads, the clock, and the origin's disks.
//!
//! `FOREBAY_SIM_SEED=N` plays seed `N` alone and prints what happens; `FOREBAY_SIM_SEEDS=N` has the
//! many seeds of `make soak` end before `N`.

mod cluster;
mod event;
mod faults;
mod members;
mod net;
mod node;
mod outcome;
mod random;
mod requests;
mod way;

use cluster::Cluster;
use faults::Plan;
use outcome::Outcome;

/// Seeds that every run of the tests plays; `make soak` plays more.
const SEEDS: u64 = 2000;
const MANY_SEEDS: u64 = 100_000;

fn play(seed: u64, shows: bool) -> Outcome {
    // A wrong byte, a wait without end or a read too many panics in there.
    let played = std::panic::catch_unwind(|| Cluster::new(seed, shows).play());
    played.unwrap_or_else(|_| {
        panic!("seed {seed} fails: play it again with FOREBAY_SIM_SEED={seed} and --nocapture")
    })
}

fn play_all(seeds: std::ops::Range<u64>) {
    if let Ok(seed) = std::env::var("FOREBAY_SIM_SEED") {
        play(seed.parse().expect("a seed is a number"), true);
        return;
    }
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let sum = std::sync::Mutex::new(Outcome::default());
    std::thread::scope(|scope| {
        for first in 0..threads {
            let (seeds, sum) = (seeds.clone(), &sum);
            scope.spawn(move || {
                for seed in seeds.skip(first as usize).step_by(threads as usize) {
                    let outcome = play(seed, false);
                    sum.lock().unwrap().add(&outcome);
                }
            });
        }
    });
    let sum = sum.into_inner().unwrap();
    println!("{sum:?}");
    // What never happens is not tried.
    assert!(sum.from_members > 0 && sum.from_origin > 0, "{sum:?}");
    assert!(
        sum.hedges > 0 && sum.crashes > 0 && sum.given_up > 0 && sum.changes > 0,
        "{sum:?}"
    );
    assert!(
        sum.recovered > 0 && sum.corrupt > 0 && sum.refused_links > 0,
        "{sum:?}"
    );
}

#[test]
fn whatever_fails_bytes_are_exact_and_every_wait_ends() {
    play_all(0..SEEDS);
}

#[test]
#[ignore = "takes minutes: part of `make soak`"]
fn whatever_fails_bytes_are_exact_and_every_wait_ends_for_many_seeds() {
    let end = std::env::var("FOREBAY_SIM_SEEDS").map_or(MANY_SEEDS, |end| {
        end.parse().expect("the end of the seeds is a number")
    });
    play_all(SEEDS..end);
}

#[test]
fn a_node_that_is_cut_off_waits_for_one_silent_member_and_not_for_each() {
    for seed in 0..40 {
        let plan = |_: &mut random::Random| Plan {
            nodes: 6,
            stale: None,
            follows: false,
            slow: None,
            knows_pace: false,
            requests: 0,
            faults: 0,
        };
        let outcome = Cluster::with(seed, false, plan).cut_off();
        let waited = outcome.longest_asked;
        let most = net::SILENCE + net::SILENCE / 2;
        assert!(waited < most, "seed {seed} waits for {waited:?}");
        // Nor for others who wait for such a member.
        assert_eq!(outcome.followed_at_once, 0, "seed {seed}");
    }
}

#[test]
fn a_seed_plays_the_same_each_time() {
    for seed in 0..20 {
        assert_eq!(play(seed, false), play(seed, false), "seed {seed}");
    }
}
