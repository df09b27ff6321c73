use super::*;
use crate::published::tests::{files, name_request};
use crate::{FrameHeader, HEADER_BYTES, MAX_PAYLOAD};
use proptest::prelude::*;

fn range() -> impl Strategy<Value = StageRange> {
    (any::<u32>(), 0..1u64 << 62, 1..1u64 << 62).prop_map(|(shard, start, len)| StageRange {
        shard,
        start,
        len,
    })
}

fn request() -> impl Strategy<Value = Request> {
    prop_oneof![
        (".{0,40}", proptest::option::of(".{0,40}"), any::<u128>()).prop_map(
            |(index, root, generation)| Request::Open {
                index,
                root,
                generation
            }
        ),
        (
            any::<u32>(),
            any::<u32>(),
            any::<bool>(),
            proptest::collection::vec(range(), 0..20)
        )
            .prop_map(
                |(dataset, deadline_ms, takes_bytes, ranges)| Request::Stage {
                    dataset,
                    deadline_ms,
                    takes_bytes,
                    ranges
                }
            ),
        (any::<u32>(), range()).prop_map(|(dataset, range)| Request::Distrust { dataset, range }),
        Just(Request::Status),
        Just(Request::Stop),
        Just(Request::Ping),
        Just(Request::Memory),
        name_request().prop_map(Request::Names),
        (any::<u32>(), ".{0,40}", proptest::option::of(".{0,40}")).prop_map(
            |(dataset, plan, next)| Request::Follow {
                dataset,
                plan,
                next
            }
        ),
    ]
}

fn handed_range((start, len): (u32, u32)) -> HandedRange {
    HandedRange { start, len }
}

fn reply() -> impl Strategy<Value = Reply> {
    prop_oneof![
        any::<u32>().prop_map(|dataset| Reply::Opened { dataset }),
        (
            any::<bool>(),
            any::<u64>(),
            proptest::collection::vec((any::<u32>(), 1..2000u32), 0..20)
        )
            .prop_map(|(complete, peer_bytes, handed)| Reply::Staged {
                complete,
                peer_bytes,
                handed: handed.into_iter().map(handed_range).collect()
            }),
        any::<u64>().prop_map(|len| Reply::Memory { len }),
        Just(Reply::Done),
        ".{0,40}".prop_map(Reply::Status),
        (files(), proptest::option::of(".{0,40}"))
            .prop_map(|(files, path)| Reply::Published { files, path }),
        proptest::collection::vec(any::<u8>(), 0..100).prop_map(Reply::Bytes),
        (any::<u8>(), ".{0,40}").prop_map(|(kind, message)| Reply::Failed { kind, message }),
    ]
}

fn split(frame: &[u8]) -> (FrameHeader, &[u8]) {
    let (header, payload) = frame.split_at(HEADER_BYTES);
    (
        FrameHeader::decode(header.try_into().unwrap()).unwrap(),
        payload,
    )
}

proptest! {
    #[test]
    fn requests_survive_the_trip(request in request()) {
        let frame = request.encode();
        let (header, payload) = split(&frame);
        prop_assert_eq!(header.payload_len, payload.len());
        prop_assert_eq!(Request::decode(header.kind, payload), Ok(request));
    }

    #[test]
    fn replies_survive_the_trip(reply in reply()) {
        let frame = reply.encode();
        let (header, payload) = split(&frame);
        prop_assert_eq!(Reply::decode(header.kind, payload), Ok(reply));
    }

    #[test]
    fn hostile_payloads_are_refused_or_read_but_never_panic(kind: u8, payload in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Request::decode(kind, &payload);
        let _ = Reply::decode(kind, &payload);
    }

    #[test]
    fn a_shortened_or_lengthened_request_is_refused(request in request(), cut in 1usize..20) {
        let frame = request.encode();
        let (header, payload) = split(&frame);
        if payload.len() >= cut {
            prop_assert!(Request::decode(header.kind, &payload[..payload.len() - cut]).is_err());
        }
        prop_assert!(Request::decode(header.kind, &[payload, &[0]].concat()).is_err());
    }
}

#[test]
fn frame_bytes_are_frozen_at_version_3() {
    let stage = Request::Stage {
        dataset: 7,
        deadline_ms: 0x0102,
        takes_bytes: true,
        ranges: vec![StageRange {
            shard: 1,
            start: 2,
            len: 3,
        }],
    };
    let golden = b"\x21\0\0\0\x03\0\x02\0\x07\0\0\0\x02\x01\0\0\x01\x01\0\0\0\
        \x01\0\0\0\x02\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
    assert_eq!(stage.encode(), golden, "protocol changed: raise VERSION");
}

#[test]
fn a_huge_count_is_refused_before_it_is_allocated() {
    let payload = [&[0u8; 9][..], &u32::MAX.to_le_bytes()].concat();
    assert!(matches!(
        Request::decode(0x02, &payload),
        Err(WireError::TooLong { .. })
    ));
    let header = [0xFF, 0xFF, 0xFF, 0xFF, 3, 0, 2, 0];
    assert_eq!(
        FrameHeader::decode(header),
        Err(WireError::TooLong {
            what: "payload",
            found: u32::MAX as usize,
            most: MAX_PAYLOAD
        })
    );
}

#[test]
fn another_version_is_refused_with_a_way_out() {
    let error = FrameHeader::decode([0, 0, 0, 0, 1, 0, 4, 0]).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("run the same version on both sides")
    );
}

#[test]
fn ranges_that_cannot_exist_are_refused() {
    for (start, len) in [(0u64, 0u64), (u64::MAX, 2)] {
        let payload = [
            &1u32.to_le_bytes()[..],
            &0u32.to_le_bytes(),
            &start.to_le_bytes(),
            &len.to_le_bytes(),
        ]
        .concat();
        assert!(Request::decode(0x03, &payload).is_err());
    }
}

#[test]
fn text_beside_a_flag_that_denies_it_is_refused() {
    let follow = Request::Follow {
        dataset: 1,
        plan: "p".into(),
        next: Some("q".into()),
    };
    let mut frame = follow.encode();
    let flag = frame.len() - 6;
    frame[flag] = 0;
    let (header, payload) = split(&frame);
    assert!(Request::decode(header.kind, payload).is_err());
}

#[test]
fn more_than_is_ever_handed_over_is_refused() {
    let decoded = |ranges: &[(u32, u32)]| {
        let staged = Reply::Staged {
            complete: true,
            peer_bytes: 0,
            handed: ranges.iter().copied().map(handed_range).collect(),
        };
        let frame = staged.encode();
        let (header, payload) = split(&frame);
        Reply::decode(header.kind, payload)
    };
    assert!(decoded(&[(u32::MAX, MAX_HANDED)]).is_ok());
    assert!(decoded(&[(0, MAX_HANDED), (0, 1)]).is_err());
    assert!(decoded(&[(0, u32::MAX); 3]).is_err());
    assert!(decoded(&[(5, 0)]).is_err());
    assert!(matches!(
        decoded(&[(0, 1); MAX_HANDED_PARTS + 1]),
        Err(WireError::TooLong { .. })
    ));
}
