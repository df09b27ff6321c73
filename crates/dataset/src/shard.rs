//! Shards and the origin files in them.

use xxhash_rust::xxh3::xxh3_128;

/// A shard of this size or less has one owner, and small files are gathered into shards up to it.
pub const REGION_BYTES: u64 = 256 << 20;

/// Position of a shard in its data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ShardIndex(pub u32);

/// Position of a segment (one origin file) in its data set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SegmentIndex(pub u32);

/// Version of an origin file: while these three are unchanged, so are its bytes.
///
/// An object of a store has neither modification time in nanoseconds nor inode; the 16 bytes of
/// both hold the hash of its version then ([`Self::of_object`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Fingerprint {
    /// Length in bytes.
    pub size: u64,
    /// Modification time, nanoseconds since 1970; of an object, the upper half of its version.
    pub mtime_ns: i64,
    /// Inode number; of an object, the lower half of its version.
    pub inode: u64,
}

impl Fingerprint {
    /// Of an object that has `size` bytes, by what its store calls this version of it: the entity
    /// tag, without weakness and quotes. A tag that is weak, or none, does not promise the same
    /// bytes, so that the modification time, whole seconds since 1970, has to stand beside it.
    ///
    /// `None` if the store says nothing that could tell two versions apart.
    pub fn of_object(size: u64, etag: Option<&str>, modified: Option<i64>) -> Option<Self> {
        let tag = etag.unwrap_or_default();
        let weak = tag.strip_prefix("W/");
        let bare = weak.unwrap_or(tag).trim_matches('"');
        let version = match (weak, modified) {
            (None, _) if !bare.is_empty() => format!("E{bare}"),
            (_, Some(seconds)) => format!("M{bare}\n{seconds}"),
            _ => return None,
        };
        Some(Self::of_version(size, xxh3_128(version.as_bytes())))
    }

    fn of_version(size: u64, version: u128) -> Self {
        Self {
            size,
            mtime_ns: ((version >> 64) as u64).cast_signed(),
            inode: version as u64,
        }
    }

    /// The version of an object, as [`Self::of_object`] made it.
    pub fn object_version(&self) -> u128 {
        u128::from(self.mtime_ns.cast_unsigned()) << 64 | u128::from(self.inode)
    }
}

/// Schemes of the stores that an index can have its segments in.
const STORE_SCHEMES: [&str; 5] = ["s3://", "gs://", "az://", "http://", "https://"];

/// Whether the root of an index is the URL of a store of objects, and not a folder.
pub fn is_store_url(root: &str) -> bool {
    STORE_SCHEMES.iter().any(|scheme| root.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_differ_by_strong_tag_or_by_weak_tag_and_time() {
        let of = |etag, modified| Fingerprint::of_object(7, etag, modified);
        // The listing of a store may leave the quotes out that its answers have.
        assert_eq!(of(Some("\"abc\""), None), of(Some("abc"), Some(3)));
        assert_ne!(of(Some("abc"), None), of(Some("xyz"), None));
        assert_ne!(
            of(Some("W/\"abc\""), Some(1)),
            of(Some("W/\"abc\""), Some(2))
        );
        assert_ne!(of(Some("W/\"abc\""), Some(1)), of(Some("\"abc\""), Some(1)));
        assert_ne!(of(None, Some(1)), of(None, Some(2)));
        for nothing in [None, Some("\"\""), Some("W/\"abc\"")] {
            assert_eq!(of(nothing, None), None, "{nothing:?}");
        }
    }

    #[test]
    fn versions_of_objects_are_frozen_at_version_1() {
        let version = |etag, modified| {
            let found = Fingerprint::of_object(7, etag, modified);
            found.unwrap().object_version()
        };
        // As another implementation of XXH3-128 has them for `Ed41d8` and the like.
        let frozen = [
            (
                Some("\"d41d8\""),
                None,
                0xeeb8_198f_da7a_864c_131c_81f3_425f_38bf,
            ),
            (
                Some("W/\"d41d8\""),
                Some(1_700_000_000),
                0x5623_cac3_9b3e_d809_4585_c2ca_ad46_d367,
            ),
            (None, Some(-1), 0xbfb0_f13d_b6bc_939a_4f67_bd7a_63a0_fe2a),
        ];
        for (etag, modified, wanted) in frozen {
            let found = version(etag, modified);
            assert_eq!(
                found, wanted,
                "{etag:?}: a change makes every indexed object stale"
            );
        }
    }

    #[test]
    fn only_known_stores_are_urls() {
        for url in [
            "s3://b/x",
            "gs://b",
            "az://c/x",
            "http://h:1/x",
            "https://h/x",
        ] {
            assert!(is_store_url(url), "{url}");
        }
        for path in [
            "/s3://b",
            "s3:/b",
            "S3://b",
            "ftp://h/x",
            "data",
            "file:///x",
        ] {
            assert!(!is_store_url(path), "{path}");
        }
    }
}
