//! The bytes of blocks that have arrived.

use std::fmt;
use std::ops::{Deref, DerefMut};

use super::pending::Buffers;

/// Memory for bytes to land in, of whoever takes them.
pub trait Landing: Deref<Target = [u8]> + DerefMut + fmt::Debug + Send + Sync {}

impl<T: Deref<Target = [u8]> + DerefMut + fmt::Debug + Send + Sync> Landing for T {}

/// Bytes that have arrived, in memory that is used for the next ones, or in some of their own.
#[derive(Debug)]
pub struct Bytes<'a>(Place<'a>);

#[derive(Debug)]
enum Place<'a> {
    Lent(&'a [u8]),
    Own { buffer: Buffers, len: usize },
    Landing(Box<dyn Landing>),
}

impl Bytes<'static> {
    /// Memory for so many bytes, with whatever is in it: `landing` if that has so many.
    pub(super) fn of_len(landing: Option<Box<dyn Landing>>, len: usize) -> Self {
        match landing.filter(|landing| landing.len() == len) {
            Some(landing) => Self(Place::Landing(landing)),
            None => {
                let mut buffer = Buffers::take();
                buffer.of_len(len);
                Self(Place::Own { buffer, len })
            }
        }
    }

    /// To fill them.
    pub(super) fn as_mut(&mut self) -> &mut [u8] {
        match &mut self.0 {
            Place::Own { buffer, len } => buffer.of_len(*len),
            Place::Landing(landing) => landing,
            // None of these lives so long.
            Place::Lent(_) => &mut [],
        }
    }
}

impl Bytes<'_> {
    /// Keeps them for longer than the call they came with; where they have no memory of their own,
    /// in a copy, for which `landing` may give some.
    #[must_use]
    pub fn keep(self, landing: impl FnOnce(usize) -> Option<Box<dyn Landing>>) -> Bytes<'static> {
        match self.0 {
            Place::Own { buffer, len } => Bytes(Place::Own { buffer, len }),
            Place::Landing(landing) => Bytes(Place::Landing(landing)),
            Place::Lent(bytes) => {
                let mut kept = Bytes::of_len(landing(bytes.len()), bytes.len());
                kept.as_mut().copy_from_slice(bytes);
                kept
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
            Place::Landing(landing) => landing,
        }
    }
}
