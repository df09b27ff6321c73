//! Doubles of an origin, and the suite that every origin passes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::{io, time::Duration};

use forebay_dataset::Fingerprint;

use crate::{Objects, Origin, OriginError, SegmentRef, StoreFault, StoreUrl, Stores};

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

/// A store in memory that counts what it is asked.
#[derive(Debug, Default)]
pub struct MemoryStore {
    objects: Mutex<BTreeMap<String, (String, Vec<u8>)>>,
    reads: AtomicU64,
    stats: AtomicU64,
    lists: AtomicU64,
}

impl MemoryStore {
    /// Puts an object, or replaces one; `etag` is its version.
    pub fn put(&self, key: &str, etag: &str, bytes: Vec<u8>) {
        let mut objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        objects.insert(key.to_owned(), (etag.to_owned(), bytes));
    }

    /// Reads, single objects asked about, and listings so far.
    pub fn asked(&self) -> (u64, u64, u64) {
        let get = |counter: &AtomicU64| counter.load(Ordering::SeqCst);
        (get(&self.reads), get(&self.stats), get(&self.lists))
    }

    fn with<T>(
        &self,
        key: &str,
        read: impl FnOnce(Fingerprint, &[u8]) -> T,
    ) -> Result<T, OriginError> {
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        match objects.get(key) {
            Some((etag, bytes)) => Ok(read(version(etag, bytes), bytes)),
            None => Err(OriginError::Store {
                act: "find".to_owned(),
                url: key.to_owned(),
                source: StoreFault::NotFound {
                    detail: "not in memory".to_owned(),
                },
            }),
        }
    }
}

/// The fingerprint of an object with this tag and these bytes.
pub fn version(etag: &str, bytes: &[u8]) -> Fingerprint {
    Fingerprint::of_object(bytes.len() as u64, Some(etag), None).expect("a tag is a version")
}

impl Objects for MemoryStore {
    fn read_at(
        &self,
        key: &str,
        fingerprint: Fingerprint,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        self.reads.fetch_add(1, Ordering::SeqCst);
        self.with(key, |found, bytes| {
            if found != fingerprint {
                return Err(OriginError::StaleObject {
                    url: key.to_owned(),
                    indexed: fingerprint,
                    found,
                });
            }
            let start = offset as usize;
            out.copy_from_slice(&bytes[start..start + out.len()]);
            Ok(())
        })?
    }

    fn stat(&self, key: &str) -> Result<Fingerprint, OriginError> {
        self.stats.fetch_add(1, Ordering::SeqCst);
        self.with(key, |found, _| found)
    }

    fn list(&self, key: &str, found: &mut dyn FnMut(&str, Fingerprint)) -> Result<(), OriginError> {
        self.lists.fetch_add(1, Ordering::SeqCst);
        let objects = self.objects.lock().unwrap_or_else(PoisonError::into_inner);
        let prefix = if key.is_empty() {
            String::new()
        } else {
            format!("{key}/")
        };
        for (known, (etag, bytes)) in objects.iter() {
            if known.starts_with(&prefix) {
                found(known, version(etag, bytes));
            }
        }
        Ok(())
    }
}

/// Opens one store, whatever the URL.
#[derive(Clone, Debug, Default)]
pub struct OneStore(pub Arc<MemoryStore>);

impl Stores for OneStore {
    fn open(&self, _: &StoreUrl) -> Result<Arc<dyn Objects>, OriginError> {
        Ok(self.0.clone())
    }
}
