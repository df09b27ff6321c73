//! Tables and studies.

use proptest::prelude::*;

use super::*;
use crate::record::{Execution, Io, Record, RecordError};
use crate::testing::lines;

fn io(process: &str, epoch: u32, iteration: Option<u64>, seconds: &[(Class, f64)]) -> Record {
    Record::Io(Io {
        setup: "small, fast".into(),
        rate_percent: Rate::new(65.0),
        process: process.into(),
        epoch: Some(epoch),
        iteration,
        seconds: seconds.iter().cloned().collect(),
        other_s: 0.25,
    })
}

fn read(records: &[Record]) -> Result<Study, RecordError> {
    Study::read(lines(records).as_slice())
}

#[test]
fn names_are_read_whatever_their_case_and_absurd_ones_refused() {
    assert_eq!("gfs-meta".parse(), Ok(Class::GFS_META));
    assert_eq!("ORIGIN-READ".parse(), Ok(Class::ORIGIN_READ));
    let own: Class = "object-read".parse().expect("a new name is a class");
    assert_eq!(own.name(), "object-read");
    for wrong in ["", "a b", "other", "Other", "<b>", &"x".repeat(65)] {
        assert!(wrong.parse::<Class>().is_err(), "{wrong}");
    }
    let mut sorted = vec![
        own.clone(),
        Class::LOCAL_META,
        Class::GFS_META,
        Class::GFS_READ,
    ];
    sorted.sort();
    assert_eq!(
        sorted,
        [Class::GFS_READ, Class::GFS_META, Class::LOCAL_META, own]
    );
}

#[test]
fn a_rate_is_from_0_to_100() {
    for wrong in [-0.1, 100.1, f64::NAN, f64::INFINITY] {
        assert_eq!(Rate::new(wrong), None);
    }
    assert_eq!(
        Rate::new(-0.0).cmp(&Rate::new(0.0)),
        std::cmp::Ordering::Equal
    );
}

#[test]
fn absurd_seconds_are_refused() {
    let mut table = ClassTable::builder();
    for wrong in [-1.0, f64::NAN, f64::INFINITY, 1.1e7] {
        assert!(
            table.add("p", None, &Class::GFS_READ, wrong).is_err(),
            "{wrong}"
        );
        assert!(table.add_other("p", None, wrong).is_err(), "{wrong}");
    }
    table
        .add("p", None, &Class::GFS_READ, 9e6)
        .expect("it fits");
    table
        .add("p", None, &Class::GFS_READ, 9e6)
        .expect_err("the sum is absurd");
}

#[test]
fn a_record_file_gives_its_tables_by_setup_and_rate() {
    let execution = Record::Execution(Execution {
        setup: "small, fast".into(),
        rate_percent: Rate::new(65.0),
        epoch: Some(2),
        wall_s: 8.0,
    });
    let study = read(&[
        io("rank 1", 2, Some(0), &[(Class::GFS_READ, 1.0)]),
        io(
            "rank 1",
            2,
            Some(1),
            &[(Class::GFS_READ, 2.0), (Class::LFS_META, 0.5)],
        ),
        io("rank 0", 2, None, &[(Class::GFS_READ, 2.0)]),
        execution,
    ])
    .expect("the records are valid");
    assert_eq!(study.setups.len(), 1);
    let point = &study.setups[0].points[0];
    assert_eq!(point.rate, Rate::new(65.0));
    assert_eq!(point.execution_s[&Some(2)], 8.0);
    let slowest = point.table.slowest(Some(2)).expect("there are rows");
    assert_eq!((slowest.process(), slowest.total_s()), ("rank 1", 3.5));
    assert_eq!(slowest.other_s(), 0.5);
}

#[test]
fn what_is_recorded_twice_or_not_at_all_is_refused() {
    let whole = io("rank 0", 1, None, &[(Class::GFS_READ, 2.0)]);
    let part = io("rank 0", 1, Some(0), &[(Class::GFS_READ, 2.0)]);
    for pair in [[&whole, &whole], [&whole, &part], [&part, &whole]] {
        let error = read(&pair.map(Clone::clone)).expect_err("it is there twice");
        assert!(
            matches!(error, RecordError::Duplicate { line: 3, .. }),
            "{error}"
        );
    }
    let error = read(&[]).expect_err("there is no I/O");
    assert!(matches!(error, RecordError::NoIo { lines: 1 }), "{error}");
    let far = io("rank 0", 1, Some(0), &[(Class::GFS_READ, 9e6)]);
    let error = read(&[far.clone(), far]).expect_err("the sum is absurd");
    assert!(
        matches!(error, RecordError::Table { line: 3, .. }),
        "{error}"
    );
}

#[test]
fn a_hostile_io_record_is_refused_with_its_reason() {
    let head = r#"{"record":"manifest","tool":"t","version":"1","started_unix_ns":0}"#;
    let refused = |fields: &str| {
        let text = format!("{head}\n{{\"record\":\"io\",{fields}}}\n");
        let error = Study::read(text.as_bytes()).expect_err(fields);
        assert_eq!(error.line(), Some(2));
        error.to_string()
    };
    assert!(refused(r#""seconds":{}"#).contains("`process` is missing"));
    let one = |field: &str| refused(&format!(r#""process":"p","seconds":{{}},{field}"#));
    assert!(one(r#""rate_percent":101"#).contains("from 0 to 100"));
    assert!(one(r#""rate_percent":"x""#).contains("`rate_percent` must be a number"));
    assert!(one(r#""epoch":-1"#).contains("`epoch`"));
    let times = |seconds: &str| refused(&format!(r#""process":"p","seconds":{{{seconds}}}"#));
    assert!(times(r#""GFS-READ":-1"#).contains("seconds.GFS-READ"));
    assert!(times(r#""a b":1"#).contains("no name of an I/O class"));
    assert!(times(r#""GFS-READ":1,"gfs-read":1"#).contains("twice"));
}

#[test]
fn files_of_ranks_are_one_study_and_the_same_file_twice_is_none() {
    let of = |rank: &str, wall_s| {
        let execution = Record::Execution(Execution {
            setup: "small, fast".into(),
            rate_percent: Rate::new(65.0),
            epoch: Some(1),
            wall_s,
        });
        let io = io(rank, 1, None, &[(Class::LOCAL_READ, wall_s / 2.0)]);
        read(&[io, execution]).expect("the records are valid")
    };
    let joined = of("rank 0", 8.0)
        .join(of("rank 1", 9.0))
        .expect("they differ");
    let point = &joined.setups[0].points[0];
    assert_eq!((joined.setups.len(), point.table.rows().len()), (1, 2));
    assert_eq!(
        point.execution_s[&Some(1)],
        9.0,
        "the last rank ends an epoch"
    );
    let error = joined.join(of("rank 1", 9.0)).expect_err("rank 1 is there");
    assert_eq!(
        error,
        JoinError::Twice {
            process: "rank 1".into()
        }
    );
}

#[test]
fn a_study_that_is_written_reads_back() {
    let study = read(&[
        io(
            "rank 1",
            2,
            None,
            &[(Class::GFS_READ, 1.0), (Class::LFS_META, 0.1 + 0.2)],
        ),
        io("rank 0", 2, None, &[(Class::GFS_READ, 2.0)]),
    ])
    .expect("the records are valid");
    let mut written = Vec::new();
    study.write(&mut written).expect("a vector takes all");
    assert_eq!(
        Study::read(written.as_slice()).expect("it was just written"),
        study
    );
}

#[test]
fn the_summary_is_a_table_that_spreadsheets_read_safely() {
    let study = read(&[
        io("=rank, \"1\"", 2, None, &[(Class::GFS_READ, 1.0)]),
        io("rank 0", 2, None, &[(Class::GFS_READ, 0.5)]),
    ])
    .expect("the records are valid");
    let csv = Summary::new(&study).csv();
    let line = csv.lines().nth(1).expect("there is a class");
    assert_eq!(
        line,
        "\"small, fast\",65,2,GFS-READ,1,\"'=rank, \"\"1\"\"\",1,rank 0,0.5,"
    );
}

proptest! {
    #[test]
    fn rows_hold_what_was_added_whatever_the_order(
        adds in prop::collection::vec((0usize..4, 1u32..3, 0usize..4, 0.0..9.0f64), 1..40),
    ) {
        let mut table = ClassTable::builder();
        for (process, epoch, class, seconds) in &adds {
            let (process, class) = (format!("p{process}"), &Class::KNOWN[*class]);
            table.add(&process, Some(*epoch), class, *seconds).expect("it fits");
        }
        let table = table.finish();
        let added: f64 = adds.iter().map(|(.., seconds)| seconds).sum();
        let held: f64 = table.rows().iter().map(Row::total_s).sum();
        prop_assert!((added - held).abs() < 1e-9);
        prop_assert!(table.classes().is_sorted());
        for epoch in table.epochs() {
            let slowest = table.slowest(epoch).expect("the epoch has rows");
            prop_assert!(table.of_epoch(epoch).iter().all(|row| row.total_s() <= slowest.total_s()));
            prop_assert!(table.of_epoch(epoch).iter().all(|row| row.epoch() == epoch));
        }
        let whole = table.whole().expect("it fits");
        let held: f64 = whole.rows().iter().map(Row::total_s).sum();
        prop_assert!((added - held).abs() < 1e-9);
    }
}
