use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;

const PUBLISHED: &str = include_str!("../../../../../docs/schema/bench-manifest.json");

/// A manifest in which every field that may be absent is there.
fn full() -> Manifest {
    let mut made = manifest("r", 1, 4, &[("open", &[5, 7]), ("write", &[50, 70])]);
    made.error = Some("a reason".into());
    made.status = Status::Fail;
    made.argv = vec!["forebay".into()];
    made.host.python = Some("3.11".into());
    made.host.torch = Some("2".into());
    made.host.cuda = Some("12".into());
    made.host.gpu = Some("one".into());
    made.fs.statfs.insert("block_bytes".into(), 4_096);
    made.dist.backend = Some("gloo".into());
    made.cache.resident_before_bytes = Some(0);
    made.cache.looked_at_bytes = Some(9);
    made.cache.cold = vec!["file data".into()];
    made.cache.not_cold = vec!["names".into()];
    made
}

/// Every path of an object's fields, with `*` for names that are free.
fn fields(value: &Value, schema: &Value, at: &str, out: &mut BTreeSet<(String, bool)>) {
    let known = &schema["properties"];
    match value {
        Value::Object(map) => {
            for (name, inner) in map {
                let path = format!("{at}.{name}");
                out.insert((path.clone(), known.get(name).is_some() || known.is_null()));
                let below = known.get(name).unwrap_or(&schema["additionalProperties"]);
                fields(inner, below, &path, out);
            }
        }
        Value::Array(items) => {
            for item in items {
                fields(item, &schema["items"], at, out);
            }
        }
        _ => {}
    }
}

#[test]
fn the_published_schema_has_the_fields_that_are_written() {
    let schema: Value = serde_json::from_str(PUBLISHED).expect("the schema is JSON");
    let written = serde_json::to_value(full()).expect("a manifest is JSON");
    let mut found = BTreeSet::new();
    fields(&written, &schema, "", &mut found);
    let unknown: Vec<&String> = found
        .iter()
        .filter(|(_, known)| !known)
        .map(|(path, _)| path)
        .collect();
    assert!(unknown.is_empty(), "not in the schema: {unknown:?}");
    for part in ["host", "fs", "dist", "cache", "verify"] {
        let told = schema["properties"][part]["properties"].as_object();
        let told: Vec<&String> = told.expect("it has fields").keys().collect();
        let made: Vec<&String> = written[part]
            .as_object()
            .expect("an object")
            .keys()
            .collect();
        assert_eq!(
            BTreeSet::from_iter(told),
            BTreeSet::from_iter(made),
            "{part}"
        );
    }
    assert_eq!(schema["properties"]["schema"]["const"], SCHEMA);
}

#[test]
fn a_manifest_comes_back_as_it_was_written() {
    let made = full();
    let text = serde_json::to_vec(&made).expect("it is written");
    assert_eq!(Manifest::read(&text).expect("it is read"), made);
}

#[test]
fn what_is_unknown_is_refused_by_name() {
    let mut other = serde_json::to_value(full()).expect("it is JSON");
    other["schema"] = json!(2);
    other["colour"] = json!("red");
    let read = |value: &Value| Manifest::read(value.to_string().as_bytes());
    let error = read(&other).expect_err("another version").to_string();
    assert_eq!(
        error,
        "manifest schema 2 is not known: this version reads schema 1"
    );
    other["schema"] = json!(1);
    let error = read(&other).expect_err("an unknown field");
    let cause = std::error::Error::source(&error).expect("it has a cause");
    assert!(cause.to_string().contains("`colour`"), "{cause}");
}

#[test]
fn figures_that_contradict_each_other_are_refused() {
    let broken: [Case; 7] = [
        ("`dist.rank` must be below", |one| one.dist.rank = 4),
        ("at most 1048576", |one| one.dist.world_size = u32::MAX),
        ("`verify.bad` must be at most", |one| one.verify.bad = 1),
        ("`status` must be `fail`", |one| {
            one.status = Status::Pass;
            one.verify = Verify { checked: 2, bad: 1 };
        }),
        ("`count` must be", |one| {
            one.timing.get_mut("open").expect("it is there").count = 3;
        }),
        ("`iteration` must add up", |one| {
            one.timing.get_mut("open").expect("it is there").iteration = vec![u64::MAX, 4];
        }),
        ("names 2 iterations of 0", |one| one.iterations.clear()),
    ];
    for (words, break_it) in broken {
        let mut made = full();
        break_it(&mut made);
        let error = made.check().expect_err(words).to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn percentiles_are_values_that_were_measured() {
    let timing = Timing::from_samples(&[40, 10, 30, 20]);
    assert_eq!((timing.min, timing.p50, timing.p90), (10, 20, 40));
    assert_eq!((timing.p99, timing.p999, timing.max), (40, 40, 40));
    assert_eq!((timing.mean, timing.count), (25.0, 4));
    let empty = Timing::from_samples(&[]);
    assert_eq!((empty.count, empty.mean, empty.p999), (0, 0.0, 0));
    let thousand: Vec<u64> = (1..=1_000).collect();
    let timing = Timing::from_samples(&thousand);
    assert_eq!((timing.p50, timing.p99, timing.p999), (500, 990, 999));
}

proptest! {
    #[test]
    fn samples_keep_their_iterations(iterations in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..5), 0..6)) {
        let timing = Timing::from_iterations(&iterations);
        let again: Vec<Vec<u64>> = timing.by_iteration().map(<[u64]>::to_vec).collect();
        prop_assert_eq!(again, iterations);
    }

    #[test]
    fn a_percentile_leaves_no_more_than_its_share_above(samples in prop::collection::vec(0u64..50, 1..300)) {
        let timing = Timing::from_samples(&samples);
        for (share, value) in [(0.5, timing.p50), (0.9, timing.p90), (0.99, timing.p99), (0.999, timing.p999)] {
            let at_most = samples.iter().filter(|one| **one <= value).count() as f64;
            let below = samples.iter().filter(|one| **one < value).count() as f64;
            let n = samples.len() as f64;
            prop_assert!(at_most >= share * n && below < share * n + 1e-9);
        }
    }

    #[test]
    fn hostile_text_never_panics(text in "\\PC{0,200}", cut in 0usize..900) {
        let _ = Manifest::read(text.as_bytes());
        let whole = serde_json::to_string(&full()).expect("it is written");
        let _ = Manifest::read(&whole.as_bytes()[..cut.min(whole.len())]);
    }
}
