//! Reads memory of others.

use std::fmt;
use std::time::{Duration, Instant};

use crate::sys::{Access, End, Memory, Posted, Slot};
use crate::{Address, Libfabric, OpenError, ReadError, TrafficClass, Way};

/// After so long a read under way looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(50);

/// Reads memory of others into a buffer of its own, one read at a time.
pub struct Reader {
    end: End,
    buffer: Slot,
    /// A read may still be under way: the buffer is the provider's for good.
    is_spent: bool,
}

/// Another end that a [`Reader`] knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(u64);

impl Reader {
    /// Opens one whose reads have at most `bytes` bytes.
    ///
    /// # Errors
    /// [`OpenError`], with the provider's own words.
    pub fn open(library: &Libfabric, way: &Way, bytes: usize) -> Result<Self, OpenError> {
        let (memory, mut slots) = Memory::split(1, bytes);
        let end = End::open(library, way, memory, Access::LandHere)?;
        Ok(Self {
            end,
            buffer: slots.remove(0),
            is_spent: false,
        })
    }

    /// The provider with the layers over it.
    pub fn provider(&self) -> &str {
        self.end.provider()
    }

    /// The class that the provider was asked to send in.
    pub fn requested_class(&self) -> Option<TrafficClass> {
        self.end.class()
    }

    /// Makes another end known.
    ///
    /// # Errors
    /// [`ReadError::Address`] if it is none of this provider's.
    pub fn add(&mut self, address: &Address) -> Result<Peer, ReadError> {
        self.end.insert(address).map(Peer)
    }

    /// Reads `len` bytes of another's memory, from `address` as its provider counts, with the key that
    /// opens it. `goes_on` is asked now and then whether they are still wanted.
    ///
    /// # Errors
    /// [`ReadError`]. After [`ReadError::Late`] and [`ReadError::GivenUp`] the reader is of no use: it
    /// is to be dropped.
    pub fn read(
        &mut self,
        peer: Peer,
        (address, key): (u64, u64),
        len: usize,
        deadline: Instant,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<&[u8], ReadError> {
        if self.is_spent {
            return Err(ReadError::Spent);
        }
        let most = self.buffer.bytes().len();
        if len > most {
            return Err(ReadError::TooLong { found: len, most });
        }
        let mut at = 0;
        while at < len {
            let part = (len - at).min(self.end.most_bytes());
            let Some(from) = address.checked_add(at as u64) else {
                return Err(ReadError::TooLong { found: len, most });
            };
            self.post(peer, at, part, (from, key), deadline, goes_on)?;
            self.wait(deadline, goes_on)?;
            at += part;
        }
        Ok(&self.buffer.bytes()[..len])
    }

    /// Begins a read; a provider that is just connecting is given time.
    fn post(
        &mut self,
        peer: Peer,
        at: usize,
        len: usize,
        place: (u64, u64),
        deadline: Instant,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<(), ReadError> {
        while !self.end.post_read(peer.0, at, len, place)? {
            check(deadline, goes_on)?;
            self.end.progress(Duration::from_millis(1))?;
        }
        Ok(())
    }

    /// Waits for the end of the read under way.
    fn wait(&mut self, deadline: Instant, goes_on: &dyn Fn() -> bool) -> Result<(), ReadError> {
        self.is_spent = true;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.end.progress(left.min(LOOK))? {
                Posted::Done => break,
                Posted::Failed(error) => {
                    self.is_spent = false;
                    return Err(error);
                }
                Posted::Waiting => check(deadline, goes_on)?,
            }
        }
        self.is_spent = false;
        Ok(())
    }
}

fn check(deadline: Instant, goes_on: &dyn Fn() -> bool) -> Result<(), ReadError> {
    if Instant::now() >= deadline {
        return Err(ReadError::Late);
    }
    if goes_on() {
        Ok(())
    } else {
        Err(ReadError::GivenUp)
    }
}

impl fmt::Debug for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Reader")
            .field("provider", &self.provider())
            .field("is_spent", &self.is_spent)
            .finish_non_exhaustive()
    }
}
