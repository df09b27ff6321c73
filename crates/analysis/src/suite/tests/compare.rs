use serde_json::json;

use super::*;
use crate::random::Random;

/// `n` runs with one iteration of `open` and `write` each, near the given times.
fn runs(n: u64, open: f64, write: f64, seed: u64) -> Vec<SuiteRun> {
    let mut random = Random::new(seed);
    (0..n)
        .map(|i| {
            let mut near = |ns: f64| (ns * (1.0 + 0.02 * random.unit())) as u64;
            let (open, write) = (near(open), near(write));
            run(
                &format!("r{seed}-{i}"),
                &[("open", &[open]), ("write", &[write])],
            )
        })
        .collect()
}

fn said<'a>(found: &'a Comparison, op: &str) -> &'a OpComparison {
    let ops = &found.groups[0].ops;
    ops.iter().find(|one| one.op == op).expect("it is there")
}

#[test]
fn one_operation_that_became_slower_is_a_regression_and_the_other_is_none() {
    let (base, slower) = (runs(8, 1e6, 5e6, 1), runs(8, 1.3e6, 5e6, 2));
    let found = compare(&base, &slower, &CompareOptions::default()).expect("alike");
    assert_eq!(found.verdict, Verdict::Regression);
    let open = said(&found, "open");
    assert_eq!(open.verdict, Verdict::Regression);
    assert!((1.25..1.35).contains(&open.ratio.expect("tested")));
    assert_eq!((open.base_n, open.candidate_n), (8, 8));
    assert_eq!(said(&found, "write").verdict, Verdict::NoChange);
    assert_eq!(found.groups[0].unit, Observed::Run);
    let text = crate::table::comparison(&found);
    assert!(text.contains("REGRESSION: metric max_rank"), "{text}");

    let found = compare(&slower, &base, &CompareOptions::default()).expect("alike");
    assert_eq!(said(&found, "open").verdict, Verdict::Improvement);
    assert_eq!(found.verdict, Verdict::Improvement);
}

#[test]
fn a_change_below_the_least_effect_is_no_regression() {
    let (base, slower) = (runs(10, 1e6, 5e6, 1), runs(10, 1.03e6, 5e6, 2));
    let found = compare(&base, &slower, &CompareOptions::default()).expect("alike");
    assert_eq!(said(&found, "open").verdict, Verdict::NoChange);
    let strict = CompareOptions {
        least_effect: 0.01,
        ..CompareOptions::default()
    };
    let found = compare(&base, &slower, &strict).expect("alike");
    assert_eq!(said(&found, "open").verdict, Verdict::Regression);
}

#[test]
fn wide_samples_are_inconclusive() {
    let wide = |seed| -> Vec<SuiteRun> {
        let mut random = Random::new(seed);
        (0..5)
            .map(|i| {
                run(
                    &format!("w{i}"),
                    &[("open", &[(1e6 * (1.0 + random.unit())) as u64])],
                )
            })
            .collect()
    };
    let found = compare(&wide(1), &wide(2), &CompareOptions::default()).expect("alike");
    assert_eq!(said(&found, "open").verdict, Verdict::Inconclusive);
}

#[test]
fn one_run_a_side_is_judged_by_its_iterations() {
    let base = [run("a", &[("open", &[100, 101, 102, 103, 104])])];
    let slow = [run("b", &[("open", &[140, 141, 142, 143, 144])])];
    let found = compare(&base, &slow, &CompareOptions::default()).expect("alike");
    assert_eq!(found.groups[0].unit, Observed::Iteration);
    assert_eq!(said(&found, "open").verdict, Verdict::Regression);
    assert!(crate::table::comparison(&found).contains("how runs differ"));
}

#[test]
fn waits_for_other_ranks_are_shown_and_not_judged() {
    let open: (&str, &[u64]) = ("open", &[1, 2, 3, 4, 5]);
    for op in [BARRIER_WAIT, GANG_START] {
        let base = [run("a", &[open, (op, &[1; 5])])];
        let slow = [run("b", &[open, (op, &[9; 5])])];
        let found = compare(&base, &slow, &CompareOptions::default()).expect("alike");
        let wait = said(&found, op);
        assert_eq!((wait.verdict, wait.candidate_ns), (Verdict::Untested, 9.0));
        assert!(wait.untested.is_some() && wait.p.is_none());
    }
}

#[test]
fn too_few_runs_are_refused() {
    let error = compare(
        &runs(4, 1e6, 1e6, 1),
        &runs(9, 1e6, 1e6, 2),
        &CompareOptions::default(),
    );
    assert_eq!(
        error.expect_err("4 runs").to_string(),
        "`create_files` has 4 runs on the base side and 9 on the candidate side: a verdict needs at least 5 on each"
    );
    let few = [run("a", &[("open", &[1, 2, 3])])];
    let error = compare(&few, &few, &CompareOptions::default()).expect_err("3 iterations");
    assert!(error.to_string().contains("3 iterations"), "{error}");
}

fn with(mut runs: Vec<SuiteRun>, change: impl Fn(&mut Manifest)) -> Vec<SuiteRun> {
    for run in &mut runs {
        let mut ranks = run.ranks().to_vec();
        ranks.iter_mut().for_each(&change);
        *run = SuiteRun::new(ranks).expect("it was a run");
    }
    runs
}

#[test]
fn unlike_runs_are_refused_by_name_unless_forced() {
    let base = runs(5, 1e6, 1e6, 1);
    let unlike: [Case; 5] = [
        ("`params.file_size` is `4096` against `8192`", |one| {
            one.params.insert("file_size".into(), json!(8_192));
        }),
        ("`fs.fstype` is `ext4` against `nfs4`", |one| {
            one.fs.fstype = "nfs4".into()
        }),
        ("`host.cores` is `2` against `64`", |one| {
            one.host.cores = 64
        }),
        ("`dist.world_size` is `1` against `2`", |one| {
            one.dist.world_size = 2
        }),
        ("`params.fsync` is absent against `\"file\"`", |one| {
            one.params.insert("fsync".into(), json!("file"));
        }),
    ];
    for (words, change) in unlike {
        let mut other = runs(5, 1e6, 1e6, 2);
        if words.contains("world_size") {
            let two = |i: usize| {
                let ranks =
                    (0..2).map(|rank| manifest(&format!("t{i}"), rank, 2, &[("open", &[9])]));
                SuiteRun::new(ranks.collect()).expect("two ranks")
            };
            other = (0..5).map(two).collect();
        } else {
            other = with(other, change);
        }
        let error = compare(&base, &other, &CompareOptions::default()).expect_err(words);
        assert!(error.to_string().contains(words), "{error}");
        let forced = CompareOptions {
            force: true,
            ..CompareOptions::default()
        };
        let found = compare(&base, &other, &forced).expect("it was forced");
        assert!(!found.groups[0].unlike.is_empty());
    }
}

#[test]
fn a_new_kernel_is_noted_and_compared() {
    let base = runs(5, 1e6, 1e6, 1);
    let newer = with(runs(5, 1e6, 1e6, 2), |one| one.host.kernel = "7.1".into());
    let found = compare(&base, &newer, &CompareOptions::default()).expect("alike");
    let names: Vec<&str> = found.groups[0]
        .differences
        .iter()
        .map(|one| &*one.field)
        .collect();
    assert_eq!(names, ["host.kernel"]);
}

#[test]
fn failed_runs_are_refused_and_left_out_when_forced() {
    let base = runs(6, 1e6, 1e6, 1);
    let mut bad = runs(6, 1e6, 1e6, 2);
    let failed = with(bad.split_off(5), |one| {
        one.status = Status::Fail;
        one.error = Some("disk full".into());
    });
    bad.extend(failed);
    let error = compare(&base, &bad, &CompareOptions::default()).expect_err("one failed");
    assert_eq!(
        error.to_string(),
        "run `r2-5` of the candidate side failed: rank 0: disk full"
    );
    let forced = CompareOptions {
        force: true,
        ..CompareOptions::default()
    };
    let found = compare(&base, &bad, &forced).expect("it was forced");
    assert_eq!(found.groups[0].candidate_runs.len(), 5);
    assert_eq!(found.left_out.len(), 1);
}

#[test]
fn benchmarks_of_one_side_are_named_and_nothing_in_common_is_an_error() {
    let base = runs(5, 1e6, 1e6, 1);
    let other = with(runs(5, 1e6, 1e6, 2), |one| {
        one.benchmark = "list_files".into()
    });
    let error = compare(&base, &other, &CompareOptions::default()).expect_err("nothing");
    assert!(
        error
            .to_string()
            .starts_with("no benchmark was run on both sides")
    );
    let both: Vec<SuiteRun> = other.into_iter().chain(runs(5, 1e6, 1e6, 3)).collect();
    let found = compare(&base, &both, &CompareOptions::default()).expect("one in common");
    assert_eq!(
        found.left_out,
        ["`list_files` was run on the candidate side only"]
    );
    assert!(matches!(
        compare(&[], &base, &CompareOptions::default()),
        Err(CompareError::Nothing { side: "base" })
    ));
}

#[test]
fn options_that_make_no_sense_are_refused() {
    let runs = runs(5, 1e6, 1e6, 1);
    let refused = [
        CompareOptions {
            alpha: 0.0,
            ..CompareOptions::default()
        },
        CompareOptions {
            least_effect: f64::NAN,
            ..CompareOptions::default()
        },
        CompareOptions {
            least_n: 1,
            ..CompareOptions::default()
        },
        CompareOptions {
            ops: vec!["no such".into()],
            ..CompareOptions::default()
        },
    ];
    for options in refused {
        let found = compare(&runs, &runs, &options);
        assert!(matches!(found, Err(CompareError::Option(_))), "{options:?}");
    }
}
