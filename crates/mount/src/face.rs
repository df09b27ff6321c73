//! The FUSE face: turns kernel requests into look-ups in the tree and reads of the cache.

use std::ffi::OsStr;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use forebay_dataset::tree::{NodeIndex, NodeKind};
use forebay_fuse::{LONGEST_READ, with_buffer};
use fuser::{
    Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation, INodeNo, InitFlags,
    KernelConfig, LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyDirectoryPlus,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyXattr, Request,
};

use crate::pool::Pool;
use crate::shown::{SharedShown, Shown};

/// For how long the kernel may believe what it was told. The manifest does not change.
const TTL: Duration = Duration::from_secs(24 * 3600);
/// The kernel never sees a number twice, so one generation is enough.
const GENERATION: Generation = Generation(0);
/// Reads the kernel may have under way that no process waits for.
const MAX_BACKGROUND: u16 = 256;
/// Depth of file systems over one another that passthrough may have below it: the cache may lie on
/// an overlay.
const STACK_DEPTH: u32 = 2;
/// Nothing is ever written, so that there is nothing to do when a file is closed.
const UNWRITTEN: FopenFlags = FopenFlags::FOPEN_NOFLUSH;
/// Where the children of a folder begin in a listing, behind `.` and `..`.
const FIRST_CHILD: u64 = 2;

pub(crate) struct Face {
    shown: SharedShown,
    pool: Pool,
    /// Whether the kernel opens folders without asking.
    opens_folders: bool,
}

impl Face {
    pub(crate) fn new(shown: SharedShown, pool: Pool) -> Self {
        Self {
            shown,
            pool,
            opens_folders: false,
        }
    }

    fn node(&self, number: INodeNo) -> Result<NodeIndex, Errno> {
        let node = number
            .0
            .checked_sub(1)
            .and_then(|at| u32::try_from(at).ok());
        let node = node.map(NodeIndex);
        node.filter(|node| self.shown.tree.contains(*node))
            .ok_or(Errno::ESTALE)
    }

    /// Entries of a folder from `offset` on, to `add` (node, next offset, name), until it is full.
    fn list(
        &self,
        folder: INodeNo,
        offset: u64,
        mut add: impl FnMut(NodeIndex, u64, &str) -> bool,
    ) -> Result<(), Errno> {
        let folder = self.node(folder)?;
        let tree = &self.shown.tree;
        let dots = [(folder, "."), (tree.parent(folder), "..")];
        for (node, name) in dots.into_iter().skip(offset.min(FIRST_CHILD) as usize) {
            let next = if name == "." { 1 } else { FIRST_CHILD };
            if add(node, next, name) {
                return Ok(());
            }
        }
        let children = tree.children(folder);
        let passed = u32::try_from(offset.saturating_sub(FIRST_CHILD)).unwrap_or(u32::MAX);
        for child in children.start.saturating_add(passed)..children.end {
            let node = NodeIndex(child);
            let next = FIRST_CHILD + u64::from(child - children.start) + 1;
            if add(node, next, tree.name(node)) {
                return Ok(());
            }
        }
        Ok(())
    }
}

impl Filesystem for Face {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Both fail only for 0.
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(MAX_BACKGROUND);
        let has = config.capabilities();
        let wanted = InitFlags::FUSE_ASYNC_DIO
            | InitFlags::FUSE_PARALLEL_DIROPS
            | InitFlags::FUSE_DO_READDIRPLUS
            | InitFlags::FUSE_CACHE_SYMLINKS
            | InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        for flag in wanted.iter() {
            // An older kernel does without.
            let _ = config.add_capabilities(flag);
        }
        let passes = has.contains(InitFlags::FUSE_PASSTHROUGH)
            && config.set_max_stack_depth(STACK_DEPTH).is_ok()
            && config.add_capabilities(InitFlags::FUSE_PASSTHROUGH).is_ok();
        if !passes {
            self.shown.pass_nothing();
        }
        self.opens_folders = has.contains(InitFlags::FUSE_NO_OPENDIR_SUPPORT);
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let folder = match self.node(parent) {
            Ok(folder) => folder,
            Err(errno) => return reply.error(errno),
        };
        match self.shown.tree.child(folder, name.as_encoded_bytes()) {
            Some(node) => reply.entry(&TTL, &attributes(&self.shown, node), GENERATION),
            // Number 0 says that the name is free, for as long as anything else is believed.
            None => reply.entry(&TTL, &nothing(), GENERATION),
        }
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        match self.node(node) {
            Ok(node) => reply.attr(&TTL, &attributes(&self.shown, node)),
            Err(errno) => reply.error(errno),
        }
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        let node = self.node(node);
        match node.map(|node| self.shown.tree.target(node)) {
            Ok(Some(target)) => reply.data(target),
            Ok(None) => reply.error(Errno::EINVAL),
            Err(errno) => reply.error(errno),
        }
    }

    fn open(&self, _request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let node = match self.node(node) {
            Ok(node) => node,
            Err(errno) => return reply.error(errno),
        };
        let handle = FileHandle(0);
        self.shown
            .open(node, reply, |reply, backing| match backing {
                Some(backing) => reply.opened_passthrough(handle, UNWRITTEN, backing),
                None => reply.opened(handle, UNWRITTEN | FopenFlags::FOPEN_DIRECT_IO),
            });
    }

    fn read(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let found = self
            .node(node)
            .and_then(|node| Ok((node, self.shown.segment(node)?)));
        let (node, segment) = match found {
            Ok(found) => found,
            Err(errno) => return reply.error(errno),
        };
        let left = self.shown.tree.attributes(node).size.saturating_sub(offset);
        // At most the longest read, so it fits.
        let len = u64::from(size.min(LONGEST_READ)).min(left) as usize;
        // The reply goes along, to come back if it is not answered here.
        let reply = with_buffer(len, |out| {
            match self.shown.read_resident(segment, offset, out) {
                Ok(Some(len)) => answer(&self.shown, reply, &out[..len]),
                Ok(None) => return Some(reply),
                Err(errno) => reply.error(errno),
            }
            None
        });
        let Some(reply) = reply else { return };
        let shown = Arc::clone(&self.shown);
        self.pool.run(Box::new(move || {
            with_buffer(len, |out| match shown.read(node, offset, out) {
                Ok(len) => answer(&shown, reply, &out[..len]),
                Err(errno) => reply.error(errno),
            });
        }));
    }

    fn flush(&self, _r: &Request, _n: INodeNo, _h: FileHandle, _o: LockOwner, reply: ReplyEmpty) {
        // An older kernel asks once and no more.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        if let Ok(node) = self.node(node) {
            self.shown.release(node);
        }
        reply.ok();
    }

    fn opendir(&self, _request: &Request, _node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        if self.opens_folders {
            // From then on the kernel opens and keeps folders by itself.
            return reply.error(Errno::ENOSYS);
        }
        let keep = FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE;
        reply.opened(FileHandle(0), keep);
    }

    fn readdir(
        &self,
        _request: &Request,
        folder: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        let listed = self.list(folder, offset, |node, next, name| {
            reply.add(number(node), next, kind(&self.shown, node), name)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn readdirplus(
        &self,
        _request: &Request,
        folder: INodeNo,
        _handle: FileHandle,
        offset: u64,
        mut reply: ReplyDirectoryPlus,
    ) {
        let listed = self.list(folder, offset, |node, next, name| {
            let attributes = attributes(&self.shown, node);
            reply.add(number(node), next, name, &TTL, &attributes, GENERATION)
        });
        match listed {
            Ok(()) => reply.ok(),
            Err(errno) => reply.error(errno),
        }
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        let (files, bytes) = self.shown.tree.files();
        reply.statfs(bytes.div_ceil(4096), 0, 0, files, 0, 4096, 255, 4096);
    }

    // ENOSYS tells the kernel to answer "not supported" itself from then on.
    fn getxattr(&self, _r: &Request, _node: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _r: &Request, _node: INodeNo, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }
}

fn answer(shown: &Shown, reply: ReplyData, bytes: &[u8]) {
    shown.counters.reads.fetch_add(1, Ordering::Relaxed);
    let total = &shown.counters.read_bytes;
    total.fetch_add(bytes.len() as u64, Ordering::Relaxed);
    reply.data(bytes);
}

/// The number under which the kernel knows a place.
fn number(node: NodeIndex) -> INodeNo {
    INodeNo(u64::from(node.0) + 1)
}

fn kind(shown: &Shown, node: NodeIndex) -> FileType {
    match shown.tree.kind(node) {
        NodeKind::Folder => FileType::Directory,
        NodeKind::File(_) => FileType::RegularFile,
        NodeKind::Link => FileType::Symlink,
    }
}

fn attributes(shown: &Shown, node: NodeIndex) -> FileAttr {
    let found = shown.tree.attributes(node);
    let kind = kind(shown, node);
    let (mtime, ctime) = (time(found.mtime_ns), time(found.ctime_ns));
    // Programs read in pieces of this size, and each is a message to this process.
    let piece = match kind {
        FileType::RegularFile => shown.dataset.index().block_size().bytes(),
        _ => 4096,
    };
    FileAttr {
        ino: number(node),
        size: found.size,
        blocks: found.blocks,
        atime: mtime,
        mtime,
        ctime,
        crtime: SystemTime::UNIX_EPOCH,
        kind,
        perm: found.permissions,
        nlink: found.links,
        uid: found.uid,
        gid: found.gid,
        rdev: 0,
        blksize: piece,
        flags: 0,
    }
}

/// The attributes of a name that is free.
fn nothing() -> FileAttr {
    let epoch = SystemTime::UNIX_EPOCH;
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: epoch,
        mtime: epoch,
        ctime: epoch,
        crtime: epoch,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 0,
        flags: 0,
    }
}

fn time(ns: i64) -> SystemTime {
    let span = Duration::from_nanos(ns.unsigned_abs());
    let moved = if ns < 0 {
        SystemTime::UNIX_EPOCH.checked_sub(span)
    } else {
        SystemTime::UNIX_EPOCH.checked_add(span)
    };
    moved.unwrap_or(SystemTime::UNIX_EPOCH)
}
