//! Numbers of either byte order, taken from the front of a slice.

use crate::header::ByteOrder;

/// Bytes that are still to be read. Each `take` either succeeds or leaves them as they are.
#[derive(Clone, Copy)]
pub(crate) struct Bytes<'a> {
    rest: &'a [u8],
    order: ByteOrder,
}

impl<'a> Bytes<'a> {
    pub(crate) fn new(rest: &'a [u8], order: ByteOrder) -> Self {
        Self { rest, order }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest.len()
    }

    pub(crate) fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// Up to a byte, which is taken too and not returned.
    pub(crate) fn take_until(&mut self, end: u8) -> Option<&'a [u8]> {
        let place = self.rest.iter().position(|byte| *byte == end)?;
        let taken = &self.rest[..place];
        self.rest = &self.rest[place + 1..];
        Some(taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        let bytes = *self.take(4)?.first_chunk()?;
        Some(match self.order {
            ByteOrder::Little => u32::from_le_bytes(bytes),
            ByteOrder::Big => u32::from_be_bytes(bytes),
        })
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        let bytes = *self.take(8)?.first_chunk()?;
        Some(match self.order {
            ByteOrder::Little => u64::from_le_bytes(bytes),
            ByteOrder::Big => u64::from_be_bytes(bytes),
        })
    }

    pub(crate) fn i64(&mut self) -> Option<i64> {
        self.u64().map(u64::cast_signed)
    }

    pub(crate) fn f64(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits)
    }

    /// `count` numbers, if all their bytes are there.
    pub(crate) fn i64s(&mut self, count: usize) -> Option<Vec<i64>> {
        let mut words = self.words(count)?;
        (0..count).map(|_| words.i64()).collect()
    }

    /// Numbers for every place of `into`, if all their bytes are there.
    pub(crate) fn fill_i64(&mut self, into: &mut [i64]) -> Option<()> {
        let mut words = self.words(into.len())?;
        for place in into {
            *place = words.i64()?;
        }
        Some(())
    }

    /// As [`Bytes::fill_i64`].
    pub(crate) fn fill_f64(&mut self, into: &mut [f64]) -> Option<()> {
        let mut words = self.words(into.len())?;
        for place in into {
            *place = words.f64()?;
        }
        Some(())
    }

    /// The next `count` numbers of 8 bytes, checked before anything is made for them.
    fn words(&mut self, count: usize) -> Option<Self> {
        let rest = self.take(count.checked_mul(8)?)?;
        Some(Self { rest, ..*self })
    }
}

/// Text up to the first NUL. What is not UTF-8 shows as such.
pub(crate) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0);
    String::from_utf8_lossy(&bytes[..end.unwrap_or(bytes.len())]).into_owned()
}
