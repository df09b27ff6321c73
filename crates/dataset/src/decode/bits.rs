//! Numbers of any width, highest bit first.

/// Reads bits in order. What lies beyond the end is not there.
pub(super) struct Bits<'a> {
    rest: &'a [u8],
    /// Bits that were read and not taken, highest first.
    held: u64,
    len: u32,
}

impl<'a> Bits<'a> {
    pub(super) const fn new(bytes: &'a [u8]) -> Self {
        Self {
            rest: bytes,
            held: 0,
            len: 0,
        }
    }

    /// Holds at least 57 bits, if there are as many.
    fn refill(&mut self) {
        while self.len <= 56 {
            let Some((first, rest)) = self.rest.split_first() else {
                return;
            };
            self.held |= u64::from(*first) << (56 - self.len);
            self.len += 8;
            self.rest = rest;
        }
    }

    /// The next `count` bits, at most 64, as a number.
    pub(super) fn take(&mut self, count: u32) -> Option<u64> {
        if count > 32 {
            let high = self.take(count - 32)?;
            return Some(high << 32 | self.take(32)?);
        }
        if self.len < count {
            self.refill();
        }
        self.len = self.len.checked_sub(count)?;
        // Two shifts, since one by 64 is none.
        let value = self.held >> 1 >> (63 - count);
        self.held <<= count;
        Some(value)
    }

    /// Zeros in front of the next one, which is passed.
    pub(super) fn unary(&mut self) -> Option<u32> {
        let mut zeros = 0_u32;
        loop {
            let run = self.held.leading_zeros();
            if run < self.len {
                self.len -= run + 1;
                self.held = self.held << run << 1;
                return zeros.checked_add(run);
            }
            zeros = zeros.checked_add(self.len)?;
            (self.held, self.len) = (0, 0);
            self.refill();
            if self.len == 0 {
                return None;
            }
        }
    }
}

/// Writes the low bytes of `value` as an element of `out.len()` bytes.
#[inline(always)]
pub(super) fn put(value: u64, big_endian: bool, out: &mut [u8]) {
    let size = out.len();
    if big_endian {
        out.copy_from_slice(&value.to_be_bytes()[8 - size..]);
    } else {
        out.copy_from_slice(&value.to_le_bytes()[..size]);
    }
}

/// An element of at most 8 bytes as a number.
pub(super) fn get(element: &[u8], big_endian: bool) -> u64 {
    let (mut wide, size) = ([0; 8], element.len());
    if big_endian {
        wide[8 - size..].copy_from_slice(element);
        u64::from_be_bytes(wide)
    } else {
        wide[..size].copy_from_slice(element);
        u64::from_le_bytes(wide)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order_and_end() {
        let mut bits = Bits::new(&[0b1010_0001, 0xff, 0, 0, 0, 0, 0, 0, 0, 0x80, 1]);
        assert_eq!(bits.take(3), Some(0b101));
        assert_eq!(bits.take(0), Some(0));
        assert_eq!(bits.unary(), Some(4));
        assert_eq!(bits.take(8), Some(0xff));
        assert_eq!(bits.unary(), Some(56));
        assert_eq!(bits.take(15), Some(1));
        assert_eq!(bits.take(1), None);
        assert_eq!(Bits::new(&[0; 9]).unary(), None);
        assert_eq!(
            Bits::new(&[1, 2, 3, 4, 5, 6, 7, 8]).take(64),
            Some(0x0102_0304_0506_0708)
        );
    }
}
