//! The header before every payload.

use std::io::{self, Read};

use crate::WireError;

/// Version of the protocol. Both sides must have the same.
pub const VERSION: u16 = 3;
/// Bytes of a header.
pub const HEADER_BYTES: usize = 8;
/// Most bytes of a payload.
pub const MAX_PAYLOAD: usize = 4 << 20;

/// What comes before a payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Bytes of the payload.
    pub payload_len: usize,
    /// Kind of the message.
    pub kind: u8,
}

impl FrameHeader {
    /// Checks a header that arrived from a client or its daemon.
    pub fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, WireError> {
        Self::decode_version(bytes, VERSION)
    }

    /// Checks a header of the protocol whose version is `known`.
    pub(crate) fn decode_version(bytes: [u8; HEADER_BYTES], known: u16) -> Result<Self, WireError> {
        let [l0, l1, l2, l3, v0, v1, kind, zero] = bytes;
        let found = u16::from_le_bytes([v0, v1]);
        if found != known {
            return Err(WireError::Version { found, known });
        }
        if zero != 0 {
            return Err(WireError::Malformed("reserved byte is not zero"));
        }
        let payload_len = u32::from_le_bytes([l0, l1, l2, l3]) as usize;
        if payload_len > MAX_PAYLOAD {
            return Err(WireError::TooLong {
                what: "payload",
                found: payload_len,
                most: MAX_PAYLOAD,
            });
        }
        Ok(Self { payload_len, kind })
    }
}

/// Reads one frame into `payload` and returns its kind; `None` if the stream ended between frames.
pub fn read_frame(from: &mut impl Read, payload: &mut Vec<u8>) -> io::Result<Option<u8>> {
    let mut header = [0; HEADER_BYTES];
    let mut filled = 0;
    while filled < HEADER_BYTES {
        match from.read(&mut header[filled..]) {
            // Nothing at all is an orderly end; a part of a header is a frame that was cut off.
            Ok(0) if filled == 0 => return Ok(None),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    let header = FrameHeader::decode(header).map_err(io::Error::other)?;
    payload.resize(header.payload_len, 0);
    from.read_exact(payload)?;
    Ok(Some(header.kind))
}

/// A whole frame: a header, then what `payload` appends.
pub(crate) fn frame(kind: u8, payload: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    frame_version(VERSION, kind, payload)
}

/// The same, of the protocol of that version.
pub(crate) fn frame_version(version: u16, kind: u8, payload: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = vec![0; HEADER_BYTES];
    payload(&mut out);
    let len = (out.len() - HEADER_BYTES) as u32;
    out[0..4].copy_from_slice(&len.to_le_bytes());
    out[4..6].copy_from_slice(&version.to_le_bytes());
    out[6] = kind;
    out
}
