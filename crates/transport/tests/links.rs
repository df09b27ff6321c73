//! Links as daemons use them, over loopback.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, mpsc};
use std::time::Instant;

use common::{
    Kept, PATIENCE, SILENCE, TEXT, answer, blocks, eventually, fetch, heard, is_down, listen, next,
    plan, proved, reach,
};
use forebay_transport::{Caller, Ended, LinkError, LinkReader, LinkState, LinkWriter, Outcome};
use forebay_wire::{Answer, Ask, Preamble};

/// Answers each fetch with the 5,000 bytes of a file that begin at its block, the last ask first.
fn serve_backwards(reader: &mut LinkReader, writer: &LinkWriter, file: &std::fs::File, asks: u64) {
    let mut asked = Vec::new();
    for _ in 0..asks {
        match heard(reader) {
            Some(Ask::Fetch { id, runs, .. }) => asked.push((id, runs[0].first)),
            other => panic!("{other:?}"),
        }
    }
    for (id, first) in asked.into_iter().rev() {
        let frame = blocks(id, 0, first, 5000);
        writer.send_file(&frame, file, first, 5000).unwrap();
        let complete = true;
        writer
            .send(&Answer::Ended { id, complete }.encode())
            .unwrap();
    }
}

#[test]
fn many_asks_are_in_flight_and_answered_in_any_order_from_a_file() {
    let bytes: Vec<u8> = (0..6000u32).map(|at| (at * 7) as u8).collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let (listening, address) = listen();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (hello, mut reader, writer) = proved(&listening);
            assert_eq!((hello.from.as_str(), hello.to.as_str()), ("a", "b"));
            serve_backwards(&mut reader, &writer, &file, 100);
            // Until the caller is gone.
            assert!(heard(&mut reader).is_none());
        });
        let caller = Caller::start(plan(address)).unwrap();
        reach(&caller);
        let (done, ends) = mpsc::channel();
        let asks: Vec<_> = (0..100)
            .map(|first| {
                let kept = Arc::new(Kept::default());
                let call = caller.call(|id| fetch(id, first), Some(kept.clone()), &done);
                (call.unwrap(), kept)
            })
            .collect();
        let mut ended: Vec<Ended> = (0..100)
            .map(|_| ends.recv_timeout(PATIENCE).unwrap())
            .collect();
        assert!(
            ended
                .iter()
                .all(|end| end.outcome == Outcome::Done { complete: true })
        );
        ended.sort_by_key(|end| end.id);
        assert_eq!(
            ended.iter().map(|end| end.id).collect::<Vec<_>>(),
            asks.iter().map(|(call, _)| call.id()).collect::<Vec<_>>()
        );
        for (first, (_, kept)) in asks.iter().enumerate() {
            let kept = kept.0.lock().unwrap();
            assert_eq!(*kept, [(first as u64, bytes[first..first + 5000].to_vec())]);
        }
        assert_eq!(caller.received_bytes(), 500_000);
        assert_eq!(caller.in_flight(), 0);
    });
}

#[test]
fn another_secret_proves_nothing_to_either_side() {
    let (listening, address) = listen();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let refused = answer(&listening, "another secret of it");
            assert!(matches!(refused, Err(LinkError::Unproven)));
        });
        let caller = Caller::start(plan(address)).unwrap();
        assert!(!caller.wait_for_first(Instant::now() + PATIENCE));
        assert!(matches!(caller.state(), LinkState::Down { .. }));
    });
}

#[test]
fn a_stranger_is_told_nothing_and_a_played_back_proof_is_none() {
    let (listening, address) = listen();
    // What an honest side says first, taken down by one who relays it.
    let first = std::thread::scope(|scope| {
        let relay = scope.spawn(|| {
            let mut stream = next(&listening);
            stream.write_all(&Preamble::encode()).unwrap();
            let mut first = vec![0; Preamble::BYTES + 2 + 48];
            stream.read_exact(&mut first).unwrap();
            first
        });
        let _caller = Caller::start(plan(address.clone())).unwrap();
        relay.join().unwrap()
    });
    for played in [first.as_slice(), b"GET / HTTP/1.1\r\n\r\n"] {
        let mut stream = TcpStream::connect(&address).unwrap();
        stream.write_all(played).unwrap();
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        let refused = loop {
            // The honest side's own dials may come first.
            match answer(&listening, TEXT) {
                Ok(_) => {}
                Err(error) => break error,
            }
        };
        assert!(
            matches!(refused, LinkError::Io(_) | LinkError::Wire(_)),
            "{refused:?}"
        );
    }
}

#[test]
fn a_peer_that_is_another_member_refuses_by_name() {
    let (listening, address) = listen();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            assert!(matches!(
                answer(&listening, TEXT),
                Err(LinkError::Refused(_))
            ))
        });
        let mut plan = plan(address);
        plan.hello.to = "c".to_owned();
        let caller = Caller::start(plan).unwrap();
        assert!(!caller.wait_for_first(Instant::now() + PATIENCE));
        eventually("the reason", || is_down(&caller, "no member `c` here"));
    });
}

#[test]
fn a_silent_peer_loses_its_asks_and_is_taken_back() {
    let (listening, address) = listen();
    let caller = Caller::start(plan(address)).unwrap();
    let first = proved(&listening);
    reach(&caller);
    let (done, ends) = mpsc::channel();
    let call = caller.call(|id| fetch(id, 0), None, &done).unwrap();
    // Nobody reads the link, nor answers pings.
    let ended = ends.recv_timeout(PATIENCE).unwrap();
    assert_eq!((ended.id, ended.outcome), (call.id(), Outcome::Lost));
    eventually("it is left alone", || is_down(&caller, ""));
    drop(first);
    let _second = proved(&listening);
    eventually("it is back", || caller.state() == LinkState::Up);
    assert!(caller.call(|id| fetch(id, 0), None, &done).is_some());
}

#[test]
fn a_peer_that_answers_pings_may_take_its_time() {
    let (listening, address) = listen();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (_, mut reader, writer) = proved(&listening);
            let mut asked = None;
            let since = Instant::now();
            while let Some(ask) = heard(&mut reader) {
                match ask {
                    Ask::Fetch { id, .. } => asked = Some(id),
                    Ask::Ping { id } => writer.send(&Answer::Pong { id }.encode()).unwrap(),
                    other => panic!("not asked: {other:?}"),
                }
                if let Some(id) = asked.filter(|_| since.elapsed() > SILENCE * 3) {
                    let complete = false;
                    writer
                        .send(&Answer::Ended { id, complete }.encode())
                        .unwrap();
                    asked = None;
                }
            }
        });
        let caller = Caller::start(plan(address)).unwrap();
        reach(&caller);
        let (done, ends) = mpsc::channel();
        let _call = caller.call(|id| fetch(id, 0), None, &done).unwrap();
        let ended = ends.recv_timeout(PATIENCE).unwrap();
        assert_eq!(ended.outcome, Outcome::Done { complete: false });
    });
}

#[test]
fn blocks_that_nobody_asked_for_end_the_link_and_late_ones_do_not() {
    let (listening, address) = listen();
    let caller = Caller::start(plan(address)).unwrap();
    let (_, mut reader, writer) = proved(&listening);
    reach(&caller);
    let (done, ends) = mpsc::channel();
    let given_up = caller.call(|id| fetch(id, 0), None, &done).unwrap();
    let late = given_up.id();
    drop(given_up);
    let kept = Arc::new(Kept::default());
    let call = caller
        .call(|id| fetch(id, 0), Some(kept.clone()), &done)
        .unwrap();
    assert!(heard(&mut reader).is_some() && heard(&mut reader).is_some());
    let send = |id, shard| writer.send(&[blocks(id, shard, 0, 3), b"abc".to_vec()].concat());
    send(late, 0).unwrap();
    send(call.id(), 0).unwrap();
    eventually("the blocks came", || kept.0.lock().unwrap().len() == 1);
    send(call.id(), 1).unwrap();
    assert_eq!(ends.recv_timeout(PATIENCE).unwrap().outcome, Outcome::Lost);
    eventually("the reason", || is_down(&caller, "not asked for"));
}
