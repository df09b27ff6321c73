//! A study from its records: factors, refusals, stages.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::record::{AllReduce, Iteration, Phase, Record, Timing};
use crate::stats::{BootstrapPlan, Sorted, Statistic, ratio_interval};
use crate::testing;

/// A file of one rank: a manifest of the run, and the records.
fn file(kind: &str, run: &str, inputs: serde_json::Value, records: &[Record]) -> Vec<u8> {
    let mut manifest = testing::manifest();
    manifest.inputs = inputs.as_object().cloned().unwrap_or_default();
    manifest.inputs.insert("kind".into(), json!(kind));
    manifest.inputs.insert("run".into(), json!(run));
    let mut lines = Vec::new();
    let manifest = Record::Manifest(manifest);
    for record in std::iter::once(&manifest).chain(records) {
        record.write_line(&mut lines).expect("the record is valid");
    }
    lines
}

fn study(files: &[Vec<u8>]) -> Study {
    let mut reader = StudyReader::default();
    for file in files {
        reader.read(file.as_slice()).expect("the file is sound");
    }
    reader.finish().expect("it holds something")
}

fn reduced(phase: Phase, round: u32, iteration: u64, rank: u32, seconds: f64) -> Record {
    Record::AllReduce(AllReduce {
        tier: "lustre".into(),
        phase,
        round,
        iteration,
        rank,
        message_bytes: 76_000,
        seconds,
        wait_s: (phase == Phase::Loaded).then_some(0.2),
        read_bytes: Some(1_000),
    })
}

/// Two rounds of `n` all-reduces a phase on one rank, `scale` times as long with I/O.
fn rank(rank: u32, n: u64, scale: f64) -> Vec<Record> {
    let mut records = Vec::new();
    for round in 0..2 {
        for i in 0..n {
            let seconds = 0.010 + 1e-5 * i as f64;
            records.push(reduced(Phase::Baseline, round, i, rank, seconds));
            records.push(reduced(Phase::Loaded, round, i, rank, scale * seconds));
        }
    }
    records
}

fn turns(rounds: &[&[f64]]) -> Turns {
    Turns::new(rounds.iter().map(|round| round.to_vec()).collect())
}

#[test]
fn the_rank_that_came_last_to_an_iteration_counts_and_ranks_are_one_run() {
    let inputs = json!({"window_s": 0.1});
    let files = [
        // This one waited for the other.
        file("allreduce", "a", inputs.clone(), &rank(0, 60, 90.0)),
        file("allreduce", "a", inputs, &rank(1, 60, 30.0)),
    ];
    let summary = study(&files).summary();
    let [row] = summary.allreduce.as_slice() else {
        panic!("{summary:?}");
    };
    assert_eq!((row.ranks, row.rounds, row.incomplete), (2, 2, 0));
    assert_eq!((row.median.baseline_n, row.median.loaded_n), (120, 120));
    for factor in [&row.median, &row.p99, &row.max] {
        let ratio = factor.ratio.expect("the data supports it");
        assert!((ratio - 30.0).abs() < 1e-9, "{factor:?}");
        assert!(factor.low <= factor.ratio && factor.ratio <= factor.high);
    }
    assert_eq!((row.stalls, row.baseline_stalls), (120, 0));
    let waits = row.waits.expect("they were recorded");
    assert_eq!((waits.over_window, waits.times.n), (Some(240), 240));
    assert_eq!(row.read_bytes, 480_000);
}

#[test]
fn a_rank_that_died_leaves_its_iterations_out_and_says_so() {
    let mut short = rank(1, 60, 30.0);
    short.truncate(101);
    let files = [
        file("allreduce", "a", json!({}), &rank(0, 60, 1.0)),
        file("allreduce", "a", json!({}), &short),
    ];
    let summary = study(&files).summary();
    let row = &summary.allreduce[0];
    assert_eq!((row.median.baseline_n, row.median.loaded_n), (51, 50));
    assert_eq!(row.incomplete, 240 - 101);
    assert!(
        summary
            .remarks
            .iter()
            .any(|said| said.contains("139 iterations")),
        "{summary:?}"
    );
    let refused = row.p99.refused.as_deref().unwrap_or_default();
    assert!(refused.contains("needs 100 values"), "{refused}");
}

#[test]
fn a_factor_that_the_data_cannot_support_is_refused_with_its_reason() {
    let steady: Vec<f64> = (0..20).map(|i| 1.0 + 0.001 * f64::from(i)).collect();
    let slower: Vec<f64> = steady.iter().map(|value| 3.0 * value).collect();
    let few = Factor::by_median(&turns(&[&steady[..9]]), &turns(&[&steady]));
    assert!(few.ratio.is_none() && few.refused.is_some_and(|why| why.contains("needs 10")));
    let uneven = Factor::by_max(&turns(&[&steady]), &turns(&[&steady, &steady]));
    assert!(
        uneven
            .refused
            .is_some_and(|why| why.contains("40 against 20"))
    );
    let drifted = turns(&[&steady, &slower]);
    for factor in [Factor::by_median, Factor::by_max, Factor::worst] {
        let refused = factor(&drifted, &drifted);
        assert!(refused.ratio.is_none(), "{refused:?}");
        assert!(
            refused
                .refused
                .is_some_and(|why| why.contains("changed 3.0 times"))
        );
    }
    let none = Factor::by_median(&Turns::default(), &turns(&[&steady]));
    assert!(none.ratio.is_none() && none.refused.is_some());
}

proptest! {
    #[test]
    fn factors_are_what_their_definitions_say(
        base in prop::collection::vec(0.5..1.0f64, 10..60),
        scale in 0.1..200.0f64,
    ) {
        let loaded: Vec<f64> = base.iter().map(|value| value * scale).collect();
        let (under, over) = (turns(&[&base]), turns(&[&loaded]));
        let near = |found: Option<f64>, wanted: f64| {
            found.is_some_and(|found| (found - wanted).abs() <= 1e-9 * wanted)
        };
        prop_assert!(near(Factor::by_median(&under, &over).ratio, scale));
        prop_assert!(near(Factor::by_max(&under, &over).ratio, scale));
        let median = Sorted::new(base.clone()).expect("not empty").median();
        let most = loaded.iter().copied().fold(0.0, f64::max);
        prop_assert!(near(Factor::worst(&under, &over).ratio, most / median));
        // Of no I/O beside itself nothing is made.
        prop_assert!(near(Factor::by_median(&under, &under).ratio, 1.0));
    }

    #[test]
    fn a_resampled_p99_is_the_quantile_of_what_was_drawn(value in 0.1..10.0f64, n in 1usize..300) {
        // Values that are all equal have one quantile, however they are drawn.
        let values = vec![value; n];
        let plan = BootstrapPlan { resamples: 20, ..BootstrapPlan::default() };
        let found = ratio_interval(&values, &[1.0], Statistic::P99, &plan).expect("positive");
        prop_assert!((found.low - value).abs() < 1e-12 && (found.high - value).abs() < 1e-12);
    }

    #[test]
    fn shares_of_the_penalty_add_up(waits in prop::collection::vec(0.0..2.0f64, 3..80)) {
        let steps: Vec<Record> = waits
            .iter()
            .zip(0..)
            .map(|(wait, iteration)| step("tier", iteration, *wait, 0.1))
            .collect();
        let summary = study(&[file("train", "t", json!({}), &steps)]).summary();
        let stages = &summary.training[0].stages;
        let sum: f64 = stages.iter().filter_map(|stage| stage.share_of_excess).sum();
        let excess: f64 = stages.iter().map(|stage| stage.excess_s).sum();
        prop_assert!(excess < 1e-9 || (sum - 1.0).abs() < 1e-9, "{sum}");
    }
}

fn step(path: &str, iteration: u64, wait_s: f64, backward_s: f64) -> Record {
    Record::Iteration(Iteration {
        path: path.into(),
        epoch: 1,
        timing: Timing {
            iteration,
            rank: 0,
            wait_s,
            h2d_s: Some(0.01),
            forward_s: Some(0.02),
            backward_s: Some(backward_s),
            optimizer_s: Some(0.001),
            answered: None,
            total_s: wait_s + 0.031 + backward_s + 0.002,
        },
    })
}

#[test]
fn the_stages_of_training_carry_their_share_and_stand_against_no_io() {
    let mut records = Vec::new();
    for i in 0..20 {
        records.push(step(NO_IO, i, 0.0, 0.1));
        // One wait of 10 s and one all-reduce of 1.1 s stand out.
        let (wait, backward) = (
            if i == 3 { 10.0 } else { 0.01 },
            if i == 5 { 1.1 } else { 0.1 },
        );
        records.push(step("lustre", i, wait, backward));
    }
    let summary = study(&[file("train", "t", json!({"batch": 64}), &records)]).summary();
    let row = summary
        .training
        .iter()
        .find(|row| row.path == "lustre")
        .expect("it was measured");
    let stage = |name: &str| {
        row.stages
            .iter()
            .find(|stage| stage.stage == name)
            .expect(name)
    };
    let (wait, backward) = (stage(STAGES[0]), stage(STAGES[3]));
    assert!((wait.excess_s - 9.99).abs() < 1e-9 && (backward.excess_s - 1.0).abs() < 1e-9);
    let share = wait.share_of_excess.expect("there is excess");
    assert!((share - 9.99 / 10.99).abs() < 1e-6, "{share}");
    assert_eq!(
        row.backward_median.as_ref().and_then(|factor| factor.ratio),
        Some(1.0)
    );
    let longest = row
        .backward_max
        .as_ref()
        .and_then(|factor| factor.ratio)
        .expect("supported");
    assert!((longest - 11.0).abs() < 1e-9, "{longest}");
    let rate = row.samples_per_s.expect("the batch is known");
    assert!((rate - 64.0 * 20.0 / row.wall_s).abs() < 1e-6);
    assert_eq!(row.waits.over_window, Some(1));
}

#[test]
fn files_without_measurements_are_said_and_two_of_one_rank_refused() {
    let empty = file("allreduce", "b", json!({}), &[]);
    let summary = study(&[
        file("allreduce", "a", json!({}), &rank(0, 12, 1.0)),
        empty.clone(),
    ])
    .summary();
    assert!(
        summary.remarks.iter().any(|said| said.contains("`b`")),
        "{summary:?}"
    );
    let mut reader = StudyReader::default();
    reader
        .read(empty.as_slice())
        .expect("a manifest is enough to begin");
    assert!(reader.finish().is_err());
    let twice = file("allreduce", "a", json!({}), &rank(0, 12, 1.0));
    let mut reader = StudyReader::default();
    reader.read(twice.as_slice()).expect("once");
    let error = reader.read(twice.as_slice()).expect_err("twice");
    assert!(error.to_string().contains("a second time"), "{error}");
    assert!(StudyReader::default().read(&b"\n\n"[..]).is_err());
    assert!(StudyReader::default().finish().is_err());
}

#[test]
fn a_page_is_self_contained_well_formed_and_has_the_papers_numbers() {
    let hostile = vec![step("<b>\"&tier", 0, 0.5, 0.2), step(NO_IO, 0, 0.0, 0.1)];
    let study = study(&[
        file("allreduce", "a", json!({}), &rank(0, 60, 30.0)),
        file("train", "t", json!({}), &hostile),
    ]);
    let options = crate::report::fabric::FabricReportOptions {
        not_shown: vec!["no <Slingshot>".into()],
        ..Default::default()
    };
    let page = crate::report::fabric::render(&study, &options);
    let body = page.replacen("<!DOCTYPE html>", "", 1);
    roxmltree::Document::parse(&body).expect("well-formed");
    for wanted in [
        "145.0×",
        "30.0×",
        "11\u{202F}844 s",
        "&lt;Slingshot&gt;",
        "&lt;b&gt;",
    ] {
        assert!(page.contains(wanted), "{wanted}");
    }
    assert!(!page.contains("<b>") && !page.contains("http://") && !page.contains("src="));
    let text = crate::table::fabric(&study.summary());
    assert!(
        text.contains("lustre") && text.contains("note: no factor of backward"),
        "{text}"
    );
}
