//! The shape of a field, as it lies in the index.

use std::fmt;

use super::check::elements;

/// Shape of a field in elements: empty for a scalar. Its elements are counted and fit in 64 bits.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Shape<'a> {
    // Mapped bytes have no alignment that could be relied on, so the numbers stay bytes.
    dims: &'a [[u8; 8]],
    elements: u64,
}

impl<'a> Shape<'a> {
    pub(super) fn new(dims: &'a [[u8; 8]]) -> Option<Self> {
        let elements = elements(dims.iter().map(|le| u64::from_le_bytes(*le)))?;
        Some(Self { dims, elements })
    }

    /// Number of axes; 0 for a scalar.
    pub const fn rank(self) -> usize {
        self.dims.len()
    }

    /// Length along `axis`, or `None` if there is no such axis.
    pub fn dim(self, axis: usize) -> Option<u64> {
        self.dims.get(axis).map(|le| u64::from_le_bytes(*le))
    }

    /// Lengths of the axes, outermost first.
    pub fn iter(self) -> impl ExactSizeIterator<Item = u64> + Clone + 'a {
        self.dims.iter().map(|le| u64::from_le_bytes(*le))
    }

    /// Elements in all: 1 for a scalar, 0 if an axis is empty.
    pub const fn elements(self) -> u64 {
        self.elements
    }
}

impl fmt::Debug for Shape<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

impl PartialEq<[u64]> for Shape<'_> {
    fn eq(&self, other: &[u64]) -> bool {
        self.iter().eq(other.iter().copied())
    }
}
