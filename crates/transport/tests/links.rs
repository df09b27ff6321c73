//! Links as daemons use them, over loopback.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use forebay_transport::{
    Arrivals, Arrived, Caller, CallerPlan, Ended, LinkError, LinkReader, LinkState, LinkWriter,
    Listening, Outcome, Secret, SocketPlan, accept,
};
use forebay_wire::{Answer, Ask, BlockRun, Hello, Preamble};

const SILENCE: Duration = Duration::from_millis(400);
/// Nothing here takes this long; it ends a test that would hang.
const PATIENCE: Duration = Duration::from_secs(30);

fn secret(text: &str) -> Secret {
    Secret::from_text(text).unwrap()
}

const TEXT: &str = "0123456789abcdef";

fn plan(address: String) -> CallerPlan {
    CallerPlan {
        address,
        hello: Hello {
            from: "a".to_owned(),
            to: "b".to_owned(),
            members: 7,
        },
        secret: secret(TEXT),
        socket: SocketPlan { dscp: Some(10) },
        silence: SILENCE,
    }
}

fn listen() -> (Listening, String) {
    let listening = Listening::on("127.0.0.1:0").unwrap();
    let address = listening.address().unwrap().to_string();
    (listening, address)
}

fn next(listening: &Listening) -> TcpStream {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(stream) = listening.next(Duration::from_millis(100)).unwrap() {
            return stream;
        }
    }
    panic!("nobody dials");
}

type Proved = Result<(Hello, LinkReader, LinkWriter), LinkError>;

fn answer(listening: &Listening, text: &str) -> Proved {
    let admit = |hello: &Hello| match hello.to.as_str() {
        "b" => Ok(()),
        other => Err(format!("no member `{other}` here")),
    };
    let stream = next(listening);
    let plan = SocketPlan::default();
    accept(stream, &secret(text), plan, SILENCE, PATIENCE, admit)
}

/// The link of one that proves itself. One that was long in waiting for its turn dials again.
fn proved(listening: &Listening) -> (Hello, LinkReader, LinkWriter) {
    loop {
        if let Ok(proved) = answer(listening, TEXT) {
            return proved;
        }
    }
}

/// Waits until asks go through, however often it was dialled.
fn reach(caller: &Caller) {
    assert!(caller.wait_until_up(Instant::now() + PATIENCE));
}

/// The next ask; waits however long it takes.
fn heard(reader: &mut LinkReader) -> Option<Ask> {
    let (kind, payload) = reader.next(|| Ok(())).ok()??;
    Some(Ask::decode(kind, payload).unwrap())
}

#[derive(Default)]
struct Kept(Mutex<Vec<(u64, Vec<u8>)>>);

impl Arrivals for Kept {
    fn arrived(&self, blocks: Arrived<'_>) -> bool {
        let mut kept = self.0.lock().unwrap();
        kept.push((blocks.first, blocks.bytes.to_vec()));
        blocks.shard == 0
    }
}

fn fetch(id: u64, first: u64) -> Ask {
    let run = BlockRun {
        shard: 0,
        first,
        count: 1,
        file_size: 1,
        file_mtime_ns: 2,
        file_inode: 3,
    };
    Ask::Fetch {
        id,
        generation: 1,
        deadline_ms: 1000,
        runs: vec![run],
    }
}

fn blocks(id: u64, shard: u32, first: u64, body_len: u32) -> Vec<u8> {
    let blocks = Answer::Blocks {
        id,
        shard,
        first,
        body_len,
        checksums: vec![0],
    };
    blocks.encode()
}

fn eventually(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn is_down(caller: &Caller, word: &str) -> bool {
    matches!(caller.state(), LinkState::Down { reason } if reason.contains(word))
}

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
                    Ask::Open { .. } | Ask::Name { .. } => panic!("not asked"),
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
