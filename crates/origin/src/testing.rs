//! Doubles of an origin, and the suite that every origin passes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{io, time::Duration};

use crate::{Origin, OriginError, SegmentRef};

/// An origin in memory that counts, delays and fails as told.
#[derive(Debug, Default)]
pub struct MemoryOrigin {
    segments: Vec<Vec<u8>>,
    reads: AtomicU64,
    bytes: AtomicU64,
    fail_in: AtomicU64,
    delay: Mutex<Duration>,
}

impl MemoryOrigin {
    /// One segment for each vector.
    pub fn new(segments: Vec<Vec<u8>>) -> Self {
        Self {
            segments,
            fail_in: AtomicU64::new(u64::MAX),
            ..Self::default()
        }
    }

    /// Reads so far.
    pub fn reads(&self) -> u64 {
        self.reads.load(Ordering::SeqCst)
    }

    /// Bytes read so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::SeqCst)
    }

    /// Fails the `n`th read from now (0 is the next) and no other.
    pub fn fail_in(&self, n: u64) {
        self.fail_in.store(n, Ordering::SeqCst);
    }

    /// Makes every read take this long.
    pub fn delay(&self, delay: Duration) {
        *self
            .delay
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = delay;
    }
}

impl Origin for MemoryOrigin {
    fn read_at(
        &self,
        segment: SegmentRef<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        let delay = *self
            .delay
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        std::thread::sleep(delay);
        self.reads.fetch_add(1, Ordering::SeqCst);
        let end = offset + out.len() as u64;
        let left = self
            .fail_in
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| {
                Some(n.wrapping_sub(1))
            });
        if left == Ok(0) {
            let source = io::Error::other("injected");
            return Err(OriginError::Read {
                path: segment.path.into(),
                offset,
                end,
                source,
            });
        }
        let bytes = self
            .segments
            .get(segment.index.0 as usize)
            .and_then(|bytes| bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
        let Some(bytes) = bytes else {
            let size = segment.fingerprint.size;
            return Err(OriginError::OutOfRange {
                path: segment.path.into(),
                offset,
                end,
                size,
            });
        };
        out.copy_from_slice(bytes);
        self.bytes.fetch_add(out.len() as u64, Ordering::SeqCst);
        Ok(())
    }
}

/// Every origin passes this, whatever it is made of.
pub mod conformance {
    use crate::{Origin, OriginError, SegmentRef};

    /// Whole, halves, single bytes and the refusal of what lies outside.
    pub fn reads_are_exact(origin: &dyn Origin, segment: SegmentRef<'_>, bytes: &[u8]) {
        let read = |start: usize, end: usize| {
            let mut out = vec![0xAA; end - start];
            origin
                .read_at(segment, start as u64, &mut out)
                .expect("read inside the segment");
            out
        };
        let (half, len) = (bytes.len() / 2, bytes.len());
        assert_eq!(read(0, len), bytes, "whole");
        assert_eq!([read(0, half), read(half, len)].concat(), bytes, "halves");
        assert_eq!(read(len - 1, len), bytes[len - 1..], "last byte");
        for (offset, wanted) in [(len as u64, 1), (len as u64 - 1, 2), (u64::MAX, 8)] {
            let refused = origin.read_at(segment, offset, &mut vec![0; wanted]);
            assert!(
                matches!(refused, Err(OriginError::OutOfRange { .. })),
                "{wanted} bytes at {offset}"
            );
        }
    }
}
