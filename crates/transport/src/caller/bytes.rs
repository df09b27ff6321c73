//! The bytes of blocks that have arrived.

use std::ops::Deref;

use super::pending::Buffers;

/// Bytes that have arrived, in memory that is used for the next ones, or in a buffer of their own.
#[derive(Debug)]
pub struct Bytes<'a>(Place<'a>);

#[derive(Debug)]
enum Place<'a> {
    Lent(&'a [u8]),
    Own { buffer: Buffers, len: usize },
}

impl Bytes<'static> {
    /// The first bytes of a buffer.
    pub(super) fn own(buffer: Buffers, len: usize) -> Self {
        Self(Place::Own { buffer, len })
    }
}

impl Bytes<'_> {
    /// Keeps them for longer than the call they came with.
    #[must_use]
    pub fn keep(self) -> Bytes<'static> {
        match self.0 {
            Place::Own { buffer, len } => Bytes::own(buffer, len),
            Place::Lent(bytes) => {
                let mut buffer = Buffers::take();
                buffer.of_len(bytes.len()).copy_from_slice(bytes);
                Bytes::own(buffer, bytes.len())
            }
        }
    }
}

impl<'a> From<&'a [u8]> for Bytes<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Self(Place::Lent(bytes))
    }
}

impl Deref for Bytes<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Place::Lent(bytes) => bytes,
            Place::Own { buffer, len } => buffer.first(*len),
        }
    }
}
