//! Any bytes as an index file: an error or sound answers, never a panic or a hang.
#![no_main]

use forebay_dataset::index::{Field, Index};
use forebay_dataset::{SegmentIndex, ShardIndex};
use libfuzzer_sys::fuzz_target;

/// Enough to reach everything; more only makes a run slow.
const MOST: u64 = 64;

fuzz_target!(|bytes: &[u8]| {
    let Ok(index) = Index::parse(bytes) else {
        return;
    };
    let sound = index.verify().is_ok();
    for n in 0..index.len().min(MOST) {
        walk_sample(&index, n, sound);
    }
    for n in 0..index.segment_count().min(MOST as u32) {
        if let Ok(segment) = index.segment(SegmentIndex(n)) {
            assert!(
                !segment.path.starts_with('/') && segment.path.split('/').all(|part| part != "..")
            );
            let _ = index.segment_at(segment.shard, segment.shard_start);
        }
    }
    for n in 0..=index.shard_count().min(MOST as u32) {
        let _ = index.shard_len(ShardIndex(n));
        let _ = index.shard_segments(ShardIndex(n));
    }
    let _ = index.find("key");
});

fn walk_sample(index: &Index<&[u8]>, n: u64, sound: bool) {
    if let Ok(Some(key)) = index.key(n) {
        let found = index.find(key);
        assert!(
            !sound || found == Ok(Some(n)),
            "a verified index finds each of its keys"
        );
    }
    let sample = index.sample(n).expect("below the length");
    let _ = (sample.decoded_len(), sample.crc32c());
    for nth in 0..index.fields().len().min(MOST as usize) {
        let field = sample.field(nth);
        assert!(!sound || field.is_ok(), "a verified index has no bad field");
        match field {
            Ok(Field::Contiguous {
                segment,
                shard_range: Some(range),
                ..
            }) => {
                if let Ok(segment) = index.segment(segment) {
                    assert!(range.start() >= segment.shard_start);
                    assert!(range.end() <= segment.shard_start + segment.fingerprint.size);
                }
            }
            Ok(Field::Chunked { chunks, .. }) => assert_eq!(chunks.len(), chunks.count()),
            _ => {}
        }
    }
}
