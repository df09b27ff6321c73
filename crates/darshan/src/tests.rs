//! Logs of every version, order and compression; logs that are cut, damaged or hostile.
#![allow(clippy::unwrap_used, reason = "a test ends where a step of it fails")]

use std::sync::LazyLock;

use proptest::prelude::*;

use super::*;
use crate::testing::{VERSIONS, Words, Writer, bzip, zlib};

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];
const COMPRESSIONS: [Compression; 3] = [Compression::Zlib, Compression::Bzip2, Compression::None];

fn writer() -> Writer {
    Writer::new(Version::V341, ByteOrder::Little, Compression::Zlib)
}

fn every_kind() -> impl Iterator<Item = Writer> {
    let of_version = |(_, version): (&str, Version)| {
        ORDERS.into_iter().flat_map(move |order| {
            COMPRESSIONS.map(|compression| Writer::new(version, order, compression))
        })
    };
    VERSIONS.into_iter().flat_map(of_version)
}

/// A POSIX record of version 4 whose counters are 100, 101, … and whose times are 0.5, 1.5, ….
fn posix(words: Words, id: u64) -> Words {
    let words = words.u64(id).i64s([3]).i64s(100..169);
    words.f64s((0..17).map(|place| f64::from(place) + 0.5))
}

#[test]
fn every_version_order_and_compression_reads_the_same() {
    for writer in every_kind() {
        let records = posix(posix(writer.words(), 7), 9);
        let log = Log::read(&writer.module(1, 4, records).build()).unwrap();
        assert_eq!(
            log.faults,
            [],
            "{:?} {:?} {:?}",
            log.version,
            log.order,
            log.compression
        );
        let job = &log.job;
        assert_eq!((job.uid, job.nprocs, job.jobid), (1000, 1, 42));
        assert_eq!(job.exe, "train.py --epochs 5");
        assert_eq!(job.metadata("h"), Some("a=b;c=d"));
        assert_eq!(job.metadata("fork_parent"), Some("41"));
        // Before 3.41 times are whole seconds, of which the last counts too.
        let run = if log.version < Version::V341 {
            61.0
        } else {
            60.5
        };
        assert_eq!(job.run_s(), run);
        assert_eq!(log.name(7), Some("/gfs/train/a"), "the first name stands");
        assert_eq!(log.posix.len(), 2);
        let first = &log.posix[0];
        assert_eq!((first.id, first.rank, first.opens()), (7, 3, 100));
        assert_eq!((first.bytes_read(), first.slowest_rank()), (114, 167));
        assert_eq!(
            (first.read_s(), first.meta_s(), first.times[16]),
            (8.5, 10.5, 16.5)
        );
    }
}

#[test]
fn mounts_are_found_by_whole_parts_of_a_path() {
    let log = Log::read(&writer().build()).unwrap();
    let kind = |path| log.job.mount_of(path).map(|mount| mount.fs_type.as_str());
    assert_eq!(kind("/gfs/a"), Some("lustre"));
    assert_eq!(kind("/gfs"), Some("lustre"));
    assert_eq!(kind("/gfs2/a"), Some("xfs"));
    assert_eq!(kind("relative"), None);
}

#[test]
fn old_posix_records_take_the_newest_form() {
    // Ints and floats of each version are its places, so that what moves where can be seen.
    for (version, ints, floats) in [(1, 68, 15), (2, 64, 15), (3, 64, 17)] {
        for order in ORDERS {
            let writer = Writer::new(Version::V310, order, Compression::Zlib);
            let words = writer.words().u64(7).i64s([-1]);
            let zeroed = |place| if version == 1 && place == 6 { 0 } else { place };
            let words = words.i64s((0..ints).map(zeroed));
            let words = words.f64s((0..floats).map(f64::from));
            let log = Log::read(&writer.module(1, version, words).build()).unwrap();
            assert_eq!(log.faults, []);
            let record = &log.posix[0];
            let skip = if version == 1 { 4 } else { 0 };
            // OPENS, then two that were not watched, READS to FDSYNCS, three more, then MODE.
            assert_eq!(record.counters[..4], [0, -1, -1, 1]);
            assert_eq!(record.counters[10..14], [-1, -1, 0, 8 + skip]);
            assert_eq!(record.counters[68], 63 + skip);
            let close_start = if version < 3 { -1.0 } else { 3.0 };
            assert_eq!(record.times[3], close_start);
            assert_eq!(record.times[16], f64::from(floats - 1));
        }
    }
}

#[test]
fn a_record_of_version_1_that_mixes_interfaces_is_left_out_and_told() {
    let writer = Writer::new(Version::V300, ByteOrder::Big, Compression::Zlib);
    let one = |words: Words, fopens| {
        let counters = (0..68).map(move |place| if place == 6 { fopens } else { place });
        words.u64(7).i64s([0]).i64s(counters).f64s([0.0; 15])
    };
    let records = one(one(writer.words(), 1), 0);
    let log = Log::read(&writer.module(1, 1, records).build()).unwrap();
    assert_eq!(log.posix.len(), 1);
    assert!(
        matches!(log.faults[..], [Fault::LeftOut { records: 1, .. }]),
        "{:?}",
        log.faults
    );
}

#[test]
fn modules_keep_their_names_when_their_ids_move() {
    for (version, stdio, dxt) in [
        (Version::V300, 7, 8),
        (Version::V310, 7, 8),
        (Version::V320, 8, 9),
        (Version::V321, 8, 9),
        (Version::V341, 9, 10),
    ] {
        let mut writer = Writer::new(version, ByteOrder::Little, Compression::Zlib);
        writer.partial = 1 << dxt;
        let words = writer.words().u64(9).i64s([0]).i64s(0..13).f64s([0.25; 15]);
        let mpi = writer.words().u64(1);
        let log = Log::read(&writer.module(stdio, 1, words).module(2, 3, mpi).build()).unwrap();
        let found: Vec<_> = log
            .modules
            .iter()
            .map(|one| (one.module, one.state))
            .collect();
        assert_eq!(
            found,
            [
                (Module::MpiIo, ModuleState::Skipped),
                (Module::Stdio, ModuleState::Read),
                (Module::DxtPosix, ModuleState::Skipped),
            ]
        );
        assert_eq!(
            log.stdio[0].counters[..3],
            [0, -1, 1],
            "FDOPENS was not watched"
        );
        let partial = Fault::Partial(Region::Module(Module::DxtPosix));
        assert!(log.faults.contains(&partial), "{:?}", log.faults);
    }
}

#[test]
fn lustre_layouts_of_both_versions() {
    let plain = |words: Words, osts: &[i64]| {
        let words = words
            .u64(7)
            .i64s([0, 248, 1, 5, 1 << 20, osts.len() as i64]);
        words.i64s(osts.iter().copied().chain(osts.is_empty().then_some(0)))
    };
    let records = plain(plain(writer().words(), &[11, 12]), &[]);
    let log = Log::read(&writer().module(8, 1, records).build()).unwrap();
    assert_eq!(log.faults, []);
    let part = &log.lustre[0].components[0];
    assert_eq!(part.counters, [1 << 20, 2, -1, -1, 0, -1, -1]);
    assert_eq!(part.osts, [11, 12]);
    assert!(log.lustre[1].components[0].osts.is_empty());

    let component =
        |words: Words, size, count, pool| words.i64s([size, count, 0, 16, 0, -1, 0]).text(pool, 16);
    let words = writer().words().u64(7).i64s([0, 3, 4]);
    let words = component(component(words, 65_536, 1, "flash"), 1 << 20, 2, "");
    let words = component(words, -1, -1, "").i64s([4, 5, 6, -1]);
    let log = Log::read(&writer().module(8, 2, words).build()).unwrap();
    assert_eq!(log.faults, []);
    let parts = &log.lustre[0].components;
    assert_eq!(parts.len(), 2, "what was not used is gone");
    assert_eq!(
        (parts[0].pool.as_str(), &parts[0].osts[..]),
        ("flash", &[4][..])
    );
    assert_eq!(parts[1].osts, [5, 6]);
}

#[test]
fn traces_and_heat_maps() {
    for (module, version, has_offset, has_thread) in [
        (10, 1, true, false),
        (10, 2, true, true),
        (11, 1, false, false),
        (11, 2, true, false),
        (11, 3, true, true),
    ] {
        let words = writer()
            .words()
            .u64(7)
            .i64s([2, -1])
            .text("node17", 64)
            .i64s([1, 2]);
        let segment = |words: Words, offset| {
            let words = words.i64s([offset, 4096]).f64s([0.5, 0.75]);
            if has_thread { words.u64(77) } else { words }
        };
        let words = segment(segment(segment(words, 0), 10), 20);
        let log = Log::read(&writer().module(module, version, words).build()).unwrap();
        assert_eq!(log.faults, [], "{module} {version}");
        let record = log.dxt_posix.first().or(log.dxt_mpiio.first()).unwrap();
        assert_eq!(
            (
                record.host.as_str(),
                record.writes.len(),
                record.reads.len()
            ),
            ("node17", 1, 2)
        );
        assert_eq!(record.reads[1].offset, has_offset.then_some(20));
        assert_eq!(record.reads[1].thread, has_thread.then_some(77));
        assert_eq!(
            (record.reads[1].start_s, record.reads[1].bytes),
            (0.5, 4096)
        );
    }
    let words = writer()
        .words()
        .u64(7)
        .i64s([0])
        .f64s([0.8])
        .i64s([2, 111, 222, 1, 2, 3, 4]);
    let log = Log::read(&writer().module(15, 1, words).build()).unwrap();
    assert_eq!(log.faults, []);
    assert_eq!(
        (&log.heatmap[0].written[..], &log.heatmap[0].read[..]),
        (&[1, 2][..], &[3, 4][..])
    );
}

#[test]
fn what_is_no_log_is_refused_by_what_it_is() {
    let whole = writer().build();
    assert_eq!(Log::read(b""), Err(DarshanError::NotALog));
    assert_eq!(Log::read(&[0; 4096]), Err(DarshanError::NotALog));
    let with = |place: usize, bytes: &[u8]| {
        let mut log = whole.clone();
        log[place..place + bytes.len()].copy_from_slice(bytes);
        Log::read(&log)
    };
    assert_eq!(with(0, b"2.06"), Err(DarshanError::Version("2.06".into())));
    assert_eq!(
        with(0, b"\x1b[2J"),
        Err(DarshanError::Version("?[2J".into()))
    );
    assert_eq!(with(16, &[3]), Err(DarshanError::Compression(3)));
    assert!(matches!(
        Log::read(&whole[..1000]),
        Err(DarshanError::Header { found: 1000, .. })
    ));
    assert!(matches!(
        Log::read(&whole[..1400]),
        Err(DarshanError::Job(_))
    ));
    assert!(is_log(&whole[..16]) && !is_log(&whole[..15]) && !is_log(b"{\"record\":\"manifest\"}"));
}

#[test]
fn a_log_cut_anywhere_gives_a_part_and_says_so() {
    for compression in COMPRESSIONS {
        let writer = Writer::new(Version::V341, ByteOrder::Big, compression);
        let records = posix(posix(posix(writer.words(), 7), 9), 7);
        let bytes = writer.module(1, 4, records).build();
        let whole = Log::read(&bytes).unwrap();
        let mut found = 0;
        for end in 0..bytes.len() {
            let Ok(cut) = Log::read(&bytes[..end]) else {
                continue;
            };
            found += 1;
            assert!(!cut.faults.is_empty(), "cut at {end} of {}", bytes.len());
            assert_eq!(cut.posix, whole.posix[..cut.posix.len()]);
            assert!(
                cut.names
                    .iter()
                    .all(|(id, name)| whole.name(*id) == Some(name))
            );
        }
        assert!(found > 10, "{compression:?}: {found}");
    }
}

#[test]
fn small_files_cannot_ask_for_gigabytes() {
    let limits = Limits {
        region_bytes: 1 << 20,
        total_bytes: (1 << 20) + 4096,
        records: 100,
    };
    for (compression, bomb) in [
        (Compression::Zlib, zlib(&vec![0; 64 << 20])),
        (Compression::Bzip2, bzip(&vec![0; 64 << 20])),
    ] {
        let mut writer = Writer::new(Version::V341, ByteOrder::Little, compression);
        writer.streams = 1;
        // Two modules lie over the same bytes.
        let mut log = writer.module(1, 4, Words::new(ByteOrder::Little)).build();
        let start = log.len() as u64;
        log.extend(&bomb);
        for id in [1, 9] {
            let place = 48 + 16 * id;
            log[place..place + 8].copy_from_slice(&start.to_le_bytes());
            log[place + 8..place + 16].copy_from_slice(&(bomb.len() as u64).to_le_bytes());
            log[1072 + 4 * id..1076 + 4 * id].copy_from_slice(&2u32.to_le_bytes());
        }
        let read = Log::read_within(&log, &limits).unwrap();
        let bytes = 648 * read.posix.len() + 248 * read.stdio.len();
        assert!(bytes <= limits.total_bytes);
        assert_eq!(read.posix.len(), limits.records);
        let is_limit = |fault: &&Fault| matches!(fault, Fault::Limit { .. });
        assert!(
            read.faults.iter().filter(is_limit).count() >= 3,
            "{:?}",
            read.faults
        );
    }
}

#[test]
fn counts_that_lie_cost_nothing() {
    let huge = i64::MAX;
    let cases = [
        (
            10,
            1,
            writer()
                .words()
                .u64(7)
                .i64s([0, 0])
                .text("", 64)
                .i64s([huge, huge]),
        ),
        (
            10,
            2,
            writer()
                .words()
                .u64(7)
                .i64s([0, 0])
                .text("", 64)
                .i64s([-1, 1]),
        ),
        (8, 1, writer().words().u64(7).i64s([0, 0, 0, 0, 0, huge, 0])),
        (8, 2, writer().words().u64(7).i64s([0, huge, huge])),
        (15, 1, writer().words().u64(7).i64s([0, 0, huge, 0, 0])),
    ];
    for (module, version, words) in cases {
        let log = Log::read(&writer().module(module, version, words).build()).unwrap();
        assert!(
            matches!(log.faults[..], [Fault::Damaged { .. }]),
            "{:?}",
            log.faults
        );
    }
    let unknown = writer().module(1, 5, writer().words().u64(1));
    let log = Log::read(&unknown.build()).unwrap();
    assert!(matches!(
        log.faults[..],
        [Fault::Version { version: 5, .. }]
    ));
    assert_eq!(log.modules[0].state, ModuleState::Skipped);
}

/// The bytes of 24 logs of one run of DLIO.
static REAL_LOGS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(real_logs);

fn real_logs() -> Vec<Vec<u8>> {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/logs");
    let mut paths: Vec<_> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths
        .iter()
        .map(|path| std::fs::read(path).unwrap())
        .collect()
}

/// Each of 168 files was opened by one process, five times.
#[test]
fn real_logs_are_read_whole() {
    let mut opens = std::collections::BTreeMap::new();
    assert_eq!(REAL_LOGS.len(), 24);
    for bytes in REAL_LOGS.iter() {
        let log = Log::read(bytes).unwrap();
        assert_eq!(log.faults, []);
        assert_eq!(log.job.metadata("lib_ver"), Some("3.4.6"));
        assert!(
            log.heatmap
                .iter()
                .all(|map| log.name(map.id).unwrap().starts_with("heatmap:"))
        );
        let trained = |record: &&PosixRecord| log.name(record.id).unwrap().contains("/dlio/train/");
        for record in log.posix.iter().filter(trained) {
            *opens.entry(record.id).or_insert(0) += record.opens();
        }
    }
    assert_eq!(opens.len(), 168);
    assert!(opens.values().all(|opens| *opens == 5));
}

/// A log of every module that is read, without compression: damage reaches every decoder.
fn everything() -> Vec<u8> {
    let writer = Writer::new(Version::V341, ByteOrder::Little, Compression::None);
    let words = || Words::new(ByteOrder::Little);
    let stdio = words().u64(9).i64s(0..15).f64s([0.25; 15]);
    let lustre = words()
        .u64(7)
        .i64s([0, 1, 2])
        .i64s([1 << 20, 2, 0, 0, 0, -1, 0]);
    let traced = words().u64(7).i64s([0, -1]).text("node17", 64).i64s([1, 1]);
    let segments =
        |words: Words| (0..2).fold(words, |w, n| w.i64s([n, 8]).f64s([0.5, 0.75]).u64(7));
    writer
        .module(1, 4, posix(posix(words(), 7), 9))
        .module(9, 2, stdio)
        .module(8, 2, lustre.text("flash", 16).i64s([4, 5]))
        .module(10, 2, segments(traced))
        .module(
            15,
            1,
            words()
                .u64(7)
                .i64s([0])
                .f64s([0.8])
                .i64s([2, 0, 0, 1, 2, 3, 4]),
        )
        .build()
}

#[test]
fn a_log_of_everything_is_read_whole() {
    let log = Log::read(&everything()).unwrap();
    assert_eq!(log.faults, []);
    assert!(log.modules.iter().all(|module| module.records > 0));
    assert_eq!(log.modules.len(), 5);
}

proptest! {
    #[test]
    fn damage_never_panics_and_never_makes_records(
        which in 0usize..48,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in any::<prop::sample::Index>(),
        is_cut in any::<bool>(),
    ) {
        let mut bytes = REAL_LOGS.get(which).cloned().unwrap_or_else(everything);
        for (place, byte) in changes {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        if is_cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Ok(log) = Log::read(&bytes) {
            let read: usize = log.modules.iter().map(|module| module.records).sum();
            let kept = log.posix.len() + log.stdio.len() + log.lustre.len() + log.heatmap.len()
                + log.dxt_posix.len() + log.dxt_mpiio.len();
            prop_assert_eq!(read, kept);
        }
    }

    #[test]
    fn any_bytes_behind_a_header_are_refused_or_read(tail in prop::collection::vec(any::<u8>(), 0..2000)) {
        let mut bytes = b"3.41\0\0\0\0\x77\x35\x64\0\0\0\0\0".to_vec();
        bytes.extend(tail);
        let _ = Log::read(&bytes);
    }
}
