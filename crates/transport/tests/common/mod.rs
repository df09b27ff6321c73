//! One end of a link that a test speaks for itself.
#![allow(dead_code, reason = "each test file uses its part")]

use std::net::TcpStream;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use forebay_transport::{
    Arrivals, Arrived, Caller, CallerPlan, LinkError, LinkReader, LinkState, LinkWriter, Listening,
    Secret, SocketPlan, accept,
};
use forebay_wire::{Answer, Ask, BlockRun, Hello};

pub(crate) const SILENCE: Duration = Duration::from_millis(400);
/// Nothing here takes this long; it ends a test that would hang.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn secret(text: &str) -> Secret {
    Secret::from_text(text).unwrap()
}

pub(crate) const TEXT: &str = "0123456789abcdef";

pub(crate) fn plan(address: String) -> CallerPlan {
    CallerPlan {
        address,
        hello: Hello {
            from: "a".to_owned(),
            to: "b".to_owned(),
            members: 7,
        },
        secret: secret(TEXT),
        socket: SocketPlan {
            dscp: Some(10),
            encrypts: false,
        },
        silence: SILENCE,
        fabric: None,
    }
}

pub(crate) fn listen() -> (Listening, String) {
    let listening = Listening::on("127.0.0.1:0").unwrap();
    let address = listening.address().unwrap().to_string();
    (listening, address)
}

pub(crate) fn next(listening: &Listening) -> TcpStream {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(stream) = listening.next(Duration::from_millis(100)).unwrap() {
            return stream;
        }
    }
    panic!("nobody dials");
}

pub(crate) type Proved = Result<(Hello, LinkReader, LinkWriter), LinkError>;

pub(crate) fn answer(listening: &Listening, text: &str) -> Proved {
    let admit = |hello: &Hello| match hello.to.as_str() {
        "b" => Ok(()),
        other => Err(format!("no member `{other}` here")),
    };
    let stream = next(listening);
    let plan = SocketPlan::default();
    accept(stream, &secret(text), plan, SILENCE, PATIENCE, admit)
}

/// The link of one that proves itself. One that was long in waiting for its turn dials again.
pub(crate) fn proved(listening: &Listening) -> (Hello, LinkReader, LinkWriter) {
    loop {
        if let Ok(proved) = answer(listening, TEXT) {
            return proved;
        }
    }
}

/// Waits until asks go through, however often it was dialled.
pub(crate) fn reach(caller: &Caller) {
    assert!(caller.wait_until_up(Instant::now() + PATIENCE));
}

/// The next ask; waits however long it takes.
pub(crate) fn heard(reader: &mut LinkReader) -> Option<Ask> {
    let (kind, payload) = reader.next(|| Ok(())).ok()??;
    Some(Ask::decode(kind, payload).unwrap())
}

#[derive(Default)]
pub(crate) struct Kept(pub(crate) Mutex<Vec<(u64, Vec<u8>)>>);

impl Arrivals for Kept {
    fn arrived(&self, blocks: Arrived<'_>) -> bool {
        let mut kept = self.0.lock().unwrap();
        kept.push((blocks.first, blocks.bytes.to_vec()));
        blocks.shard == 0
    }
}

pub(crate) fn fetch(id: u64, first: u64) -> Ask {
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
        may_lend: false,
        runs: vec![run],
    }
}

pub(crate) fn blocks(id: u64, shard: u32, first: u64, body_len: u32) -> Vec<u8> {
    let blocks = Answer::Blocks {
        id,
        shard,
        first,
        body_len,
        checksums: vec![0],
    };
    blocks.encode()
}

pub(crate) fn eventually(what: &str, is: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is() {
        assert!(Instant::now() < end, "never came: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

pub(crate) fn is_down(caller: &Caller, word: &str) -> bool {
    matches!(caller.state(), LinkState::Down { reason } if reason.contains(word))
}
