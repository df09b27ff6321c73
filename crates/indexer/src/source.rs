//! The bytes of an input: a file, or an object of a store read by ranges with read-ahead.

use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forebay_dataset::{ErrorKind, Fingerprint};
use forebay_origin::{Objects, OriginError, fingerprint_of};

use crate::IndexerError;
use crate::error::Result;
use crate::files::{InputFile, check_unchanged};

/// What one request to a store brings, at least: one costs more than to move this much.
const PAGE: u64 = 256 << 10;
/// What one request brings where reads follow each other, at most.
const MOST_AHEAD: u64 = 4 << 20;
/// Pages kept of one object: 16 MiB.
const PAGES: usize = 64;

/// An object of a store that is an input.
#[derive(Clone, Debug)]
pub(crate) struct InputObject {
    pub(crate) objects: Arc<dyn Objects>,
    /// In the store.
    pub(crate) key: String,
    /// As the store's listing has it.
    pub(crate) fingerprint: Fingerprint,
}

/// An open input. Reads do not move a position, so that threads may share it.
#[derive(Debug)]
pub(crate) enum Source {
    File(File),
    Object(ReadAhead),
}

impl Source {
    /// Opens a file; an object is not asked for before it is read.
    pub(crate) fn open(input: &InputFile) -> Result<Self> {
        match &input.object {
            Some(object) => Ok(Self::Object(ReadAhead::new(object.clone()))),
            None => File::open(&input.path)
                .map(Self::File)
                .map_err(IndexerError::io("open", &input.path)),
        }
    }

    /// What it is now; an object, what it was when it was listed.
    pub(crate) fn fingerprint(&self) -> io::Result<Fingerprint> {
        match self {
            Self::File(file) => fingerprint_of(file),
            Self::Object(object) => Ok(object.object.fingerprint),
        }
    }

    /// Fills `out` from byte `offset` on.
    pub(crate) fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        match self {
            Self::File(file) => file.read_exact_at(out, offset),
            Self::Object(object) => object.read_exact_at(out, offset),
        }
    }

    /// Fails if it is not what it was. Of an object every read has looked, and failed.
    pub(crate) fn check_unchanged(&self, path: &Path, wanted: Fingerprint) -> Result<()> {
        match self {
            Self::File(file) => check_unchanged(file, path, wanted),
            Self::Object(object) if object.state().changed => Err(IndexerError::Stale {
                path: path.to_path_buf(),
                what: "another version has taken its place".to_owned(),
            }),
            Self::Object(_) => Ok(()),
        }
    }
}

/// Reads an object by pages, more at a time where reads follow each other.
#[derive(Debug)]
pub(crate) struct ReadAhead {
    object: InputObject,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pages: HashMap<u64, Arc<[u8]>>,
    /// The order in which they came.
    order: VecDeque<u64>,
    /// One past the last page of the last request, and how many it brought.
    next: u64,
    ahead: u64,
    changed: bool,
}

impl ReadAhead {
    fn new(object: InputObject) -> Self {
        Self {
            object,
            state: Mutex::default(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read_exact_at(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let size = self.object.fingerprint.size;
        let end = offset.checked_add(out.len() as u64);
        if end.is_none_or(|end| end > size) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        if out.len() as u64 > MOST_AHEAD {
            return self.fetch(out, offset);
        }
        let mut filled = 0;
        while filled < out.len() {
            let at = offset + filled as u64;
            let page = self.page(at / PAGE)?;
            let from = (at % PAGE) as usize;
            let len = (page.len() - from).min(out.len() - filled);
            out[filled..filled + len].copy_from_slice(&page[from..from + len]);
            filled += len;
        }
        Ok(())
    }

    /// A page, which is fetched under the lock: threads of one object want neighbouring pages.
    fn page(&self, number: u64) -> io::Result<Arc<[u8]>> {
        let mut state = self.state();
        if let Some(page) = state.pages.get(&number) {
            return Ok(Arc::clone(page));
        }
        let follows = state.ahead > 0 && number == state.next;
        state.ahead = if follows {
            (state.ahead * 2).min(MOST_AHEAD / PAGE)
        } else {
            1
        };
        let start = number * PAGE;
        let size = self.object.fingerprint.size;
        let len = (state.ahead * PAGE).min(size - start);
        // At most `MOST_AHEAD`, and no more than the store says that the object has.
        let mut bytes = vec![0; len as usize];
        self.fetch_noted(&mut bytes, start, &mut state.changed)?;
        let mut wanted = None;
        for (page, bytes) in (number..).zip(bytes.chunks(PAGE as usize)) {
            let bytes: Arc<[u8]> = bytes.into();
            wanted.get_or_insert_with(|| Arc::clone(&bytes));
            if state.pages.insert(page, bytes).is_none() {
                state.order.push_back(page);
            }
            state.next = page + 1;
        }
        while state.order.len() > PAGES
            && let Some(oldest) = state.order.pop_front()
        {
            state.pages.remove(&oldest);
        }
        wanted.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    fn fetch(&self, out: &mut [u8], offset: u64) -> io::Result<()> {
        let mut changed = false;
        let fetched = self.fetch_noted(out, offset, &mut changed);
        self.state().changed |= changed;
        fetched
    }

    fn fetch_noted(&self, out: &mut [u8], offset: u64, changed: &mut bool) -> io::Result<()> {
        let InputObject {
            objects,
            key,
            fingerprint,
        } = &self.object;
        let read = objects.read_at(key, *fingerprint, offset, out);
        read.map_err(|error| {
            *changed |= error.kind() == ErrorKind::Stale;
            in_io(error)
        })
    }
}

/// For the parsers, which know I/O errors only.
fn in_io(error: OriginError) -> io::Error {
    let kind = match error.kind() {
        ErrorKind::NotFound => io::ErrorKind::NotFound,
        ErrorKind::Deadline => io::ErrorKind::TimedOut,
        _ => io::ErrorKind::Other,
    };
    io::Error::new(kind, error)
}

#[cfg(test)]
mod tests;
