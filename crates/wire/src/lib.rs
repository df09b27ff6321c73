//! Frames between a client and its node's daemon, and between the daemons of a job. No sockets:
//! bytes in, messages out.
//!
//! A frame is a header of 8 bytes and a payload: payload length `u32`, version `u16`, kind `u8`,
//! zero `u8`, all little-endian. Strings and lists carry their length before them.
//!
//! # Invariants
//! - *Bounded*: a length is compared with its limit before anything is allocated for it.
//! - *Whole*: a payload is used up exactly; bytes left over are an error.
#![forbid(unsafe_code)]

mod codec;
mod frame;
mod local;
mod peer;
mod published;

pub use codec::WireError;
pub use frame::{FrameHeader, HEADER_BYTES, MAX_PAYLOAD, VERSION, read_frame};
pub use local::{
    HandedRange, MAX_HANDED, MAX_HANDED_PARTS, MAX_RANGES, Reply, Request, StageRange,
};
pub use peer::{
    Answer, Ask, BlockRun, FabricMemory, Hello, MAX_BODY, MAX_CHECKSUMS, MAX_FABRIC_ADDRESS,
    MAX_LENT, MAX_RUNS, PEER_VERSION, Preamble, peer_header,
};
pub use published::{
    MAX_FILES, MAX_NAME, MAX_PUBLISHED_BYTES, NameAsk, NameRequest, PublishedFile, PublishedPart,
    check_name,
};
