//! URLs of stores of objects.

use std::fmt;

use percent_encoding::{AsciiSet, CONTROLS, percent_decode_str, utf8_percent_encode};

use crate::OriginError;

/// What a URL over HTTP cannot have as it is in a path.
const ESCAPED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'\\')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// Kind of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Scheme {
    /// Amazon S3 and what speaks its protocol: `s3://bucket/key`.
    S3,
    /// Google Cloud Storage: `gs://bucket/key`.
    Gcs,
    /// Azure Blob Storage: `az://container/key`.
    Azure,
    /// A web server: `http://host/path`.
    Http,
    /// A web server behind TLS: `https://host/path`.
    Https,
}

impl Scheme {
    const ALL: [Self; 5] = [Self::S3, Self::Gcs, Self::Azure, Self::Http, Self::Https];

    /// As it stands before `://`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::S3 => "s3",
            Self::Gcs => "gs",
            Self::Azure => "az",
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    /// Whether it is a web server: paths are percent-encoded, and nothing need be listable.
    pub const fn is_web(self) -> bool {
        matches!(self, Self::Http | Self::Https)
    }
}

/// An object, or a prefix of objects, in a store. Holds no credentials.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct StoreUrl {
    scheme: Scheme,
    authority: String,
    key: String,
    is_prefix: bool,
}

impl StoreUrl {
    /// Whether the text is a URL at all, of whatever scheme, and no path.
    pub fn is_url(text: &str) -> bool {
        text.split_once("://").is_some_and(|(scheme, _)| {
            scheme.starts_with(|first: char| first.is_ascii_alphabetic())
                && scheme
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c))
        })
    }

    /// Reads a URL.
    ///
    /// # Errors
    /// [`OriginError::Url`] if its scheme is unknown, if it names no store, if it holds a query or
    /// credentials, or if a part of its path is empty, `.` or `..`.
    pub fn parse(text: &str) -> Result<Self, OriginError> {
        let refuse = |why: String| {
            Err(OriginError::Url {
                url: without_secrets(text),
                why,
            })
        };
        let (name, rest) = text.split_once("://").unwrap_or(("", text));
        let Some(scheme) = Scheme::ALL.into_iter().find(|known| known.name() == name) else {
            let known = Scheme::ALL.map(Scheme::name).join("://`, `");
            return refuse(format!("its scheme is not one of `{known}://`"));
        };
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() {
            return refuse("it names no bucket, container or host".to_owned());
        }
        if authority.contains('@') {
            return refuse(
                "it holds a name or a password, which the index would keep: put credentials in \
                 the environment"
                    .to_owned(),
            );
        }
        if authority.contains(['?', '#']) || (scheme.is_web() && path.contains(['?', '#'])) {
            return refuse(
                "it has a query or a fragment, which the index would keep, with the signature in \
                 it if there is one: name the object without, and put credentials in the \
                 environment"
                    .to_owned(),
            );
        }
        let key = if scheme.is_web() {
            match percent_decode_str(path).decode_utf8() {
                Ok(key) if key.matches('/').count() == path.matches('/').count() => {
                    key.into_owned()
                }
                Ok(_) => return refuse("a name in it holds a `/`".to_owned()),
                Err(_) => return refuse("it is not UTF-8".to_owned()),
            }
        } else {
            path.to_owned()
        };
        let is_prefix = key.is_empty() || key.ends_with('/');
        let key = key.strip_suffix('/').unwrap_or(&key);
        let bad = |part: &str| part.is_empty() || part == "." || part == "..";
        if !key.is_empty() && key.split('/').any(bad) || key.contains('\0') {
            return refuse("a part of its path is empty, `.` or `..`".to_owned());
        }
        Ok(Self {
            scheme,
            authority: if scheme.is_web() {
                authority.to_ascii_lowercase()
            } else {
                authority.to_owned()
            },
            key: key.to_owned(),
            is_prefix,
        })
    }

    /// Kind of the store.
    pub const fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// Bucket, container, or host and port.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    /// The key in the store, or the prefix of keys, without `/` at either end.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Whether it was written with `/` at its end, or names the whole store.
    pub const fn is_prefix(&self) -> bool {
        self.is_prefix
    }

    /// Whether both are in one store.
    pub fn same_store(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.authority == other.authority
    }

    /// The URL of another key of the same store.
    pub fn with_key(&self, key: &str) -> Self {
        Self {
            key: key.to_owned(),
            is_prefix: key.is_empty(),
            ..self.clone()
        }
    }

    /// The key of what is called `name` below this one.
    pub fn key_of(&self, name: &str) -> String {
        if self.key.is_empty() {
            name.to_owned()
        } else {
            format!("{}/{name}", self.key)
        }
    }

    /// What a key is called below this one, if it lies there.
    pub fn name_of<'a>(&self, key: &'a str) -> Option<&'a str> {
        if self.key.is_empty() {
            return Some(key);
        }
        key.strip_prefix(self.key.as_str())?.strip_prefix('/')
    }
}

/// Shows the URL as [`StoreUrl::parse`] reads it, without `/` at its end.
impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.name(), self.authority)?;
        if self.key.is_empty() {
            return Ok(());
        }
        if self.scheme.is_web() {
            write!(f, "/{}", utf8_percent_encode(&self.key, ESCAPED))
        } else {
            write!(f, "/{}", self.key)
        }
    }
}

/// A text that may be shown: neither a query, which may hold a signature, nor credentials.
fn without_secrets(text: &str) -> String {
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = shown.split_once("://").unwrap_or(("", shown));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    match authority.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://…@{host}/{path}"),
        None => shown.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_and_shown_alike() {
        for (text, authority, key) in [
            ("s3://bucket/train/a b?.h5", "bucket", "train/a b?.h5"),
            ("s3://bucket", "bucket", ""),
            ("gs://b/x%20y", "b", "x%20y"),
            ("az://c/x", "c", "x"),
            ("https://host:8080/x%20y/a%25.h5", "host:8080", "x y/a%.h5"),
            ("http://h/%E2%82%AC", "h", "€"),
        ] {
            let url = StoreUrl::parse(text).unwrap();
            assert_eq!((url.authority(), url.key()), (authority, key), "{text}");
            assert_eq!(StoreUrl::parse(&url.to_string()).unwrap(), url, "{text}");
        }
        let host = StoreUrl::parse("http://HOST/X/").unwrap();
        assert_eq!(
            (host.to_string().as_str(), host.is_prefix()),
            ("http://host/X", true)
        );
        assert!(!StoreUrl::parse("s3://b/x").unwrap().is_prefix());
    }

    #[test]
    fn what_names_no_object_is_refused() {
        for (text, words) in [
            ("ftp://h/x", "`s3://`"),
            ("s3:///x", "no bucket"),
            ("s3://b/x//y", "empty"),
            ("s3://b/../y", "`..`"),
            ("http://h/%2e%2e/y", "`..`"),
            ("http://h/a%2Fb", "holds a `/`"),
            ("http://h/%FF", "UTF-8"),
        ] {
            let error = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(
                error.contains(words) && error.contains('`'),
                "{text}: {error}"
            );
        }
    }

    #[test]
    fn secrets_in_a_url_are_refused_and_not_shown() {
        for text in [
            "https://me:hunter2@host/x",
            "https://host/x?X-Amz-Signature=hunter2",
            "https://host?hunter2",
            "s3://key:hunter2@bucket/x",
        ] {
            let error = StoreUrl::parse(text).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
            assert!(error.contains("environment"), "{error}");
        }
    }

    #[test]
    fn names_lie_below_their_prefix() {
        let root = StoreUrl::parse("s3://b/x").unwrap();
        assert_eq!(root.name_of("x/y/z"), Some("y/z"));
        assert_eq!((root.name_of("xy/z"), root.name_of("x")), (None, None));
        assert_eq!(root.key_of("y/z"), "x/y/z");
        let whole = StoreUrl::parse("s3://b").unwrap();
        assert_eq!(
            (whole.name_of("y"), whole.key_of("y").as_str()),
            (Some("y"), "y")
        );
    }

    #[test]
    fn paths_are_no_urls() {
        assert!(StoreUrl::is_url("s3://b") && StoreUrl::is_url("ftp://x"));
        for path in ["/a/b", "a:b", "C://x y", "./s3://b", "://b", ""] {
            assert_eq!(StoreUrl::is_url(path), path == "C://x y", "{path}");
        }
    }
}
