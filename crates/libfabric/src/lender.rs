//! Memory that others read.

use std::fmt;
use std::time::Duration;

use crate::sys::{Access, End, Memory, Slot};
use crate::{Address, Libfabric, OpenError, ReadError, TrafficClass, Way};

/// Has memory that others read. Its provider works only in [`Self::progress`].
pub struct Lender {
    end: End,
    memory: LentMemory,
}

/// Where memory of a [`Lender`] is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LentMemory {
    /// Address of its endpoint.
    pub address: Address,
    /// Where the memory begins, as the provider counts.
    pub base: u64,
    /// Its length in bytes.
    pub len: u64,
    /// The key that opens it.
    pub key: u64,
}

impl Lender {
    /// Opens one with `count` parts of `len` bytes, and gives the parts.
    ///
    /// # Errors
    /// [`OpenError`], with the provider's own words.
    pub fn open(
        library: &Libfabric,
        way: &Way,
        count: usize,
        len: usize,
    ) -> Result<(Self, Vec<Slot>), OpenError> {
        let (memory, slots) = Memory::split(count, len);
        let bytes = memory.len() as u64;
        let end = End::open(library, way, memory, Access::ReadByOthers)?;
        let (base, key) = end.place();
        let memory = LentMemory {
            address: end.address()?,
            base,
            len: bytes,
            key,
        };
        Ok((Self { end, memory }, slots))
    }

    /// Where it is read.
    pub fn memory(&self) -> &LentMemory {
        &self.memory
    }

    /// The provider with the layers over it.
    pub fn provider(&self) -> &str {
        self.end.provider()
    }

    /// The class that the provider was asked to send in.
    pub fn requested_class(&self) -> Option<TrafficClass> {
        self.end.class()
    }

    /// Lets the provider answer those who read, for up to `limit`.
    ///
    /// # Errors
    /// [`ReadError::Failed`], if its queue is of no use any more.
    pub fn progress(&mut self, limit: Duration) -> Result<(), ReadError> {
        self.end.progress(limit).map(|_| ())
    }
}

impl fmt::Debug for Lender {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lender")
            .field("provider", &self.provider())
            .field("memory", &self.memory)
            .finish_non_exhaustive()
    }
}
