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
    [GOLDEN, VALUED].map(still_reads);
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

/// 16 bytes a line.
fn hex(bytes: &[u8]) -> String {
    bytes
        .chunks(16)
        .map(|line| line.iter().map(|b| format!("{b:02x}")).collect::<String>() + "\n")
        .collect()
}
