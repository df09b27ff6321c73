//! Little-endian fields of a message, each read checked.

use super::{H5Error, H5Result};

/// Reads fields from a slice, in order.
#[derive(Clone)]
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    what: &'static str,
}

impl<'a> Fields<'a> {
    /// `what` names the structure in errors.
    pub(super) const fn new(bytes: &'a [u8], what: &'static str) -> Self {
        Self { rest: bytes, what }
    }

    pub(super) const fn remaining(&self) -> usize {
        self.rest.len()
    }

    pub(super) fn bytes(&mut self, len: usize) -> H5Result<&'a [u8]> {
        let (head, rest) = self
            .rest
            .split_at_checked(len)
            .ok_or_else(|| H5Error::Damaged(format!("its {} ends too early", self.what)))?;
        self.rest = rest;
        Ok(head)
    }

    pub(super) fn skip(&mut self, len: usize) -> H5Result<()> {
        self.bytes(len).map(drop)
    }

    /// An unsigned integer of 1 to 8 bytes.
    pub(super) fn uint(&mut self, width: u8) -> H5Result<u64> {
        if !(1..=8).contains(&width) {
            return super::damaged(format!("its {} has an integer of {width} bytes", self.what));
        }
        let mut wide = [0_u8; 8];
        let bytes = self.bytes(usize::from(width))?;
        wide[..bytes.len()].copy_from_slice(bytes);
        Ok(u64::from_le_bytes(wide))
    }

    pub(super) fn u8(&mut self) -> H5Result<u8> {
        Ok(self.bytes(1)?[0])
    }

    pub(super) fn u16(&mut self) -> H5Result<u16> {
        Ok(self.uint(2)? as u16)
    }

    pub(super) fn u32(&mut self) -> H5Result<u32> {
        Ok(self.uint(4)? as u32)
    }

    /// Text up to a zero byte, which is consumed.
    pub(super) fn text(&mut self) -> H5Result<&'a [u8]> {
        let len = self
            .rest
            .iter()
            .position(|byte| *byte == 0)
            .ok_or_else(|| H5Error::Damaged(format!("its {} has an endless name", self.what)))?;
        let text = self.bytes(len)?;
        self.skip(1)?;
        Ok(text)
    }
}

/// An address, or `None` where the file says "undefined" (all ones).
pub(super) const fn address(value: u64, offset_size: u8) -> Option<u64> {
    let undefined = if offset_size >= 8 {
        u64::MAX
    } else {
        (1 << (8 * offset_size as u32)) - 1
    };
    if value == undefined {
        None
    } else {
        Some(value)
    }
}
