use proptest::prelude::*;

use super::*;
use crate::random::Random;

#[test]
fn changes_are_those_that_otava_finds() {
    let golden: serde_json::Value =
        serde_json::from_str(include_str!("golden.json")).expect("it is JSON");
    let all = golden["series"].as_array().expect("a list");
    assert!(all.len() >= 40);
    for one in all {
        let numbers = |name: &str| one[name].as_array().expect("a list").iter();
        let values: Vec<f64> = numbers("values")
            .filter_map(|value| value.as_f64())
            .collect();
        let wanted: Vec<u64> = numbers("points")
            .filter_map(|value| value.as_u64())
            .collect();
        let options = DivisiveOptions {
            least_effect: one["effect"].as_f64().expect("a number"),
            ..DivisiveOptions::default()
        };
        let points = change_points(&values, &options);
        let found: Vec<u64> = points.iter().map(|point| point.index as u64).collect();
        assert_eq!(found, wanted, "{one}");
    }
}

/// Runs of which those from `from` to `to` take `factor` times as long in `read`.
fn nightly(n: usize, (from, to): (usize, usize), factor: f64) -> Vec<SuiteRun> {
    let mut random = Random::new(5);
    let mut runs: Vec<SuiteRun> = (0..n)
        .map(|i| {
            let slow = if (from..to).contains(&i) { factor } else { 1.0 };
            let read = (1e6 * slow * (1.0 + 0.1 * random.unit())) as u64;
            let mut made = manifest(
                &format!("night-{i:03}"),
                0,
                1,
                &[("read", &[read]), ("open", &[7])],
            );
            for iteration in &mut made.iterations {
                iteration.start_unix_ns = 1 + i as u64;
            }
            SuiteRun::new(vec![made]).expect("a run")
        })
        .collect();
    // A folder is read in any order.
    runs.reverse();
    runs
}

#[test]
fn the_night_of_the_regression_and_that_of_the_fix_are_named() {
    let (found, failed) = history(&nightly(60, (30, 42), 2.3), &HistoryOptions::default());
    assert_eq!(failed, 0);
    let read = found
        .iter()
        .find(|one| one.op == "read")
        .expect("it is there");
    let names: Vec<&str> = read.changes.iter().map(|one| one.run_id.as_str()).collect();
    assert_eq!(names, ["night-030", "night-042"]);
    assert!((1.2..1.4).contains(&read.changes[0].relative));
    assert!((-0.6..-0.5).contains(&read.changes[1].relative));
    let open = found
        .iter()
        .find(|one| one.op == "open")
        .expect("it is there");
    assert!(open.changes.is_empty());
    let text = crate::table::history(&found, 1);
    assert!(
        text.contains("night-030") && text.contains("1 run failed"),
        "{text}"
    );
}

#[test]
fn a_change_below_the_least_effect_is_dropped() {
    let mut options = HistoryOptions::default();
    options.divisive.least_effect = 2.0;
    let (found, _) = history(&nightly(60, (30, 60), 2.3), &options);
    assert!(found.iter().all(|one| one.changes.is_empty()));
}

#[test]
fn runs_on_another_file_system_are_a_series_of_their_own() {
    let mut runs = nightly(20, (0, 0), 1.0);
    for run in runs.iter_mut().take(10) {
        let mut ranks = run.ranks().to_vec();
        ranks[0].fs.fstype = "nfs4".into();
        *run = SuiteRun::new(ranks).expect("it was a run");
    }
    let (found, _) = history(&runs, &HistoryOptions::default());
    let lengths: Vec<usize> = found
        .iter()
        .filter(|one| one.op == "read")
        .map(|one| one.runs.len())
        .collect();
    assert_eq!(lengths, [10, 10]);
}

#[test]
fn series_too_short_or_without_spread_are_no_trouble() {
    let options = DivisiveOptions::default();
    for series in [
        &[][..],
        &[1.0],
        &[1.0, 2.0],
        &[3.0; 70],
        &[f64::NAN; 9],
        &[0.0, f64::INFINITY, 1.0, 2.0],
    ] {
        let _ = change_points(series, &options);
    }
    let step: Vec<f64> = (0..40).map(|i| if i < 20 { 1.0 } else { 2.0 }).collect();
    let found = change_points(&step, &options);
    assert_eq!((found.len(), found[0].index, found[0].p), (1, 20, 0.0));
}

proptest! {
    #[test]
    fn a_scaled_series_has_the_same_changes(seed: u64, scale in 0.5..8.0f64, at in 15usize..45) {
        let mut random = Random::new(seed);
        let series: Vec<f64> = (0..60).map(|i| if i < at { 1.0 } else { 1.5 } + 0.05 * random.unit()).collect();
        let scaled: Vec<f64> = series.iter().map(|value| value * scale).collect();
        let places = |series: &[f64]| -> Vec<usize> {
            change_points(series, &DivisiveOptions::default()).iter().map(|point| point.index).collect()
        };
        prop_assert_eq!(places(&series), places(&scaled));
        prop_assert_eq!(places(&series), vec![at]);
    }
}
