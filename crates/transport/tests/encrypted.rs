//! What somebody hears of a link who listens on the way.
#![allow(clippy::unwrap_used, reason = "a test that panics has failed")]

mod common;

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex, mpsc};

use common::{
    Kept, PATIENCE, SILENCE, TEXT, blocks, fetch, heard, listen, next, plan, reach, secret,
};
use forebay_transport::{Caller, Outcome, SocketPlan, accept};
use forebay_wire::{Answer, Ask, Hello};

/// A relay to `address` that keeps all bytes that it sees. It ends with the connection.
fn tapped(address: String) -> (String, Arc<Mutex<Vec<u8>>>) {
    let listening = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let at = listening.local_addr().unwrap().to_string();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let kept = seen.clone();
    std::thread::spawn(move || {
        while let (Ok((near, _)), Ok(far)) = (listening.accept(), TcpStream::connect(&address)) {
            for (mut from, mut to) in [
                (near.try_clone().unwrap(), far.try_clone().unwrap()),
                (far, near),
            ] {
                let kept = kept.clone();
                std::thread::spawn(move || {
                    let mut bytes = [0; 5000];
                    while let Ok(read @ 1..) = from.read(&mut bytes) {
                        kept.lock().unwrap().extend_from_slice(&bytes[..read]);
                        if to.write_all(&bytes[..read]).is_err() {
                            break;
                        }
                    }
                    let _ = to.shutdown(std::net::Shutdown::Both);
                });
            }
        }
    });
    (at, seen)
}

/// What a listener sees of an ask for 300,000 bytes, of which these are some.
fn overheard(asker_encrypts: bool, answerer_encrypts: bool) -> (Vec<u8>, Vec<u8>) {
    let bytes: Vec<u8> = (0..300_000u32)
        .map(|at| (at * 7 + at / 255) as u8)
        .collect();
    let mut file = tempfile::tempfile().unwrap();
    file.write_all(&bytes).unwrap();
    let (listening, address) = listen();
    let (address, seen) = tapped(address);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let plan = SocketPlan {
                encrypts: answerer_encrypts,
                ..SocketPlan::default()
            };
            let admit = |_: &Hello| Ok(());
            let proved = || {
                accept(
                    next(&listening),
                    &secret(TEXT),
                    plan,
                    SILENCE,
                    PATIENCE,
                    admit,
                )
            };
            let (_, mut reader, writer) =
                std::iter::repeat_with(proved).find_map(Result::ok).unwrap();
            let Some(Ask::Fetch { id, .. }) = heard(&mut reader) else {
                panic!("no ask");
            };
            let frame = blocks(id, 0, 7, 300_000);
            writer.send_file(&frame, &file, 0, 300_000).unwrap();
            let ended = Answer::Ended { id, complete: true };
            writer.send(&ended.encode()).unwrap();
            assert!(heard(&mut reader).is_none());
        });
        let mut plan = plan(address);
        plan.socket.encrypts = asker_encrypts;
        // The relay takes its turns on a busy machine.
        plan.silence = PATIENCE;
        let caller = Caller::start(plan).unwrap();
        reach(&caller);
        let (done, ends) = mpsc::channel();
        let kept = Arc::new(Kept::default());
        let _call = caller.call(|id| fetch(id, 7), Some(kept.clone()), &done);
        let ended = ends.recv_timeout(PATIENCE).unwrap();
        assert_eq!(ended.outcome, Outcome::Done { complete: true });
        assert_eq!(*kept.0.lock().unwrap(), [(7, bytes.clone())]);
    });
    let seen = seen.lock().unwrap().clone();
    (seen, bytes[150_000..150_032].to_vec())
}

#[test]
fn a_listener_learns_nothing_of_an_encrypted_link_whichever_side_wants_it() {
    let hears = |(seen, part): (Vec<u8>, Vec<u8>)| {
        assert!(seen.len() > 300_000, "all of it went by");
        seen.windows(part.len()).any(|bytes| bytes == part)
    };
    assert!(hears(overheard(false, false)), "it would hear what is not");
    for (asker, answerer) in [(true, false), (false, true), (true, true)] {
        assert!(!hears(overheard(asker, answerer)), "{asker} {answerer}");
    }
}
