//! Files that were cut, changed or made to hurt: an error, never a panic.

use proptest::prelude::*;

use super::*;
use crate::IndexError;
use crate::index::format::{Header, Section, crc32c, header_crc, u32_at};

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
            let segment = index.segment(field.segment().unwrap_or(SegmentIndex(0)));
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
    let version = bytes.get(8..12).map(|at| u32_at(at, 0));
    let known = Header {
        version: version.unwrap_or(0),
        ..Header::default()
    };
    if let Some(header) = bytes.get_mut(..known.len()) {
        let crc = header_crc(header);
        header[12..16].copy_from_slice(&crc.to_le_bytes());
    }
    Header::decode(bytes)
}

#[test]
fn every_changed_byte_is_found() {
    for whole in [small(), valued()].map(bytes_of) {
        changes_are_found(&whole);
    }
}

fn changes_are_found(whole: &[u8]) {
    for at in 0..whole.len() {
        for flip in [0x01, 0x80, 0xff] {
            let mut bytes = whole.to_vec();
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
    for whole in [small(), valued()].map(bytes_of) {
        changes_are_harmless(&whole);
    }
}

fn changes_are_harmless(whole: &[u8]) {
    for at in 0..whole.len() {
        for value in [0x00, 0x01, 0x7f, 0x80, 0xff, whole[at].wrapping_add(1)] {
            let mut bytes = whole.to_vec();
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
    for whole in [small(), valued()].map(bytes_of) {
        other_lengths_are_refused(&whole);
    }
}

fn other_lengths_are_refused(whole: &[u8]) {
    for len in 0..whole.len() {
        let refused = Index::parse(&whole[..len]).unwrap_err();
        let not_ours = matches!(refused, IndexError::NotAnIndex { .. });
        assert_eq!(not_ours, len < 8, "{len}: {refused}");
    }
    let longer = [whole, &[0]].concat();
    assert!(matches!(Index::parse(longer), Err(IndexError::Damaged(_))));
}

#[test]
fn an_unknown_version_is_refused_by_number() {
    let mut bytes = bytes_of(small());
    for found in [0, 3] {
        bytes[8] = found as u8;
        let refused = Index::parse(&bytes[..]).unwrap_err();
        assert_eq!(refused, IndexError::Version { found, known: 2 });
    }
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

/// Offset of a section of [`small`].
fn place_of(bytes: &[u8], section: Section) -> usize {
    Header::decode(bytes).unwrap().places[section as usize].offset as usize
}

/// Nonsense that checksums cannot find, since whoever wrote it made them fit.
#[test]
fn verify_finds_contradictions_behind_right_checksums() {
    let whole = bytes_of(small());
    for (what, section, at, bytes) in [
        (
            "shard is longer than its segments",
            Section::Shards,
            8,
            &70_537u64.to_le_bytes()[..],
        ),
        ("shard lists a segment too few", Section::Shards, 4, &[1]),
        (
            "segment begins a block later",
            Section::Segments,
            48 + 18,
            &[2],
        ),
        ("shape has another rank", Section::Shapes, 0, &[1]),
        (
            "field names a shape that is not there",
            Section::Records,
            20,
            &[200],
        ),
        (
            "field names a layout that is not there",
            Section::Records,
            32 + 24,
            &[1],
        ),
        (
            "field names a chunk that is not there",
            Section::Records,
            32,
            &[2],
        ),
        ("chunk lies in other rows", Section::Chunks, 0, &[1]),
        ("chunk is empty", Section::Chunks, 16, &[0]),
        ("chunk ends after its file", Section::Chunks, 10, &[1]),
        ("first key begins late", Section::KeyOffsets, 0, &[1]),
        ("keys overlap", Section::KeyOffsets, 8, &[7]),
        ("keys are alike", Section::KeyBytes, 0, b"twotwo"),
        ("key has another hash", Section::KeyBytes, 0, b"onx"),
        ("hash names another sample", Section::KeyHashes, 8, &[0]),
    ] {
        let mut changed = whole.clone();
        let at = place_of(&whole, section) + at;
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        assert_ne!(changed, whole, "{what}");
        reseal(&mut changed);
        let refused = Index::parse(changed).and_then(|index| index.verify());
        assert!(matches!(refused, Err(IndexError::Damaged(_))), "{what}");
    }
}

#[test]
fn verify_finds_two_samples_with_one_key() {
    let mut bytes = bytes_of(small());
    let at = |section| place_of(&bytes, section);
    let (keys, hashes) = (at(Section::KeyBytes), at(Section::KeyHashes));
    bytes[keys..keys + 6].copy_from_slice(b"twotwo");
    let hash = crate::index::keys::hash("two").to_le_bytes();
    for (nth, sample) in [(0, 0u64), (1, 1)] {
        let entry = hashes + nth * 16;
        bytes[entry..entry + 8].copy_from_slice(&hash);
        bytes[entry + 8..entry + 16].copy_from_slice(&sample.to_le_bytes());
    }
    reseal(&mut bytes);
    let refused = Index::parse(bytes).unwrap().verify().unwrap_err();
    assert_eq!(
        refused.to_string(),
        "index is damaged: key `two` occurs twice"
    );
}

#[test]
fn a_key_is_found_by_its_bytes_and_not_by_its_hash_alone() {
    let mut bytes = bytes_of(small());
    let at = place_of(&bytes, Section::KeyBytes);
    bytes[at..at + 3].copy_from_slice(b"onx");
    reseal(&mut bytes);
    let index = Index::parse(bytes).unwrap();
    assert_eq!(index.find("one"), Ok(None));
}

#[test]
fn verify_names_the_section_and_finds_a_false_generation() {
    let whole = bytes_of(small());
    let mut changed = whole.clone();
    changed[place_of(&whole, Section::Chunks)] ^= 1;
    let refused = Index::parse(changed).unwrap().verify().unwrap_err();
    assert!(
        refused
            .to_string()
            .contains("section `chunks` fails its checksum"),
        "{refused}"
    );

    let mut changed = whole;
    changed[16] ^= 1;
    with_header_crc(&mut changed).unwrap();
    let refused = Index::parse(changed).unwrap().verify().unwrap_err();
    assert!(refused.to_string().contains("generation"), "{refused}");
}

#[test]
fn a_value_outside_the_values_is_refused() {
    let whole = bytes_of(valued());
    let record = place_of(&whole, Section::Records) + 32;
    for (at, number) in [(0, 15), (0, u64::MAX), (8, 1), (16, 1), (28, 1)] {
        let mut bytes = whole.clone();
        let width = if at < 16 { 8 } else { 4 };
        bytes[record + at..record + at + width].copy_from_slice(&number.to_le_bytes()[..width]);
        reseal(&mut bytes);
        let index = Index::parse(bytes).unwrap();
        let refused = index.sample(0).unwrap().field(1);
        assert!(matches!(refused, Err(IndexError::Damaged(_))), "{at}");
    }
}

#[test]
fn an_extent_outside_its_segment_is_refused() {
    let whole = bytes_of(small());
    let records = place_of(&whole, Section::Records);
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
        values: bool,
    ) {
        let mut bytes = bytes_of(if values { valued() } else { small() });
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
    fn any_bytes_after_the_magic_are_harmless(
        mut bytes in prop::collection::vec(any::<u8>(), 12..1200),
        version in 1..=2u32,
    ) {
        bytes[..8].copy_from_slice(b"FBINDEX\0");
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        let _ = with_header_crc(&mut bytes);
        if let Ok(index) = Index::parse(bytes) {
            walk(&index);
        }
    }
}
