//! What the reader takes, what it refuses, and where it says the fault is.

use std::io::{BufReader, Cursor};

use proptest::prelude::*;

use super::*;
use crate::MAX_LINE_BYTES;
use crate::record::{Answered, Note, Record, RecordError};
use crate::testing::{end, epoch, iteration, lines, manifest, run, two_paths};

const HEAD: &str = r#"{"record":"manifest","tool":"t","version":"1","started_unix_ns":0}"#;
const STEP: &str = r#"{"record":"iteration","path":"p","epoch":1,"iteration":0,"rank":0,"wait_s":0.1,"total_s":0.2}"#;

/// Reads the lines as they are; the fault is expected.
fn fault(text: &str) -> RecordError {
    Run::read(text.as_bytes()).expect_err("the records must be refused")
}

#[test]
fn records_survive_the_trip_through_a_file() {
    let mut records = two_paths("direct", "forebay", 6);
    records.push(Record::Note(Note {
        text: "a \"note\"\nof two lines ✓".into(),
    }));
    if let Record::Iteration(first) = &mut records[0] {
        first.timing.h2d_s = Some(0.01);
        first.timing.forward_s = Some(0.018);
        first.timing.backward_s = Some(0.116);
        first.timing.optimizer_s = Some(1.0 / 3.0 * 0.01);
        first.timing.answered = Some(Answered {
            local_bytes: 1,
            peer_bytes: 3,
            staged_bytes: u64::MAX >> 12,
            direct_bytes: 0,
            late_s: 0.25,
            lead_s: None,
        });
    }
    let run = run(&records);
    assert_eq!(run.manifest(), &manifest());
    assert_eq!(run.paths(), ["direct", "forebay"]);
    assert_eq!(run.notes(), ["a \"note\"\nof two lines ✓"]);
    let mut read_back = Vec::new();
    for series in run.series() {
        let step = |timing: &Timing| {
            Record::Iteration(crate::record::Iteration {
                path: series.path().into(),
                epoch: series.epoch(),
                timing: *timing,
            })
        };
        read_back.extend(series.timings().iter().map(step));
        read_back.extend(series.end().cloned().map(Record::Epoch));
    }
    records.pop();
    assert_eq!(read_back, records);
    assert!(run.unread().sentences().is_empty());
}

#[test]
fn the_files_of_a_runs_ranks_are_one_run() {
    let of_rank = |rank: u32, wall_s: f64| {
        let steps = (0..3).map(|number| iteration("forebay", 1, number, rank, (0.1, 0.2)));
        lines(&steps.chain([end("forebay", 1, wall_s)]).collect::<Vec<_>>())
    };
    let mut reader = RunReader::default();
    reader.read(of_rank(0, 2.5).as_slice()).expect("rank 0");
    reader.read(of_rank(1, 2.75).as_slice()).expect("rank 1");
    assert!(matches!(reader.read(&b""[..]), Err(RecordError::Empty)));
    let run = reader.finish().expect("one run");
    let epoch = run.find("forebay", 1).expect("the epoch");
    assert_eq!((epoch.ranks(), epoch.iterations()), (2, 3));
    let end = epoch.end().expect("its end");
    assert_eq!(
        (end.wall_s, end.asked_bytes, end.origin_bytes),
        (2.75, 2_000, Some(2_360))
    );

    let mut twice = RunReader::default();
    twice.read(of_rank(0, 2.5).as_slice()).expect("rank 0");
    twice
        .read(of_rank(0, 2.5).as_slice())
        .expect("rank 0 again");
    let fault = twice.finish().expect_err("a rank that occurs twice");
    assert!(
        fault.to_string().contains("iteration 0 of rank 0"),
        "{fault}"
    );
}

#[test]
fn lines_are_frozen_at_format_1() {
    let text = String::from_utf8(lines(&[
        iteration("direct", 1, 0, 3, (0.015, 0.191)),
        end("direct", 1, 2.5),
    ]))
    .expect("UTF-8");
    let wanted = [
        r#"{"record":"manifest","format":1,"tool":"forebay demo","version":"0.1.0","started_unix_ns":1796056740123456789,"host":{"cpus":2,"name":"node17"},"inputs":{"profile":"lustre","seed":7},"conditions":["one node","emulated origin"]}"#,
        r#"{"record":"iteration","path":"direct","epoch":1,"iteration":0,"rank":3,"wait_s":0.015,"total_s":0.191}"#,
        r#"{"record":"epoch","path":"direct","epoch":1,"wall_s":2.5,"asked_bytes":1000,"origin_bytes":1180}"#,
    ];
    let found: Vec<&str> = text.lines().collect();
    assert_eq!(
        found, wanted,
        "the format changed: raise FORMAT and say so in docs/RECORDS.md"
    );
}

fn step(from: &str, to: &str) -> String {
    STEP.replace(from, to)
}

fn hostile_numbers() -> Vec<(String, &'static str)> {
    let answered = |fields: &str| step("\"total_s\"", &format!("{fields},\"total_s\""));
    vec![
        (step("0.1", "NaN"), "not valid JSON"),
        (step("0.1", "null"), "field `wait_s` is missing"),
        (
            step("0.1", "-0.1"),
            "`wait_s` must be a number of seconds from 0 to 10000000: -0.1",
        ),
        (step("0.1", "1e300"), "`wait_s` must be a number of seconds"),
        (step("0.1", "1e400"), "not valid JSON"),
        (
            step("0.1", "\"0.1\""),
            "`wait_s` must be a number of seconds",
        ),
        (
            step("0.1", "0.3"),
            "`wait_s` must be at most `total_s`, 0.2: 0.3",
        ),
        (
            step("0.2", "1796056740.1"),
            "`total_s` must be a number of seconds",
        ),
        (step(",\"total_s\":0.2", ""), "field `total_s` is missing"),
        (
            step(
                "\"wait_s\":0.1,\"total_s\":0.2",
                "\"wait_s\":0,\"total_s\":0",
            ),
            "`total_s` must be above 0",
        ),
        (
            step("\"epoch\":1", "\"epoch\":1.5"),
            "`epoch` must be a whole number",
        ),
        (
            step("\"epoch\":1", "\"epoch\":4294967296"),
            "`epoch` must be at most 4294967295",
        ),
        (
            step("\"iteration\":0", "\"iteration\":-1"),
            "`iteration` must be a whole number",
        ),
        (
            answered("\"local_bytes\":7,\"direct_bytes\":0,\"late_s\":0"),
            "field `peer_bytes` is missing",
        ),
        (
            answered("\"local_bytes\":-7"),
            "`local_bytes` must be a whole number",
        ),
        (
            answered("\"lead_s\":-1"),
            "`lead_s` must be a number of seconds",
        ),
    ]
}

fn hostile_shapes() -> Vec<(String, &'static str)> {
    vec![
        (step("\"rank\":0,", ""), "field `rank` is missing"),
        (step("\"p\"", "\"\""), "`path` must have 1 to 200 bytes: 0"),
        (
            step("\"p\"", &format!("\"{}\"", "p".repeat(201))),
            "`path` must have 1 to 200 bytes: 201",
        ),
        (
            step("}", ",\"h2d_s\":-1}"),
            "`h2d_s` must be a number of seconds",
        ),
        (
            step("\"record\":\"iteration\",", ""),
            "field `record` is missing",
        ),
        ("[1]".into(), "a record must be a JSON object"),
        (
            STEP[..40].into(),
            "the writer may have been stopped in the middle of it",
        ),
        (format!("{STEP}{STEP}"), "not valid JSON"),
        ("[".repeat(100_000), "not valid JSON"),
        (
            r#"{"record":"epoch","path":"p","epoch":1,"wall_s":0,"asked_bytes":1}"#.into(),
            "`wall_s` must be above 0",
        ),
        (
            r#"{"record":"epoch","path":"p","epoch":1,"wall_s":1,"asked_bytes":-1}"#.into(),
            "`asked_bytes` must be",
        ),
        (r#"{"record":"note"}"#.into(), "field `text` is missing"),
    ]
}

#[test]
fn a_hostile_line_is_refused_with_its_number_and_the_reason() {
    let cases = [hostile_numbers(), hostile_shapes()].concat();
    for (line, reason) in cases {
        let found = fault(&format!("{HEAD}\n\n{line}\n"));
        assert!(
            matches!(found, RecordError::Malformed { line: 3, .. }),
            "{line}: {found:?}"
        );
        let words = found.to_string();
        assert!(words.starts_with("line 3 is not a record: "), "{words}");
        assert!(words.contains(reason), "{line}\n{words}\n{reason}");
    }
}

#[test]
fn a_file_without_its_parts_is_refused_clearly() {
    assert!(matches!(fault(""), RecordError::Empty));
    assert!(matches!(fault("\n \n"), RecordError::Empty));
    let found = fault(&format!("{HEAD}\n"));
    assert!(matches!(found, RecordError::NoIterations { lines: 1 }));
    assert_eq!(found.line(), None);
    assert!(matches!(
        fault(&format!("\n{STEP}\n")),
        RecordError::NoManifest { line: 2 }
    ));
    let future = HEAD.replace("\"tool\"", "\"format\":2,\"tool\"");
    let words = fault(&format!("{future}\n{STEP}\n")).to_string();
    assert_eq!(
        words,
        "line 1 is not a record: record format 2 is not known: this version reads format 1"
    );
    let bytes = [HEAD.as_bytes(), b"\n\xFF\xFE\n"].concat();
    let found = Run::read(bytes.as_slice()).expect_err("not UTF-8");
    assert_eq!(found.line(), Some(2));
}

#[test]
fn a_thing_recorded_twice_is_refused() {
    let twice = |a: &str, b: &str| fault(&format!("{HEAD}\n{STEP}\n{a}\n{b}\n"));
    let other = STEP.replace("\"rank\":0", "\"rank\":1");
    let found = twice(&other, STEP);
    let words = "line 4 records iteration 0 of rank 0, path `p`, epoch 1 a second time";
    assert_eq!(found.to_string(), words);
    let end = r#"{"record":"epoch","path":"p","epoch":1,"wall_s":1,"asked_bytes":1}"#;
    assert!(matches!(
        twice(end, end),
        RecordError::Duplicate { line: 4, .. }
    ));
    assert!(matches!(
        twice(&other, HEAD),
        RecordError::Duplicate { line: 4, .. }
    ));
    let elsewhere = end.replace("\"epoch\":1", "\"epoch\":2");
    let found = twice(&other, &elsewhere);
    assert!(matches!(
        found,
        RecordError::EpochWithoutIterations {
            line: 4,
            epoch: 2,
            ..
        }
    ));
}

#[test]
fn what_is_unknown_is_counted_and_told() {
    let extra = STEP.replace("\"rank\":0", "\"rank\":1,\"gpu_s\":0.1");
    let text = format!(
        "{HEAD}\n{STEP}\n{extra}\n{{\"record\":\"\\u001b[2J\"}}\n{{\"record\":\"gpu\",\"x\":1}}\n{{\"record\":\"gpu\"}}\n"
    );
    let run = Run::read(text.as_bytes()).expect("unknown kinds are no error");
    assert_eq!(
        run.unread().sentences(),
        [
            "2 records of the unknown kind `gpu` were not used",
            "1 records of the unknown kind `\u{FFFD}[2J` were not used",
            "the unknown field `iteration.gpu_s`, met 1 times, was not used",
        ]
    );
}

#[test]
fn what_another_analysis_reads_is_told() {
    let text =
        format!("{HEAD}\n{STEP}\n{{\"record\":\"io\",\"process\":\"p\",\"seconds\":{{}}}}\n");
    let run = Run::read(text.as_bytes()).expect("known kinds are no error");
    let told = "1 records of kind `io` are for another analysis and were not used";
    assert_eq!(run.unread().sentences(), [told]);
}

#[test]
fn the_names_of_unknown_kinds_are_bounded() {
    let mut text = format!("{HEAD}\n{STEP}\n");
    for i in 0..500 {
        text.push_str(&format!(
            "{{\"record\":\"kind{i}\"}}\n{{\"record\":\"note\",\"text\":\"\"}}\n"
        ));
        text.push_str("{\"record\":\"note\",\"text\":\"\"}\n{\"record\":\"note\",\"text\":\"\"}\n");
    }
    let run = Run::read(text.as_bytes()).expect("unknown kinds are no error");
    assert!(run.unread().kinds.len() <= 65);
    assert_eq!(run.unread().kinds.values().sum::<u64>(), 500);
    assert_eq!((run.notes().len(), run.unread().notes), (1_000, 500));
}

#[test]
fn a_line_without_end_is_refused_before_it_is_read_whole() {
    // A reader that never ends: only a bounded read returns from it.
    let endless = BufReader::new(std::io::repeat(b'x'));
    let found = Run::read(endless).expect_err("too long");
    assert!(matches!(found, RecordError::LineTooLong { line: 1, .. }));
    let note = |len: usize| {
        format!(
            "{HEAD}\n{STEP}\n{{\"record\":\"note\",\"text\":\"{}\"}}\n",
            "x".repeat(len)
        )
    };
    assert!(Run::read(note(MAX_LINE_BYTES - 100).as_bytes()).is_ok());
    assert_eq!(fault(&note(MAX_LINE_BYTES)).line(), Some(3));
}

#[test]
fn too_many_epochs_are_refused() {
    let mut text = format!("{HEAD}\n");
    for epoch in 0..=MAX_SERIES {
        text.push_str(&STEP.replace("\"epoch\":1", &format!("\"epoch\":{epoch}")));
        text.push('\n');
    }
    let found = fault(&text);
    let wanted = MAX_SERIES as u64 + 2;
    assert!(
        matches!(found, RecordError::TooMany { line, .. } if line == wanted),
        "{found}"
    );
}

#[test]
fn a_writer_refuses_what_a_reader_would() {
    let mut out = Vec::new();
    for times in [
        (f64::NAN, 1.0),
        (-1.0, 1.0),
        (2.0, 1.0),
        (0.0, 0.0),
        (0.0, f64::INFINITY),
    ] {
        let found = iteration("p", 1, 0, 0, times).write_line(&mut out);
        let found = found.expect_err("the record breaks a rule");
        assert_eq!(found.kind(), std::io::ErrorKind::InvalidInput, "{times:?}");
    }
    assert!(out.is_empty());
}

#[test]
fn ranks_and_iterations_are_counted_apart_and_wall_time_is_the_slowest_rank() {
    let records: Vec<Record> = (0..4)
        .rev()
        .flat_map(|i| {
            [0, 5].map(|rank| iteration("p", 1, i * 10, rank, (0.1, 0.2 + f64::from(rank))))
        })
        .collect();
    let run = run(&records);
    let series = run.find("p", 1).expect("it was recorded");
    assert_eq!(
        (series.iterations(), series.ranks(), series.timings().len()),
        (4, 2, 8)
    );
    assert!((series.wall_s() - 4.0 * 5.2).abs() < 1e-9);
    assert!(
        series
            .timings()
            .is_sorted_by_key(|timing| (timing.iteration, timing.rank))
    );
    assert!(run.find("p", 2).is_none() && run.find("q", 1).is_none());
}

proptest! {
    #[test]
    fn any_bytes_are_a_run_or_an_error(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        cut in any::<prop::sample::Index>(),
    ) {
        // Flipped in valid records, since random bytes would not get past the first brace.
        let mut bytes = lines(&epoch("p", 1, 4, &[0.1]));
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        bytes.truncate(cut.index(bytes.len() + 1));
        if let Ok(run) = Run::read(Cursor::new(bytes)) {
            prop_assert!(run.series().iter().all(|one| !one.timings().is_empty()));
            for timing in run.series().iter().flat_map(Series::timings) {
                prop_assert!(timing.wait_s >= 0.0 && timing.total_s > 0.0 && timing.total_s <= 1e7);
            }
        }
    }
}
