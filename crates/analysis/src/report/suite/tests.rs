use roxmltree::Document;

use super::*;
use crate::suite::{Dist, GANG_START, Iteration, Manifest, Timing};

/// A run of `ranks` ranks whose operations take about `ns`.
fn run(id: &str, ranks: u32, ns: u64, fstype: &str) -> SuiteRun {
    let rank = |rank: u32| {
        let dist = Dist {
            rank,
            world_size: ranks,
            ..Dist::default()
        };
        let mut made = Manifest::new("fsdp_load", id, dist);
        made.status = Status::Pass;
        made.fs.fstype = fstype.into();
        made.iterations = (0..6)
            .map(|i| Iteration {
                i,
                wall_ns: ns * (1 + u64::from(rank)),
                ..Iteration::default()
            })
            .collect();
        let samples: Vec<Vec<u64>> = (0..6).map(|i| vec![ns + i, ns + 2 * i]).collect();
        made.timing
            .insert("read <shards>".into(), Timing::from_iterations(&samples));
        made
    };
    SuiteRun::new((0..ranks).map(rank).collect()).expect("a run")
}

fn systems() -> Vec<System> {
    let runs = |ns: u64, fstype: &str| -> Vec<SuiteRun> {
        [1, 2, 4]
            .map(|ranks| run(&format!("r{ranks}"), ranks, ns, fstype))
            .into()
    };
    let system = |name: &str, runs| System {
        name: name.into(),
        runs,
    };
    vec![
        system("NAS & co", runs(1_000_000, "nfs4")),
        system("Lustre", runs(2_000_000, "lustre")),
    ]
}

fn parsed(page: &str) -> Document<'_> {
    let body = page
        .strip_prefix("<!DOCTYPE html>\n")
        .expect("it begins with the type");
    Document::parse(body).expect("the page is well-formed")
}

fn count(page: &str, class: &str) -> usize {
    let has = |node: &roxmltree::Node<'_, '_>| {
        node.attribute("class")
            .is_some_and(|found| found.starts_with(class))
    };
    parsed(page).descendants().filter(has).count()
}

#[test]
fn two_systems_stand_side_by_side_with_their_verdict() {
    let page = render(&systems(), &SuiteReportOptions::default());
    let document = parsed(&page);
    let titles: Vec<&str> = document
        .descendants()
        .filter(|node| node.has_tag_name("h2"))
        .filter_map(|node| node.text())
        .collect();
    assert_eq!(
        titles,
        [
            "What was run",
            "Side by side",
            "How it scales",
            "How latencies are distributed",
            "The numbers",
            "What this does not show",
            "How the numbers are made",
        ]
    );
    assert!(page.contains("NAS &amp; co") && page.contains("read &lt;shards&gt;"));
    assert!(page.contains(">slower<") && page.contains("`fs.fstype` is `nfs4` against `lustre`"));
    // Of each system the slowest rank and the mean over three numbers of ranks, and one tail.
    assert_eq!(count(&page, "curve s0 e"), 2);
    assert_eq!(count(&page, "curve s1"), 3);
    assert_eq!(count(&page, "ring s"), 6);
}

#[test]
fn what_happened_too_seldom_for_a_curve_is_told_in_numbers() {
    let mut systems = systems();
    systems.truncate(1);
    let mut rank = systems[0].runs[0].ranks()[0].clone();
    let timing = Timing::from_samples(&[7_000_000]);
    rank.timing.insert(GANG_START.into(), timing);
    systems[0].runs = vec![SuiteRun::new(vec![rank]).expect("a run")];
    let page = render(&systems, &SuiteReportOptions::default());
    assert!(
        page.contains(">fsdp_load: read &lt;shards&gt;<"),
        "the other has a curve"
    );
    assert!(
        !page.contains(">fsdp_load: gang_start<"),
        "a single sample has none"
    );
    let document = parsed(&page);
    let figure = document
        .descendants()
        .filter(|node| node.has_tag_name("figure"));
    let cells: Vec<&str> = figure
        .flat_map(|node| node.descendants())
        .filter(|node| node.has_tag_name("td"))
        .filter_map(|node| node.text())
        .collect();
    assert_eq!(cells, ["NAS & co", "1", "7.00 ms", "7.00 ms", "7.00 ms"]);
}

#[test]
fn the_page_refers_to_nothing_outside_itself() {
    let page = render(&systems(), &SuiteReportOptions::default());
    for word in [
        "<script", "href=", "src=", "url(", "@import", "http:", "https:",
    ] {
        assert!(!page.contains(word), "{word}");
    }
    assert!(page.contains("default-src 'none'"));
}

#[test]
fn one_system_and_failed_runs_make_a_page_too() {
    let mut one = systems();
    one.truncate(1);
    let mut ranks = one[0].runs[0].ranks().to_vec();
    ranks[0].status = Status::Fail;
    one[0].runs[0] = SuiteRun::new(ranks).expect("it was a run");
    let page = render(&one, &SuiteReportOptions::default());
    parsed(&page);
    assert!(!page.contains("<h2>Side by side</h2>"));
    assert!(page.contains("runs failed on"));
    parsed(&render(&[], &SuiteReportOptions::default()));
}
