//! NPZ files: a ZIP archive, stored without compression, of `x.npy` and `y.npy`.

use crc_fast::CrcAlgorithm;

use super::Shape;

const LOCAL_BYTES: u64 = 30;
const CENTRAL_BYTES: u64 = 46;
const END_BYTES: u64 = 22;
const NAMES: [&str; 2] = ["x.npy", "y.npy"];

pub(super) fn encode(shape: &Shape, payloads: &[Vec<u8>]) -> Vec<u8> {
    let x = [heads(shape)[0].clone(), payloads.concat()].concat();
    let labels = (0..i64::from(shape.samples))
        .flat_map(i64::to_le_bytes)
        .collect();
    let y = [heads(shape)[1].clone(), labels].concat();
    let (mut file, mut central) = (Vec::new(), Vec::new());
    for (name, body) in NAMES.into_iter().zip([x, y]) {
        let offset = file.len() as u32;
        let common = common(name, &body);
        file.extend(b"PK\x03\x04");
        file.extend(&common);
        file.extend(name.bytes());
        file.extend(body);
        central.extend(b"PK\x01\x02\x14\x00");
        central.extend(&common);
        // No comment, first disk, no attributes.
        central.extend([0; 10]);
        central.extend(offset.to_le_bytes());
        central.extend(name.bytes());
    }
    let start = file.len() as u32;
    file.extend(&central);
    file.extend(b"PK\x05\x06\0\0\0\0\x02\0\x02\0");
    file.extend((central.len() as u32).to_le_bytes());
    file.extend(start.to_le_bytes());
    file.extend([0; 2]);
    file
}

/// The fields that a local and a central header share: version, flags, method 0, time and date
/// (1980-01-01), sum, sizes, lengths of name and extra field.
fn common(name: &str, body: &[u8]) -> Vec<u8> {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32IsoHdlc, body) as u32;
    let size = (body.len() as u32).to_le_bytes();
    let name = (name.len() as u16).to_le_bytes();
    let fixed = [20u16, 0, 0, 0, 0x21].map(u16::to_le_bytes).concat();
    [&fixed[..], &sum.to_le_bytes(), &size, &size, &name, &[0, 0]].concat()
}

/// Headers of the two arrays.
fn heads(shape: &Shape) -> [Vec<u8>; 2] {
    let (samples, bytes) = (shape.samples, shape.sample_bytes);
    [
        head(&format!(
            "'descr': '|u1', 'fortran_order': False, 'shape': ({samples}, {bytes})"
        )),
        head(&format!(
            "'descr': '<i8', 'fortran_order': False, 'shape': ({samples},)"
        )),
    ]
}

/// Version 1 of the header, as long as a multiple of 64 and at its end a new line.
fn head(fields: &str) -> Vec<u8> {
    let text = format!("{{{fields}, }}");
    let padded = (10 + text.len() + 1).next_multiple_of(64);
    let mut head = b"\x93NUMPY\x01\x00".to_vec();
    head.extend(((padded - 10) as u16).to_le_bytes());
    head.extend(text.bytes());
    head.resize(padded - 1, b' ');
    head.push(b'\n');
    head
}

pub(super) fn payload_start(shape: &Shape) -> u64 {
    LOCAL_BYTES + NAMES[0].len() as u64 + heads(shape)[0].len() as u64
}

pub(super) fn file_bytes(shape: &Shape) -> u64 {
    let [x, y] = heads(shape).map(|head| head.len() as u64);
    let samples = u64::from(shape.samples);
    let names = 2 * (NAMES[0].len() + NAMES[1].len()) as u64;
    x + samples * shape.sample_bytes
        + y
        + 8 * samples
        + 2 * (LOCAL_BYTES + CENTRAL_BYTES)
        + names
        + END_BYTES
}
