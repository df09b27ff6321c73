use super::*;

fn two_ranks() -> SuiteRun {
    let fast = manifest(
        "r",
        0,
        2,
        &[("open", &[10, 20]), (BARRIER_WAIT, &[90, 180])],
    );
    let slow = manifest("r", 1, 2, &[("open", &[100, 200]), (BARRIER_WAIT, &[1, 1])]);
    SuiteRun::new(vec![slow, fast]).expect("two ranks of one run")
}

#[test]
fn the_straggler_of_each_iteration_is_shown_beside_the_mean() {
    let summary = RunSummary::of(&two_ranks());
    let names: Vec<&str> = summary.ops.iter().map(|op| op.op.as_str()).collect();
    assert_eq!(names, [WALL, BARRIER_WAIT, "open"]);
    let open = &summary.ops[2];
    assert_eq!(open.straggler_ns, [100.0, 200.0]);
    assert_eq!(open.mean_over_ranks_ns, [55.0, 110.0]);
    assert_eq!((open.count, open.min_ns, open.max_ns), (4, 10, 200));
    assert_eq!((open.p50_ns, open.p99_ns), (Some(20), Some(200)));
    assert_eq!(
        (open.slowest_rank, open.slowest_host.as_str()),
        (1, "node1")
    );
    assert!((open.skew - 150.0 / 82.5).abs() < 1e-12);
    assert_eq!(open.mean_ns, 82.5);
}

#[test]
fn rates_are_of_all_ranks_until_the_last_is_done() {
    let summary = RunSummary::of(&two_ranks());
    assert_eq!(summary.first_done_ns, [1_000.0, 1_000.0]);
    assert_eq!(summary.last_done_ns, [1_010.0, 1_010.0]);
    assert_eq!(summary.bytes_per_s, Some(8_192.0 / 1_010.0 * 1e9));
    assert_eq!(
        (summary.iterations, summary.warmups, summary.hosts),
        (2, 1, 2)
    );
}

#[test]
fn warm_ups_count_in_no_statistic() {
    let mut one = manifest("r", 0, 1, &[("open", &[10])]);
    one.iterations[0].wall_ns = 1_000_000;
    let run = SuiteRun::new(vec![one]).expect("a run");
    assert_eq!(run.values(WALL, Metric::Max), [1_000.0]);
    assert_eq!(RunSummary::of(&run).last_done_ns, [1_000.0]);
}

#[test]
fn a_rank_that_failed_or_never_came_fails_the_run() {
    let mut dead = manifest("r", 0, 2, &[]);
    dead.status = Status::Fail;
    dead.error = Some("killed by signal 9".into());
    let run = SuiteRun::new(vec![dead]).expect("one of two ranks");
    let summary = RunSummary::of(&run);
    assert_eq!((summary.status, summary.missing_ranks), (Status::Fail, 1));
    assert_eq!(summary.faults[0].error, "killed by signal 9");
    assert_eq!(run.fault().as_deref(), Some("rank 0: killed by signal 9"));
    let text = crate::table::suite_run(&summary);
    assert!(text.contains("FAIL") && text.contains("rank 0 failed: killed by signal 9"));
}

#[test]
fn manifests_of_two_runs_are_not_put_together() {
    let (one, other) = (manifest("r", 0, 2, &[]), manifest("s", 1, 2, &[]));
    let error = SuiteRun::new(vec![one.clone(), other]).expect_err("two runs");
    assert_eq!(
        error.to_string(),
        "rank 1 has `run_id` `s`, the first rank has `r`: these are not of one run"
    );
    let error = SuiteRun::new(vec![one.clone(), one]).expect_err("one rank twice");
    assert_eq!(error.to_string(), "rank 0 of run `r` has two manifests");
    assert!(matches!(SuiteRun::new(Vec::new()), Err(SuiteError::NoRank)));
}

#[test]
fn a_program_that_kept_no_samples_keeps_its_percentiles() {
    let mut one = manifest("r", 0, 1, &[]);
    let told = Timing {
        samples: Vec::new(),
        iteration: Vec::new(),
        ..Timing::from_samples(&[1, 2, 3, 4])
    };
    one.timing.insert("read".into(), told);
    one.check().expect("no rule is broken");
    let summary = RunSummary::of(&SuiteRun::new(vec![one]).expect("a run"));
    let read = summary
        .ops
        .iter()
        .find(|op| op.op == "read")
        .expect("it is there");
    assert_eq!((read.count, read.p50_ns, read.max_ns), (4, Some(2), 4));
    assert_eq!(read.mean_ns, 2.5);
}

#[test]
fn metrics_have_names_that_are_read_back() {
    for metric in Metric::ALL {
        assert_eq!(metric.name().parse(), Ok(metric));
        let json = serde_json::to_value(metric).expect("it is JSON");
        assert_eq!(json, metric.name());
    }
    assert!("p42".parse::<Metric>().is_err());
}

#[test]
fn a_reduced_run_keeps_its_values() {
    let run = two_ranks();
    for metric in Metric::ALL {
        let reduced = run.clone().reduced(metric);
        for op in run.ops() {
            let rounded: Vec<f64> = run.values(op, metric).iter().map(|ns| ns.round()).collect();
            assert_eq!(reduced.values(op, metric), rounded, "{op} by {metric}");
        }
        assert_eq!((reduced.status(), reduced.ops()), (run.status(), run.ops()));
    }
}
