//! Golden values of real logs, and the rules one by one.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::sync::LazyLock;

use forebay_darshan::records::dxt::Segment;
use forebay_darshan::{DxtRecord, PosixRecord};
use proptest::prelude::*;

use super::*;
use crate::tiers::Row;
use crate::tiers::whatif::{Gains, Measured};

const GFS: &str = "/grand/projects/radix-io/usr/snyder/dlio/";

/// The 24 logs of one DLIO run, with their paths.
fn real_logs() -> Vec<(String, Log)> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../darshan/tests/logs");
    let entries = std::fs::read_dir(folder).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    let read = |path: std::path::PathBuf| {
        let log = Log::read(&std::fs::read(&path).unwrap()).unwrap();
        (path.display().to_string(), log)
    };
    paths.into_iter().map(read).collect()
}

fn gfs_and_lfs() -> Prefixes {
    Prefixes::new(&["/gfs".into()], &["/lfs".into()]).unwrap()
}

fn with(prefixes: Prefixes) -> Options {
    Options {
        prefixes,
        ..Options::default()
    }
}

fn classify<'a>(
    logs: impl IntoIterator<Item = &'a (String, Log)>,
    options: Options,
) -> Result<Classified, ClassifyError> {
    let mut classifier = Classifier::new(options)?;
    for (file, log) in logs {
        classifier.add(file, log)?;
    }
    classifier.finish()
}

/// A log of a made-up job, without records. It starts at 1,000 s.
fn empty_log(nprocs: i64) -> Log {
    static SOME: LazyLock<Log> = LazyLock::new(|| real_logs().swap_remove(0).1);
    let mut log = SOME.clone();
    log.job.jobid = 42;
    log.job.nprocs = nprocs;
    log.job.start_unix_ns = 1_000_000_000_000;
    log.job.end_unix_ns = 1_100_000_000_000;
    log.names.clear();
    log.posix.clear();
    log.stdio.clear();
    log.dxt_posix.clear();
    log
}

/// Adds a file with one record of a rank: seconds of reads and of metadata operations, from the
/// first open to the last close.
fn add(log: &mut Log, name: &str, rank: i64, (read, meta): (f64, f64), span: (f64, f64)) -> u64 {
    let id = log.names.len() as u64 + 1;
    log.names.insert(id, name.into());
    let mut times = [0.0; 17];
    (times[0], times[7], times[8], times[10]) = (span.0, span.1, read, meta);
    log.posix.push(PosixRecord {
        id,
        rank,
        counters: [0; 69],
        times,
    });
    id
}

fn one(log: Log) -> Vec<(String, Log)> {
    vec![("a.darshan".into(), log)]
}

#[test]
fn golden_values_of_the_dlio_run() {
    let logs = real_logs();
    let prefixes = Prefixes::new(&[GFS.into()], &[]).unwrap();
    let found = classify(&logs, with(prefixes)).unwrap();
    let table = &found.table;
    assert_eq!(table.classes(), [Class::GFS_READ, Class::GFS_META]);
    assert_eq!(table.rows().len(), 24);
    let near = |found: f64, wanted: f64| (found - wanted).abs() < 5e-7;
    let row = |process: &str| {
        table
            .rows()
            .iter()
            .find(|row| row.process() == process)
            .unwrap()
    };
    for (process, read, meta) in [
        ("3116902-2110488", 5.751378, 1.533752),
        ("3116902-2110489", 5.152266, 1.818824),
        ("3116902-2111375", 3.373284, 0.987190),
    ] {
        let seconds = row(process).seconds();
        assert!(
            near(seconds[0], read) && near(seconds[1], meta),
            "{process}: {seconds:?}"
        );
    }
    let slowest = table.slowest(None).unwrap();
    assert_eq!(slowest.process(), "3116902-2110488");
    assert!(near(slowest.total_s(), 7.285130));
    let reading = table.rows().iter().filter(|row| row.seconds()[0] > 0.0);
    assert_eq!(reading.count(), 16, "the others have rows all the same");
    assert!(
        found.other.iter().any(|one| one.file.contains("/venv/")),
        "other is listed"
    );

    let measured = Measured::of_tables([(None, table)]).unwrap();
    for (class, percent, wanted) in [
        ("GFS-READ", 50.0, 5.368004),
        ("GFS-READ", 100.0, 4.409441),
        ("GFS-META", 50.0, 6.773879),
        ("GFS-META", 100.0, 6.518254),
    ] {
        let gains = Gains::of(&measured, &[(class.into(), percent)]).unwrap();
        let slowest = measured.best(&gains).slowest;
        let total: f64 = slowest.iter().map(|one| one.seconds).sum();
        assert!(near(total, wanted), "{class} +{percent} %: {total}");
        assert_eq!(slowest[0].process, "3116902-2110488");
    }
}

#[test]
fn the_longest_prefix_decides_and_ends_with_a_part_of_the_path() {
    let prefixes =
        Prefixes::new(&["/data/".into(), "/x/gfs".into()], &["/data/nvme".into()]).unwrap();
    let mut log = empty_log(1);
    for (name, read) in [
        ("/data/a", 1.0),
        ("/data/nvme/b", 2.0),
        ("/data/nvme2/c", 4.0),
        ("/x/gfs2/d", 8.0),
        ("/x/gfs", 16.0),
    ] {
        add(&mut log, name, 0, (read, 0.0), (1.0, 2.0));
    }
    let found = classify(&one(log), with(prefixes)).unwrap();
    let row = &found.table.rows()[0];
    let seconds: Vec<_> = found.table.named(row).pairs().collect();
    assert!(seconds.contains(&(&Class::GFS_READ, 21.0)), "{seconds:?}");
    assert!(seconds.contains(&(&Class::LFS_READ, 2.0)), "{seconds:?}");
    assert_eq!((row.total_s(), row.other_s()), (23.0, 8.0));
    assert_eq!(found.other[0].file, "/x/gfs2/d");
}

#[test]
fn without_prefixes_the_mounts_decide_and_that_is_said() {
    let mut log = empty_log(1);
    add(&mut log, "/lus/grand/a", 0, (1.0, 0.0), (1.0, 2.0));
    add(&mut log, "/local/scratch/b", 0, (2.0, 0.0), (1.0, 2.0));
    add(&mut log, "/opt/c", 0, (4.0, 0.0), (1.0, 2.0));
    let found = classify(&one(log), Options::default()).unwrap();
    let row = &found.table.rows()[0];
    assert_eq!(row.seconds(), [1.0, 0.0, 2.0, 0.0]);
    assert_eq!(row.other_s(), 4.0);
    assert!(
        found
            .warnings
            .iter()
            .any(|words| words.contains("mount table"))
    );
}

#[test]
fn contradictions_are_refused() {
    let prefixes = |gfs: &str, lfs: &str| Prefixes::new(&[gfs.into()], &[lfs.into()]);
    assert_eq!(prefixes("", "/a"), Err(OptionsError::EmptyPrefix));
    assert_eq!(
        prefixes("/a/", "/a"),
        Err(OptionsError::PrefixOfBoth("/a".into()))
    );
    assert!(prefixes("/", "/a").is_ok());
    let window = |start_s, end_s| Window {
        start_s,
        end_s,
        is_unix: false,
    };
    for windows in [
        vec![window(1.0, 1.0)],
        vec![window(-1.0, 1.0)],
        vec![window(f64::NAN, 1.0)],
        vec![window(0.0, 2.0), window(1.0, 3.0)],
    ] {
        let options = Options {
            windows,
            ..Options::default()
        };
        assert!(matches!(
            Classifier::new(options),
            Err(ClassifyError::Options(_))
        ));
    }
    let log = one(empty_log(1));
    let twice = classify(log.iter().chain(&log), with(gfs_and_lfs()));
    assert_eq!(twice, Err(ClassifyError::Twice("a.darshan".into())));
}

#[test]
fn wrong_prefixes_are_an_error_that_shows_where_the_io_is() {
    let mut log = empty_log(1);
    add(&mut log, "/scratch/data/a/b", 0, (1.0, 0.0), (1.0, 2.0));
    let error = classify(&one(log.clone()), with(gfs_and_lfs())).unwrap_err();
    let ClassifyError::NothingOnTiers { folders, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(folders, [("/scratch/data".to_owned(), 1.0)]);
    add(&mut log, "/gfs/a", 0, (1.0, 0.0), (1.0, 2.0));
    let found = classify(&one(log), with(gfs_and_lfs())).unwrap();
    assert!(
        found
            .warnings
            .contains(&"no file of the logs lies under the prefix `/lfs`".into())
    );
    assert_eq!(
        classify(&[], Options::default()),
        Err(ClassifyError::NoLogs)
    );
}

#[test]
fn empty_logs_and_logs_of_other_jobs_are_told() {
    let mut log = empty_log(1);
    add(&mut log, "/gfs/a", 0, (1.0, 0.5), (1.0, 2.0));
    let mut other = empty_log(1);
    other.job.jobid = 43;
    let logs = [("a".to_owned(), log), ("b".to_owned(), other)];
    let found = classify(&logs, with(gfs_and_lfs())).unwrap();
    assert_eq!(
        found.table.rows().len(),
        2,
        "a process that did nothing is one"
    );
    let said = found.warnings.join("\n");
    assert!(said.contains("`b` has no POSIX records"), "{said}");
    assert!(said.contains("2 jobs: 42, 43"), "{said}");
}

#[test]
fn absurd_times_are_refused_with_the_name_of_the_log() {
    for absurd in [-221.52, f64::NAN, f64::INFINITY, 1e9] {
        let mut log = empty_log(1);
        add(&mut log, "/gfs/a", 0, (1.0, absurd), (1.0, 2.0));
        let error = classify(&one(log), with(gfs_and_lfs())).unwrap_err();
        assert!(
            matches!(&error, ClassifyError::Log { log, .. } if log == "a.darshan"),
            "{error}"
        );
    }
}

#[test]
fn what_rounding_leaves_below_zero_is_no_time() {
    let mut log = empty_log(1);
    add(&mut log, "/gfs/a", 0, (1.0, -2.86e-6), (1.0, 2.0));
    let found = classify(&one(log), with(gfs_and_lfs())).unwrap();
    assert_eq!(found.table.rows()[0].seconds(), [1.0, 0.0]);
}

#[test]
fn absurd_times_elsewhere_do_not_hide_the_tiers() {
    let mut log = empty_log(1);
    add(&mut log, "/gfs/a", 0, (1.0, 0.5), (1.0, 2.0));
    add(&mut log, "/home/b", 0, (2.0, -0.25), (1.0, 2.0));
    let found = classify(&one(log), with(gfs_and_lfs())).unwrap();
    let row = &found.table.rows()[0];
    assert_eq!((row.total_s(), row.other_s()), (1.5, 2.0));
    let said = found.warnings.join("\n");
    assert!(
        said.contains("1 times of files on no tier are negative"),
        "{said}"
    );
}

#[test]
fn shared_records_alone_are_no_silent_zero() {
    let mut log = empty_log(4);
    add(&mut log, "/gfs/shared", -1, (6.0, 2.0), (1.0, 2.0));
    let error = classify(&one(log), with(gfs_and_lfs())).unwrap_err();
    let wanted = ClassifyError::OnlyShared {
        records: 1,
        seconds: 8.0,
    };
    assert_eq!(error, wanted);
}

#[test]
fn ranks_of_a_job_are_processes() {
    let mut log = empty_log(4);
    add(&mut log, "/gfs/a", 0, (1.0, 0.0), (1.0, 2.0));
    add(&mut log, "/gfs/b", 3, (2.0, 0.0), (1.0, 2.0));
    add(&mut log, "/gfs/c", 3, (0.5, 0.25), (1.0, 2.0));
    let found = classify(&one(log), with(gfs_and_lfs())).unwrap();
    let slowest = found.table.slowest(None).unwrap();
    assert_eq!((slowest.process(), slowest.total_s()), ("rank 3", 2.75));
}

#[test]
fn shared_records_warn_or_go_to_the_slowest_rank() {
    let mut log = empty_log(4);
    add(&mut log, "/gfs/own", 1, (0.5, 0.0), (1.0, 2.0));
    // Sums over four ranks: 6 s of reads, 2 s of metadata; rank 2 took 4 s.
    add(&mut log, "/gfs/shared", -1, (6.0, 2.0), (1.0, 2.0));
    let shared = log.posix.last_mut().unwrap();
    (shared.counters[67], shared.times[14]) = (2, 4.0);
    let logs = one(log);
    let left_out = classify(&logs, with(gfs_and_lfs())).unwrap();
    assert_eq!(left_out.table.rows().len(), 1);
    let said = left_out.warnings.join("\n");
    assert!(
        said.contains("8.000 s") && said.contains("DARSHAN_DISABLE_SHARED_REDUCTION=1"),
        "{said}"
    );
    let slowest = Options {
        shared: Shared::Slowest,
        ..with(gfs_and_lfs())
    };
    let given = classify(&logs, slowest).unwrap();
    let row = given.table.slowest(None).unwrap();
    assert_eq!((row.process(), row.seconds()), ("rank 2", &[3.0, 1.0][..]));
}

#[test]
fn workers_are_grouped_by_job_and_by_parent() {
    let worker = |pid: u32, read, parent: Option<&str>| {
        let mut log = empty_log(1);
        add(&mut log, "/gfs/a", 0, (read, 0.5), (1.0, 2.0));
        log.job.metadata = parent
            .map(|pid| ("fork_parent".into(), pid.into()))
            .into_iter()
            .collect();
        (format!("u_python_id42-{pid}_1-1-1-1_1.darshan"), log)
    };
    let logs = [
        worker(10, 0.25, None),
        worker(11, 1.0, Some("10")),
        worker(12, 2.0, Some("9")),
    ];
    let grouped = |group_by, combine| {
        let options = Options {
            group_by,
            combine,
            ..with(gfs_and_lfs())
        };
        let table = classify(&logs, options).unwrap().table;
        let rows = table.rows().iter();
        rows.map(|row| (row.process().to_owned(), row.total_s()))
            .collect::<Vec<_>>()
    };
    let named = |name: &str, total| (name.to_owned(), total);
    assert_eq!(grouped(GroupBy::Job, Combine::Max), [named("job 42", 2.5)]);
    assert_eq!(grouped(GroupBy::Job, Combine::Sum), [named("job 42", 4.75)]);
    let by_parent = [named("parent 10", 2.25), named("parent 9", 2.5)];
    assert_eq!(grouped(GroupBy::Parent, Combine::Sum), by_parent);
    assert_eq!(grouped(GroupBy::Log, Combine::Max).len(), 3);
    let options = Options {
        group_by: GroupBy::Parent,
        ..with(gfs_and_lfs())
    };
    assert_eq!(classify(&logs[..1], options), Err(ClassifyError::NoParents));
}

/// Two epochs of 10 s each, which start 1 s after the first log of the job.
fn two_epochs() -> Options {
    let window = |start_s, end_s| Window {
        start_s,
        end_s,
        is_unix: false,
    };
    Options {
        windows: vec![window(1.0, 11.0), window(11.0, 21.0)],
        ..with(gfs_and_lfs())
    }
}

#[test]
fn records_go_to_the_epoch_that_holds_them() {
    let mut first = empty_log(1);
    add(&mut first, "/gfs/a", 0, (1.0, 0.5), (2.0, 3.0));
    add(&mut first, "/gfs/late", 0, (7.0, 0.0), (30.0, 31.0));
    // This log starts 8 s later: what it opens at 4 s is in the second epoch.
    let mut second = empty_log(1);
    second.job.start_unix_ns += 8_000_000_000;
    add(&mut second, "/gfs/a", 0, (2.0, 0.0), (4.0, 5.0));
    let logs = [("a".to_owned(), first), ("b".to_owned(), second)];
    let found = classify(&logs, two_epochs()).unwrap();
    let total = |epoch, process: &str| {
        let rows = found.table.of_epoch(Some(epoch)).iter();
        rows.filter(|row| row.process() == process)
            .map(Row::total_s)
            .sum::<f64>()
    };
    assert_eq!((total(1, "a"), total(2, "a")), (1.5, 0.0));
    assert_eq!((total(1, "b"), total(2, "b")), (0.0, 2.0));
    assert_eq!((found.ambiguous, found.execution_s[&Some(2)]), (0, 10.0));
    assert!(
        found
            .warnings
            .contains(&"1 records (7.000 s) lie outside of every epoch".into())
    );
}

#[test]
fn records_of_several_epochs_are_split_by_their_trace_or_evenly() {
    let mut log = empty_log(1);
    let traced = add(&mut log, "/gfs/traced", 0, (4.0, 1.0), (2.0, 20.0));
    add(&mut log, "/gfs/untraced", 0, (2.0, 1.0), (2.0, 20.0));
    add(&mut log, "/gfs/only-looked-at", 0, (0.0, 0.5), (0.0, 0.0));
    let read = |start_s| Segment {
        offset: Some(0),
        bytes: 1,
        start_s,
        end_s: start_s + 1.0,
        thread: None,
    };
    log.dxt_posix.push(DxtRecord {
        id: traced,
        rank: 0,
        host: String::new(),
        writes: Vec::new(),
        reads: [3.0, 12.0, 14.0, 16.0].map(read).to_vec(),
    });
    let found = classify(&one(log), two_epochs()).unwrap();
    assert_eq!(found.ambiguous, 2);
    let seconds = |epoch| found.table.of_epoch(Some(epoch))[0].seconds();
    assert_eq!(seconds(1), [1.0 + 1.0, 0.5 + 0.5 + 0.25]);
    assert_eq!(seconds(2), [3.0 + 1.0, 0.5 + 0.5 + 0.25]);
    assert!(
        found
            .warnings
            .iter()
            .any(|words| words.contains("ambiguous"))
    );
}

#[test]
fn epochs_without_io_are_an_error() {
    let mut log = empty_log(1);
    add(&mut log, "/gfs/a", 0, (1.0, 0.5), (50.0, 60.0));
    assert_eq!(
        classify(&one(log), two_epochs()),
        Err(ClassifyError::NothingInEpochs)
    );
}

proptest! {
    #[test]
    fn no_second_is_lost_or_made(
        files in prop::collection::vec(
            (0usize..3, 0i64..3, 0.0..5.0f64, 0.0..5.0f64, 0.1..25.0f64, 0.0..25.0f64),
            1..20,
        ),
        with_epochs in any::<bool>(),
    ) {
        let mut log = empty_log(3);
        add(&mut log, "/gfs/first", 0, (0.5, 0.5), (2.0, 3.0));
        let mut outside = 0.0;
        for (place, (folder, rank, read, meta, start, length)) in files.iter().enumerate() {
            let name = format!("/{}/{place}", ["gfs", "lfs", "elsewhere"][*folder]);
            add(&mut log, &name, *rank, (*read, *meta), (*start, start + length));
            if with_epochs && (*start >= 21.0 || start + length <= 1.0) {
                outside += read + meta;
            }
        }
        let all: f64 = log.posix.iter().map(|record| record.read_s() + record.meta_s()).sum();
        let options = if with_epochs { two_epochs() } else { with(gfs_and_lfs()) };
        let found = classify(&one(log), options).unwrap();
        let held: f64 = found.table.rows().iter().map(|row| row.total_s() + row.other_s()).sum();
        prop_assert!((held + outside - all).abs() < 1e-6, "{held} + {outside} of {all}");
    }
}
