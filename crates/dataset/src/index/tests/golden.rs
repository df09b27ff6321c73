//! The file format, byte by byte.

use super::*;

/// Bytes of [`valued`], likewise.
const VALUED: &str = include_str!("valued.hex");

/// Bytes of [`small`], by section. An empty line is padding to the next 64 bytes.
const GOLDEN: &str = include_str!("small.hex");

#[test]
fn index_bytes_are_frozen_at_version_1() {
    let bytes = bytes_of(small());
    assert_eq!(
        hex(&bytes),
        GOLDEN,
        "layout changed: raise VERSION, say so in docs/FORMAT.md, and keep reading version 1 or \
         refuse it by name. Only then take the new bytes over into small.hex"
    );
}

#[test]
fn index_bytes_are_frozen_at_version_2() {
    assert_eq!(
        hex(&bytes_of(valued())),
        VALUED,
        "layout changed: raise VERSION, say so in docs/FORMAT.md, and keep reading version 2 or \
         refuse it by name. Only then take the new bytes over into valued.hex"
    );
}

#[test]
fn golden_bytes_still_read() {
    for golden in [GOLDEN, VALUED] {
        still_reads(golden);
    }
}

fn still_reads(golden: &str) {
    let bytes: Vec<u8> = golden
        .split_whitespace()
        .flat_map(|line| {
            (0..line.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&line[at..at + 2], 16).unwrap())
        })
        .collect();
    let index = Index::parse(bytes).unwrap();
    index.verify().unwrap();
    assert_eq!(index.find("one"), Ok(Some(0)));
}

/// One object of a store, and one sample in it.
fn of_objects() -> Vec<u8> {
    let fields = vec![field("x", "|u1")];
    let mut builder = IndexBuilder::new("s3://bucket/train", fields, BlockSize::DEFAULT).unwrap();
    let object = Fingerprint::of_object(0x0102, Some("\"d41d8\""), None).unwrap();
    let segment = builder.add_segment("a.bin", object).unwrap();
    let extent = FieldExtent {
        segment,
        shape: vec![0x0102],
        storage: Storage::Contiguous { offset: 0 },
    };
    builder.add_sample(None, &[extent], None).unwrap();
    bytes_of(builder)
}

#[test]
fn object_segments_are_frozen_at_version_1() {
    let bytes = of_objects();
    let changed = "layout changed: see index_bytes_are_frozen_at_version_1";
    assert_eq!(bytes[40..44], [4, 0, 0, 0], "flags: {changed}");
    let entry = 96 + 24 * 4;
    let at = u64::from_le_bytes(bytes[entry + 8..entry + 16].try_into().unwrap()) as usize;
    let segment = "00000000000000000500000000000000\n\
                   00000000000000000201000000000000\n\
                   4c867ada8f19b8eebf385f42f3811c13\n";
    assert_eq!(hex(&bytes[at..at + 48]), segment, "segment: {changed}");
    let index = Index::parse(bytes).unwrap();
    index.verify().unwrap();
    assert_eq!(index.root(), "s3://bucket/train");
}

#[test]
fn a_root_and_a_flag_that_contradict_each_other_are_refused() {
    for (mut bytes, words) in [
        (of_objects(), "as no flag says"),
        (bytes_of(small()), "as a flag says"),
    ] {
        bytes[40] ^= 4;
        bytes[12..16].fill(0);
        let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes[..408]) as u32;
        bytes[12..16].copy_from_slice(&crc.to_le_bytes());
        let error = Index::parse(bytes).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// 16 bytes a line.
fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(16)
        .map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n")
        .collect()
}
