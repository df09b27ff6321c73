use proptest::prelude::*;

use super::*;
use crate::profile::ProfileSettings;

fn profile(text: &str) -> Arc<Profile> {
    Arc::new(
        ProfileSettings::parse("test", text)
            .unwrap()
            .resolve()
            .unwrap(),
    )
}

fn read(bytes: u64) -> Request {
    Request {
        class: OpClass::Read,
        bytes,
        hold: None,
    }
}

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Run until nothing is left; return (job, when it was due, how it was timed) in order.
fn run(queue: &mut Queue<u64>, mut now: Duration) -> Vec<(u64, Duration, Timing)> {
    let mut done = Vec::new();
    loop {
        while let Some(due) = queue.pop_due(now) {
            done.push((due.job, now, due.timing));
            queue.finish(now, due.class);
        }
        match queue.next_wake() {
            Some(next) => now = next,
            None => return done,
        }
    }
}

#[test]
fn requests_sleep_at_the_same_time() {
    let mut queue = Queue::new(profile("[read]\nmedian_ms = 100\n"));
    for n in 0..64 {
        queue.offer(Duration::ZERO, read(10), n);
    }
    assert_eq!(
        queue.depth(),
        Depth {
            held: 0,
            waiting: 0,
            in_service: 64
        }
    );
    let done = run(&mut queue, Duration::ZERO);
    assert!(
        done.iter().all(|(_, at, _)| *at == ms(100)),
        "64 requests take as long as one"
    );
    assert_eq!(
        done.iter().map(|d| d.0).collect::<Vec<_>>(),
        (0..64).collect::<Vec<_>>()
    );
}

#[test]
fn a_full_server_makes_the_rest_wait_in_order() {
    let mut queue = Queue::new(profile("[read]\nmedian_ms = 100\nmax_parallel = 2\n"));
    for n in 0..5 {
        queue.offer(Duration::ZERO, read(10), n);
    }
    assert_eq!(
        queue.depth(),
        Depth {
            held: 0,
            waiting: 3,
            in_service: 2
        }
    );
    let done = run(&mut queue, Duration::ZERO);
    let ends: Vec<_> = done
        .iter()
        .map(|(job, at, timing)| (*job, *at, timing.queued))
        .collect();
    let zero = Duration::ZERO;
    assert_eq!(
        ends,
        [
            (0, ms(100), zero),
            (1, ms(100), zero),
            (2, ms(200), ms(100)),
            (3, ms(200), ms(100)),
            (4, ms(300), ms(200))
        ]
    );
}

#[test]
fn size_and_link_add_to_the_time() {
    let text = "[read]\nmedian_ms = 10\nms_per_mib = 4\nbytes_per_s = 1048576\n";
    let mut queue = Queue::new(profile(text));
    queue.offer(Duration::ZERO, read(1 << 19), 0);
    queue.offer(Duration::ZERO, read(1 << 19), 1);
    let ends: Vec<_> = run(&mut queue, Duration::ZERO)
        .iter()
        .map(|d| d.1)
        .collect();
    assert_eq!(
        ends,
        [ms(500), ms(1000)],
        "the link is slower than the server"
    );

    let mut queue = Queue::new(profile("[read]\nmedian_ms = 10\nms_per_mib = 4\n"));
    queue.offer(Duration::ZERO, read(1 << 19), 0);
    assert_eq!(run(&mut queue, Duration::ZERO)[0].1, ms(12));
}

#[test]
fn a_held_request_goes_on_when_released_or_when_its_time_is_up() {
    let held = |hold| Request {
        class: OpClass::Read,
        bytes: 1,
        hold: Some(hold),
    };
    let mut queue = Queue::new(profile(""));
    queue.offer(Duration::ZERO, held(ms(5000)), 0);
    queue.offer(Duration::ZERO, held(ms(1000)), 1);
    queue.offer(Duration::ZERO, read(1), 2);

    assert_eq!(
        queue.pop_due(Duration::ZERO).unwrap().job,
        2,
        "others pass by"
    );
    assert!(queue.pop_due(ms(999)).is_none());
    assert_eq!(queue.next_wake(), Some(ms(1000)));
    assert_eq!(queue.pop_due(ms(1000)).unwrap().job, 1);
    queue.release(ms(1500));
    let last = queue.pop_due(ms(1500)).unwrap();
    assert_eq!((last.job, last.timing.queued), (0, ms(1500)));
}

#[test]
fn a_new_profile_applies_to_what_waits() {
    let mut queue = Queue::new(profile("[read]\nmedian_ms = 1000\nmax_parallel = 1\n"));
    queue.offer(Duration::ZERO, read(1), 0);
    queue.offer(Duration::ZERO, read(1), 1);
    queue.retune(ms(10), profile("[read]\nmedian_ms = 5\nmax_parallel = 8\n"));
    let ends: Vec<_> = run(&mut queue, ms(10)).iter().map(|d| (d.0, d.1)).collect();
    assert_eq!(ends, [(1, ms(15)), (0, ms(1000))]);
}

#[test]
fn the_same_order_of_requests_gets_the_same_times() {
    let text = "seed = 3\n[read]\nmedian_ms = 2\np95_ms = 9\n\
                [read.tail]\nprobability = 0.05\nmin_ms = 100\nmax_ms = 900\nalpha = 1\n\
                [slow_periods]\nmean_normal_s = 0.1\nmean_slow_s = 0.05\ntail_factor = 5\n";
    let times = |text: &str| {
        let mut queue = Queue::new(profile(text));
        for n in 0..2000u64 {
            queue.offer(ms(n), read(10), n);
        }
        run(&mut queue, ms(2000))
            .iter()
            .map(|d| (d.0, d.2))
            .collect::<Vec<_>>()
    };
    assert_eq!(times(text), times(text));
    assert_ne!(times(text), times(&text.replace("seed = 3", "seed = 4")));
}

proptest! {
    #[test]
    fn every_request_comes_out_once_and_slots_are_never_exceeded(
        slots in 1usize..5,
        steps in prop::collection::vec((0u8..6, 0u64..400), 1..200),
    ) {
        let text = format!("[read]\nmedian_ms = 20\nsigma = 1\nmax_parallel = {slots}\n");
        let mut queue = Queue::new(profile(&text));
        let (mut now, mut next, mut busy, mut out) = (Duration::ZERO, 0u64, Vec::new(), Vec::new());
        for (what, n) in steps {
            match what {
                0..=2 => {
                    let hold = (what == 2).then(|| ms(n));
                    queue.offer(now, Request { class: OpClass::Read, bytes: n, hold }, next);
                    next += 1;
                }
                3 => now += ms(n),
                4 => queue.release(now),
                _ => if busy.pop().is_some() { queue.finish(now, OpClass::Read) },
            }
            while let Some(due) = queue.pop_due(now) {
                busy.push(());
                out.push(due.job);
            }
            prop_assert!(queue.depth().in_service <= slots);
        }
        out.extend(queue.drain().into_iter().map(|due| due.job));
        out.sort_unstable();
        prop_assert_eq!(out, (0..next).collect::<Vec<_>>());
    }
}
