//! HDF5 files with one contiguous data set of bytes, `records`, by sample.
//!
//! The smallest file of the format's version 2 of object headers: superblock, root group with one
//! link, data set. Layout after the format's specification, version 3.0.

use hdf5_reader::checksum::jenkins_lookup3;

use super::Shape;

/// Where the data begin: the headers before them are padded to this.
pub(super) const HEAD_BYTES: u64 = 512;
const UNDEFINED: [u8; 8] = [0xFF; 8];
const ROOT: u64 = 48;
const DATA_SET: u64 = 160;

pub(super) fn encode(shape: &Shape, payloads: &[Vec<u8>]) -> Vec<u8> {
    let bytes = u64::from(shape.samples) * shape.sample_bytes;
    let mut file = superblock(HEAD_BYTES + bytes);
    file.extend(root());
    file.resize(DATA_SET as usize, 0);
    file.extend(data_set(shape, bytes));
    file.resize(HEAD_BYTES as usize, 0);
    for payload in payloads {
        file.extend(payload);
    }
    file
}

fn superblock(end: u64) -> Vec<u8> {
    let mut block = b"\x89HDF\r\n\x1a\n".to_vec();
    // Version 2, offsets and lengths of 8 bytes, no flags.
    block.extend([2, 8, 8, 0]);
    block.extend(0u64.to_le_bytes());
    block.extend(UNDEFINED);
    block.extend(end.to_le_bytes());
    block.extend(ROOT.to_le_bytes());
    summed(block)
}

fn root() -> Vec<u8> {
    // No fractal heap and no index: the links are in this header.
    let info = [&[0, 0][..], &UNDEFINED, &UNDEFINED].concat();
    let name = b"records";
    let link = [&[1, 0, name.len() as u8][..], name, &DATA_SET.to_le_bytes()].concat();
    header(&[(2, info), (10, vec![0, 0]), (6, link)])
}

fn data_set(shape: &Shape, bytes: u64) -> Vec<u8> {
    let space = [
        &[2, 2, 0, 1][..],
        &u64::from(shape.samples).to_le_bytes(),
        &shape.sample_bytes.to_le_bytes(),
    ]
    .concat();
    // An unsigned integer of one byte: class 0 of version 1, bit offset 0, 8 bits.
    let kind = vec![0x10, 0, 0, 0, 1, 0, 0, 0, 0, 0, 8, 0];
    // Late allocation, written if set, none set.
    let fill = vec![3, 0x0A];
    let layout = [&[3, 1][..], &HEAD_BYTES.to_le_bytes(), &bytes.to_le_bytes()].concat();
    header(&[(1, space), (3, kind), (5, fill), (8, layout)])
}

/// An object header of version 2 with two bytes for its size.
fn header(messages: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut body = Vec::new();
    for (kind, message) in messages {
        body.push(*kind);
        body.extend((message.len() as u16).to_le_bytes());
        body.push(0);
        body.extend(message);
    }
    let mut header = b"OHDR\x02\x01".to_vec();
    header.extend((body.len() as u16).to_le_bytes());
    header.extend(body);
    summed(header)
}

fn summed(mut bytes: Vec<u8>) -> Vec<u8> {
    let sum = jenkins_lookup3(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}
