//! Numbers, strings and lists as bytes.

use thiserror::Error;

/// Bytes that are not a message of this protocol.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WireError {
    /// Another version of the protocol.
    #[error(
        "peer speaks protocol version {found}, this build speaks {known}; run the same version on both sides"
    )]
    Version {
        /// Version in the frame.
        found: u16,
        /// Version of this build.
        known: u16,
    },
    /// A kind that this version does not have.
    #[error("message kind {0:#04x} is unknown")]
    Kind(u8),
    /// A length over its limit.
    #[error("{what} is too long: {found}, at most {most}")]
    TooLong {
        /// What has the length.
        what: &'static str,
        /// The length.
        found: usize,
        /// The limit.
        most: usize,
    },
    /// The payload ends early, goes on too long, or contradicts itself.
    #[error("message is malformed: {0}")]
    Malformed(&'static str),
}

/// Longest path or message.
const MAX_TEXT: usize = 64 << 10;

pub(crate) fn put_text(out: &mut Vec<u8>, text: &str) {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    out.extend_from_slice(&(end as u32).to_le_bytes());
    out.extend_from_slice(&text.as_bytes()[..end]);
}

pub(crate) fn put_optional_text(out: &mut Vec<u8>, text: Option<&str>) {
    out.push(u8::from(text.is_some()));
    put_text(out, text.unwrap_or(""));
}

/// Takes values off the front of a payload.
pub(crate) struct Take<'a>(pub(crate) &'a [u8]);

impl<'a> Take<'a> {
    pub(crate) fn bytes(&mut self, len: usize) -> Result<&'a [u8], WireError> {
        let (head, rest) = self
            .0
            .split_at_checked(len)
            .ok_or(WireError::Malformed("ends early"))?;
        self.0 = rest;
        Ok(head)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, WireError> {
        Ok(self.bytes(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, WireError> {
        self.bytes(4)?
            .try_into()
            .map(u32::from_le_bytes)
            .map_err(|_| WireError::Malformed("ends early"))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, WireError> {
        self.bytes(8)?
            .try_into()
            .map(u64::from_le_bytes)
            .map_err(|_| WireError::Malformed("ends early"))
    }

    pub(crate) fn i64(&mut self) -> Result<i64, WireError> {
        self.u64().map(u64::cast_signed)
    }

    pub(crate) fn u128(&mut self) -> Result<u128, WireError> {
        self.bytes(16)?
            .try_into()
            .map(u128::from_le_bytes)
            .map_err(|_| WireError::Malformed("ends early"))
    }

    pub(crate) fn flag(&mut self) -> Result<bool, WireError> {
        match self.u8()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(WireError::Malformed("a flag is neither 0 nor 1")),
        }
    }

    pub(crate) fn count(&mut self, what: &'static str, most: usize) -> Result<usize, WireError> {
        let found = self.u32()? as usize;
        if found > most {
            return Err(WireError::TooLong { what, found, most });
        }
        Ok(found)
    }

    pub(crate) fn text(&mut self) -> Result<String, WireError> {
        let len = self.count("text", MAX_TEXT)?;
        let text = std::str::from_utf8(self.bytes(len)?);
        text.map(str::to_owned)
            .map_err(|_| WireError::Malformed("text is not UTF-8"))
    }

    /// A flag, and text that is empty where the flag says that there is none.
    pub(crate) fn optional_text(&mut self) -> Result<Option<String>, WireError> {
        match (self.flag()?, self.text()?) {
            (true, text) => Ok(Some(text)),
            (false, text) if text.is_empty() => Ok(None),
            (false, _) => Err(WireError::Malformed("text where there is none")),
        }
    }

    /// Everything that is left; a payload's own bound is the only one.
    pub(crate) fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }

    /// The same, as text.
    pub(crate) fn rest_as_text(&mut self) -> Result<String, WireError> {
        let text = std::str::from_utf8(self.rest());
        text.map(str::to_owned)
            .map_err(|_| WireError::Malformed("text is not UTF-8"))
    }

    pub(crate) fn end(self) -> Result<(), WireError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(WireError::Malformed("goes on too long"))
        }
    }
}
