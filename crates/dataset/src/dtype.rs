//! Element types, by numpy's names.

use std::fmt;
use std::str::FromStr;

use crate::DTypeError;

/// Order of the bytes of one element.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// `<`
    Little,
    /// `>`
    Big,
    /// `|`: one byte, or bytes without an order.
    None,
}

/// Type of one element of a field: numpy's kind character, order and item size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DType {
    order: ByteOrder,
    kind: u8,
    size: u16,
}

impl DType {
    /// Bytes: what a file without a format is made of.
    pub const U8: Self = Self {
        order: ByteOrder::None,
        kind: b'u',
        size: 1,
    };

    /// Bytes of one element, at least 1.
    pub const fn size(self) -> u16 {
        self.size
    }

    /// Numpy's kind character: one of `b i u f c S V`.
    pub const fn kind(self) -> char {
        self.kind as char
    }

    /// Order of the bytes.
    pub const fn order(self) -> ByteOrder {
        self.order
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let order = match self.order {
            ByteOrder::Little => '<',
            ByteOrder::Big => '>',
            ByteOrder::None => '|',
        };
        write!(f, "{order}{}{}", self.kind as char, self.size)
    }
}

impl FromStr for DType {
    type Err = DTypeError;

    fn from_str(text: &str) -> Result<Self, DTypeError> {
        let refuse = || DTypeError(text.to_owned());
        let (order, kind, size) = match text.as_bytes() {
            [order, kind, size @ ..] => (*order, *kind, size),
            _ => return Err(refuse()),
        };
        let order = match order {
            b'<' => ByteOrder::Little,
            b'>' => ByteOrder::Big,
            b'|' => ByteOrder::None,
            _ => return Err(refuse()),
        };
        if size.is_empty() || size[0] == b'0' || !size.iter().all(u8::is_ascii_digit) {
            return Err(refuse());
        }
        let size: u16 = std::str::from_utf8(size)
            .ok()
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(refuse)?;
        let fits = match kind {
            b'b' => size == 1,
            b'i' | b'u' => matches!(size, 1 | 2 | 4 | 8),
            b'f' => matches!(size, 2 | 4 | 8),
            b'c' => matches!(size, 8 | 16),
            b'S' | b'V' => true,
            _ => false,
        };
        let ordered = matches!(kind, b'i' | b'u' | b'f' | b'c') && size > 1;
        if fits && ordered != (order == ByteOrder::None) {
            Ok(Self { order, kind, size })
        } else {
            Err(refuse())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_survive_a_round_trip() {
        for name in ["<f4", "|u1", "|b1", ">i8", "<c16", "|S12", "|V3"] {
            assert_eq!(name.parse::<DType>().unwrap().to_string(), name);
        }
    }

    #[test]
    fn what_numpy_would_not_say_is_refused() {
        for name in [
            "", "f4", "<f3", "|f4", "<u1", "=i4", "<i04", "|O8", "|S0", "|S70000", "<f4é",
        ] {
            assert!(name.parse::<DType>().is_err(), "{name}");
        }
    }
}
