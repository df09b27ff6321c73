use proptest::prelude::*;

use super::*;
use crate::stats::BootstrapPlan;
use crate::tiers::{Class, ClassTable};

const READ: &str = "GFS-READ";
const META: &str = "GFS-META";

/// Cases of one epoch: a cache rate and the times of each process.
fn measured(cases: &[(f64, &[[f64; 2]])]) -> Measured {
    let process = |(place, seconds): (usize, &[f64; 2])| ProcessTimes {
        process: format!("p{place}"),
        seconds: seconds.to_vec(),
    };
    let case = |(rate, processes): &(f64, &[[f64; 2]])| Case {
        cache_rate: Some(*rate),
        epochs: vec![EpochTimes {
            epoch: Some(1),
            processes: processes.iter().enumerate().map(process).collect(),
        }],
    };
    let classes = vec![Class::GFS_READ, Class::GFS_META];
    Measured::new(classes, cases.iter().map(case).collect()).expect("sound")
}

fn gains(measured: &Measured, read: f64, meta: f64) -> Gains {
    Gains::of(measured, &[(READ.into(), read), (META.into(), meta)]).expect("known classes")
}

fn near(found: f64, wanted: f64) {
    assert!(
        (found - wanted).abs() < 1e-6,
        "found {found}, wanted {wanted}"
    );
}

#[test]
fn gains_on_real_logs_are_the_golden_ones() {
    // Three of 24 logs of a real DLIO run: seconds of READ and META.
    let mut table = ClassTable::builder();
    let logs = [
        ("3116902-2110488", 5.751_378, 1.533_752),
        ("2110489", 5.152_266, 1.818_824),
        ("2111375", 3.373_284, 0.987_190),
    ];
    for (process, read, meta) in logs {
        table
            .add(process, None, &Class::GFS_READ, read)
            .expect("sound");
        table
            .add(process, None, &Class::GFS_META, meta)
            .expect("sound");
    }
    let table = table.finish();
    let measured = Measured::of_tables([(None, &table)]).expect("sound");

    let golden = [
        (0.0, 0.0, 7.285_130),
        (50.0, 0.0, 5.368_004),
        (100.0, 0.0, 4.409_441),
        (0.0, 50.0, 6.773_879),
        (0.0, 100.0, 6.518_254),
    ];
    for (read, meta, wanted) in golden {
        let found = measured.best(&gains(&measured, read, meta));
        assert_eq!(found.slowest[0].process, "3116902-2110488");
        near(found.seconds, wanted);
    }
}

#[test]
fn the_slowest_of_the_improved_is_reported_not_the_improved_slowest() {
    let measured = measured(&[(0.0, &[[1.0, 9.0], [6.0, 1.0]])]);

    let found = measured.best(&gains(&measured, 0.0, 200.0));

    // The process that was slowest falls to 4 s; the other one still takes 6 and a third.
    assert_eq!(found.slowest[0].process, "p1");
    near(found.seconds, 6.0 + 1.0 / 3.0);
    assert_eq!(found.slowest[0].next, Some(("p0".into(), 4.0)));
}

#[test]
fn a_gain_can_move_the_best_cache_rate() {
    // Metadata of the origin falls with the rate, reads of the cache grow with it.
    let cases: [(f64, &[[f64; 2]]); 3] = [
        (0.0, &[[1.0, 9.0]]),
        (50.0, &[[4.0, 4.0]]),
        (100.0, &[[9.0, 0.0]]),
    ];
    let measured = measured(&cases);

    assert_eq!(
        measured.best(&gains(&measured, 0.0, 0.0)).cache_rate,
        Some(50.0)
    );
    assert_eq!(
        measured.best(&gains(&measured, 0.0, 200.0)).cache_rate,
        Some(0.0)
    );
    assert_eq!(
        measured.best(&gains(&measured, 500.0, 0.0)).cache_rate,
        Some(100.0)
    );
}

#[test]
fn the_least_gain_meets_the_goal_and_a_little_less_does_not() {
    let measured = measured(&[(20.0, &[[6.0, 2.0], [5.0, 1.0]])]);
    let none = Gains::none(&measured);

    let LeastGain::Gain {
        percent,
        cache_rate,
    } = measured.least_gain(READ, 5.0, &none).expect("sound")
    else {
        panic!("a gain meets it");
    };
    // 6 * 100 / (100 + N) + 2 = 5.
    near(percent, 100.0);
    assert_eq!(cache_rate, Some(20.0));
    let met = measured.least_gain(READ, 8.0, &none).expect("sound");
    assert_eq!(
        met,
        LeastGain::Met {
            cache_rate: Some(20.0),
            seconds: 8.0
        }
    );
}

#[test]
fn a_goal_below_the_other_classes_is_unreachable() {
    let measured = measured(&[(0.0, &[[6.0, 2.0]]), (10.0, &[[6.0, 3.0]])]);
    let none = Gains::none(&measured);

    let found = measured.least_gain(READ, 1.9, &none).expect("sound");

    let wanted = LeastGain::Unreachable {
        limit_seconds: 2.0,
        cache_rate: Some(0.0),
    };
    assert_eq!(found, wanted);
    let classes = [READ.to_string(), META.to_string()];
    let axis = Axis {
        step: 10.0,
        to: 50.0,
    };
    let frontier = measured
        .frontier(&classes, 1.0, axis, &none)
        .expect("sound");
    assert!(
        frontier.points.is_empty() && frontier.marks.is_empty(),
        "{frontier:?}"
    );
    assert_eq!(
        frontier.limit_seconds, 0.0,
        "it is the grid that ends too early"
    );
}

#[test]
fn the_frontier_shows_the_least_cache_rate_of_each_combination() {
    let measured = measured(&[(0.0, &[[2.0, 6.0]]), (50.0, &[[3.0, 3.0]])]);
    let classes = [READ.to_string(), META.to_string()];
    let axis = Axis {
        step: 50.0,
        to: 200.0,
    };

    let found = measured
        .frontier(&classes, 4.0, axis, &Gains::none(&measured))
        .expect("sound");

    let points: Vec<_> = found
        .points
        .iter()
        .map(|point| (point.gains.clone(), point.cache_rate))
        .collect();
    let at = |read, meta, rate| (vec![read, meta], Some(rate));
    assert_eq!(
        points,
        [
            at(0.0, 200.0, 0.0),
            at(50.0, 50.0, 50.0),
            at(200.0, 0.0, 50.0)
        ]
    );
    // With metadata three times as fast the origin alone will do, and no cache is needed.
    assert!(
        found
            .marks
            .iter()
            .any(|mark| mark.gains == [50.0, 200.0] && mark.cache_rate == Some(0.0))
    );
}

#[test]
fn what_cannot_be_right_is_refused_by_name() {
    let one = measured(&[(0.0, &[[1.0, 1.0]])]);
    let none = Gains::none(&one);
    let named = |class: &str, gain| Gains::of(&one, &[(class.to_string(), gain)]);
    for gain in [-1.0, f64::NAN, f64::INFINITY, 2e6] {
        assert!(
            matches!(named(READ, gain), Err(WhatIfError::Gain { .. })),
            "{gain}"
        );
    }
    assert_eq!(
        named("GFS-WRITE", 1.0).unwrap_err().to_string(),
        "class `GFS-WRITE` is not in the measurements, which have: GFS-READ, GFS-META"
    );
    let twice = [(READ.to_string(), 1.0), (READ.to_string(), 2.0)];
    assert!(matches!(
        Gains::of(&one, &twice),
        Err(WhatIfError::ClassTwice(_))
    ));
    assert!(matches!(
        one.least_gain(READ, 0.0, &none),
        Err(WhatIfError::Goal(_))
    ));
    let classes = [READ.to_string(), META.to_string()];
    let fine = Axis {
        step: 0.001,
        to: 300.0,
    };
    assert!(matches!(
        one.frontier(&classes, 1.0, fine, &none),
        Err(WhatIfError::TooMany { .. })
    ));
    let zero = Axis {
        step: 0.0,
        to: 300.0,
    };
    assert!(matches!(
        one.frontier(&classes, 1.0, zero, &none),
        Err(WhatIfError::Axis { .. })
    ));

    let times = |seconds: f64, rate| Case {
        cache_rate: Some(rate),
        epochs: vec![EpochTimes {
            epoch: None,
            processes: vec![ProcessTimes {
                process: "p".into(),
                seconds: vec![seconds],
            }],
        }],
    };
    let new = |cases| Measured::new(vec![Class::GFS_READ], cases);
    assert!(
        matches!(new(vec![times(0.0, 5.0)]), Err(WhatIfError::Empty(_))),
        "no silent zero"
    );
    assert!(matches!(
        new(vec![times(-1.0, 5.0)]),
        Err(WhatIfError::Time { .. })
    ));
    assert!(matches!(
        new(vec![times(1.0, 105.0)]),
        Err(WhatIfError::Rate(_))
    ));
    assert!(matches!(
        new(vec![times(1.0, 5.0), times(2.0, 5.0)]),
        Err(WhatIfError::RateTwice(_))
    ));
    assert!(matches!(new(Vec::new()), Err(WhatIfError::Empty(_))));
}

#[test]
fn one_epoch_or_one_rate_can_be_asked_about() {
    let two = measured(&[(0.0, &[[1.0, 1.0]]), (50.0, &[[3.0, 3.0]])]);
    assert_eq!(two.clone().at_rate(50.0).expect("there").cases().len(), 1);
    assert_eq!(
        two.clone().at_rate(51.0).unwrap_err().to_string(),
        "cache rate 51 was not measured"
    );
    assert!(two.clone().at_epoch(1).is_ok());
    assert!(matches!(two.at_epoch(2), Err(WhatIfError::NotMeasured(_))));
}

#[test]
fn sensitivity_tells_how_sure_the_best_rate_is() {
    let close = measured(&[
        (0.0, &[[5.0, 0.0], [4.0, 0.0], [3.0, 0.0]]),
        (50.0, &[[4.9, 0.0], [4.2, 0.0], [3.0, 0.0]]),
    ]);
    let none = Gains::none(&close);
    let plan = BootstrapPlan::default();

    let found = close.sensitivity(&none, Some(4.5), &plan).expect("sound");

    assert_eq!(
        found,
        close.sensitivity(&none, Some(4.5), &plan).expect("sound"),
        "seeded"
    );
    assert_eq!(found.best_rates.len(), 2, "either may be the best");
    assert!(
        found.low_seconds < 4.9 && found.high_seconds <= 4.9,
        "{found:?}"
    );
    let share = found.goal_share.expect("a goal was given");
    assert!(share > 0.2 && share < 0.8, "{found:?}");
    let clear = measured(&[
        (0.0, &[[9.0, 0.0], [8.0, 0.0]]),
        (50.0, &[[1.0, 0.0], [2.0, 0.0]]),
    ]);
    let found = clear
        .sensitivity(&Gains::none(&clear), None, &plan)
        .expect("sound");
    assert_eq!(
        found.best_rates,
        [RateShare {
            cache_rate: Some(50.0),
            share: 1.0
        }]
    );
    assert!(
        clear
            .sensitivity(
                &none,
                None,
                &BootstrapPlan {
                    resamples: 0,
                    ..plan
                }
            )
            .is_err()
    );
}

fn some_cases() -> impl Strategy<Value = Vec<Vec<[f64; 2]>>> {
    let seconds = || 0.0..50.0f64;
    let process = (seconds(), seconds()).prop_map(|(read, meta)| [read + 0.001, meta]);
    prop::collection::vec(prop::collection::vec(process, 1..6), 1..4)
}

fn build(cases: &[Vec<[f64; 2]>]) -> Measured {
    let rates = (0..cases.len()).map(|place| 10.0 * place as f64);
    let cases: Vec<_> = rates.zip(cases.iter().map(Vec::as_slice)).collect();
    measured(&cases)
}

proptest! {
    #[test]
    fn gains_never_raise_a_time(cases in some_cases(), a in 0.0..500.0f64, b in 0.0..500.0f64, more in 0.0..500.0f64) {
        let measured = build(&cases);
        let (less, greater) = (gains(&measured, a, b), gains(&measured, a + more, b));
        for (before, after) in measured.estimates(&less).iter().zip(measured.estimates(&greater)) {
            prop_assert!(after.seconds <= before.seconds);
        }
        prop_assert!(measured.best(&greater).seconds <= measured.best(&less).seconds);
    }

    #[test]
    fn the_estimate_is_the_greatest_improved_total(cases in some_cases(), a in 0.0..500.0f64, b in 0.0..500.0f64) {
        let measured = build(&cases);
        for (case, found) in cases.iter().zip(measured.estimates(&gains(&measured, a, b))) {
            let total = |one: &[f64; 2]| one[0] * 100.0 / (100.0 + a) + one[1] * 100.0 / (100.0 + b);
            prop_assert_eq!(found.seconds, case.iter().map(total).fold(0.0, f64::max));
            let stack: f64 = found.slowest[0].stack.iter().sum();
            prop_assert!((stack - found.seconds).abs() < 1e-9);
        }
    }

    #[test]
    fn the_least_gain_is_least(cases in some_cases(), goal in 0.5..60.0f64) {
        let measured = build(&cases);
        let at = |gain: f64| measured.best(&gains(&measured, gain, 0.0)).seconds;
        match measured.least_gain(READ, goal, &Gains::none(&measured)).expect("sound") {
            LeastGain::Met { .. } => prop_assert!(at(0.0) <= goal),
            LeastGain::Gain { percent, .. } => {
                prop_assert!(at(percent) <= goal);
                prop_assert!(at(percent * (1.0 - 1e-9)) > goal);
            }
            LeastGain::Unreachable { .. } => prop_assert!(at(MAX_GAIN_PERCENT) > goal),
        }
    }

    #[test]
    fn marks_are_exactly_the_combinations_that_meet_the_goal(cases in some_cases(), goal in 0.5..60.0f64) {
        let measured = build(&cases);
        let classes = [READ.to_string(), META.to_string()];
        let axis = Axis { step: 60.0, to: 240.0 };
        let frontier = measured.frontier(&classes, goal, axis, &Gains::none(&measured)).expect("sound");
        for read in 0..5 {
            for meta in 0..5 {
                let pair = [60.0 * f64::from(read), 60.0 * f64::from(meta)];
                let estimates = measured.estimates(&gains(&measured, pair[0], pair[1]));
                let wanted = estimates.iter().find(|one| one.seconds <= goal).map(|one| one.cache_rate);
                let mark = frontier.marks.iter().find(|mark| mark.gains == pair);
                prop_assert_eq!(mark.map(|mark| mark.cache_rate), wanted);
                let covered = frontier.points.iter().any(|point| point.gains[0] <= pair[0] && point.gains[1] <= pair[1]);
                prop_assert_eq!(covered, wanted.is_some());
            }
        }
    }
}
