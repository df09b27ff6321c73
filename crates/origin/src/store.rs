//! Stores of objects, seen from those who read them. `forebay-objects` is what talks to them.

use std::path::Path;
use std::sync::Arc;

use forebay_dataset::Fingerprint;

use crate::{Origin, OriginError, PosixOrigin, SegmentRef, StoreUrl};

/// The objects of one bucket, container or web server.
///
/// # Contract
/// - Every call ends at a deadline of its own, whatever the store does.
/// - `read_at` fills all of `out` from the version `fingerprint`, or fails: with
///   [`OriginError::StaleObject`] if the store answers from another version.
pub trait Objects: Send + Sync + std::fmt::Debug {
    /// Fills `out` from byte `offset` of the object `key`.
    fn read_at(
        &self,
        key: &str,
        fingerprint: Fingerprint,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError>;

    /// What the object `key` is now.
    fn stat(&self, key: &str) -> Result<Fingerprint, OriginError>;

    /// Gives each object below the prefix `key` (empty: of the whole store) to `found`, in any
    /// order, without a request for each.
    fn list(&self, key: &str, found: &mut dyn FnMut(&str, Fingerprint)) -> Result<(), OriginError>;
}

/// Opens stores. The processes that train have none: their daemon does it for them.
pub trait Stores: Send + Sync + std::fmt::Debug {
    /// The store that `url` is in, whatever its key.
    fn open(&self, url: &StoreUrl) -> Result<Arc<dyn Objects>, OriginError>;
}

/// The origin of the data set below `root`: a folder, or the URL of a store. Without `stores` a
/// URL gives an origin of which every read fails with [`OriginError::NoStores`].
///
/// # Errors
/// [`OriginError::Url`], or what opening the store reports.
pub fn open_origin(
    root: &Path,
    stores: Option<&dyn Stores>,
) -> Result<Arc<dyn Origin>, OriginError> {
    let Some(url) = root.to_str().filter(|text| StoreUrl::is_url(text)) else {
        return Ok(Arc::new(PosixOrigin::new(root.to_path_buf())));
    };
    let root = StoreUrl::parse(url)?;
    let objects = stores.map(|stores| stores.open(&root)).transpose()?;
    Ok(Arc::new(StoreOrigin { root, objects }))
}

/// Objects below a prefix.
#[derive(Debug)]
struct StoreOrigin {
    root: StoreUrl,
    objects: Option<Arc<dyn Objects>>,
}

impl Origin for StoreOrigin {
    fn read_at(
        &self,
        segment: SegmentRef<'_>,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        let key = self.root.key_of(segment.path);
        let shown = || self.root.with_key(&key).to_string();
        let size = segment.fingerprint.size;
        let end = offset.saturating_add(out.len() as u64);
        if end > size {
            return Err(OriginError::OutOfRange {
                path: shown(),
                offset,
                end,
                size,
            });
        }
        let Some(objects) = &self.objects else {
            return Err(OriginError::NoStores { url: shown() });
        };
        if out.is_empty() {
            return Ok(());
        }
        objects.read_at(&key, segment.fingerprint, offset, out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay_dataset::{ErrorKind, SegmentIndex};

    #[test]
    fn without_stores_a_url_says_who_can_read_it() {
        let origin = open_origin(Path::new("s3://bucket/x"), None).unwrap();
        let fingerprint = Fingerprint::of_object(9, Some("v"), None).unwrap();
        let segment = SegmentRef {
            index: SegmentIndex(0),
            path: "y/z.h5",
            fingerprint,
        };
        let error = origin.read_at(segment, 0, &mut [0; 9]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable);
        let words = error.to_string();
        assert!(
            words.contains("`s3://bucket/x/y/z.h5`") && words.contains("daemon"),
            "{words}"
        );
        assert!(open_origin(Path::new("ftp://h/x"), None).is_err());
    }
}
