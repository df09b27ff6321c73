//! What the environment says, read once, when the library is loaded.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::time::Duration;

use forebay_residency::NodePaths;

use crate::exchange::Exchange;
use crate::roots::{Place, Roots};
use crate::staged::StagedRoot;

/// Bytes of a mapping that are staged for it, at most, where `FOREBAY_PRELOAD_MAP` says nothing.
const MAPPED: u64 = 1 << 30;

/// In force for the process, and for the children of its forks.
pub(crate) struct Config {
    /// The staged roots.
    pub(crate) roots: Roots,
    /// What each of them needs, in the same order.
    pub(crate) staged: Vec<StagedRoot>,
    /// A mapping of more bytes that are not resident is left to the origin.
    pub(crate) most_mapped: u64,
    /// Files that programs hand to each other, if they do.
    pub(crate) exchange: Option<Exchange>,
}

/// How long a consumer waits for a file, where `FOREBAY_CONSUME_SECONDS` says nothing.
const WAIT: Duration = Duration::from_secs(60);

static CONFIG: AtomicPtr<Config> = AtomicPtr::new(ptr::null_mut());
/// Whether a relative path can lead to a root.
static NEAR: AtomicBool = AtomicBool::new(false);

/// The roots and what belongs to them; `None` if there are none, or not yet.
#[inline]
pub(crate) fn config() -> Option<&'static Config> {
    // SAFETY: what is not null came from `Box::leak` in `load`, and is never freed nor changed.
    // Acquire pairs with the release there.
    unsafe { CONFIG.load(Ordering::Acquire).as_ref() }
}

/// Reads the environment.
pub(crate) fn load() {
    let value = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let text = value("FOREBAY_ROOTS").unwrap_or_default();
    let exchange = exchange(value);
    let cache = NodePaths::default_folder(|name| std::env::var_os(name));
    let index_of = |root: &Path| -> Option<PathBuf> {
        let paths = NodePaths::new(std::path::absolute(cache.as_ref()?).ok()?);
        Some(paths.folder_index(root))
    };
    let roots = Roots::parse(&text, index_of);
    if roots.all().is_empty() && exchange.is_none() {
        return;
    }
    let most_mapped = value("FOREBAY_PRELOAD_MAP").and_then(|text| text.to_str()?.parse().ok());
    let config = Config {
        staged: roots.all().iter().map(StagedRoot::new).collect(),
        roots,
        most_mapped: most_mapped.unwrap_or(MAPPED),
        exchange,
    };
    // A fault of this library is nothing that the program's user could use.
    std::panic::set_hook(Box::new(|_| {}));
    CONFIG.store(Box::leak(Box::new(config)), Ordering::Release);
    look_at_working_folder();
}

fn exchange(value: impl Fn(&str) -> Option<OsString>) -> Option<Exchange> {
    let folder = |name| {
        let named = value(name).map(PathBuf::from);
        named.filter(|folder| folder.is_absolute())
    };
    let (publish, consume) = (folder("FOREBAY_PUBLISH"), folder("FOREBAY_CONSUME"));
    let wait = value("FOREBAY_CONSUME_SECONDS").and_then(|text| text.to_str()?.parse().ok());
    let wait = wait.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    (publish.is_some() || consume.is_some()).then(|| Exchange {
        publish,
        consume,
        wait: wait.unwrap_or(WAIT),
    })
}

/// Notes whether the working folder lies in a root or holds one.
pub(crate) fn look_at_working_folder() {
    let Some(config) = config() else { return };
    let mut name = [0u8; libc::PATH_MAX as usize];
    // SAFETY: the buffer is as long as is said, and getcwd writes nothing past it.
    let found = unsafe { libc::getcwd(name.as_mut_ptr().cast(), name.len()) };
    let end = name.iter().position(|byte| *byte == 0);
    let near = match end {
        Some(end) if !found.is_null() => config.roots.place(&name[..end]) != Place::Elsewhere,
        // A path too long for the buffer: look at each.
        _ => true,
    };
    NEAR.store(near, Ordering::Relaxed);
}

/// Whether a path that begins at the working folder can lead to a root.
#[inline]
pub(crate) fn is_near(path: &[u8]) -> bool {
    NEAR.load(Ordering::Relaxed) || path.starts_with(b"..")
}
