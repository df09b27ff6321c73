use super::*;
use crate::published::tests::{files, name_ask};
use proptest::prelude::*;

fn run() -> impl Strategy<Value = BlockRun> {
    let file = (any::<u64>(), any::<i64>(), any::<u64>());
    (any::<u32>(), 0..1u64 << 62, 1u32.., file).prop_map(|(shard, first, count, file)| BlockRun {
        shard,
        first,
        count,
        file_size: file.0,
        file_mtime_ns: file.1,
        file_inode: file.2,
    })
}

fn ask() -> impl Strategy<Value = Ask> {
    let root = proptest::option::of(".{0,40}");
    let runs = proptest::collection::vec(run(), 0..20);
    prop_oneof![
        (any::<u64>(), any::<u128>(), ".{0,40}", root).prop_map(|(id, generation, index, root)| {
            Ask::Open {
                id,
                generation,
                index,
                root,
            }
        }),
        (any::<u64>(), any::<u128>(), any::<u32>(), runs).prop_map(
            |(id, generation, deadline_ms, runs)| Ask::Fetch {
                id,
                generation,
                deadline_ms,
                runs
            }
        ),
        any::<u64>().prop_map(|id| Ask::Ping { id }),
        (any::<u64>(), name_ask()).prop_map(|(id, ask)| Ask::Name { id, ask }),
    ]
}

fn answer() -> impl Strategy<Value = Answer> {
    let sums = proptest::collection::vec(any::<u32>(), 1..20);
    let blocks = (
        any::<u64>(),
        any::<u32>(),
        0..1u64 << 62,
        1..=MAX_BODY,
        sums,
    );
    prop_oneof![
        any::<u64>().prop_map(|id| Answer::Opened { id }),
        blocks.prop_map(|(id, shard, first, body_len, checksums)| Answer::Blocks {
            id,
            shard,
            first,
            body_len,
            checksums
        }),
        (any::<u64>(), any::<bool>()).prop_map(|(id, complete)| Answer::Ended { id, complete }),
        any::<u64>().prop_map(|id| Answer::Pong { id }),
        (any::<u64>(), files()).prop_map(|(id, files)| Answer::Published { id, files }),
        (any::<u64>(), any::<u8>(), ".{0,40}").prop_map(|(id, kind, message)| Answer::Failed {
            id,
            kind,
            message
        }),
    ]
}

fn split(frame: &[u8]) -> (FrameHeader, &[u8]) {
    let (header, payload) = frame.split_at(HEADER_BYTES);
    (peer_header(header.try_into().unwrap()).unwrap(), payload)
}

proptest! {
    #[test]
    fn asks_survive_the_trip(ask in ask()) {
        let frame = ask.encode();
        let (header, payload) = split(&frame);
        prop_assert_eq!(header.payload_len, payload.len());
        prop_assert_eq!(Ask::decode(header.kind, payload), Ok(ask));
    }

    #[test]
    fn answers_survive_the_trip(answer in answer()) {
        let frame = answer.encode();
        let (header, payload) = split(&frame);
        prop_assert_eq!(header.payload_len, payload.len());
        prop_assert_eq!(Answer::decode(header.kind, payload), Ok(answer));
    }

    #[test]
    fn peer_payloads_cut_short_or_too_long_are_refused(ask in ask(), answer in answer(), cut in any::<prop::sample::Index>()) {
        for (frame, is_ask) in [(ask.encode(), true), (answer.encode(), false)] {
            let (header, payload) = split(&frame);
            let is_refused = |payload: &[u8]| {
                if is_ask {
                    Ask::decode(header.kind, payload).is_err()
                } else {
                    Answer::decode(header.kind, payload).is_err()
                }
            };
            prop_assert!(is_refused(&payload[..cut.index(payload.len())]));
            prop_assert!(is_refused(&[payload, &[0]].concat()));
        }
    }

    #[test]
    fn no_bytes_of_a_peer_do_harm(kind in any::<u8>(), payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Ask::decode(kind, &payload);
        let _ = Answer::decode(kind, &payload);
        let _ = Hello::decode(&payload);
    }
}

#[test]
fn peer_frame_bytes_are_frozen_at_version_1() {
    let run = BlockRun {
        shard: 7,
        first: 8,
        count: 9,
        file_size: 10,
        file_mtime_ns: -1,
        file_inode: 11,
    };
    let fetch = Ask::Fetch {
        id: 0x0102,
        generation: 3,
        deadline_ms: 4,
        runs: vec![run],
    };
    let golden = b"\x48\0\0\0\x01\0\x42\0\x02\x01\0\0\0\0\0\0\
        \x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x01\0\0\0\
        \x07\0\0\0\x08\0\0\0\0\0\0\0\x09\0\0\0\x0A\0\0\0\0\0\0\0\
        \xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x0B\0\0\0\0\0\0\0";
    assert_eq!(fetch.encode(), golden, "raise PEER_VERSION");
    let blocks = Answer::Blocks {
        id: 1,
        shard: 2,
        first: 3,
        body_len: 4,
        checksums: vec![5],
    };
    let golden = b"\x20\0\0\0\x01\0\xC2\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\
        \x04\0\0\0\x01\0\0\0\x05\0\0\0";
    assert_eq!(blocks.encode(), golden, "raise PEER_VERSION");
    assert_eq!(&Preamble::encode(), b"FBPEER\x01\0", "raise PEER_VERSION");
}

#[test]
fn peers_of_another_version_and_strangers_are_told_apart() {
    assert_eq!(Preamble::check(*b"FBPEER\x01\0"), Ok(()));
    let other = Preamble::check(*b"FBPEER\x09\0").unwrap_err().to_string();
    assert!(other.contains("protocol version 9"), "{other}");
    let stranger = Preamble::check(*b"GET / HT").unwrap_err();
    assert!(matches!(stranger, WireError::Malformed(_)));
}

#[test]
fn lengths_of_a_peer_over_their_limit_are_refused() {
    let fetch = Ask::Fetch {
        id: 1,
        generation: 0,
        deadline_ms: 0,
        runs: Vec::new(),
    };
    let mut payload = fetch.encode()[HEADER_BYTES..].to_vec();
    let at = payload.len() - 4;
    payload[at..].copy_from_slice(&(MAX_RUNS as u32 + 1).to_le_bytes());
    assert!(matches!(
        Ask::decode(0x42, &payload),
        Err(WireError::TooLong { .. })
    ));
    for (body_len, count) in [(MAX_BODY + 1, 1), (0, 1), (1, 0)] {
        let blocks = Answer::Blocks {
            id: 1,
            shard: 0,
            first: 0,
            body_len,
            checksums: vec![0; count],
        };
        let frame = blocks.encode();
        assert!(Answer::decode(0xC2, &frame[HEADER_BYTES..]).is_err());
    }
}

#[test]
fn a_hello_keeps_its_names_and_one_that_is_too_long_is_refused() {
    let hello = Hello {
        from: "a:1".to_owned(),
        to: "b:2".to_owned(),
        members: 7,
    };
    assert_eq!(Hello::decode(&hello.encode()), Ok(hello));
    let long = Hello {
        from: "a".repeat(Hello::MAX_BYTES),
        to: String::new(),
        members: 7,
    };
    assert!(Hello::decode(&long.encode()).is_err());
}
