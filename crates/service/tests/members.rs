//! Several nodes with one data set: real daemons over loopback.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::io::Write;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use common::cluster::{BLOCK, Client, Cluster, FILES, USED, range, stage, status};
use common::{Link, eventually};
use forebay_dataset::ShardIndex;
use forebay_residency::ShardPaths;
use forebay_wire::{MAX_HANDED, Reply, Request, StageRange};
use rustix::net::RecvFlags;

/// Not a test of its own: the body of the processes that serve.
#[test]
fn helper_that_serves() {
    common::serve_if_asked();
}

#[test]
fn every_block_is_read_from_the_origin_once_over_all_nodes() {
    let cluster = Cluster::new(3);
    let _daemons = cluster.start_all();
    // Opened everywhere first, so that no owner has to refuse.
    let clients: Vec<Client<'_>> = (0..3).map(|node| cluster.client(node)).collect();
    std::thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || {
                let parts = (0..8).map(|part| {
                    let all = (0..FILES).map(|file| range(file, part * USED / 8, USED / 8));
                    client.stage(all.collect())
                });
                let from_peers: u64 = parts.sum();
                assert!(from_peers > 0, "other nodes own most of it");
                for file in 0..FILES {
                    assert!(client.read(&range(file, 0, USED)));
                }
            });
        }
    });
    let mut clients: Vec<Client<'_>> = (0..3).map(|node| cluster.client(node)).collect();
    let all_blocks = u64::from(FILES) * USED / BLOCK;
    let mut origin_bytes = 0;
    for (node, client) in clients.iter_mut().enumerate() {
        let owned = (0..FILES)
            .filter(|file| cluster.owner(*file) == node)
            .count() as u64;
        assert!(owned > 0, "each has a part");
        let read = client.metric("origin_bytes");
        assert_eq!(read, owned * USED, "node {node} reads what it owns");
        origin_bytes += read;
        let replicas = all_blocks - owned * USED / BLOCK;
        assert_eq!(client.metric("peer_blocks"), replicas);
        assert_eq!(client.metric("peer_corrupt_blocks"), 0);
    }
    assert_eq!(origin_bytes, u64::from(FILES) * USED);
}

#[test]
fn a_batch_is_one_request_for_each_owner() {
    let cluster = Cluster::new(3);
    let _daemons = cluster.start_all();
    let _others: Vec<Client<'_>> = (1..3).map(|node| cluster.client(node)).collect();
    let mut client = cluster.client(0);
    // Two samples in each file, far from each other.
    let samples =
        (0..FILES).flat_map(|file| [range(file, 5, 100), range(file, USED / 2 + 5, 3 * BLOCK)]);
    client.stage(samples.clone().collect());
    assert!(samples.clone().all(|sample| client.read(&sample)));
    let members = status(cluster.cache(0))["members"].clone();
    for member in [1, 2] {
        assert_eq!(members[member]["asks"], 1, "{members}");
    }
    client.stage(samples.collect());
    assert_eq!(status(cluster.cache(0))["members"], members, "all is here");
}

#[test]
fn bytes_of_another_node_are_handed_over_and_become_resident() {
    let cluster = Cluster::new(2);
    let _daemons = cluster.start_all();
    let mut owner = cluster.client(1);
    let file = cluster.owned_by(1);
    owner.stage_and_read(range(file, 0, USED));
    let mut client = cluster.client(0);
    let sample = [range(file, 70_000, 300_000), range(file, 1_000_000, 7)];
    assert_eq!(client.take(sample.to_vec()), 300_007);
    for part in &sample {
        // The daemon writes them behind its reply.
        eventually("what was handed over is resident", || client.read(part));
    }
    assert_eq!(client.take(sample.to_vec()), 0, "it is read from there");
    // Its first block is resident, the others are not: a client asks for those alone.
    let next = range(file, 340_000, 200_000);
    assert_eq!(client.take(vec![next]), 0);
    assert!(client.read(&next));
    let rest = range(file, 600_000, 100_000);
    assert_eq!(client.take(vec![rest]), 100_000);
    eventually("what was handed over is resident", || client.read(&rest));
    assert_eq!(client.metric("origin_reads"), 0);
}

#[test]
fn bytes_are_handed_over_only_where_they_are_few_and_come_from_other_nodes() {
    let cluster = Cluster::new(2);
    let _daemons = cluster.start_all();
    let (own, other) = (cluster.owned_by(0), cluster.owned_by(1));
    cluster.client(1).stage(vec![range(other, 0, USED)]);
    let mut client = cluster.client(0);
    let large = range(other, 0, u64::from(MAX_HANDED) + 1);
    assert_eq!(client.take(vec![large]), 0);
    assert!(client.read(&large));
    let mixed = [range(other, 2 << 20, 9), range(own, 0, 9)];
    assert_eq!(client.take(mixed.to_vec()), 0, "one of them is no other's");
    assert!(mixed.iter().all(|part| client.read(part)));
    let apart: Vec<_> = (0..2000)
        .map(|at| range(other, (3 << 20) + 2 * at, 1))
        .collect();
    assert_eq!(client.take(apart.clone()), 0, "too many parts");
    assert!(apart.iter().all(|part| client.read(part)));
}

#[test]
fn a_client_that_does_not_take_its_bytes_holds_nobody_up_and_finds_them_later() {
    let cluster = Cluster::new(2);
    let _daemons = cluster.start_all();
    let file = cluster.owned_by(1);
    cluster.client(1).stage(vec![range(file, 0, USED)]);
    let sample = range(file, 0, MAX_HANDED.into());
    let mut slow = cluster.client(0);
    slow.share_memory();
    let asked = stage(vec![sample], true);
    slow.link.stream.write_all(&asked.encode()).unwrap();
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    eventually("the answer is there", || {
        rustix::net::recv(&slow.link.stream, &mut [0u8; 1][..], flags).is_ok()
    });
    let mut other = cluster.client(0);
    other.stage_and_read(sample);
    let reply = slow.link.hear();
    assert_eq!(slow.taken(reply, &[sample]), MAX_HANDED as usize);
}

#[test]
fn what_came_from_one_owner_is_not_held_while_another_says_nothing() {
    let cluster = Cluster::new(3);
    let patient = [("FOREBAY_PEER_SILENCE_MS", "60000")];
    let daemons: Vec<_> = (0..3).map(|node| cluster.start(node, &patient)).collect();
    (0..3).for_each(|node| cluster.wait_until_linked(node));
    let files = [cluster.owned_by(1), cluster.owned_by(2)];
    for (node, file) in (1..3).zip(files) {
        cluster.client(node).stage(vec![range(file, 0, USED)]);
    }
    let mut slow = cluster.client(0);
    slow.share_memory();
    daemons[2].freeze();
    let asked = files.map(|file| range(file, 0, BLOCK));
    let asks = stage(asked.to_vec(), true);
    slow.link.stream.write_all(&asks.encode()).unwrap();
    let mut other = cluster.client(0);
    let asks = Request::Stage {
        dataset: 0,
        deadline_ms: 8000,
        takes_bytes: false,
        ranges: vec![asked[0]],
    };
    let reply = other.link.ask(&asks);
    assert!(
        matches!(reply, Some(Reply::Staged { complete: true, .. })),
        "{reply:?}"
    );
    assert!(other.read(&asked[0]));
    daemons[2].signal(rustix::process::Signal::CONT);
    let reply = slow.link.hear();
    slow.taken(reply, &asked);
    assert!(slow.read(&asked[1]));
}

#[test]
fn a_member_opens_what_is_exported_and_refuses_what_is_not() {
    let cluster = Cluster::new(2);
    let exports = cluster.origin.path().display().to_string();
    let patient = ("FOREBAY_PEER_SILENCE_MS", "60000");
    let _first = cluster.start(0, &[patient]);
    let _second = cluster.start(1, &[patient, ("FOREBAY_EXPORTS", &exports)]);
    (0..2).for_each(|node| cluster.wait_until_linked(node));
    let mut client = cluster.client(0);
    client.stage_and_read(range(cluster.owned_by(1), 0, 2 * BLOCK));
    assert_eq!(client.metric("peer_blocks"), 2, "nobody has it open there");
    assert_eq!(client.metric("origin_reads"), 0);
    // The other way round there are no exports, and the data set was opened by a client meanwhile.
    let mut other = cluster.client(1);
    other.stage_and_read(range(cluster.owned_by(0), 0, 2 * BLOCK));
    assert_eq!(other.metric("peer_blocks"), 2);

    let cluster = Cluster::new(2);
    let elsewhere = tempfile::tempdir().unwrap();
    let exports = elsewhere.path().display().to_string();
    let _first = cluster.start(0, &[patient]);
    let _second = cluster.start(1, &[patient, ("FOREBAY_EXPORTS", &exports)]);
    (0..2).for_each(|node| cluster.wait_until_linked(node));
    let mut client = cluster.client(0);
    client.stage_and_read(range(cluster.owned_by(1), 0, 2 * BLOCK));
    assert_eq!(
        client.metric("peer_blocks"),
        0,
        "it is in no exported folder"
    );
    assert_eq!(client.metric("origin_bytes"), 2 * BLOCK);
}

#[test]
fn damaged_bytes_of_an_owner_are_dropped_and_read_from_the_origin() {
    let cluster = Cluster::new(2);
    let _daemons = cluster.start_all();
    let file = cluster.owned_by(1);
    let mut owner = cluster.client(1);
    owner.stage_and_read(range(file, 0, 4 * BLOCK));
    let folder = ShardPaths::dataset_folder(cluster.cache(1), cluster.generation);
    let blocks = ShardPaths::new(&folder, ShardIndex(file)).data;
    let blocks = std::fs::OpenOptions::new()
        .write(true)
        .open(blocks)
        .unwrap();
    blocks.write_all_at(&[0], 2 * BLOCK + 77).unwrap();
    let mut client = cluster.client(0);
    client.stage_and_read(range(file, 0, 4 * BLOCK));
    assert_eq!(client.metric("peer_corrupt_blocks"), 1);
    assert!(client.metric("origin_reads") > 0);
}

#[test]
fn bytes_that_come_over_an_encrypted_link_are_the_same() {
    let cluster = Cluster::new(2);
    let patient = ("FOREBAY_PEER_SILENCE_MS", "60000");
    // One of the two wants it, which is enough.
    let _first = cluster.start(0, &[patient, ("FOREBAY_ENCRYPT_LINKS", "true")]);
    let _second = cluster.start(1, &[patient]);
    (0..2).for_each(|node| cluster.wait_until_linked(node));
    for (asker, owner) in [(0, 1), (1, 0)] {
        let _open = cluster.client(owner);
        let mut client = cluster.client(asker);
        let asked = range(cluster.owned_by(owner), BLOCK, 4 * BLOCK);
        assert_eq!(
            client.stage(vec![asked]),
            4 * BLOCK,
            "its owner gave it all"
        );
        assert!(client.read(&asked));
    }
}

#[test]
fn one_with_another_secret_is_no_member() {
    let cluster = Cluster::new(2);
    let _first = cluster.start(0, &[]);
    let _stranger = cluster.start(1, &[("FOREBAY_SECRET", "quite another secret")]);
    eventually("it is found out", || {
        status(cluster.cache(0))["members"][1]["state"] == "down"
    });
    let mut client = cluster.client(0);
    client.stage_and_read(range(cluster.owned_by(1), 0, BLOCK));
    assert_eq!(client.metric("origin_bytes"), BLOCK);
}

#[test]
fn one_with_another_list_of_members_is_none() {
    let cluster = Cluster::new(2);
    let _first = cluster.start(0, &[]);
    let more = format!("{},127.9.9.9:1", cluster.names.join(","));
    let _second = cluster.start(1, &[("FOREBAY_MEMBERS", &more)]);
    eventually("it is said why", || {
        let reason = status(cluster.cache(0))["members"][1]["reason"].clone();
        reason
            .as_str()
            .unwrap_or("")
            .contains("list of members is another one")
    });
    cluster
        .client(0)
        .stage_and_read(range(cluster.owned_by(1), 0, BLOCK));
}

#[test]
fn a_stopped_owner_costs_time_and_is_taken_back() {
    let cluster = Cluster::new(2);
    let impatient = [("FOREBAY_PEER_SILENCE_MS", "500")];
    let _first = cluster.start(0, &impatient);
    let second = cluster.start(1, &impatient);
    (0..2).for_each(|node| cluster.wait_until_linked(node));
    let _open = cluster.client(1);
    let mut client = cluster.client(0);
    let file = cluster.owned_by(1);
    client.stage_and_read(range(file, 0, BLOCK));
    second.freeze();
    // Within the deadline, or the answer would be an error.
    client.stage_and_read(range(file, BLOCK, 5 * BLOCK));
    assert!(client.metric("origin_bytes") > 0);
    assert_eq!(status(cluster.cache(0))["members"][1]["state"], "down");
    second.signal(rustix::process::Signal::CONT);
    cluster.wait_until_linked(0);
    let before = client.metric("peer_blocks");
    // One that has to wait long for its turn may be given up once more.
    let mut blocks = 10..USED / BLOCK;
    eventually("it is asked again", || {
        let block = blocks.next().expect("there is another");
        client.stage_and_read(range(file, block * BLOCK, BLOCK));
        client.metric("peer_blocks") > before
    });
}

#[test]
fn what_an_owner_is_late_with_is_read_from_the_origin_too() {
    let cluster = Cluster::new(2);
    let settings = [
        ("FOREBAY_PEER_SILENCE_MS", "60000"),
        ("FOREBAY_HEDGED_READS", "8"),
    ];
    let _first = cluster.start(0, &settings);
    let _second = cluster.start(1, &settings);
    (0..2).for_each(|node| cluster.wait_until_linked(node));
    let mut owned = (0..FILES).filter(|file| cluster.owner(*file) == 1);
    let (usual, hangs) = (owned.next().unwrap(), owned.next().unwrap());
    // To the owner, one of its files hangs whoever opens it.
    let other_way = tempfile::tempdir().unwrap();
    for file in (0..FILES).map(|file| format!("{file}.bin")) {
        std::os::unix::fs::symlink(
            cluster.origin.path().join(&file),
            other_way.path().join(file),
        )
        .unwrap();
    }
    let fifo = other_way.path().join(format!("{hangs}.bin"));
    std::fs::remove_file(&fifo).unwrap();
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let mut owner = Link::connect(cluster.cache(1));
    let opened = owner.ask(&Request::Open {
        index: cluster.index().display().to_string(),
        root: Some(other_way.path().display().to_string()),
        generation: cluster.generation,
    });
    assert!(matches!(opened, Some(Reply::Opened { .. })));
    let mut client = cluster.client(0);
    // Until it is known how long this owner usually takes.
    for block in 0..USED / BLOCK {
        client.stage_and_read(range(usual, block * BLOCK, BLOCK));
    }
    // An answer that had to wait for its turn is late too.
    assert_eq!(client.metric("origin_reads"), client.metric("hedged_reads"));
    let before = client.metric("hedged_reads");
    client.stage_and_read(range(hangs, 0, 2 * BLOCK));
    assert!(client.metric("hedged_reads") > before);
}

/// Small ranges all over, until told to stop.
fn read_on(mut client: Client<'_>, seed: u64, done: &AtomicBool, reads: &AtomicU64) {
    let mut dice = seed;
    let mut below = |n: u64| {
        dice ^= dice << 13;
        dice ^= dice >> 7;
        dice ^= dice << 17;
        dice % n
    };
    while !done.load(Ordering::Relaxed) {
        let batch: Vec<StageRange> = (0..4)
            .map(|_| {
                let start = below(USED - 1);
                range(
                    below(FILES.into()) as u32,
                    start,
                    1 + below((USED - start).min(300_000)),
                )
            })
            .collect();
        client.stage(batch.clone());
        // What was staged may have been evicted again.
        let read = batch.iter().filter(|asked| client.read(asked)).count();
        reads.fetch_add(read as u64, Ordering::Relaxed);
    }
}

#[test]
fn owners_that_are_killed_or_stopped_while_others_read_cost_no_error() {
    let cluster = Cluster::new(3);
    // Half of the data, so that something is always absent.
    let settings = [
        ("FOREBAY_PEER_SILENCE_MS", "300"),
        ("FOREBAY_CAPACITY", "20 MiB"),
        ("FOREBAY_POLICY", "lru"),
    ];
    let _first = cluster.start(0, &settings);
    let _second = cluster.start(1, &settings);
    let mut third = cluster.start(2, &settings);
    let (done, reads) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..4)
            .map(|reader| {
                let client = cluster.client(reader % 2);
                let (done, reads) = (&done, &reads);
                scope.spawn(move || read_on(client, 77 + reader as u64, done, reads))
            })
            .collect();
        for round in 0..6 {
            let client = cluster.client(2);
            std::thread::sleep(Duration::from_millis(150));
            if round % 2 == 0 {
                third.kill();
                std::thread::sleep(Duration::from_millis(100));
                third = cluster.start(2, &settings);
            } else {
                third.freeze();
                std::thread::sleep(Duration::from_millis(500));
                third.signal(rustix::process::Signal::CONT);
            }
            drop(client);
            if readers.iter().any(|reader| reader.is_finished()) {
                break;
            }
        }
        done.store(true, Ordering::Relaxed);
        readers
            .into_iter()
            .for_each(|reader| reader.join().unwrap());
    });
    assert!(reads.into_inner() > 0, "nothing was read");
    std::io::stdout().flush().unwrap();
}
