//! Frames of the local protocol: anything may arrive on a socket.
#![no_main]

use forebay_wire::{Reply, Request, read_frame};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut payload = Vec::new();
    if let Ok(Some(kind)) = read_frame(&mut &bytes[..], &mut payload) {
        if let Ok(request) = Request::decode(kind, &payload) {
            assert_eq!(request.encode(), bytes[..8 + payload.len()]);
        }
        let _ = Reply::decode(kind, &payload);
    }
});
