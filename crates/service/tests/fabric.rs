//! Several nodes whose blocks go over a fabric: real daemons over the providers that need no device.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use common::cluster::{BLOCK, Cluster, FILES, USED, range, status};
use common::{Daemon, eventually};
use forebay_transport::{Fabric, FabricError, FabricPlan};
use serde_json::Value;

/// Not a test of its own: the body of the processes that serve.
#[test]
fn helper_that_serves() {
    common::serve_if_asked();
}

/// The transports to try. `None` where there is no libfabric.
fn transports() -> Option<[&'static str; 2]> {
    let plan = FabricPlan {
        providers: vec!["tcp".to_owned()],
        ..FabricPlan::default()
    };
    match Fabric::open(&plan) {
        Ok(_) => Some(["libfabric:tcp", "libfabric:shm"]),
        Err(FabricError::Load(error)) => {
            eprintln!("skipped: {error}");
            None
        }
        Err(error) => panic!("{error}"),
    }
}

fn start_all(cluster: &Cluster, transport: &str, silence: &str) -> Vec<Daemon> {
    let settings = [
        ("FOREBAY_TRANSPORT", transport),
        ("FOREBAY_PEER_SILENCE_MS", silence),
        ("FOREBAY_DSCP", "10"),
    ];
    let nodes = 0..cluster.names.len();
    let daemons = nodes.clone().map(|node| cluster.start(node, &settings));
    let daemons = daemons.collect();
    nodes.for_each(|node| cluster.wait_until_linked(node));
    daemons
}

fn fabric_of(cluster: &Cluster, node: usize, member: usize) -> Value {
    status(cluster.cache(node))["members"][member]["fabric"].clone()
}

/// Waits until every node reads the others' memory.
fn wait_until_open(cluster: &Cluster) {
    for node in 0..cluster.names.len() {
        eventually("the fabric is open", || {
            let members = status(cluster.cache(node))["members"].clone();
            let mut others = members.as_array().unwrap().iter();
            others.all(|member| member["state"] == "this node" || member["fabric"]["open"] == true)
        });
    }
}

#[test]
fn bytes_of_owners_come_over_the_fabric_exactly() {
    let Some(transports) = transports() else {
        return;
    };
    for transport in transports {
        let cluster = Cluster::new(3);
        let _daemons = start_all(&cluster, transport, "60000");
        wait_until_open(&cluster);
        let clients: Vec<_> = (0..3).map(|node| cluster.client(node)).collect();
        std::thread::scope(|scope| {
            for mut client in clients {
                scope.spawn(move || {
                    for part in 0..4 {
                        let all = (0..FILES).map(|file| range(file, part * USED / 4, USED / 4));
                        client.stage(all.collect());
                    }
                    for file in 0..FILES {
                        assert!(client.read(&range(file, 0, USED)));
                    }
                });
            }
        });
        for node in 0..3 {
            let of_node = status(cluster.cache(node));
            let fabric = &of_node["fabric"];
            let provider = transport.trim_start_matches("libfabric:");
            assert!(
                fabric["provider"].as_str().unwrap().starts_with(provider),
                "{fabric}"
            );
            assert_eq!(fabric["requested_class"], "dscp 10");
            assert_eq!(of_node["plan"]["transport"], transport);
            assert_eq!(of_node["metrics"]["peer_corrupt_blocks"], 0);
            let members = of_node["members"].as_array().unwrap();
            let sum = |name: &str| {
                let others = members.iter().filter(|member| member["state"] == "up");
                others
                    .map(|member| member["fabric"][name].as_u64().unwrap())
                    .sum::<u64>()
            };
            assert_eq!(sum("failed_reads"), 0, "{members:?}");
            let blocks = of_node["metrics"]["peer_blocks"].as_u64().unwrap();
            // Whatever was worth it, and there was room to lend.
            let over_fabric = sum("received_bytes");
            assert!(
                over_fabric > blocks * BLOCK / 2,
                "{over_fabric} of {blocks} blocks"
            );
        }
    }
}

#[test]
fn what_is_little_stays_on_the_link() {
    let Some([tcp, _]) = transports() else { return };
    let cluster = Cluster::new(2);
    let _daemons = start_all(&cluster, tcp, "60000");
    wait_until_open(&cluster);
    let _owner = cluster.client(1);
    let mut client = cluster.client(0);
    let file = cluster.owned_by(1);
    client.stage_and_read(range(file, 0, 100));
    assert_eq!(fabric_of(&cluster, 0, 1)["received_bytes"], 0);
    client.stage_and_read(range(file, BLOCK, 4 * BLOCK));
    let fabric = fabric_of(&cluster, 0, 1);
    assert_eq!(fabric["received_bytes"], 4 * BLOCK, "{fabric}");
    assert_eq!(client.metric("peer_blocks"), 5);
}

#[test]
fn an_owner_that_is_killed_or_stands_still_costs_time_and_no_byte() {
    let Some(transports) = transports() else {
        return;
    };
    for (transport, is_killed) in [
        (transports[0], true),
        (transports[0], false),
        (transports[1], true),
    ] {
        let cluster = Cluster::new(2);
        let mut daemons = start_all(&cluster, transport, "1000");
        wait_until_open(&cluster);
        let _open = cluster.client(1);
        let file = cluster.owned_by(1);
        std::thread::scope(|scope| {
            // Kept apart: what its owner has is gone when it dies.
            let (started, wait) = std::sync::mpsc::channel();
            let cluster = &cluster;
            scope.spawn(move || {
                let mut client = cluster.client(0);
                for block in 0..USED / BLOCK / 4 {
                    // Exact, whatever happens to the owner meanwhile.
                    client.stage_and_read(range(file, block * 4 * BLOCK, 4 * BLOCK));
                    if block == 3 {
                        started.send(()).unwrap();
                    }
                }
            });
            wait.recv_timeout(common::PATIENCE).unwrap();
            let owner = daemons.pop().unwrap();
            if is_killed {
                owner.kill();
            } else {
                owner.freeze();
                daemons.push(owner);
            }
        });
        let of_node = status(cluster.cache(0));
        assert!(
            of_node["metrics"]["origin_bytes"].as_u64().unwrap() > 0,
            "the rest is the origin's"
        );
        assert_eq!(of_node["direct_bytes"], 0);
    }
}

#[test]
fn a_member_without_a_fabric_is_read_over_the_link() {
    let Some([tcp, _]) = transports() else { return };
    let cluster = Cluster::new(2);
    let patient = ("FOREBAY_PEER_SILENCE_MS", "60000");
    let _first = cluster.start(0, &[patient, ("FOREBAY_TRANSPORT", tcp)]);
    let _second = cluster.start(1, &[patient]);
    (0..2).for_each(|node| cluster.wait_until_linked(node));
    eventually("it is told why", || {
        let reason = fabric_of(&cluster, 0, 1)["reason"].clone();
        reason
            .as_str()
            .is_some_and(|reason| reason.contains("TCP only"))
    });
    let _owner = cluster.client(1);
    let mut client = cluster.client(0);
    client.stage_and_read(range(cluster.owned_by(1), 0, 8 * BLOCK));
    assert_eq!(client.metric("peer_blocks"), 8);
    assert_eq!(fabric_of(&cluster, 0, 1)["received_bytes"], 0);
    let other = status(cluster.cache(1));
    assert!(other["fabric"].is_null() && other["plan"]["transport"] == "tcp");
}

#[test]
fn a_fabric_that_is_named_and_not_there_is_refused_and_one_that_may_be_absent_is_not() {
    let cluster = Cluster::new(2);
    let refused = cluster.spawn(0, &[("FOREBAY_TRANSPORT", "libfabric:forebay-none")]);
    assert!(!refused.succeeds(), "it must not start");
    // On a machine without a fast network it says why, and goes on.
    let _daemon = cluster.start(0, &[("FOREBAY_TRANSPORT", "auto")]);
    let fabric = status(cluster.cache(0))["fabric"].clone();
    let is_open = fabric["provider"].is_string();
    assert!(
        is_open
            || fabric["reason"]
                .as_str()
                .is_some_and(|reason| reason.contains("libfabric"))
    );
}

#[test]
fn without_the_library_a_fabric_is_refused() {
    let cluster = Cluster::new(2);
    let absent = ("FOREBAY_LIBFABRIC", "libforebay-none.so.9");
    let refused = cluster.spawn(0, &[absent, ("FOREBAY_TRANSPORT", "libfabric")]);
    assert!(!refused.succeeds(), "it must not start");
    let _daemon = cluster.start(0, &[absent, ("FOREBAY_TRANSPORT", "auto")]);
    let reason = status(cluster.cache(0))["fabric"]["reason"].clone();
    assert!(
        reason.as_str().unwrap().contains("libforebay-none.so.9"),
        "{reason}"
    );
}

#[test]
fn a_daemon_with_a_fabric_that_is_told_to_end_ends_well_and_leaves_nothing() {
    let Some(transports) = transports() else {
        return;
    };
    for transport in transports {
        let cluster = Cluster::new(2);
        let daemons = start_all(&cluster, transport, "60000");
        wait_until_open(&cluster);
        let pids: Vec<u32> = daemons.iter().map(Daemon::pid).collect();
        for daemon in daemons {
            daemon.terminate();
            assert_eq!(daemon.end(), "Stopped", "{transport}");
        }
        let left = std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten();
        let mut left = left.map(|file| file.file_name().to_string_lossy().into_owned());
        let is_theirs = |file: &String| pids.iter().any(|pid| file.starts_with(&format!("{pid}:")));
        assert_eq!(left.find(is_theirs), None, "{transport}");
    }
}
