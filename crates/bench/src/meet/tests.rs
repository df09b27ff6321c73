//! Both meetings keep the same contract.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use super::*;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(60)
}

fn join_folder(folder: &Path, rank: u32, size: u32) -> Box<dyn Meeting> {
    Box::new(FolderMeeting::join(folder, rank, size, soon()).unwrap())
}

fn serve(size: u32, deadline: Instant) -> (Server, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (Server::start(listener, size, deadline).unwrap(), port)
}

/// Every rank in a thread of its own.
fn together(size: u32, join: impl Fn(u32) -> Box<dyn Meeting> + Sync) {
    thread::scope(|scope| {
        for rank in 0..size {
            let join = &join;
            scope.spawn(move || {
                let mut meeting = join(rank);
                for stage in 0..20u32 {
                    let mine = format!("{rank} at {stage}").into_bytes();
                    let all = meeting.gather(&mine).unwrap();
                    let wanted: Vec<Vec<u8>> = (0..size)
                        .map(|rank| format!("{rank} at {stage}").into_bytes())
                        .collect();
                    assert_eq!(all, wanted);
                }
                meeting.barrier().unwrap();
            });
        }
    });
}

#[test]
fn all_hear_all_over_tcp() {
    let (server, port) = serve(4, soon());
    // Someone who does not belong there changes nothing.
    let mut stranger = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _silent = TcpStream::connect(("127.0.0.1", port)).unwrap();
    together(4, |rank| {
        Box::new(TcpMeeting::join("127.0.0.1", port, rank, 4, soon()).unwrap())
    });
    server.end();
}

#[test]
fn all_hear_all_in_a_folder() {
    let temp = tempfile::tempdir().unwrap();
    together(4, |rank| join_folder(temp.path(), rank, 4));
}

#[test]
fn large_frames_arrive_whole() {
    let (_server, port) = serve(2, soon());
    let large = vec![7u8; MAX_BYTES];
    thread::scope(|scope| {
        for rank in 0..2 {
            let large = &large;
            scope.spawn(move || {
                let mut meeting = TcpMeeting::join("127.0.0.1", port, rank, 2, soon()).unwrap();
                let all = meeting.gather(large).unwrap();
                assert!(all.iter().all(|one| one == large));
                assert!(meeting.gather(&vec![0; MAX_BYTES + 1]).is_err());
            });
        }
    });
}

#[test]
fn a_rank_that_goes_away_is_told_of_at_once() {
    let (_server, port) = serve(3, soon());
    let mut one = TcpMeeting::join("127.0.0.1", port, 0, 3, soon()).unwrap();
    drop(TcpMeeting::join("127.0.0.1", port, 1, 3, soon()).unwrap());
    let error = one.barrier().unwrap_err().to_string();
    assert_eq!(error, "rank 1 went away");
}

#[test]
fn a_rank_that_never_comes_is_named_at_the_deadline() {
    let deadline = Instant::now() + Duration::from_millis(50);
    let (server, port) = serve(3, deadline);
    let mut one = TcpMeeting::join("127.0.0.1", port, 1, 3, deadline).unwrap();
    let error = one.barrier().unwrap_err().to_string();
    assert_eq!(error, "ranks 0, 2 did not come to stage 1 in time");
    server.end();

    let temp = tempfile::tempdir().unwrap();
    let deadline = Instant::now() + Duration::from_millis(20);
    let mut one = FolderMeeting::join(temp.path(), 0, 3, deadline).unwrap();
    let error = one.barrier().unwrap_err().to_string();
    assert!(
        error.starts_with("ranks 1, 2 did not come to stage 1"),
        "{error}"
    );
}

#[test]
fn a_folder_is_met_in_once() {
    let temp = tempfile::tempdir().unwrap();
    join_folder(temp.path(), 0, 1).barrier().unwrap();
    let error = FolderMeeting::join(temp.path(), 0, 1, soon()).unwrap_err();
    assert!(error.to_string().contains("was met in before"));
}

#[test]
fn nobody_to_meet_ends_at_the_deadline() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = free.local_addr().unwrap().port();
    drop(free);
    let deadline = Instant::now() + Duration::from_millis(20);
    let error = TcpMeeting::join("127.0.0.1", port, 1, 2, deadline).unwrap_err();
    assert!(error.to_string().starts_with("rank 1 cannot reach rank 0"));
}

#[test]
fn alone_nobody_waits() {
    assert_eq!(Alone.gather(b"x").unwrap(), [b"x"]);
}
