//! Frames of both protocols: anything may arrive on a socket.
#![no_main]

use forebay_wire::{Answer, Ask, Hello, Preamble, Reply, Request, peer_header, read_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    local(bytes);
    peer(bytes);
});

fn local(bytes: &[u8]) {
    let mut payload = Vec::new();
    if let Ok(Some(kind)) = read_frame(&mut &bytes[..], &mut payload) {
        if let Ok(request) = Request::decode(kind, &payload) {
            assert_eq!(request.encode(), bytes[..8 + payload.len()]);
        }
        let _ = Reply::decode(kind, &payload);
    }
}

fn peer(bytes: &[u8]) {
    if let Some(preamble) = bytes.first_chunk() {
        let _ = Preamble::check(*preamble);
    }
    if let Ok(hello) = Hello::decode(bytes) {
        assert_eq!(hello.encode(), bytes[..bytes.len().min(Hello::MAX_BYTES)]);
    }
    let Some((header, rest)) = bytes.split_first_chunk() else {
        return;
    };
    let Ok(header) = peer_header(*header) else {
        return;
    };
    let Some(payload) = rest.get(..header.payload_len) else {
        return;
    };
    if let Ok(ask) = Ask::decode(header.kind, payload) {
        assert_eq!(ask.encode(), bytes[..8 + payload.len()]);
    }
    if let Ok(answer) = Answer::decode(header.kind, payload) {
        assert_eq!(answer.encode(), bytes[..8 + payload.len()]);
    }
}
