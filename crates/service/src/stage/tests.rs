use super::*;
use crate::testing::{World, job};

const LATER: Duration = Duration::from_secs(30);

#[test]
fn what_was_resident_is_not_taken_for_a_read_of_the_origin() {
    let world = World::new(1 << 30);
    let fill = || {
        let (filled, read) = world
            .open
            .fill(&world.cache, &job(0..2), Instant::now() + LATER);
        assert_eq!(filled.unwrap(), Filled::Resident);
        read.bytes
    };
    assert_eq!(fill(), 8192);
    for _ in 0..1000 {
        assert_eq!(fill(), 0);
    }
    let pace = &world.open.origin.pace;
    assert_eq!(pace.late_after(), None, "one read is no judgement");
}

#[test]
fn a_job_is_not_late_while_it_waits_for_a_thread() {
    let mut waiting = Waiting {
        job: job(0..1),
        since: Arc::default(),
        reads: 1,
        hedged: false,
    };
    assert!(!waiting.is_late(Duration::ZERO));
    waiting.since.set(Instant::now()).unwrap();
    assert!(waiting.is_late(Duration::ZERO));
    waiting.hedged = true;
    assert!(!waiting.is_late(Duration::ZERO), "it is read twice already");
}

fn readers(world: &World, threads: usize) -> Readers {
    let pool = Arc::new(Pool::start(threads).unwrap());
    Readers::new(world.cache.clone(), pool, 8)
}

#[test]
fn all_requests_together_read_no_more_than_an_eighth_twice() {
    let readers = readers(&World::new(1 << 30), 16);
    let hedges: Vec<Hedge> = std::iter::from_fn(|| readers.begin_hedge()).collect();
    assert_eq!(hedges.len(), 2);
    drop(hedges);
    assert!(readers.begin_hedge().is_some());
}

#[test]
fn a_task_that_panics_is_answered() {
    // No room for the shard's files, and blocks that make the count of what was refused overflow.
    let world = World::new(0);
    let backwards = std::ops::Range { start: 3, end: 1 };
    let staged = readers(&world, 1).stage_on_pool(
        &world.open,
        vec![job(backwards)],
        Instant::now() + LATER,
        false,
    );
    assert!(!staged.unwrap());
}

#[test]
fn of_two_reads_the_one_that_succeeds_counts() {
    let readers = readers(&World::new(1 << 30), 1);
    let hedged = || {
        vec![Waiting {
            job: job(0..1),
            since: Arc::default(),
            reads: 2,
            hedged: true,
        }]
    };
    let failed = || Err(late(&job(0..1)));
    let mut waiting = hedged();
    assert!(readers.heard(&mut waiting, &job(0..1), failed()).unwrap());
    assert_eq!(waiting.len(), 1, "the other may still succeed");
    let answer = Ok(Filled::Resident);
    assert!(readers.heard(&mut waiting, &job(0..1), answer).unwrap());
    assert!(waiting.is_empty());
    assert!(
        readers.heard(&mut waiting, &job(0..1), failed()).unwrap(),
        "nobody's"
    );
    let mut waiting = hedged();
    assert!(readers.heard(&mut waiting, &job(0..1), failed()).unwrap());
    assert!(readers.heard(&mut waiting, &job(0..1), failed()).is_err());
}
