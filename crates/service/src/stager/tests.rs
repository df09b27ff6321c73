use super::*;
use crate::testing::{BLOCK, SAMPLES, World, eventually};

fn start(world: &World, threads: usize) -> Stager {
    Stager::start(StagerParts {
        cache: world.cache.clone(),
        pool: Arc::new(Pool::start(threads).unwrap()),
        ahead_bytes: 1 << 20,
        ahead: Duration::from_secs(120),
        bytes_a_second: None,
        evicts_by_plan: true,
    })
    .unwrap()
}

fn follow(stager: &Stager, world: &World, link: u64, rank: u32) {
    let order: Vec<u64> = (0..SAMPLES).collect();
    let (plan, _) = world.plan(&order, rank);
    stager.follow(link, world.open.clone(), vec![plan]);
}

fn get(counter: &AtomicU64) -> u64 {
    counter.load(Ordering::Relaxed)
}

#[test]
fn the_whole_order_is_staged_and_nothing_stays_in_flight() {
    let world = World::new(1 << 30);
    let stager = start(&world, 4);
    follow(&stager, &world, 1, 0);
    let status = stager.status();
    eventually("all is staged", || {
        get(&status.staged_bytes) == SAMPLES * BLOCK
    });
    eventually("nothing is in flight", || get(&status.in_flight_reads) == 0);
}

#[test]
fn reads_ahead_keep_their_limit_while_the_origin_hangs() {
    let world = World::that_hangs();
    let pool = Arc::new(Pool::start(2).unwrap());
    let stager = Stager::start(StagerParts {
        cache: world.cache.clone(),
        pool: pool.clone(),
        ahead_bytes: 1 << 20,
        ahead: Duration::from_secs(120),
        bytes_a_second: None,
        evicts_by_plan: false,
    })
    .unwrap();
    follow(&stager, &world, 1, 0);
    eventually("a read is in flight", || {
        get(&stager.status().in_flight_reads) > 0
    });
    assert_eq!(get(&stager.status().in_flight_reads), 1);
    let (done, wait) = std::sync::mpsc::channel();
    assert!(pool.submit(Class::Demand, move || done.send(()).unwrap()));
    let served = wait.recv_timeout(Duration::from_secs(30));
    assert!(served.is_ok(), "a thread is left to those who wait");
    stager.forget(1);
    world.let_go(|| get(&stager.status().in_flight_reads) == 0);
}

#[test]
fn a_link_has_a_bounded_number_of_plans() {
    let world = World::new(1 << 30);
    let stager = start(&world, 1);
    for rank in 0..40 {
        follow(&stager, &world, 1, rank);
    }
    follow(&stager, &world, 2, 0);
    let plans = || get(&stager.status().plans);
    eventually("plans are followed", || plans() == PLANS_A_LINK as u64 + 1);
    stager.forget(1);
    eventually("those of the link are forgotten", || plans() == 1);
}

#[test]
fn the_thread_ends_with_its_handle() {
    let world = World::new(1 << 30);
    let stager = start(&world, 1);
    follow(&stager, &world, 1, 0);
    let held = Arc::downgrade(&stager.status);
    drop(stager);
    eventually("the thread lets go", || held.strong_count() == 0);
}

/// Writes a word of the plan's header.
fn write_word(file: &std::fs::File, at: u64, word: u64) {
    use std::os::unix::fs::FileExt;
    file.write_all_at(&word.to_le_bytes(), at).unwrap();
}

#[test]
fn reads_ahead_yield_while_a_rank_asks_for_it() {
    let world = World::new(1 << 30);
    let stager = start(&world, 4);
    let order: Vec<u64> = (0..SAMPLES).collect();
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    let until = (now.tv_sec as u64 + 50) * 1_000_000_000;
    let (of_rank_0, file) = world.plan(&order, 0);
    write_word(&file, 72, until);
    stager.follow(1, world.open.clone(), vec![of_rank_0]);
    let status = stager.status();
    eventually("it yields", || get(&status.yields) == 1);
    let before = get(&status.staged_bytes);
    follow(&stager, &world, 1, 1);
    eventually("the other is followed", || get(&status.plans) == 2);
    assert_eq!(get(&status.staged_bytes), before, "not for others either");
    write_word(&file, 72, 0);
    let all = || get(&status.staged_bytes) == SAMPLES * BLOCK;
    eventually("it goes on", all);
}

#[test]
fn the_sampler_is_told_how_far_its_order_is_staged() {
    use std::os::unix::fs::FileExt;
    let world = World::new(1 << 30);
    let stager = start(&world, 4);
    let order: Vec<u64> = (0..SAMPLES).collect();
    let (plan, file) = world.plan(&order, 0);
    stager.follow(1, world.open.clone(), vec![plan]);
    let told = || {
        let mut word = [0; 8];
        file.read_exact_at(&mut word, 80).unwrap();
        u64::from_le_bytes(word)
    };
    eventually("all is staged", || told() == SAMPLES);
    assert_eq!(get(&stager.status().staged_bytes), SAMPLES * BLOCK);
}

#[test]
fn a_gap_in_what_is_staged_is_the_end_of_it() {
    let world = World::new(1 << 30);
    let order: Vec<u64> = (0..SAMPLES).collect();
    let (plan, _) = world.plan(&order, 0);
    let mut following = Following::new(world.open.clone(), vec![plan]);
    following.look_ahead(&world.cache, 4, 1 << 20);
    following.look_ahead(&world.cache, 4, 1 << 20);
    let batches: Vec<u64> = std::iter::from_fn(|| following.next_job())
        .map(|(batch, _)| batch)
        .collect();
    assert_eq!(batches, [0, 0, 0, 0, 1, 1, 1, 1]);
    batches[4..]
        .iter()
        .for_each(|batch| following.ended(*batch));
    assert_eq!(following.staged_lead(), 0);
    batches[..3]
        .iter()
        .for_each(|batch| following.ended(*batch));
    assert_eq!(following.staged_lead(), 0);
    following.ended(0);
    assert_eq!(following.staged_lead(), 8);
    following.ended(7);
    assert_eq!(following.staged_lead(), 8, "an unknown batch is nobody's");
}

#[test]
fn a_plan_that_shrank_is_read_no_further() {
    let world = World::new(1 << 30);
    let order: Vec<u64> = (0..SAMPLES).collect();
    let (plan, file) = world.plan(&order, 0);
    let mut following = Following::new(world.open.clone(), vec![plan]);
    file.set_len(4096).unwrap();
    assert!(following.may_go_on(1 << 20, Duration::from_secs(1), false));
    following.look_ahead(&world.cache, 16, 1 << 20);
    assert!(!following.may_go_on(1 << 20, Duration::from_secs(1), false));
}

#[test]
fn looking_ahead_ends_at_the_bound_of_bytes() {
    let world = World::new(1 << 30);
    let order: Vec<u64> = (0..SAMPLES).collect();
    let (plan, _) = world.plan(&order, 0);
    let mut following = Following::new(world.open.clone(), vec![plan]);
    following.look_ahead(&world.cache, 16, 3 * BLOCK);
    assert_eq!((following.lead(), following.ahead_bytes()), (3, 3 * BLOCK));
    assert_eq!(std::iter::from_fn(|| following.next_job()).count(), 3);
}

#[test]
fn what_a_loader_has_not_read_counts_as_needed() {
    let world = World::new(1 << 30);
    let order: Vec<u64> = (0..SAMPLES).collect();
    let (plan, file) = world.plan(&order, 0);
    let mut following = Following::new(world.open.clone(), vec![plan]);
    write_word(&file, 64, 10);
    write_word(&file, 88, 4);
    assert!(following.look(Instant::now()).unwrap());
    assert_eq!(get(following.progress()), 6);
}

/// How far it looks ahead by itself.
fn look_as_far_as_may_be(following: &mut Following, world: &World) -> u64 {
    while following.may_go_on(1 << 30, Duration::from_secs(120), false) {
        following.look_ahead(&world.cache, 16, 1 << 30);
        while following.next_job().is_some() {}
    }
    following.lead()
}

#[test]
fn a_loader_that_starts_is_left_the_processors() {
    let world = World::new(1 << 30);
    let order: Vec<u64> = (0..1000).map(|entry| entry % SAMPLES).collect();
    let (plan, file) = world.plan(&order, 0);
    let mut following = Following::new(world.open.clone(), vec![plan]);
    let now = Instant::now();
    assert!(following.look(now).unwrap());
    let lead = look_as_far_as_may_be(&mut following, &world);
    assert_eq!(lead, 32, "its first batch is worth it");
    for (taken, left) in [(16, 16), (32, 0)] {
        write_word(&file, 64, taken);
        assert!(following.look(now).unwrap());
        let lead = look_as_far_as_may_be(&mut following, &world);
        assert_eq!(lead, left, "its workers ask themselves for the next ones");
    }
    write_word(&file, 64, 48);
    let arrived = now + Duration::from_millis(60);
    assert!(following.look(arrived).unwrap());
    let lead = look_as_far_as_may_be(&mut following, &world);
    assert_eq!(lead, 128, "it has its first batch");
    let later = arrived + Duration::from_millis(500);
    assert!(following.look(later).unwrap());
    assert!(!following.may_go_on(1 << 30, Duration::from_secs(120), true));
    let lead = look_as_far_as_may_be(&mut following, &world);
    assert_eq!(lead, 512, "it doubles in a quarter of a second");
}

#[test]
fn a_loader_that_starts_late_finds_all_staged() {
    let world = World::new(1 << 30);
    let order: Vec<u64> = (0..1000).map(|entry| entry % SAMPLES).collect();
    let (plan, _file) = world.plan(&order, 0);
    let mut following = Following::new(world.open.clone(), vec![plan]);
    for seconds in [2, 4] {
        let now = Instant::now() + Duration::from_secs(seconds);
        assert!(following.look(now).unwrap());
    }
    assert_eq!(look_as_far_as_may_be(&mut following, &world), 1000);
}
