//! Files that are published on one node and consumed on others: real daemons over loopback.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use common::{Daemon, Link, PATIENCE, eventually, free_address, refusal};
use forebay_dataset::ErrorKind;
use forebay_wire::{NameRequest, PublishedFile, PublishedPart, Reply, Request};
use serde_json::Value;

/// Not a test of its own: the body of the processes that serve.
#[test]
fn helper_that_serves() {
    common::serve_if_asked();
}

/// Nodes with a cache each, and a folder for what they publish.
struct Nodes {
    folder: tempfile::TempDir,
    caches: Vec<tempfile::TempDir>,
    names: Vec<String>,
}

impl Nodes {
    fn new(count: usize) -> Self {
        Self {
            folder: tempfile::tempdir().unwrap(),
            caches: (0..count).map(|_| tempfile::tempdir().unwrap()).collect(),
            names: (0..count).map(free_address).collect(),
        }
    }

    fn start(&self, node: usize) -> Daemon {
        let members = self.names.join(",");
        let settings = [
            ("FOREBAY_MEMBERS", members.as_str()),
            ("FOREBAY_LISTEN", self.names[node].as_str()),
            ("FOREBAY_SECRET", "a secret of this test"),
        ];
        Daemon::start(self.caches[node].path(), &settings)
    }

    fn start_all(&self) -> Vec<Daemon> {
        let daemons = (0..self.names.len()).map(|node| self.start(node)).collect();
        (0..self.names.len()).for_each(|node| self.wait_until_linked(node, self.names.len() - 1));
        daemons
    }

    fn wait_until_linked(&self, node: usize, count: usize) {
        eventually("members are linked", || {
            let members = self.status(node)["members"].clone();
            let members = members.as_array().unwrap().iter();
            members.filter(|member| member["state"] == "up").count() == count
        });
    }

    fn status(&self, node: usize) -> Value {
        match Link::connect(self.caches[node].path()).ask(&Request::Status) {
            Some(Reply::Status(text)) => serde_json::from_str(&text).unwrap(),
            other => panic!("no status: {other:?}"),
        }
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        path
    }

    fn ask(&self, node: usize, request: NameRequest) -> Option<Reply> {
        Link::connect(self.caches[node].path()).ask(&Request::Names(request))
    }

    fn publish(&self, node: usize, name: &str, path: &Path) -> PublishedFile {
        let published = self.ask(
            node,
            NameRequest::Publish {
                name: name.to_owned(),
                path: path.display().to_string(),
                deadline_ms: PATIENCE.as_millis() as u32,
            },
        );
        one(published).0
    }

    fn try_consume(&self, node: usize, name: &str, wait: Duration) -> Option<Reply> {
        let name = name.to_owned();
        let deadline_ms = wait.as_millis() as u32;
        self.ask(node, NameRequest::Consume { name, deadline_ms })
    }

    fn consume(&self, node: usize, name: &str) -> PublishedFile {
        one(self.try_consume(node, name, PATIENCE)).0
    }

    fn read(&self, node: usize, file: &PublishedFile, start: u64, len: u32) -> Option<Reply> {
        self.ask(
            node,
            NameRequest::Read {
                node: file.node.clone(),
                part: PublishedPart {
                    name: file.name.clone(),
                    generation: file.generation,
                    start,
                    len,
                },
                deadline_ms: PATIENCE.as_millis() as u32,
            },
        )
    }

    fn bytes(&self, node: usize, file: &PublishedFile) -> Vec<u8> {
        match self.read(node, file, 0, file.size as u32) {
            Some(Reply::Bytes(bytes)) => bytes,
            other => panic!("no bytes: {other:?}"),
        }
    }

    fn unpublish(&self, node: usize, name: &str) -> Option<Reply> {
        let name = name.to_owned();
        let deadline_ms = PATIENCE.as_millis() as u32;
        self.ask(node, NameRequest::Unpublish { name, deadline_ms })
    }

    fn list(&self, node: usize) -> Vec<String> {
        let after = String::new();
        match self.ask(node, NameRequest::List { after }) {
            Some(Reply::Published { files, .. }) => {
                files.into_iter().map(|file| file.name).collect()
            }
            other => panic!("no list: {other:?}"),
        }
    }
}

fn one(reply: Option<Reply>) -> (PublishedFile, Option<String>) {
    match reply {
        Some(Reply::Published { mut files, path }) if files.len() == 1 => (files.remove(0), path),
        other => panic!("not one file: {other:?}"),
    }
}

#[test]
fn what_any_node_publishes_every_node_finds_and_reads_by_ranges() {
    let nodes = Nodes::new(3);
    let _daemons = nodes.start_all();
    let bytes = |node: usize| -> Vec<u8> {
        (0..300_000 * node)
            .map(|at| (at * 7 + node) as u8)
            .collect()
    };
    for node in 0..3 {
        // The first is empty, which is a value too.
        let path = nodes.file(&format!("{node}.bin"), &bytes(node));
        let published = nodes.publish(node, &format!("step 1/{node}"), &path);
        assert_eq!(
            (published.size, &published.node),
            (bytes(node).len() as u64, &nodes.names[node])
        );
    }
    for (node, other) in (0..3).flat_map(|node| (0..3).map(move |other| (node, other))) {
        let (file, path) = one(nodes.try_consume(node, &format!("step 1/{other}"), PATIENCE));
        assert_eq!(path.is_some(), node == other, "it lies on its own node");
        assert!(nodes.bytes(node, &file) == bytes(other));
        if other > 0 {
            let part = nodes.read(node, &file, 12_345, 678);
            assert_eq!(
                part,
                Some(Reply::Bytes(bytes(other)[12_345..][..678].to_vec()))
            );
        }
        let beyond = nodes.read(node, &file, file.size, 1);
        assert_eq!(refusal(beyond).0, ErrorKind::InvalidInput);
    }
    assert_eq!(nodes.list(2), ["step 1/0", "step 1/1", "step 1/2"]);
    assert_eq!(nodes.status(1)["published"]["files"], 1);
}

#[test]
fn who_waits_is_woken_and_who_waits_in_vain_is_told() {
    let nodes = Nodes::new(3);
    let _daemons = nodes.start_all();
    let path = nodes.file("a", b"late");
    std::thread::scope(|scope| {
        let waiting: Vec<_> = (0..3)
            .map(|node| {
                scope.spawn({
                    let nodes = &nodes;
                    move || nodes.bytes(node, &nodes.consume(node, "late"))
                })
            })
            .collect();
        eventually("all wait", || {
            let waiting = (0..3).map(|node| nodes.status(node)["published"]["waiting"].clone());
            waiting.filter(|count| count.as_u64() > Some(0)).count() == 3
        });
        nodes.publish(1, "late", &path);
        for woken in waiting {
            assert_eq!(woken.join().unwrap(), b"late");
        }
    });
    for wait in [Duration::ZERO, Duration::from_millis(700)] {
        let since = Instant::now();
        let (kind, message) = refusal(nodes.try_consume(0, "never", wait));
        assert_eq!(kind, ErrorKind::Deadline);
        assert!(
            message.contains("`never` was not published within"),
            "{message}"
        );
        assert!(since.elapsed() >= wait);
    }
}

#[test]
fn the_last_to_publish_a_name_has_it_on_every_node() {
    let nodes = Nodes::new(3);
    let _daemons = nodes.start_all();
    let paths = [nodes.file("a", b"first"), nodes.file("b", b"second one")];
    let first = nodes.publish(0, "x", &paths[0]);
    assert_eq!(nodes.bytes(2, &nodes.consume(2, "x")), b"first");
    let second = nodes.publish(1, "x", &paths[1]);
    assert!(second.generation > first.generation);
    for node in 0..3 {
        let file = nodes.consume(node, "x");
        assert_eq!(file, second, "node {node}");
        assert_eq!(nodes.bytes(node, &file), b"second one");
        let (kind, _) = refusal(nodes.read(node, &first, 0, 5));
        assert_eq!(
            kind,
            ErrorKind::Stale,
            "what was replaced is not read any more"
        );
    }
    // From a node that did not publish it.
    assert_eq!(nodes.unpublish(2, "x"), Some(Reply::Done));
    for node in 0..3 {
        let (kind, _) = refusal(nodes.try_consume(node, "x", Duration::ZERO));
        assert_eq!(kind, ErrorKind::Deadline);
        assert_eq!(refusal(nodes.unpublish(node, "x")).0, ErrorKind::NotFound);
    }
    assert!(nodes.list(0).is_empty());
    assert!(
        paths.iter().all(|path| path.exists()),
        "files are left alone"
    );
}

#[test]
fn a_file_that_is_changed_is_stale_on_every_node_until_it_is_published_again() {
    let nodes = Nodes::new(2);
    let _daemons = nodes.start_all();
    let path = nodes.file("a", b"before");
    let file = nodes.publish(0, "x", &path);
    nodes.file("a", b"after!");
    assert_eq!(
        refusal(nodes.try_consume(0, "x", PATIENCE)).0,
        ErrorKind::Stale
    );
    for node in 0..2 {
        assert_eq!(refusal(nodes.read(node, &file, 0, 6)).0, ErrorKind::Stale);
    }
    nodes.publish(0, "x", &path);
    assert_eq!(nodes.bytes(1, &nodes.consume(1, "x")), b"after!");
}

#[test]
fn keepers_that_die_and_come_back_cost_no_name() {
    let nodes = Nodes::new(4);
    let mut daemons: Vec<Option<Daemon>> = nodes.start_all().into_iter().map(Some).collect();
    let names: Vec<String> = (0..20).map(|number| format!("n{number:02}")).collect();
    for name in &names {
        nodes.publish(0, name, &nodes.file(name, name.as_bytes()));
    }
    // Each of the others in turn dies; two members keep each name, so one is left.
    for (node, daemon) in daemons.iter_mut().enumerate().skip(1) {
        daemon.take().unwrap().kill();
        let asked = if node == 3 { 1 } else { 3 };
        for name in &names {
            assert_eq!(
                nodes.bytes(asked, &nodes.consume(asked, name)),
                name.as_bytes()
            );
        }
        *daemon = Some(nodes.start(node));
        (0..4).for_each(|each| nodes.wait_until_linked(each, 3));
        // It has forgotten all, and is told again what it is to keep.
        let kept = || (0..4).map(|each| nodes.status(each)["published"]["names"].clone());
        eventually("each name is kept twice", || {
            kept().filter_map(|count| count.as_u64()).sum::<u64>() == 40
        });
    }
}

#[test]
fn a_producers_node_that_is_killed_comes_back_with_its_files() {
    let nodes = Nodes::new(2);
    let mut daemons = nodes.start_all();
    let file = nodes.publish(0, "x", &nodes.file("a", b"kept"));
    daemons.remove(0).kill();
    let (kind, message) = refusal(nodes.try_consume(1, "x", Duration::from_millis(300)));
    assert!(
        kind == ErrorKind::Unavailable && message.contains(&nodes.names[0]),
        "{kind:?}: {message}"
    );
    std::thread::scope(|scope| {
        // A read waits for the node to come back.
        let reading = scope.spawn(|| nodes.bytes(1, &file));
        let _again = nodes.start(0);
        assert_eq!(reading.join().unwrap(), b"kept");
        assert_eq!(nodes.consume(1, "x"), file, "the same version");
    });
}

#[test]
fn a_node_alone_publishes_for_its_own_clients() {
    let cache = tempfile::tempdir().unwrap();
    let nodes = Nodes {
        folder: tempfile::tempdir().unwrap(),
        caches: vec![cache],
        names: vec![String::new()],
    };
    let _daemon = Daemon::start(nodes.caches[0].path(), &[]);
    let path = nodes.file("a", b"alone");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| nodes.consume(0, "x"));
        eventually("it waits", || {
            nodes.status(0)["published"]["waiting"].as_u64() > Some(0)
        });
        nodes.publish(0, "x", &path);
        assert_eq!(nodes.bytes(0, &waiting.join().unwrap()), b"alone");
    });
    let name = "x".repeat(513);
    assert_eq!(
        refusal(nodes.try_consume(0, &name, PATIENCE)).0,
        ErrorKind::InvalidInput
    );
    assert_eq!(nodes.unpublish(0, "x"), Some(Reply::Done));
}

#[test]
fn a_daemon_that_leaves_tells_those_who_wait() {
    let nodes = Nodes::new(2);
    let daemons = nodes.start_all();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| nodes.try_consume(0, "never", PATIENCE));
        eventually("it waits", || {
            nodes.status(0)["published"]["waiting"].as_u64() > Some(0)
        });
        daemons[0].terminate();
        assert_eq!(refusal(waiting.join().unwrap()).0, ErrorKind::Unavailable);
    });
}
