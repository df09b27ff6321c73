//! A view keeps its blocks: against this process, another one, a child of fork and a dead one.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use common::{BLOCK, Daemon, bytes, range};
use forebay_residency::{MapIdentity, ShardPaths, SharedShard};

/// Names the folder to the helper process.
const FOLDER: &str = "FOREBAY_TEST_FOLDER";

#[test]
fn a_view_keeps_its_blocks_until_it_is_dropped() {
    let daemon = Daemon::new(64);
    daemon.fill(0..64);
    let client = daemon.client().unwrap();
    let asked = range(15 * BLOCK, 2 * BLOCK);
    let first = client.view(asked).unwrap().unwrap();
    let second = client.view(range(16 * BLOCK, 1)).unwrap().unwrap();
    assert!(!daemon.evict(&(0..16)), "group 0 is held");
    assert!(!daemon.evict(&(16..32)), "group 1 is held");
    assert!(daemon.evict(&(32..64)), "nothing else is");
    assert_eq!(first.bytes(), bytes(asked));
    drop(first);
    assert!(daemon.evict(&(0..16)), "group 0 is free again");
    assert!(!daemon.evict(&(16..32)), "the second view holds group 1");
    drop(second);
    assert!(daemon.evict(&(16..32)));
}

#[test]
fn a_view_of_absent_blocks_holds_nothing() {
    let daemon = Daemon::new(64);
    daemon.fill(0..16);
    let client = daemon.client().unwrap();
    assert!(client.view(range(15 * BLOCK, 2 * BLOCK)).unwrap().is_none());
    assert!(daemon.evict(&(0..64)));
}

#[test]
fn no_view_of_what_is_being_evicted() {
    let daemon = Daemon::new(64);
    daemon.fill(0..64);
    let client = daemon.client().unwrap();
    let evictor = forebay_residency::EvictLock::try_lock(daemon.file.file(), &(16..32)).unwrap();
    assert!(client.view(range(15 * BLOCK, 2 * BLOCK)).unwrap().is_none());
    assert!(
        daemon.evict(&(0..16)),
        "the part that was got is given back"
    );
    drop(evictor);
    assert!(client.view(range(16 * BLOCK, 1)).unwrap().is_some());
}

#[test]
fn a_held_file_is_whole_and_stays_as_long_as_a_descriptor_of_it() {
    let daemon = Daemon::new(64);
    let whole = range(0, daemon.identity.shard_len);
    daemon.fill(0..63);
    let client = daemon.client().unwrap();
    assert!(client.hold_range(whole).unwrap().is_none(), "one is absent");
    daemon.fill(63..64);
    let held = client.hold_range(whole).unwrap().unwrap();
    // As the kernel keeps it when a mount serves it and its process ends.
    let copy = held.try_clone().unwrap();
    drop(held);
    assert!(!daemon.evict(&(0..16)) && !daemon.evict(&(48..64)));
    let mut content = Vec::new();
    (&copy).read_to_end(&mut content).unwrap();
    assert!(content == daemon.content, "the file is the shard");
    drop(copy);
    assert!(daemon.evict(&(0..64)));
    assert!(client.hold_range(whole).unwrap().is_none());
}

/// Not a test of its own: the body of the process that [`spawn_holder`] starts.
#[test]
fn helper_that_holds_a_view() {
    let Some(folder) = std::env::var_os(FOLDER) else {
        return;
    };
    let identity = MapIdentity {
        ..Daemon::new(64).identity
    };
    let paths = ShardPaths::new(folder.as_ref(), identity.shard);
    let client = SharedShard::open(paths, &identity).unwrap().unwrap();
    let _view = client.view(range(0, BLOCK)).unwrap().unwrap();
    println!("\nheld");
    std::io::stdout().flush().unwrap();
    let _ = std::io::stdin().lines().next();
}

fn spawn_holder(daemon: &Daemon) -> Child {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "helper_that_holds_a_view", "--nocapture"])
        .env(FOLDER, daemon.folder.path())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let held = lines.map_while(Result::ok).any(|line| line == "held");
    assert!(held, "the helper ended without a view");
    child
}

#[test]
fn a_view_in_another_process_counts_until_the_process_dies() {
    let daemon = Daemon::new(64);
    daemon.fill(0..64);
    let mut holder = spawn_holder(&daemon);
    assert!(!daemon.evict(&(0..16)));
    assert!(daemon.evict(&(16..32)));
    holder.kill().unwrap();
    holder.wait().unwrap();
    assert!(daemon.evict(&(0..16)), "a dead process holds nothing");
}

#[test]
fn a_child_of_fork_neither_drops_nor_takes_a_hold_of_its_parent() {
    let daemon = Daemon::new(64);
    daemon.fill(0..64);
    let client = daemon.client().unwrap();
    let view = client.view(range(0, BLOCK)).unwrap().unwrap();
    // SAFETY: the child only drops the view, asks for another and leaves by `_exit`; none of it
    // takes a lock that a thread of the parent could have held at the fork.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(view);
        let refused = matches!(client.view(range(32 * BLOCK, 1)), Ok(None));
        // SAFETY: ends the child at once, without running the parent's exit handlers.
        unsafe { libc::_exit(i32::from(!refused)) };
    }
    let mut status = -1;
    // SAFETY: `status` is a valid place for the child's status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    assert_eq!(
        status, 0,
        "the child got a hold through its parent's descriptor"
    );
    assert!(
        !daemon.evict(&(0..16)),
        "the child gave the parent's hold back"
    );
    assert_eq!(view.bytes(), bytes(range(0, BLOCK)));
    assert!(daemon.evict(&(32..48)), "the child left a hold behind");
    drop(view);
    assert!(daemon.evict(&(0..16)));
}
