use super::*;
use crate::{Ask, Request};
use proptest::prelude::*;

const NAME: &str = "[a-z/é ]{1,40}";

fn file() -> impl Strategy<Value = PublishedFile> {
    let version = (any::<u64>(), any::<u64>(), any::<i64>(), any::<u64>());
    (NAME, ".{0,20}", version).prop_map(|(name, node, version)| PublishedFile {
        name,
        node,
        generation: version.0,
        size: version.1,
        mtime_ns: version.2,
        inode: version.3,
    })
}

pub(crate) fn files() -> impl Strategy<Value = Vec<PublishedFile>> {
    proptest::collection::vec(file(), 0..5)
}

fn part() -> impl Strategy<Value = PublishedPart> {
    let range = (any::<u64>(), any::<u64>(), 0..=MAX_PUBLISHED_BYTES);
    (NAME, range).prop_map(|(name, (generation, start, len))| PublishedPart {
        name,
        generation,
        start,
        len,
    })
}

pub(crate) fn name_request() -> impl Strategy<Value = NameRequest> {
    prop_oneof![
        (NAME, ".{0,40}", any::<u32>()).prop_map(|(name, path, deadline_ms)| {
            NameRequest::Publish {
                name,
                path,
                deadline_ms,
            }
        }),
        (NAME, any::<u32>())
            .prop_map(|(name, deadline_ms)| NameRequest::Unpublish { name, deadline_ms }),
        (NAME, any::<u32>())
            .prop_map(|(name, deadline_ms)| NameRequest::Consume { name, deadline_ms }),
        (".{0,20}", part(), any::<u32>()).prop_map(|(node, part, deadline_ms)| {
            NameRequest::Read {
                node,
                part,
                deadline_ms,
            }
        }),
        "[a-z]{0,9}".prop_map(|after| NameRequest::List { after }),
    ]
}

pub(crate) fn name_ask() -> impl Strategy<Value = NameAsk> {
    prop_oneof![
        file().prop_map(NameAsk::Announce),
        (NAME, any::<u64>()).prop_map(|(name, generation)| NameAsk::Withdraw { name, generation }),
        (NAME, any::<u32>()).prop_map(|(name, wait_ms)| NameAsk::Find { name, wait_ms }),
        part().prop_map(NameAsk::Read),
        "[a-z]{0,9}".prop_map(|after| NameAsk::List { after }),
    ]
}

#[test]
fn names_are_short_text_without_control_characters() {
    for name in ["a", "step 12/é.h5", &"x".repeat(MAX_NAME)] {
        assert_eq!(check_name(name), Ok(()), "{name}");
    }
    for name in ["", "a\nb", "a\0", &"x".repeat(MAX_NAME + 1)] {
        assert!(check_name(name).is_err(), "{name:?}");
        let request = Request::Names(NameRequest::Unpublish {
            name: name.to_owned(),
            deadline_ms: 1,
        });
        assert!(Request::decode(0x09, &request.encode()[8..]).is_err());
    }
}

#[test]
fn frames_about_names_are_frozen() {
    let ask = NameAsk::Find {
        name: "ab".to_owned(),
        wait_ms: 3,
    };
    let golden = b"\x12\0\0\0\x02\0\x4A\0\x05\0\0\0\0\0\0\0\x02\0\0\0ab\x03\0\0\0";
    assert_eq!(
        Ask::Name { id: 5, ask }.encode(),
        golden,
        "protocol changed: raise PEER_VERSION"
    );
    let request = NameRequest::Consume {
        name: "ab".to_owned(),
        deadline_ms: 3,
    };
    let golden = b"\x0A\0\0\0\x03\0\x0A\0\x02\0\0\0ab\x03\0\0\0";
    assert_eq!(
        Request::Names(request).encode(),
        golden,
        "protocol changed: raise VERSION"
    );
}

#[test]
fn a_part_that_is_too_long_is_refused() {
    let part = PublishedPart {
        name: "a".to_owned(),
        generation: 1,
        start: 0,
        len: MAX_PUBLISHED_BYTES + 1,
    };
    let ask = Ask::Name {
        id: 1,
        ask: NameAsk::Read(part),
    };
    let decoded = Ask::decode(0x4B, &ask.encode()[8..]);
    assert!(matches!(decoded, Err(WireError::TooLong { .. })));
}

#[test]
fn entries_of_directories_are_frozen_at_version_1() {
    let file = PublishedFile {
        name: "a/b".to_owned(),
        node: "n:1".to_owned(),
        generation: 0x0102,
        size: 3,
        mtime_ns: -1,
        inode: 5,
    };
    let golden = b"\x01\x03\0\0\0a/b\x03\0\0\0n:1\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\
        \xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x05\0\0\0\0\0\0\0";
    assert_eq!(file.encode(), golden, "entries changed: raise KEPT_VERSION");
    assert_eq!(PublishedFile::decode(golden), Ok(file));
    let future = [&[2], &golden[1..]].concat();
    assert!(matches!(
        PublishedFile::decode(&future),
        Err(WireError::Version { found: 2, .. })
    ));
}

proptest! {
    #[test]
    fn entries_of_directories_come_back_and_damaged_ones_are_refused(
        file in file(),
        cut in any::<proptest::sample::Index>(),
    ) {
        let bytes = file.encode();
        prop_assert_eq!(PublishedFile::decode(&bytes), Ok(file));
        prop_assert!(PublishedFile::decode(&bytes[..cut.index(bytes.len())]).is_err());
        prop_assert!(PublishedFile::decode(&[&bytes[..], &[0]].concat()).is_err());
    }
}
