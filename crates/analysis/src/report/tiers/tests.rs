//! The page: well-formed, whole, and closed to the outside.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use roxmltree::{Document, Node};

use super::*;
use crate::record::{Execution, Io, Record};
use crate::testing::lines;
use crate::tiers::{Class, Rate};

/// A fast global tier with small files: metadata weighs at low rates, local reads at high ones.
fn small_and_fast(setup: &str, rates: &[u32], epochs: &[u32]) -> Vec<Record> {
    let mut records = Vec::new();
    for rate in rates {
        let share = f64::from(*rate) / 100.0;
        for epoch in epochs {
            let key = (setup.to_owned(), Rate::new(f64::from(*rate)), Some(*epoch));
            for rank in 0..3u32 {
                let scale = 1.0 + f64::from(rank) / 10.0;
                let seconds = [
                    (Class::GFS_READ, scale * (1.0 - share)),
                    (Class::GFS_META, scale * 6.0 * (1.0 - share).powi(2)),
                    (Class::LFS_READ, scale * 4.0 * share * share),
                ];
                records.push(Record::Io(Io {
                    setup: key.0.clone(),
                    rate_percent: key.1,
                    process: format!("rank {rank}"),
                    epoch: key.2,
                    iteration: None,
                    seconds: seconds.into(),
                    other_s: 0.0,
                }));
            }
            records.push(Record::Execution(Execution {
                setup: key.0,
                rate_percent: key.1,
                epoch: key.2,
                wall_s: 9.0,
            }));
        }
    }
    records
}

fn study(records: &[Record]) -> Study {
    Study::read(lines(records).as_slice()).unwrap()
}

fn page(records: &[Record], options: &TierReportOptions) -> String {
    render(&study(records), options).unwrap()
}

fn words(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text);
    texts.filter_map(|one| one.text()).collect()
}

/// Parses the page, all of it, as XML: stricter than any browser.
fn texts(page: &str, tag: &str) -> Vec<String> {
    let body = page.strip_prefix("<!DOCTYPE html>\n").unwrap();
    let document = Document::parse(body).unwrap();
    let nodes = document.descendants().filter(|node| node.has_tag_name(tag));
    nodes.map(words).collect()
}

#[test]
fn a_sweep_has_all_four_figures_with_units() {
    let rates: Vec<u32> = (0..=100).step_by(5).collect();
    let records = small_and_fast("128 KiB, fast", &rates, &[1, 2, 3]);
    let page = page(&records, &TierReportOptions::default());
    let titles = texts(&page, "h2");
    for title in [
        "1 Execution and I/O time against cache rate",
        "2 Where the slowest process’s time goes",
        "3 What gains would give",
        "4 Which gains meet the goal",
    ] {
        assert!(titles.iter().any(|one| one == title), "{titles:?}");
    }
    let labels = texts(&page, "text");
    for label in [
        "time of an epoch (s)",
        "I/O time (s)",
        "files on the local tier (%)",
    ] {
        assert!(labels.iter().any(|one| one == label), "{label}: {labels:?}");
    }
    assert!(
        labels
            .iter()
            .any(|one| one.starts_with("gain in throughput of "))
    );
    let rows = texts(&page, "td");
    assert_eq!(
        rows[..3],
        ["2", "65 %", "3.33 s"],
        "the best rate lies between"
    );
}

#[test]
fn the_best_of_a_gain_is_what_the_slowest_process_takes() {
    let rates: Vec<u32> = (0..=100).step_by(5).collect();
    let options = TierReportOptions {
        gains: vec![("GFS-META".into(), 100.0)],
        goal: Some(2.0),
        ..TierReportOptions::default()
    };
    let shown = texts(&page(&small_and_fast("", &rates, &[2]), &options), "li");
    // Rank 2 at 50 %: 1.2 x (0.5 + 6 x 0.25 / 2 + 4 x 0.25), against 3.33 s at 65 % without.
    let line = shown
        .iter()
        .find(|one| one.starts_with("GFS-META +100 %"))
        .unwrap();
    assert!(line.ends_with("best 2.70 s at 50 % (−18.9 %)"), "{line}");
}

#[test]
fn one_rate_or_one_process_is_drawn_too() {
    for (rates, epochs) in [
        (&[50][..], &[1][..]),
        (&[50], &[1, 2, 3]),
        (&[0, 100], &[1]),
    ] {
        let page = page(
            &small_and_fast("", rates, epochs),
            &TierReportOptions::default(),
        );
        let has_rates = rates.len() > 1;
        let titles = texts(&page, "h2");
        assert_eq!(titles.iter().any(|one| one.starts_with("1 ")), has_rates);
        assert!(titles.iter().any(|one| one.starts_with("4 ")));
    }
}

#[test]
fn a_goal_that_nothing_meets_is_said_to_be_unreachable() {
    let options = TierReportOptions {
        goal: Some(1e-6),
        ..TierReportOptions::default()
    };
    let page = page(&small_and_fast("", &[0, 50, 100], &[1]), &options);
    assert!(page.contains("no pair of gains up to 300 % meets it"));
    assert!(page.contains("unreachable"));
}

#[test]
fn wrong_options_are_refused_and_hostile_names_harmless() {
    let records = small_and_fast("</style><script>alert(1)</script>\u{202E}", &[0, 100], &[1]);
    let safe = page(&records, &TierReportOptions::default());
    assert!(!safe.contains("<script") && !safe.contains('\u{202E}'));
    assert!(!safe.contains("http://") && !safe.contains("https://"));
    let refused = |options: TierReportOptions| render(&study(&records), &options).unwrap_err();
    refused(TierReportOptions {
        epoch: Some(9),
        ..TierReportOptions::default()
    });
    refused(TierReportOptions {
        gains: vec![("GFS-META".into(), -5.0)],
        ..TierReportOptions::default()
    });
    refused(TierReportOptions {
        goal: Some(f64::NAN),
        ..TierReportOptions::default()
    });
    refused(TierReportOptions {
        frontier: vec!["GFS-META".into(), "nonsense".into()],
        ..TierReportOptions::default()
    });
}
