//! Map, block file and stamps over real files: what the daemon publishes is what clients read.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;

use common::{BLOCK, Daemon, bytes, range, read};
use forebay_residency::protocol::begin;
use forebay_residency::{BlockFile, Counter, ResidencyMap, ShardPaths, Stamps, now_ticks};

const STATE_AT: u64 = 72;
const BOOT_AT: u64 = 80;

fn patch(daemon: &Daemon, at: u64, bytes: &[u8]) {
    let map = OpenOptions::new()
        .write(true)
        .open(daemon.paths().map)
        .unwrap();
    map.write_all_at(bytes, at).unwrap();
}

#[test]
fn what_is_published_is_read_and_viewed() {
    let daemon = Daemon::new(130);
    let client = daemon.client().unwrap();
    daemon.fill(1..129);
    for asked in [
        range(BLOCK, 1),
        range(BLOCK + 7, 70 * BLOCK),
        range(128 * BLOCK, BLOCK),
    ] {
        assert_eq!(read(&client, asked), Some(bytes(asked)));
        let view = client.view(asked).unwrap().unwrap();
        assert_eq!(view.bytes(), bytes(asked));
        assert!(client.is_resident(asked));
    }
    for absent in [
        range(0, BLOCK + 1),
        range(128 * BLOCK, BLOCK + 1),
        range(0, 1),
        range(500 * BLOCK, 1),
        range(u64::MAX - 1, 1),
    ] {
        assert_eq!(read(&client, absent), None, "{absent:?}");
        assert!(client.view(absent).unwrap().is_none(), "{absent:?}");
        assert!(!client.is_resident(absent));
    }
    daemon.fill(129..130);
    let tail = range(129 * BLOCK, 100);
    assert_eq!(read(&client, tail), Some(bytes(tail)));
}

#[test]
fn what_was_evicted_is_absent_and_gives_its_room_back() {
    let daemon = Daemon::new(64);
    daemon.fill(0..64);
    let client = daemon.client().unwrap();
    let full = daemon.file.allocated_bytes().unwrap();
    assert!(daemon.evict(&(16..32)));
    assert_eq!(read(&client, range(16 * BLOCK, 1)), None);
    assert_eq!(
        read(&client, range(32 * BLOCK, 9)),
        Some(bytes(range(32 * BLOCK, 9)))
    );
    assert!(full - daemon.file.allocated_bytes().unwrap() >= 15 * BLOCK);
    assert_eq!(daemon.map.resident_count(), 48);
}

#[test]
fn a_map_of_another_block_file_is_absent() {
    let daemon = Daemon::new(8);
    daemon.fill(0..8);
    assert!(daemon.client().is_some());
    let _other = BlockFile::create(
        &daemon.paths().data,
        daemon.identity.shard_len,
        daemon.identity.block_size,
    )
    .unwrap();
    assert!(
        daemon.client().is_none(),
        "the pair does not belong together"
    );
    std::fs::remove_file(daemon.paths().data).unwrap();
    assert!(daemon.client().is_none(), "the pair is being replaced");
    std::fs::remove_file(daemon.paths().map).unwrap();
    assert!(daemon.client().is_none(), "nothing is there");
}

#[test]
fn a_map_from_before_a_crash_of_the_machine_is_absent() {
    let daemon = Daemon::new(8);
    daemon.fill(0..8);
    patch(&daemon, BOOT_AT, &[0x5A; 16]);
    assert!(
        daemon.client().is_none(),
        "another boot, not stopped cleanly"
    );
    patch(&daemon, STATE_AT, &1u64.to_le_bytes());
    assert!(daemon.client().is_some(), "another boot, stopped cleanly");
    daemon.map.mark_live().unwrap();
    assert!(daemon.client().is_some(), "in use under this kernel");
    patch(&daemon, BOOT_AT, &[0x5A; 16]);
    assert!(daemon.client().is_none(), "taking it into use unmarks it");
}

#[test]
fn what_was_resident_before_a_crash_is_published_again_only_if_it_matches() {
    let daemon = Daemon::new(4);
    daemon.fill(0..4);
    let map = ResidencyMap::open(&daemon.paths().map, &daemon.identity, true).unwrap();
    let before = begin(&map, &(0..4)).unwrap();
    map.demote_all();
    assert!(
        !before.holds(&map, &(0..4)),
        "a reader in flight must look again: what is not stored is punched now"
    );
    assert_eq!(map.resident_count(), 0);
    let client = daemon.client().unwrap();
    assert_eq!(read(&client, range(0, 1)), None);
    let landed = daemon.file.check(1, BLOCK as usize, map.checksum(1));
    map.publish(landed.unwrap().unwrap());
    assert_eq!(read(&client, range(BLOCK, 5)), Some(bytes(range(BLOCK, 5))));
    daemon
        .file
        .file()
        .write_all_at(b"\0", 2 * BLOCK + 9)
        .unwrap();
    let hurt = daemon.file.check(2, BLOCK as usize, map.checksum(2));
    assert!(hurt.unwrap().is_none());
    assert!(
        daemon
            .file
            .check(3, 100, map.checksum(3))
            .unwrap()
            .is_some()
    );
}

#[test]
fn bits_past_the_last_block_name_nothing() {
    let daemon = Daemon::new(70);
    daemon.fill(0..70);
    let stored_at = 4096 + 64;
    patch(&daemon, stored_at + 8, &u64::MAX.to_le_bytes());
    let stored: Vec<u64> = daemon.map.stored_words().collect();
    assert_eq!(stored, [u64::MAX, (1 << 6) - 1]);
}

#[test]
fn removing_a_shard_leaves_nothing_not_even_a_half_made_map() {
    let daemon = Daemon::new(2);
    let paths = daemon.paths();
    std::fs::write(paths.map.with_extension("map-partial"), b"half").unwrap();
    paths.remove().unwrap();
    assert_eq!(std::fs::read_dir(daemon.folder.path()).unwrap().count(), 0);
    paths.remove().unwrap();
}

#[test]
fn stamps_remember_the_last_use_and_take_the_future_for_never() {
    let daemon = Daemon::new(40);
    let stamps = Stamps::open(&daemon.paths().stamps, 40, false).unwrap();
    assert_eq!(stamps.groups(), 3);
    let now = now_ticks() + 10;
    stamps.touch(&(15..17), now);
    let uses: Vec<u32> = (0..3).map(|group| stamps.last_use(group, now)).collect();
    assert_eq!(uses, [now, now, 0]);
    assert_eq!(stamps.last_use(0, now - 1), 0, "a stamp from the future");
    stamps.touch(&(0..1000), now + 1);
    assert_eq!(stamps.last_use(2, now + 1), now + 1);
    stamps.count(Counter::LocalBytes, 7);
    let again = Stamps::open(&daemon.paths().stamps, 40, true).unwrap();
    assert_eq!(again.read(Counter::LocalBytes), 7);
    assert_eq!(again.last_use(0, now + 1), now + 1);
    assert!(Stamps::open(&daemon.paths().stamps, 400, false).is_err());
}

#[test]
fn a_read_stamps_its_blocks() {
    let daemon = Daemon::new(40);
    daemon.fill(0..40);
    let client = daemon.client().unwrap();
    let stamps = Stamps::open(&daemon.paths().stamps, 40, false).unwrap();
    let before = now_ticks();
    let _ = read(&client, range(20 * BLOCK, 10)).unwrap();
    let now = now_ticks();
    assert!((before..=now).contains(&stamps.last_use(1, now)));
    assert_eq!(stamps.last_use(0, now), 0);
}

#[test]
fn files_of_different_shards_and_data_sets_are_apart() {
    let folder = |generation| ShardPaths::dataset_folder("/c".as_ref(), generation);
    assert_ne!(folder(1), folder(2));
    let daemon = Daemon::new(2);
    let other = forebay_residency::MapIdentity {
        generation: 78,
        ..daemon.identity
    };
    assert!(ResidencyMap::open(&daemon.paths().map, &other, false).is_err());
}
