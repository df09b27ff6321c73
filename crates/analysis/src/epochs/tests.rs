//! The words and numbers that a summary gives for runs small enough to reckon by hand.

use super::*;
use crate::Record;
use crate::table;
use crate::testing::{end, epoch, iteration, run, two_paths};

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() < 1e-9 * b.abs().max(1.0)
}

#[test]
fn an_epoch_is_summed_up_as_defined() {
    let waits = [0.010, 0.020, 0.030, 0.150, 2.000];
    let run = run(&epoch("direct", 1, 5, &waits));
    let rows = run.epochs(&Window::Given(0.150));
    let row = &rows[0];
    assert_eq!(
        (row.path.as_str(), row.epoch, row.iterations, row.n),
        ("direct", 1, 5, 5)
    );
    assert!(near(row.wait_median_ms, 30.0) && near(row.wait_max_ms, 2_000.0));
    assert!(near(row.wait_mean_ms, 442.0) && near(row.wait_p95_ms, 1_630.0));
    assert!(near(row.wait_p99_ms, 1_926.0), "{}", row.wait_p99_ms);
    // A wait that equals the window is not over it.
    assert_eq!((row.over_window, row.over_window_share), (1, 0.2));
    assert_eq!(row.over_1s_share, 0.2);
    assert!(near(row.wait_excess_s, 0.120 + 1.970));
    assert!(near(row.wall_s, 3.21) && row.wall_recorded);
    assert_eq!(row.origin_bytes_over_asked, Some(1.18));
}

#[test]
fn the_window_of_an_epoch_is_its_own_median_of_computing() {
    let compute = [0.1, 0.3, 0.2];
    let steps: Vec<_> = (0..3)
        .map(|i| iteration("p", 1, i, 0, (0.25, 0.25 + compute[i as usize])))
        .collect();
    let run = run(&steps);
    let row = &run.epochs(&Window::OwnEpoch)[0];
    assert!(near(row.window_ms, 200.0));
    assert_eq!(row.over_window, 3);
    assert!(!row.wall_recorded);
}

#[test]
fn a_speed_up_has_its_baseline_and_both_n() {
    let run = run(&two_paths("forebay", "direct", 10));
    let summary = run.summary(&Window::OwnEpoch, None);
    assert_eq!(run.baseline(None), Some("direct"), "by name, not by order");
    assert_eq!(summary.speedups.len(), 2);
    let first = &summary.speedups[0];
    assert_eq!(
        (first.path.as_str(), first.baseline.as_str()),
        ("forebay", "direct")
    );
    assert_eq!((first.n, first.baseline_n), (10, 10));
    assert!(near(first.ratio, first.baseline_wall_s / first.wall_s));
    let found = first.iteration_ratio.expect("both sides have iterations");
    assert!(found.low <= found.ratio && found.ratio <= found.high);
    assert!(
        near(found.ratio, first.ratio),
        "wall times of this run are sums of iterations"
    );
    let other = run.summary(&Window::OwnEpoch, Some("forebay"));
    assert!(near(
        other.speedup["epoch1"] * summary.speedup["epoch1"],
        1.0
    ));
}

#[test]
fn no_ratio_is_made_without_a_baseline_of_equal_work() {
    let alone = run(&epoch("forebay", 1, 4, &[0.1]));
    let summary = alone.summary(&Window::OwnEpoch, None);
    assert!(summary.speedups.is_empty() && summary.speedup.is_empty());
    assert_eq!(
        summary.not_compared,
        ["no speed-up: the run has only one path, so there is no baseline"]
    );

    let records = [
        epoch("direct", 1, 4, &[0.1]),
        epoch("forebay", 1, 3, &[0.1]),
        epoch("forebay", 2, 4, &[0.1]),
    ];
    let summary = run(&records.concat()).summary(&Window::OwnEpoch, None);
    assert!(summary.speedups.is_empty());
    assert!(summary.not_compared[0].contains("3 iterations on 1 ranks are not the work of 4 on 1"));
    assert!(summary.not_compared[1].contains("the baseline `direct` has no such epoch"));

    let unknown = run(&two_paths("a", "b", 4)).summary(&Window::OwnEpoch, Some("c"));
    assert!(unknown.speedups.is_empty());
    assert!(unknown.not_compared[0].contains("against path `c`"));
}

#[test]
fn three_paths_are_each_compared_with_the_baseline() {
    let records = [
        epoch("a", 1, 4, &[1.0]),
        epoch("b", 1, 4, &[0.4]),
        epoch("c", 1, 4, &[0.0]),
    ];
    let summary = run(&records.concat()).summary(&Window::OwnEpoch, None);
    let ratios: Vec<f64> = summary.speedups.iter().map(|one| one.ratio).collect();
    assert!(near(ratios[0], 2.0) && near(ratios[1], 6.0));
    assert!(
        summary.speedup.is_empty(),
        "`epoch1` would not say which path it is of"
    );
}

#[test]
fn the_json_has_the_fields_that_scripts_read() {
    let run = run(&two_paths("direct", "forebay", 5));
    let json = serde_json::to_value(run.summary(&Window::OwnEpoch, None)).expect("plain data");
    let first = &json["epochs"][0];
    for field in [
        "wall_s",
        "iterations",
        "n",
        "wait_median_ms",
        "wait_p95_ms",
        "wait_p99_ms",
        "wait_max_ms",
        "wait_mean_ms",
        "over_window_share",
    ] {
        assert!(first[field].is_number(), "{field}");
    }
    assert_eq!(
        (first["path"].as_str(), first["epoch"].as_u64()),
        (Some("direct"), Some(1))
    );
    assert!(json["speedup"]["epoch1"].is_number() && json["speedup"]["epoch2"].is_number());
    assert_eq!(json["origin_bytes_over_asked"]["forebay"], 1.18);
}

#[test]
fn the_table_is_as_wide_as_its_words_and_safe_to_print() {
    let hostile = "evil\u{1b}[31m\nline";
    let mut records = two_paths("direct", hostile, 4);
    records.push(iteration("direct", 3, 0, 0, (0.0, 1.0)));
    records.push(end("direct", 3, 1.0));
    let text = table::epochs(&run(&records).summary(&Window::OwnEpoch, None));
    assert!(!text.contains('\u{1b}'));
    let rows: Vec<&str> = text.lines().collect();
    assert!(rows[0].starts_with("path") && rows[0].contains("over window"));
    assert_eq!(
        rows[2].split_whitespace().take(2).collect::<Vec<_>>(),
        ["direct", "1"]
    );
    assert!(rows[2].ends_with('4') && rows[0].chars().count() == rows[2].chars().count());
    assert_eq!(
        rows.iter().filter(|row| row.starts_with("epoch ")).count(),
        2
    );
    assert!(text.contains("n 4 and 4"));
}

#[test]
fn who_answered_is_told_where_every_iteration_says_so() {
    let answered = |number: u64, late_s: f64, lead_s: Option<f64>| {
        let Record::Iteration(mut one) = iteration("forebay", 1, number, 0, (0.1, 0.3)) else {
            unreachable!("an iteration")
        };
        one.timing.answered = Some(Answered {
            local_bytes: 60,
            peer_bytes: 0,
            staged_bytes: if late_s > 0.0 { 40 } else { 0 },
            direct_bytes: 0,
            late_s,
            lead_s,
        });
        Record::Iteration(one)
    };
    let mut records = vec![answered(0, 0.05, None), answered(1, 0.0, Some(2.0))];
    let summary = run(&records).summary(&Window::OwnEpoch, None);
    let answers = summary.epochs[0].answers.expect("all of it was recorded");
    assert_eq!(
        (
            answers.local_share,
            answers.staged_share,
            answers.direct_share
        ),
        (0.75, 0.25, 0.0)
    );
    assert_eq!((answers.late, answers.late_max_ms), (1, 50.0));
    assert_eq!((answers.ahead, answers.lead_median_ms), (1, Some(2_000.0)));
    let text = table::epochs(&summary);
    assert!(text.contains("from the node 75.00 %"), "{text}");
    assert!(
        text.contains("1 of 2 batches late, by 50.0 ms at most; 1 staged ahead"),
        "{text}"
    );

    records.push(iteration("forebay", 1, 2, 0, (0.1, 0.3)));
    let summary = run(&records).summary(&Window::OwnEpoch, None);
    assert_eq!(
        summary.epochs[0].answers, None,
        "of one iteration it is not known"
    );
}
