//! TFRecord files of `Example`s: `image`, the payload, and `size`, its length.

use crc_fast::CrcAlgorithm;

/// Bytes before and after the data of a record: length and its sum; sum of the data.
const FRAME: (u64, u64) = (12, 4);

pub(super) fn encode(payloads: &[Vec<u8>]) -> Vec<u8> {
    let mut file = Vec::new();
    for payload in payloads {
        let (head, tail) = around(payload.len() as u64);
        let length = ((head.len() + payload.len() + tail.len()) as u64).to_le_bytes();
        file.extend(length);
        file.extend(masked_sum(&length).to_le_bytes());
        let start = file.len();
        file.extend(head);
        file.extend(payload);
        file.extend(tail);
        let sum = masked_sum(&file[start..]);
        file.extend(sum.to_le_bytes());
    }
    file
}

pub(super) fn record_bytes(payload_bytes: u64) -> u64 {
    let (head, tail) = around(payload_bytes);
    FRAME.0 + head.len() as u64 + payload_bytes + tail.len() as u64 + FRAME.1
}

/// Where the first payload begins, and the distance from one to the next.
pub(super) fn first_and_stride(payload_bytes: u64) -> (u64, u64) {
    (
        FRAME.0 + around(payload_bytes).0.len() as u64,
        record_bytes(payload_bytes),
    )
}

fn masked_sum(bytes: &[u8]) -> u32 {
    let sum = crc_fast::checksum(CrcAlgorithm::Crc32Iscsi, bytes) as u32;
    sum.rotate_right(15).wrapping_add(0xA282_EAD8)
}

/// What stands before and after the payload in an `Example`.
fn around(payload_bytes: u64) -> (Vec<u8>, Vec<u8>) {
    let size = varint(payload_bytes);
    // Feature { int64_list: Int64List { value: [size] } }
    let list = [vec![0x0A], varint(size.len() as u64), size].concat();
    let feature = [vec![0x1A], varint(list.len() as u64), list].concat();
    let tail = entry(b"size", &feature, feature.len() as u64);
    // Feature { bytes_list: BytesList { value: [payload] } }, from the inside out.
    let bytes = [vec![0x0A], varint(payload_bytes)].concat();
    let list_bytes = bytes.len() as u64 + payload_bytes;
    let feature = [vec![0x0A], varint(list_bytes), bytes].concat();
    let image = entry(b"image", &feature, feature.len() as u64 + payload_bytes);
    let features_bytes = image.len() as u64 + payload_bytes + tail.len() as u64;
    let head = [vec![0x0A], varint(features_bytes), image].concat();
    (head, tail)
}

/// An entry of the map of features, whose value has `value_bytes` and begins with `value`.
fn entry(key: &[u8], value: &[u8], value_bytes: u64) -> Vec<u8> {
    let body = [
        vec![0x0A],
        varint(key.len() as u64),
        key.to_vec(),
        vec![0x12],
        varint(value_bytes),
    ]
    .concat();
    let bytes = body.len() as u64 + value_bytes;
    [vec![0x0A], varint(bytes), body, value.to_vec()].concat()
}

fn varint(mut value: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}
