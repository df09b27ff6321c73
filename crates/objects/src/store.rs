//! Opened stores and the calls that they answer.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use forebay_dataset::Fingerprint;
use forebay_origin::{Objects, OriginError, StoreFault, StoreUrl, Stores};
use futures_util::TryStreamExt;
use object_store::client::HttpErrorKind;
use object_store::path::Path;
use object_store::{GetOptions, GetRange, ObjectMeta, ObjectStore};
use tokio::runtime::Runtime;

use crate::StoreSettings;
use crate::answer::{Answer, noted};
use crate::fault::fault;
use crate::open::open;

/// Threads that drive the network. They copy bytes and encrypt; who waits is another thread.
const THREADS: usize = 2;

/// All stores of a process. Each is opened once; its connections are shared.
#[derive(Debug)]
pub struct ObjectStores {
    settings: StoreSettings,
    runtime: OnceLock<Arc<Runtime>>,
    opened: Mutex<HashMap<String, Arc<OpenStore>>>,
}

impl ObjectStores {
    /// Opens nothing yet.
    pub fn new(settings: StoreSettings) -> Self {
        Self {
            settings,
            runtime: OnceLock::new(),
            opened: Mutex::default(),
        }
    }

    /// As the environment of this process says, with packets of the traffic class `dscp`.
    ///
    /// # Errors
    /// As [`StoreSettings::from_variables`].
    pub fn from_env(dscp: Option<u8>) -> Result<Self, OriginError> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        let variables = std::env::vars_os().filter_map(text);
        let settings = StoreSettings::from_variables(variables)?;
        Ok(Self::new(StoreSettings { dscp, ..settings }))
    }

    /// Started with the first store, so that a process without one has none of its threads.
    fn runtime(&self) -> io::Result<Arc<Runtime>> {
        if let Some(runtime) = self.runtime.get() {
            return Ok(runtime.clone());
        }
        // Another part of the process may have chosen one: as good.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(THREADS)
            .thread_name("objects")
            .enable_all()
            .build()?;
        Ok(self.runtime.get_or_init(|| Arc::new(runtime)).clone())
    }
}

impl Stores for ObjectStores {
    fn open(&self, url: &StoreUrl) -> Result<Arc<dyn Objects>, OriginError> {
        let root = url.with_key("");
        // Opening asks no server for anything, so that the lock is held for a moment only; at
        // most for a second, where the cloud's own credentials are looked for.
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = opened.get(&root.to_string()) {
            return Ok(store.clone());
        }
        let failed = |source| OriginError::Store {
            act: "open".to_owned(),
            url: root.to_string(),
            source,
        };
        let runtime = self.runtime().map_err(|error| {
            failed(StoreFault::Settings {
                detail: format!("no thread can be started: {error}"),
            })
        })?;
        let store = OpenStore {
            store: open(&root, &self.settings).map_err(failed)?,
            root: root.clone(),
            settings: self.settings.clone(),
            runtime,
        };
        let store = Arc::new(store);
        opened.insert(root.to_string(), store.clone());
        Ok(store)
    }
}

/// One bucket, container or server.
#[derive(Debug)]
struct OpenStore {
    store: Arc<dyn ObjectStore>,
    root: StoreUrl,
    settings: StoreSettings,
    runtime: Arc<Runtime>,
}

/// How a call failed.
enum Failed {
    Store(object_store::Error),
    Fault(StoreFault),
    Stale(Fingerprint),
}

impl From<object_store::Error> for Failed {
    fn from(error: object_store::Error) -> Self {
        Self::Store(error)
    }
}

impl OpenStore {
    /// Runs a call on this thread until its deadline.
    fn call<T>(&self, work: impl Future<Output = Result<T, Failed>>) -> Result<T, Called> {
        let limit = self.settings.call;
        let timed = noted(async { tokio::time::timeout(limit, work).await });
        let (ended, answer) = self.runtime.block_on(timed);
        let late = StoreFault::Deadline {
            seconds: limit.as_secs_f64(),
        };
        match ended {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(Failed::Store(error))) => {
                let moved = matches!(&answer, Answer::Bad { status, .. }
                    if matches!(status.as_u16(), 412 | 416));
                let fault = fault(self.root.scheme(), limit, &error, answer);
                Err(Called {
                    fault,
                    found: None,
                    moved,
                })
            }
            Ok(Err(Failed::Fault(fault))) => Err(Called::of(fault)),
            Ok(Err(Failed::Stale(found))) => Err(Called {
                found: Some(found),
                ..Called::of(late)
            }),
            // The time was up while it was asked again: what it said before says why.
            Err(_) => Err(Called::of(match answer {
                Answer::Bad { status, words, .. } => StoreFault::Busy {
                    status: status.as_u16(),
                    detail: words,
                },
                Answer::Lost { kind, words } if kind != HttpErrorKind::Timeout => {
                    StoreFault::Unreachable { detail: words }
                }
                _ => late,
            })),
        }
    }

    fn path(&self, key: &str) -> Result<Path, Failed> {
        Path::parse(key).map_err(|error| Failed::Store(error.into()))
    }

    fn error(&self, act: String, key: &str, source: StoreFault) -> OriginError {
        OriginError::Store {
            act,
            url: self.root.with_key(key).to_string(),
            source,
        }
    }

    /// The error of a read that failed; one of a changed object where that is why.
    fn unread(&self, key: &str, indexed: Fingerprint, act: String, called: Called) -> OriginError {
        let now = if called.moved {
            self.stat(key).ok().filter(|now| *now != indexed)
        } else {
            called.found
        };
        match now {
            Some(found) => OriginError::StaleObject {
                url: self.root.with_key(key).to_string(),
                indexed,
                found,
            },
            None => self.error(act, key, called.fault),
        }
    }
}

/// Why a call failed.
struct Called {
    fault: StoreFault,
    /// The version that the store answered from, where it is another.
    found: Option<Fingerprint>,
    /// The status is one that a store gives for an object that has become another.
    moved: bool,
}

impl Called {
    const fn of(fault: StoreFault) -> Self {
        Self {
            fault,
            found: None,
            moved: false,
        }
    }
}

impl Objects for OpenStore {
    fn read_at(
        &self,
        key: &str,
        fingerprint: Fingerprint,
        offset: u64,
        out: &mut [u8],
    ) -> Result<(), OriginError> {
        let end = offset.saturating_add(out.len() as u64);
        let read = self.call(async {
            let options = GetOptions {
                range: Some(GetRange::Bounded(offset..end)),
                ..GetOptions::default()
            };
            let got = self.store.get_opts(&self.path(key)?, options).await?;
            let found = version(&got.meta)?;
            if found != fingerprint {
                return Err(Failed::Stale(found));
            }
            let mut filled = 0;
            let mut parts = got.into_stream();
            while let Some(part) = parts.try_next().await? {
                let Some(place) = out.get_mut(filled..filled + part.len()) else {
                    return Err(malformed("it has more bytes than the range"));
                };
                place.copy_from_slice(&part);
                filled += part.len();
            }
            if filled < out.len() {
                return Err(malformed("it has fewer bytes than the range"));
            }
            Ok(())
        });
        let act = format!("read bytes [{offset}, {end}) of");
        read.map_err(|called| self.unread(key, fingerprint, act, called))
    }

    fn stat(&self, key: &str) -> Result<Fingerprint, OriginError> {
        let found = self.call(async {
            let options = GetOptions {
                head: true,
                ..GetOptions::default()
            };
            let got = self.store.get_opts(&self.path(key)?, options).await?;
            version(&got.meta)
        });
        found.map_err(|called| self.error("find".to_owned(), key, called.fault))
    }

    fn list(&self, key: &str, found: &mut dyn FnMut(&str, Fingerprint)) -> Result<(), OriginError> {
        let failed = |called: Called| self.error("list".to_owned(), key, called.fault);
        let prefix = match key {
            "" => None,
            key => Some(self.call(async { self.path(key) }).map_err(failed)?),
        };
        let mut pages = self.store.list(prefix.as_ref());
        let mut seen = Seen::default();
        // Each page has a deadline of its own: there may be thousands.
        while let Some(meta) = self
            .call(async { Ok(pages.try_next().await?) })
            .map_err(failed)?
        {
            let fingerprint =
                version(&meta).map_err(|_| failed(Called::of(StoreFault::NoVersion)))?;
            if seen.repeats(meta.location.as_ref()) {
                let detail = format!("its listing repeats `{}`", meta.location);
                return Err(failed(Called::of(StoreFault::Malformed { detail })));
            }
            found(meta.location.as_ref(), fingerprint);
        }
        Ok(())
    }
}

/// Finds out that a listing goes in circles, from one key of those seen, and a newer one after
/// twice as many: a circle of any length comes round to it.
#[derive(Default)]
struct Seen {
    key: String,
    count: u64,
}

impl Seen {
    fn repeats(&mut self, key: &str) -> bool {
        let again = self.count > 0 && key == self.key;
        self.count += 1;
        if self.count.is_power_of_two() {
            key.clone_into(&mut self.key);
        }
        again
    }
}

fn malformed(detail: &str) -> Failed {
    Failed::Fault(StoreFault::Malformed {
        detail: detail.to_owned(),
    })
}

/// The fingerprint of what the store tells about an object.
fn version(meta: &ObjectMeta) -> Result<Fingerprint, Failed> {
    // `object_store` puts 0 where a server says nothing.
    let modified = Some(meta.last_modified.timestamp()).filter(|seconds| *seconds != 0);
    Fingerprint::of_object(meta.size, meta.e_tag.as_deref(), modified)
        .ok_or(Failed::Fault(StoreFault::NoVersion))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listing_in_circles_is_seen_and_one_without_is_not() {
        for (lead, circle) in [(0, 1), (3, 1), (0, 7), (100, 33), (1, 1000)] {
            let mut seen = Seen::default();
            let keys = (0..lead).chain((0..).map(|at| lead + at % circle));
            let at = keys
                .take(1 << 20)
                .position(|key: u32| seen.repeats(&key.to_string()));
            assert!(
                at.is_some_and(|at| at < 8 * (lead + circle) as usize),
                "{lead} {circle}"
            );
        }
        let mut seen = Seen::default();
        assert!((0..10_000).all(|key: u32| !seen.repeats(&key.to_string())));
    }
}
