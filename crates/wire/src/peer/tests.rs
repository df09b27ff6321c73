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
        (
            any::<u64>(),
            any::<u128>(),
            any::<u32>(),
            any::<bool>(),
            runs
        )
            .prop_map(|(id, generation, deadline_ms, may_lend, runs)| Ask::Fetch {
                id,
                generation,
                deadline_ms,
                may_lend,
                runs
            }),
        any::<u64>().prop_map(|id| Ask::Ping { id }),
        (any::<u64>(), ".{0,40}").prop_map(|(id, provider)| Ask::Fabric { id, provider }),
        any::<u64>().prop_map(|loan| Ask::Return { loan }),
        (any::<u64>(), name_ask()).prop_map(|(id, ask)| Ask::Name { id, ask }),
    ]
}

fn memory() -> impl Strategy<Value = FabricMemory> {
    let address = proptest::collection::vec(any::<u8>(), 1..=MAX_FABRIC_ADDRESS);
    let place = (0..1u64 << 63, 0..1u64 << 63, any::<u64>());
    (any::<u32>(), address, place).prop_map(|(format, address, (base, len, key))| FabricMemory {
        format,
        address,
        base,
        len,
        key,
    })
}

fn lent() -> impl Strategy<Value = Answer> {
    let sums = proptest::collection::vec(any::<u32>(), 1..20);
    let loan = (any::<u64>(), 0..1u64 << 63);
    let blocks = (any::<u32>(), 0..1u64 << 62, 1..=MAX_LENT, sums);
    (any::<u64>(), loan, blocks).prop_map(|(id, (loan, offset), blocks)| Answer::Lent {
        id,
        loan,
        offset,
        shard: blocks.0,
        first: blocks.1,
        body_len: blocks.2,
        checksums: blocks.3,
    })
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
        lent(),
        (any::<u64>(), memory()).prop_map(|(id, memory)| Answer::Fabric { id, memory }),
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
fn peer_frame_bytes_are_frozen_at_version_2() {
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
        may_lend: true,
        runs: vec![run],
    };
    let golden = b"\x49\0\0\0\x02\0\x42\0\x02\x01\0\0\0\0\0\0\
        \x03\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\x04\0\0\0\x01\x01\0\0\0\
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
    let golden = b"\x20\0\0\0\x02\0\xC2\0\x01\0\0\0\0\0\0\0\x02\0\0\0\x03\0\0\0\0\0\0\0\
        \x04\0\0\0\x01\0\0\0\x05\0\0\0";
    assert_eq!(blocks.encode(), golden, "raise PEER_VERSION");
    assert_eq!(&Preamble::encode(), b"FBPEER\x02\0", "raise PEER_VERSION");
}

#[test]
fn frames_of_a_fabric_are_frozen_at_version_2() {
    let ask = Ask::Fabric {
        id: 1,
        provider: "tcp".to_owned(),
    };
    let golden = b"\x0F\0\0\0\x02\0\x44\0\x01\0\0\0\0\0\0\0\x03\0\0\0tcp";
    assert_eq!(ask.encode(), golden, "raise PEER_VERSION");
    let golden = b"\x08\0\0\0\x02\0\x45\0\x07\0\0\0\0\0\0\0";
    assert_eq!(
        Ask::Return { loan: 7 }.encode(),
        golden,
        "raise PEER_VERSION"
    );
    let memory = FabricMemory {
        format: 2,
        address: vec![0xAA, 0xBB],
        base: 3,
        len: 4,
        key: 5,
    };
    let golden = b"\x2A\0\0\0\x02\0\xC5\0\x01\0\0\0\0\0\0\0\x02\0\0\0\
        \x03\0\0\0\0\0\0\0\x04\0\0\0\0\0\0\0\x05\0\0\0\0\0\0\0\x02\0\0\0\xAA\xBB";
    assert_eq!(
        Answer::Fabric { id: 1, memory }.encode(),
        golden,
        "raise PEER_VERSION"
    );
    let lent = Answer::Lent {
        id: 1,
        loan: 2,
        offset: 3,
        shard: 4,
        first: 5,
        body_len: 6,
        checksums: vec![7],
    };
    let golden = b"\x30\0\0\0\x02\0\xC6\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\
        \x03\0\0\0\0\0\0\0\x04\0\0\0\x05\0\0\0\0\0\0\0\x06\0\0\0\x01\0\0\0\x07\0\0\0";
    assert_eq!(lent.encode(), golden, "raise PEER_VERSION");
}

#[test]
fn memory_and_loans_that_cannot_be_are_refused() {
    let lent = |offset, body_len| {
        let lent = Answer::Lent {
            id: 1,
            loan: 2,
            offset,
            shard: 4,
            first: 5,
            body_len,
            checksums: vec![7],
        };
        Answer::decode(0xC6, &lent.encode()[HEADER_BYTES..])
    };
    assert!(lent(0, MAX_LENT).is_ok());
    assert!(lent(0, MAX_LENT + 1).is_err(), "longer than may be lent");
    assert!(lent(u64::MAX, 1).is_err(), "past the end of all memory");
    let memory = |address: usize, base, len| {
        let memory = FabricMemory {
            format: 0,
            address: vec![1; address],
            base,
            len,
            key: 0,
        };
        let frame = Answer::Fabric { id: 1, memory }.encode();
        Answer::decode(0xC5, &frame[HEADER_BYTES..])
    };
    assert!(memory(MAX_FABRIC_ADDRESS, 0, u64::MAX).is_ok());
    assert!(memory(MAX_FABRIC_ADDRESS + 1, 0, 1).is_err());
    assert!(memory(0, 0, 1).is_err(), "no address");
    assert!(
        memory(1, 2, u64::MAX).is_err(),
        "past the end of all memory"
    );
}

#[test]
fn peers_of_another_version_and_strangers_are_told_apart() {
    assert_eq!(Preamble::check(*b"FBPEER\x02\0"), Ok(()));
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
        may_lend: false,
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
