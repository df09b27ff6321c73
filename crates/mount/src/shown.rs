//! What a mount shows: files by number, their bytes, and which of them the kernel reads itself.

use std::collections::HashMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use forebay_client::{ClientError, Dataset, FileRange};
use forebay_dataset::tree::{FileTree, NodeIndex, NodeKind};
use forebay_dataset::{ErrorKind, SegmentIndex};
use fuser::{BackingId, Errno, ReplyOpen};

use crate::ahead::Ahead;

/// What was served so far.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) opens: AtomicU64,
    pub(crate) passthrough_opens: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) read_bytes: AtomicU64,
    pub(crate) failed_reads: AtomicU64,
}

/// A file that some program has open.
#[derive(Debug)]
struct OpenFile {
    opens: u64,
    /// The file in the cache, where the kernel reads it itself: one for all who have it open, since
    /// the kernel refuses a second. What it is when the first opens it, it stays until the last
    /// closes it.
    backing: Option<Backing>,
    ahead: Ahead,
}

#[derive(Debug)]
struct Backing {
    id: BackingId,
    /// Keeps the blocks in place.
    _held: File,
}

/// Everything that requests share.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) dataset: Dataset,
    pub(crate) tree: FileTree,
    pub(crate) counters: Counters,
    open: Mutex<HashMap<NodeIndex, OpenFile>>,
    may_pass: AtomicBool,
    is_over: AtomicBool,
    /// When the last fault was told, in milliseconds since `started`, and 1.
    told_ms: AtomicU64,
    started: Instant,
}

impl Shown {
    pub(crate) fn new(dataset: Dataset, tree: FileTree, may_pass: bool) -> Self {
        Self {
            dataset,
            tree,
            counters: Counters::default(),
            open: Mutex::default(),
            may_pass: AtomicBool::new(may_pass),
            is_over: AtomicBool::new(false),
            told_ms: AtomicU64::new(0),
            started: Instant::now(),
        }
    }

    /// From now on, what waits is answered at once.
    pub(crate) fn stop(&self) {
        self.is_over.store(true, Ordering::Relaxed);
    }

    /// The kernel cannot read files itself.
    pub(crate) fn pass_nothing(&self) {
        self.may_pass.store(false, Ordering::Relaxed);
    }

    /// Whether the kernel reads files itself that are resident as a whole, as far as is known.
    pub(crate) fn passes(&self) -> bool {
        self.may_pass.load(Ordering::Relaxed)
    }

    /// The segment of a file.
    pub(crate) fn segment(&self, node: NodeIndex) -> Result<SegmentIndex, Errno> {
        match self.tree.kind(node) {
            NodeKind::File(segment) => Ok(segment),
            NodeKind::Folder => Err(Errno::EISDIR),
            NodeKind::Link => Err(Errno::EINVAL),
        }
    }

    /// Opens a file, and hands the answer to `reply` with the backing file if there is one.
    pub(crate) fn open(
        &self,
        node: NodeIndex,
        reply: ReplyOpen,
        answer: impl FnOnce(ReplyOpen, Option<&BackingId>),
    ) {
        let segment = match self.segment(node) {
            Ok(segment) => segment,
            Err(errno) => return reply.error(errno),
        };
        self.counters.opens.fetch_add(1, Ordering::Relaxed);
        let mut table = self.open_files();
        let open = table.entry(node).or_insert_with(|| OpenFile {
            opens: 0,
            backing: self.backing(segment, &reply),
            ahead: Ahead::default(),
        });
        open.opens += 1;
        if open.backing.is_some() {
            let counter = &self.counters.passthrough_opens;
            counter.fetch_add(1, Ordering::Relaxed);
        }
        answer(reply, open.backing.as_ref().map(|backing| &backing.id));
    }

    /// The file in the cache if the kernel may read it itself: all of it is resident, and it is
    /// nothing but this file. A hole of a file that is not would read as zeros.
    fn backing(&self, segment: SegmentIndex, reply: &ReplyOpen) -> Option<Backing> {
        if !self.may_pass.load(Ordering::Relaxed) {
            return None;
        }
        let held = self.dataset.hold_file(segment).ok().flatten()?;
        match reply.open_backing(&held) {
            Ok(id) => Some(Backing { id, _held: held }),
            Err(error) => {
                // Without the privilege none will do; otherwise it is this file's device.
                if error.raw_os_error() == Some(libc::EPERM) {
                    self.pass_nothing();
                }
                None
            }
        }
    }

    pub(crate) fn release(&self, node: NodeIndex) {
        let mut table = self.open_files();
        if let Some(open) = table.get_mut(&node) {
            open.opens -= 1;
            if open.opens == 0 {
                table.remove(&node);
            }
        }
    }

    /// Reads what is resident; `None` if a byte of it is not.
    pub(crate) fn read_resident(
        &self,
        segment: SegmentIndex,
        offset: u64,
        out: &mut [u8],
    ) -> Result<Option<usize>, Errno> {
        let read = self.dataset.read_resident_file(segment, offset, out);
        read.map_err(|error| self.failed(&error))
    }

    /// Reads what is not, and stages ahead of a reader that reads in order.
    pub(crate) fn read(
        &self,
        node: NodeIndex,
        offset: u64,
        out: &mut [u8],
    ) -> Result<usize, Errno> {
        if self.is_over.load(Ordering::Relaxed) {
            return Err(Errno::EIO);
        }
        let file = self.segment(node)?;
        let len = out.len() as u64;
        let window = self.window(node, offset, len);
        if window > len {
            let range = FileRange {
                file,
                offset,
                len: window,
            };
            let staged = self.dataset.stage_files(&[range]);
            if !staged.map_err(|error| self.failed(&error))? {
                self.forget_window(node);
            }
        }
        let read = self.dataset.read_file(file, offset, out);
        read.map_err(|error| self.failed(&error))
    }

    fn window(&self, node: NodeIndex, offset: u64, len: u64) -> u64 {
        let mut table = self.open_files();
        let open = table.get_mut(&node);
        open.map_or(len, |open| open.ahead.window(offset, len))
    }

    fn forget_window(&self, node: NodeIndex) {
        if let Some(open) = self.open_files().get_mut(&node) {
            open.ahead.forget();
        }
    }

    /// What the program is told of a fault. Whoever runs the mount is told in words, at most once a
    /// second.
    fn failed(&self, error: &ClientError) -> Errno {
        self.counters.failed_reads.fetch_add(1, Ordering::Relaxed);
        let now = u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX) + 1;
        let told = self.told_ms.load(Ordering::Relaxed);
        let is_due = told == 0 || now - told >= 1000;
        let mine = is_due
            && (self.told_ms)
                .compare_exchange(told, now, Ordering::Relaxed, Ordering::Relaxed)
                .is_ok();
        if mine {
            eprintln!("warning: {}", error.chain());
        }
        match error.kind() {
            // What the manifest has and the origin has no longer has changed too.
            ErrorKind::Stale | ErrorKind::NotFound => Errno::ESTALE,
            ErrorKind::Deadline => Errno::ETIMEDOUT,
            _ => Errno::EIO,
        }
    }

    fn open_files(&self) -> MutexGuard<'_, HashMap<NodeIndex, OpenFile>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The shared state, as jobs take it along.
pub(crate) type SharedShown = Arc<Shown>;
