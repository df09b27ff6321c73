//! Files that were cut, changed or made to hurt: an error, never a panic.

use proptest::prelude::*;

use super::*;
use crate::index::format::{Header, Section, crc32c};

/// Calls everything there is, on every sample, segment and shard, real or not.
pub(super) fn walk<B: AsRef<[u8]>>(index: &Index<B>) {
    let _ = index.verify();
    let _ = (index.root(), index.fields(), index.generation());
    let samples = index.len().min(40);
    for sample in (0..samples).chain([index.len(), u64::MAX]) {
        if let Ok(Some(key)) = index.key(sample) {
            let _ = index.find(key);
        }
        let Ok(sample) = index.sample(sample) else {
            continue;
        };
        let _ = (sample.decoded_len(), sample.crc32c());
        for field in 0..=index.fields().len().min(40) {
            let Ok(field) = sample.field(field) else {
                continue;
            };
            let segment = index.segment(field.segment());
            if let (
                Field::Contiguous {
                    shard_range: Some(range),
                    ..
                },
                Ok(segment),
            ) = (field, segment)
            {
                assert!(range.start() >= segment.shard_start);
                assert!(range.end() <= segment.shard_start + segment.fingerprint.size);
            }
            if let Field::Chunked { chunks, .. } = field {
                assert_eq!(chunks.len(), chunks.count(), "every chunk was checked");
            }
            let small = field.decoded_len() < 1 << 20;
            if let Some(rows) = field.rows().filter(|_| small) {
                let mut out = vec![0; field.decoded_len() as usize];
                rows.chunk_count().unwrap();
                rows.fill(&mut out).unwrap();
                let scratch = &mut crate::decode::Scratch::default();
                let _ = rows.place(0, 0, &[0; 30], scratch, &mut out);
            }
        }
    }
    for n in (0..index.shard_count().min(40)).chain([index.shard_count(), u32::MAX]) {
        let _ = index.shard_len(ShardIndex(n));
        let _ = index.shard_segments(ShardIndex(n));
        for offset in [0, 99, 100, 65_536, 70_536, u64::MAX] {
            let _ = index.segment_at(ShardIndex(n), offset);
        }
    }
    for n in (0..index.segment_count().min(40)).chain([index.segment_count(), u32::MAX]) {
        if let Ok(segment) = index.segment(SegmentIndex(n)) {
            assert!(!segment.path.starts_with('/'));
            assert!(segment.path.split('/').all(|part| part != ".."));
        }
    }
    for key in ["", "one", "two", "three"] {
        let _ = index.find(key);
    }
}

/// Makes every checksum right again, so that what lies behind them is reached.
fn reseal(bytes: &mut [u8]) {
    let Ok(mut header) = with_header_crc(bytes) else {
        return;
    };
    let sections = Section::ALL.map(|section| {
        let place = header.places[section as usize];
        &bytes[place.offset as usize..(place.offset + place.len) as usize]
    });
    for (place, section) in header.places.iter_mut().zip(sections) {
        place.crc32c = crc32c(section);
    }
    header.generation = header.generation_of(&sections);
    let encoded = header.encode();
    bytes[..encoded.len()].copy_from_slice(&encoded);
}

fn with_header_crc(bytes: &mut [u8]) -> Result<Header, IndexError> {
    if let Some(header) = bytes.first_chunk_mut::<{ crate::index::format::HEADER_LEN }>() {
        header[12..16].fill(0);
        let crc = crc32c(header);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    Header::decode(bytes)
}

use crate::IndexError;

#[test]
fn every_changed_byte_is_found() {
    let whole = bytes_of(small());
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.clone();
            bytes[at] ^= flip;
            let Ok(index) = Index::parse(bytes) else {
                continue;
            };
            walk(&index);
            assert!(
                index.verify().is_err(),
                "byte {at} ^ {flip:#x} goes unnoticed"
            );
        }
    }
}

#[test]
fn every_changed_byte_behind_a_right_checksum_is_harmless() {
    let whole = bytes_of(small());
    for at in 0..whole.len() {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff, whole[at].wrapping_add(1)] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            reseal(&mut bytes);
            if let Ok(index) = Index::parse(bytes) {
                walk(&index);
            }
        }
    }
}

#[test]
fn every_truncation_and_extension_is_refused() {
    let whole = bytes_of(small());
    for len in 0..whole.len() {
        let refused = Index::parse(&whole[..len]).unwrap_err();
        let not_ours = matches!(refused, IndexError::NotAnIndex { .. });
        assert_eq!(not_ours, len < 8, "{len}: {refused}");
    }
    let longer = [&whole[..], &[0]].concat();
    assert!(matches!(Index::parse(longer), Err(IndexError::Damaged(_))));
}

#[test]
fn an_unknown_version_is_refused_by_number() {
    let mut bytes = bytes_of(small());
    bytes[8] = 2;
    let refused = Index::parse(bytes).unwrap_err();
    assert_eq!(refused, IndexError::Version { found: 2, known: 1 });
}

#[test]
fn another_file_is_not_an_index() {
    let refused = Index::parse(b"\x89HDF\r\n\x1a\n and more").unwrap_err();
    let found = b"\x89HDF\r\n\x1a\n".to_vec();
    assert_eq!(refused, IndexError::NotAnIndex { found });
}

#[test]
fn a_path_that_leads_out_of_the_root_is_refused() {
    let whole = bytes_of(small());
    for path in ["../b.h5x", "/ub/b.h5", "sub/../x", "sub//b.h"] {
        let mut bytes = whole.clone();
        let at = bytes.windows(8).position(|w| w == b"sub/b.h5").unwrap();
        bytes[at..at + 8].copy_from_slice(path.as_bytes());
        reseal(&mut bytes);
        let index = Index::parse(bytes).unwrap();
        let refused = index.segment(SegmentIndex(1));
        assert!(matches!(refused, Err(IndexError::Damaged(_))), "{path}");
        assert!(index.verify().is_err());
    }
}

#[test]
fn an_extent_outside_its_segment_is_refused() {
    let whole = bytes_of(small());
    let header = Header::decode(&whole).unwrap();
    let records = header.places[Section::Records as usize].offset as usize;
    for offset in [61, u64::MAX, u64::MAX - 39] {
        let mut bytes = whole.clone();
        bytes[records..records + 8].copy_from_slice(&offset.to_le_bytes());
        reseal(&mut bytes);
        let index = Index::parse(bytes).unwrap();
        let refused = index.sample(0).unwrap().field(0);
        assert!(matches!(refused, Err(IndexError::Damaged(_))), "{offset}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Several changes at once, behind right checksums: numbers at any place, small or huge.
    #[test]
    fn changed_numbers_behind_right_checksums_are_harmless(
        changes in prop::collection::vec(
            (any::<prop::sample::Index>(), prop_oneof![0..200u64, any::<u64>(), Just(u64::MAX)], 1..9usize),
            1..5,
        ),
    ) {
        let mut bytes = bytes_of(small());
        for (at, value, width) in changes {
            let at = at.index(bytes.len());
            let end = (at + width).min(bytes.len());
            bytes[at..end].copy_from_slice(&value.to_le_bytes()[..end - at]);
        }
        reseal(&mut bytes);
        if let Ok(index) = Index::parse(bytes) {
            walk(&index);
        }
    }

    #[test]
    fn any_bytes_after_the_magic_are_harmless(mut bytes in prop::collection::vec(any::<u8>(), 12..1200)) {
        bytes[..8].copy_from_slice(b"FBINDEX\0");
        bytes[8..12].copy_from_slice(&1u32.to_le_bytes());
        let _ = with_header_crc(&mut bytes);
        if let Ok(index) = Index::parse(bytes) {
            walk(&index);
        }
    }
}
