//! The page of small runs: well-formed, whole, and closed to the outside.

use roxmltree::{Document, Node};

use super::*;
use crate::record::{Note, Record};
use crate::testing::{end, epoch, iteration, run, two_paths};

/// Parses the page, all of it, as XML: stricter than any browser.
fn parsed<T>(page: &str, look: impl FnOnce(&Document<'_>) -> T) -> T {
    let body = page
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("it begins with the type");
    look(&Document::parse(body).expect("the page is well-formed"))
}

fn words(node: Node<'_, '_>) -> String {
    let texts = node.descendants().filter(Node::is_text);
    let texts: Vec<&str> = texts.filter_map(|one| one.text()).collect();
    texts.join(" ")
}

/// Text elements of all charts.
fn labels(page: &str) -> Vec<String> {
    parsed(page, |document| {
        let texts = document
            .descendants()
            .filter(|node| node.has_tag_name("text"));
        texts
            .map(|node| node.text().unwrap_or_default().to_owned())
            .collect()
    })
}

/// Number of dots of each chart path that holds dots.
fn dots(page: &str) -> Vec<usize> {
    parsed(page, |document| {
        let with_dots = |node: &Node<'_, '_>| {
            node.attribute("class")
                .is_some_and(|class| class.starts_with("dots "))
        };
        let paths = document.descendants().filter(with_dots);
        paths
            .map(|node| node.attribute("d").unwrap_or_default().matches('M').count())
            .collect()
    })
}

#[test]
fn a_small_report_has_every_part() {
    let options = ReportOptions {
        title: "Demo".into(),
        not_shown: vec!["How a real Lustre behaves.".into()],
        ..ReportOptions::default()
    };
    let page = render(&run(&two_paths("direct", "forebay", 20)), &options);
    parsed(&page, |document| {
        let of = |name: &'static str| {
            document
                .descendants()
                .filter(move |node| node.has_tag_name(name))
        };
        let titles: Vec<String> = of("h2").map(words).collect();
        assert_eq!(
            titles,
            [
                "What was run",
                "Epochs",
                "Every iteration",
                "Tail distributions",
                "Epochs side by side",
                "Beside the reference study",
                "What this run does not show",
                "How the numbers are made",
            ]
        );
        assert_eq!(of("h1").map(words).collect::<Vec<_>>(), ["Demo"]);
        let rows: Vec<String> = of("tr").map(words).collect();
        for path in ["direct", "forebay"] {
            for number in [1, 2] {
                assert!(
                    rows.iter()
                        .any(|row| row.starts_with(&format!("{path} {number} "))),
                    "{rows:?}"
                );
                let own = format!("this run: {path}, epoch {number} ");
                assert!(rows.iter().any(|row| row.starts_with(&own)), "{own}");
            }
        }
        let titles: Vec<String> = of("title").map(words).collect();
        for curve in [
            "direct, epoch 1",
            "direct, epoch 2",
            "forebay, epoch 1",
            "forebay, epoch 2",
        ] {
            assert_eq!(
                titles.iter().filter(|title| *title == curve).count(),
                2,
                "{curve}, a curve in each panel"
            );
        }
        let all = words(document.root_element());
        for part in [
            "one node",
            "emulated origin",
            "node17",
            "How a real Lustre behaves.",
            "2026-11-30 16:39 UTC",
        ] {
            assert!(all.contains(part), "{part}");
        }
        // The longest wait of all is named where it stands.
        assert!(of("text").any(|node| node.text() == Some("41.8 s")));
    });
    assert_eq!(dots(&page), [20, 20, 20, 20, 20, 20, 20, 20, 20, 20]);
}

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let page = render(
        &run(&two_paths("direct", "forebay", 20)),
        &ReportOptions::default(),
    );
    for forbidden in [
        "url(", "@import", "<script", "<link", "<img", "<iframe", "://",
    ] {
        assert!(!page.contains(forbidden), "{forbidden}");
    }
    parsed(&page, |document| {
        for node in document.descendants() {
            for name in [
                "href", "src", "srcset", "action", "data", "poster", "onload", "style",
            ] {
                assert_eq!(
                    node.attribute(name),
                    None,
                    "{name} of <{}>",
                    node.tag_name().name()
                );
            }
        }
        let policy = document
            .descendants()
            .find(|node| node.attribute("http-equiv").is_some());
        let policy = policy.and_then(|node| node.attribute("content"));
        assert!(policy.is_some_and(|policy| policy.starts_with("default-src 'none'")));
    });
}

#[test]
fn hostile_text_stays_text() {
    let hostile = "<script>alert('x')</script>\"]]>&\u{0}\u{1b}\u{202E}";
    let mut records = two_paths(hostile, "\"><img src=x onerror=y>", 8);
    records.push(Record::Note(Note {
        text: hostile.into(),
    }));
    let options = ReportOptions {
        title: hostile.into(),
        not_shown: vec![hostile.into()],
        baseline: Some(hostile.into()),
        ..ReportOptions::default()
    };
    let page = render(&run(&records), &options);
    assert!(!page.contains("<script") && !page.contains("<img") && !page.contains('\u{1b}'));
    parsed(&page, |document| {
        let title = document
            .descendants()
            .find(|node| node.has_tag_name("h1"))
            .map(words);
        let wanted = "<script>alert('x')</script>\"]]>&\u{FFFD}\u{FFFD}\u{FFFD}";
        assert_eq!(title.as_deref(), Some(wanted));
        let notes = document
            .descendants()
            .filter(|node| node.has_tag_name("li"));
        assert!(notes.map(words).filter(|words| words == wanted).count() >= 2);
    });
}

#[test]
fn many_iterations_are_thinned_and_the_longest_is_kept() {
    let mut records = epoch("direct", 1, 30_000, &[0.001, 0.5, 0.02]);
    records.extend(epoch("forebay", 1, 30_000, &[0.001]));
    records.push(iteration("forebay", 2, 0, 0, (33.3, 33.4)));
    let page = render(&run(&records), &ReportOptions::default());
    let dots = dots(&page);
    // Three series in each of the two panels of the scatter, then those of `forebay` alone.
    assert_eq!(dots.len(), 8);
    for panel in [&dots[..3], &dots[3..6], &dots[6..]] {
        let sum: usize = panel.iter().sum();
        assert!(sum <= 20_000 && sum > 5_000, "{sum}");
    }
    assert!(labels(&page).contains(&"33.3 s".to_owned()));
    assert!(page.len() < 1_500_000, "{} bytes", page.len());
}

#[test]
fn odd_runs_still_make_a_page() {
    let single = vec![iteration("p", 7, 0, 0, (0.0, 1e-9))];
    let zero_waits = epoch("p", 0, 50, &[0.0]);
    let extremes = vec![
        iteration("p", u32::MAX, u64::MAX, u32::MAX, (0.0, 1e-300)),
        iteration("q", 0, 0, 0, (1e7, 1e7)),
        end("q", 0, 1e-12),
    ];
    let ranks: Vec<Record> = (0..40)
        .map(|i| iteration("p", 1, i / 8, (i % 8) as u32, (0.1, 0.3)))
        .collect();
    let many: Vec<Record> = (0..700u32)
        .flat_map(|i| ["a", "b"].map(|path| iteration(path, i, 0, 0, (0.1, 0.3))))
        .collect();
    let paths: Vec<Record> = (0..30)
        .flat_map(|i| epoch(&format!("path {i}"), 1, 3, &[0.1]))
        .collect();
    for records in [single, zero_waits, extremes, ranks, many, paths] {
        for window in [
            Window::OwnEpoch,
            Window::Given(0.0),
            Window::Given(f64::NAN),
            Window::Given(1e300),
        ] {
            let options = ReportOptions {
                window,
                ..ReportOptions::default()
            };
            let page = render(&run(&records), &options);
            parsed(&page, |_| ());
            assert!(
                !page.contains("NaN\"") && !page.contains("inf\""),
                "a coordinate is not a number"
            );
            assert!(page.len() < 2_000_000, "{} bytes", page.len());
        }
    }
}

#[test]
fn one_run_makes_one_page() {
    let run = run(&two_paths("direct", "forebay", 30));
    let options = ReportOptions::default();
    assert_eq!(render(&run, &options), render(&run, &options));
    let plain = render(
        &run,
        &ReportOptions {
            reference: false,
            ..options
        },
    );
    assert!(!plain.contains("reference study"));
    assert!(plain.contains("named no limits of the run"));
}

#[test]
fn stages_are_drawn_where_they_were_recorded() {
    let mut records = epoch("direct", 1, 4, &[0.1]);
    for record in &mut records {
        if let Record::Iteration(one) = record {
            one.timing.forward_s = Some(0.02);
            one.timing.backward_s = Some(0.15);
        }
    }
    let page = render(&run(&records), &ReportOptions::default());
    for stage in [
        "DataLoader wait: 100 ms",
        "forward: 20.0 ms",
        "backward: 150 ms",
        "rest: 30.0 ms",
    ] {
        assert!(
            page.contains(&format!("direct, epoch 1, {stage}")),
            "{stage}"
        );
    }
    assert!(!page.contains("optimizer: "));
}
