//! The little of flatbuffers that Arrow's metadata needs, with every offset checked.
//!
//! A table begins with the distance back to its vtable, which lists where each of its fields lies.

/// Deepest nesting that is followed: types inside types.
pub(super) const MAX_DEPTH: usize = 64;

/// A table inside a buffer.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
    vtable: &'a [u8],
}

impl<'a> Table<'a> {
    /// The table that a buffer is about.
    pub(super) fn root(bytes: &'a [u8]) -> Option<Self> {
        Self::at(bytes, forward(bytes, 0)?)
    }

    fn at(bytes: &'a [u8], at: usize) -> Option<Self> {
        let back = i64::from(u32_at(bytes, at)?.cast_signed());
        let vtable_at = usize::try_from(i64::try_from(at).ok()?.checked_sub(back)?).ok()?;
        let len = usize::from(u16_at(bytes, vtable_at)?);
        let vtable = bytes.get(vtable_at..vtable_at.checked_add(len)?)?;
        Some(Self { bytes, at, vtable })
    }

    /// Where field number `n` lies; `None` if it has its default.
    fn place(&self, n: usize) -> Option<usize> {
        match u16_at(self.vtable, 4 + 2 * n)? {
            0 => None,
            offset => self.at.checked_add(offset.into()),
        }
    }

    fn fixed<const N: usize>(&self, n: usize) -> Option<[u8; N]> {
        let at = self.place(n)?;
        self.bytes.get(at..at.checked_add(N)?)?.try_into().ok()
    }

    pub(super) fn u8(&self, n: usize) -> u8 {
        self.fixed::<1>(n).map_or(0, |bytes| bytes[0])
    }

    pub(super) fn i16(&self, n: usize) -> i16 {
        self.fixed(n).map_or(0, i16::from_le_bytes)
    }

    pub(super) fn i32(&self, n: usize) -> i32 {
        self.fixed(n).map_or(0, i32::from_le_bytes)
    }

    pub(super) fn i64(&self, n: usize) -> i64 {
        self.fixed(n).map_or(0, i64::from_le_bytes)
    }

    pub(super) fn has(&self, n: usize) -> bool {
        self.place(n).is_some()
    }

    pub(super) fn table(&self, n: usize) -> Option<Self> {
        Self::at(self.bytes, forward(self.bytes, self.place(n)?)?)
    }

    pub(super) fn text(&self, n: usize) -> Option<&'a str> {
        let at = forward(self.bytes, self.place(n)?)?;
        let len = u32_at(self.bytes, at)? as usize;
        let start = at.checked_add(4)?;
        std::str::from_utf8(self.bytes.get(start..start.checked_add(len)?)?).ok()
    }

    /// A vector of tables; empty if it is not there, `None` if it makes no sense.
    pub(super) fn tables(&self, n: usize) -> Option<Vec<Self>> {
        let Some(place) = self.place(n) else {
            return Some(Vec::new());
        };
        let at = forward(self.bytes, place)?;
        let len = u32_at(self.bytes, at)? as usize;
        let start = at.checked_add(4)?;
        // As many as the bytes have room for.
        self.bytes
            .get(start..start.checked_add(len.checked_mul(4)?)?)?;
        (0..len)
            .map(|n| {
                let at = start + 4 * n;
                Self::at(self.bytes, forward(self.bytes, at)?)
            })
            .collect()
    }

    /// A vector of pairs of numbers, as Arrow's nodes and buffers are.
    pub(super) fn pairs(&self, n: usize) -> Option<Vec<(i64, i64)>> {
        let Some(place) = self.place(n) else {
            return Some(Vec::new());
        };
        let at = forward(self.bytes, place)?;
        let len = u32_at(self.bytes, at)? as usize;
        let start = at.checked_add(4)?;
        let bytes = self
            .bytes
            .get(start..start.checked_add(len.checked_mul(16)?)?)?;
        let (pairs, _) = bytes.as_chunks::<16>();
        let number = |bytes: &[u8]| bytes.try_into().map_or(0, i64::from_le_bytes);
        Some(
            pairs
                .iter()
                .map(|pair| (number(&pair[..8]), number(&pair[8..])))
                .collect(),
        )
    }
}

fn forward(bytes: &[u8], at: usize) -> Option<usize> {
    at.checked_add(u32_at(bytes, at)? as usize)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(
        bytes.get(at..at.checked_add(4)?)?.try_into().ok()?,
    ))
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(
        bytes.get(at..at.checked_add(2)?)?.try_into().ok()?,
    ))
}
