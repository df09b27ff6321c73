//! The daemon's life and manners, as processes see them.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::time::Duration;

use common::{BLOCK, Daemon, Link, PATIENCE, World, eventually, refusal};
use forebay_dataset::ErrorKind;
use forebay_residency::NodePaths;
use forebay_wire::{Reply, Request, StageRange};
use rustix::fs::{FlockOperation, flock};

/// Not a test of its own: the body of the processes that serve.
#[test]
fn helper_that_serves() {
    common::serve_if_asked();
}

fn is_clean(world: &World) -> bool {
    let mut state = [0; 8];
    let map = std::fs::File::open(world.paths().map).unwrap();
    map.read_exact_at(&mut state, 72).unwrap();
    u64::from_le_bytes(state) == 1
}

#[test]
fn what_is_staged_is_resident_and_outlives_the_daemon() {
    let world = World::new(&[9 << 20, 0, 100, 3 * BLOCK]);
    let daemon = Daemon::start(world.cache(), &[]);
    let mut link = Link::connect(world.cache());
    let opened = link.open(&world).unwrap();
    assert_eq!(opened, Reply::Opened { dataset: 0 });
    let staged = link.stage(0, world.len(), PATIENCE);
    assert_eq!(
        staged,
        Some(Reply::Staged {
            complete: true,
            peer_bytes: 0,
            handed: Vec::new(),
        })
    );
    let shared = world.shared().unwrap();
    assert!(world.read(&shared, 0, world.len()));
    assert!(!is_clean(&world), "the map says that it is in use");
    daemon.terminate();
    assert_eq!(daemon.end(), "Stopped");
    assert!(is_clean(&world), "the map says that it was stopped cleanly");
    assert!(!NodePaths::new(world.cache().into()).socket().exists());
    assert_eq!(link.ask(&Request::Status), None, "the link is closed");
    assert!(world.read(&shared, 0, world.len()), "without a daemon");
    assert!(
        world.read(&world.shared().unwrap(), 5, 10),
        "to a new client too"
    );
}

#[test]
fn a_second_daemon_on_the_same_folder_leaves() {
    let world = World::new(&[BLOCK]);
    let _daemon = Daemon::start(world.cache(), &[]);
    assert_eq!(Daemon::spawn(world.cache(), &[]).end(), "AlreadyServed");
    assert_eq!(Daemon::spawn_waiting(world.cache()).end(), "AlreadyServed");
    assert!(
        Link::connect(world.cache()).open(&world).is_some(),
        "the first serves on"
    );
}

#[test]
fn a_clients_daemon_waits_for_one_that_is_leaving() {
    let world = World::new(&[BLOCK]);
    let leaving = std::fs::File::create(NodePaths::new(world.cache().into()).lock()).unwrap();
    flock(&leaving, FlockOperation::LockExclusive).unwrap();
    let mut next = Daemon::spawn_waiting(world.cache());
    std::thread::sleep(Duration::from_millis(200));
    assert!(next.is_running());
    drop(leaving);
    assert_eq!(next.said(), "ready");
}

#[test]
fn a_stop_request_ends_it() {
    let world = World::new(&[BLOCK]);
    let daemon = Daemon::start(world.cache(), &[]);
    let reply = Link::connect(world.cache()).ask(&Request::Stop);
    assert_eq!(reply, Some(Reply::Done));
    assert_eq!(daemon.end(), "Stopped");
}

#[test]
fn it_leaves_when_idle_and_not_before() {
    let world = World::new(&[BLOCK]);
    let mut daemon = Daemon::start(world.cache(), &[("FOREBAY_IDLE_EXIT_SECONDS", "1")]);
    let mut link = Link::connect(world.cache());
    assert!(link.open(&world).is_some());
    std::thread::sleep(Duration::from_millis(1500));
    assert!(daemon.is_running(), "a client is here");
    assert!(link.ask(&Request::Status).is_some());
    drop(link);
    assert_eq!(daemon.end(), "Idle");
    assert!(!NodePaths::new(world.cache().into()).socket().exists());
}

#[test]
fn links_over_the_limit_are_closed_and_come_back_later() {
    let world = World::new(&[BLOCK]);
    let _daemon = Daemon::start(world.cache(), &[("FOREBAY_MAX_LINKS", "2")]);
    let mut links: Vec<Link> = (0..2).map(|_| Link::connect(world.cache())).collect();
    for link in &mut links {
        assert!(link.open(&world).is_some());
    }
    assert_eq!(Link::connect(world.cache()).ask(&Request::Status), None);
    assert!(
        links[0].ask(&Request::Status).is_some(),
        "those within it go on"
    );
    links.pop();
    eventually("a place is free again", || {
        Link::connect(world.cache()).ask(&Request::Status).is_some()
    });
}

#[test]
fn hostile_frames_do_not_hurt_it() {
    let world = World::new(&[4 * BLOCK]);
    let mut daemon = Daemon::start(world.cache(), &[]);
    let mut seed = 88_172_645_463_325_252u64;
    let mut dice = move || {
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        seed
    };
    let good = Request::Open {
        index: world.index().display().to_string(),
        root: None,
        generation: world.generation,
    }
    .encode();
    for round in 0..300 {
        let mut link = Link::connect(world.cache());
        let mut bytes = match round % 4 {
            0 => (0..dice() % 200).map(|_| dice() as u8).collect(),
            1 => good[..(dice() as usize) % good.len()].to_vec(),
            2 => [&u32::MAX.to_le_bytes()[..], &good[4..]].concat(),
            _ => good.clone(),
        };
        if round % 4 == 3 {
            let at = dice() as usize % bytes.len();
            bytes[at] ^= 1 << (dice() % 8);
        }
        // It may close the link before it has read everything.
        let _ = link.stream.write_all(&bytes);
        let _ = link.stream.shutdown(std::net::Shutdown::Write);
        let mut rest = Vec::new();
        let _ = link.stream.read_to_end(&mut rest);
    }
    assert!(daemon.is_running());
    let mut link = Link::connect(world.cache());
    assert!(link.open(&world).is_some());
    let staged = link.stage(0, world.len(), PATIENCE);
    assert_eq!(
        staged,
        Some(Reply::Staged {
            complete: true,
            peer_bytes: 0,
            handed: Vec::new(),
        })
    );
    eventually("every hostile link is given back", || {
        let Some(Reply::Status(text)) = link.ask(&Request::Status) else {
            return false;
        };
        let status: serde_json::Value = serde_json::from_str(&text).unwrap();
        status["links"] == 1
    });
}

#[test]
fn requests_that_make_no_sense_are_refused_with_a_reason() {
    let world = World::new(&[4 * BLOCK]);
    let _daemon = Daemon::start(world.cache(), &[]);
    let mut link = Link::connect(world.cache());
    let (kind, message) = refusal(link.stage(0, 1, PATIENCE));
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(message.contains("no data set 0"), "{message}");
    let (kind, _) = refusal(link.ask(&Request::Open {
        index: world.index().display().to_string(),
        root: None,
        generation: world.generation ^ 1,
    }));
    assert_eq!(kind, ErrorKind::Stale);
    let (kind, message) = refusal(link.ask(&Request::Open {
        index: "/no/such/index".to_owned(),
        root: None,
        generation: 0,
    }));
    assert_eq!(kind, ErrorKind::NotFound);
    assert!(message.contains("/no/such/index"), "{message}");
    assert!(link.open(&world).is_some());
    let (kind, message) = refusal(link.stage(4 * BLOCK - 1, 2, PATIENCE));
    assert_eq!(kind, ErrorKind::InvalidInput);
    assert!(message.contains("[16383, 16385)"), "{message}");
    let range = StageRange {
        shard: 9,
        start: 0,
        len: 1,
    };
    let (kind, message) = refusal(link.ask(&Request::Distrust { dataset: 0, range }));
    assert_ne!(kind, ErrorKind::Unavailable, "{message}");
    assert_eq!(
        link.stage(0, world.len(), PATIENCE),
        Some(Reply::Staged {
            complete: true,
            peer_bytes: 0,
            handed: Vec::new(),
        }),
        "the link is good after all that"
    );
}

#[test]
fn a_changed_origin_is_stale_and_names_the_file() {
    let world = World::new(&[4 * BLOCK]);
    let _daemon = Daemon::start(world.cache(), &[]);
    let mut link = Link::connect(world.cache());
    assert!(link.open(&world).is_some());
    std::fs::write(world.folder.path().join("0.bin"), b"other").unwrap();
    let (kind, message) = refusal(link.stage(0, 1, PATIENCE));
    assert_eq!(kind, ErrorKind::Stale);
    assert!(message.contains("0.bin"), "{message}");
}

#[test]
fn an_origin_that_hangs_costs_its_readers_their_deadline_and_nobody_else_anything() {
    let world = World::with_a_file_that_hangs();
    let _daemon = Daemon::start(world.cache(), &[("FOREBAY_ORIGIN_READS", "2")]);
    std::thread::scope(|scope| {
        let leader = scope.spawn(|| {
            let mut link = Link::connect(world.cache());
            link.open(&world).unwrap();
            link.stage(0, 1, PATIENCE)
        });
        let mut link = Link::connect(world.cache());
        link.open(&world).unwrap();
        let status = |link: &mut Link| match link.ask(&Request::Status) {
            Some(Reply::Status(text)) => serde_json::from_str::<serde_json::Value>(&text).unwrap(),
            other => panic!("no status: {other:?}"),
        };
        eventually("the leader is at the origin", || {
            status(&mut link)["metrics"]["origin_reads"] == 1
        });
        let (kind, message) = refusal(link.stage(0, 1, Duration::from_millis(100)));
        assert_eq!(kind, ErrorKind::Deadline, "{message}");
        assert!(message.contains("[0, 1) of shard 0"), "{message}");
        let mut other = Link::connect(world.cache());
        other.open(&world).unwrap();
        let staged = other.stage(BLOCK, 3 * BLOCK, PATIENCE);
        assert_eq!(
            staged,
            Some(Reply::Staged {
                complete: true,
                peer_bytes: 0,
                handed: Vec::new(),
            })
        );
        assert!(world.read(&world.shared().unwrap(), BLOCK, 3 * BLOCK));
        let fifo = world.folder.path().join("0.bin");
        drop(std::fs::OpenOptions::new().write(true).open(fifo).unwrap());
        assert_eq!(refusal(leader.join().unwrap()).0, ErrorKind::Stale);
    });
}

#[test]
fn links_share_what_they_keep_open() {
    let world = World::new(&[BLOCK; 40]);
    let daemon = Daemon::start(world.cache(), &[]);
    let mut links = Vec::new();
    for _ in 0..20 {
        let mut link = Link::connect(world.cache());
        link.open(&world).unwrap();
        let staged = link.stage(0, world.len(), PATIENCE);
        assert_eq!(
            staged,
            Some(Reply::Staged {
                complete: true,
                peer_bytes: 0,
                handed: Vec::new(),
            })
        );
        let bytes = world.paths().data;
        std::fs::OpenOptions::new()
            .write(true)
            .open(bytes)
            .unwrap()
            .write_all_at(&[0], 0)
            .unwrap();
        let range = StageRange {
            shard: 0,
            start: 0,
            len: world.len(),
        };
        assert_eq!(
            link.ask(&Request::Distrust { dataset: 0, range }),
            Some(Reply::Done)
        );
        links.push(link);
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", daemon.pid()))
        .unwrap()
        .count();
    assert!(
        open < 40 + 2 * 20 + 30,
        "{open} descriptors for 20 links and 40 files"
    );
}
