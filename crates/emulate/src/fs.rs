//! The FUSE face: turns kernel requests into calls of the emulated server.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use forebay_fuse::{LONGEST_READ, with_buffer};
use fuser::{
    Errno, FileHandle, Filesystem, FopenFlags, Generation, INodeNo, InitFlags, KernelConfig,
    LockOwner, OpenFlags, ReplyAttr, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen,
    ReplyStatfs, ReplyXattr, Request,
};

use crate::attributes::{attributes, entry_attributes};
use crate::delay::OpClass;
use crate::fault::Bump;
use crate::folder::FolderStream;
use crate::server::{Call, Server, Ttl};
use crate::tree::ROOT;

/// Reads the kernel may have under way that no process waits for.
const MAX_BACKGROUND: u16 = 1024;
/// The kernel never sees a number twice, so one generation is enough.
const GENERATION: Generation = Generation(0);

/// How the kernel is asked to treat the mount.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KernelOptions {
    pub(crate) page_cache: bool,
    pub(crate) max_readahead_bytes: Option<u32>,
    pub(crate) ttl: Ttl,
}

pub(crate) struct EmulatedFs {
    server: Arc<Server>,
    options: KernelOptions,
    handles: Arc<Handles>,
}

#[derive(Default)]
struct Handles {
    next: AtomicU64,
    files: Mutex<HashMap<u64, Arc<OpenFile>>>,
    folders: Mutex<HashMap<u64, Arc<Mutex<FolderStream>>>>,
}

struct OpenFile {
    file: File,
    path: Arc<Path>,
}

impl EmulatedFs {
    pub(crate) fn new(server: Arc<Server>, options: KernelOptions) -> Self {
        Self {
            server,
            options,
            handles: Arc::default(),
        }
    }

    /// Run `work` as a metadata operation on `node` and hand what it found to `answer`.
    fn metadata<T: 'static>(
        &self,
        op: &'static str,
        node: u64,
        name: Option<&OsStr>,
        work: impl FnOnce(&Server) -> io::Result<T> + Send + 'static,
        answer: impl FnOnce(Result<T, Errno>) + Send + 'static,
    ) {
        let tree = &self.server.tree;
        let call = self.server.call(OpClass::Metadata, op, 0, || match name {
            Some(name) => tree.child_path(node, name).map(Arc::from),
            None => tree.path(node),
        });
        let server = Arc::clone(&self.server);
        let run = move |call: &Call, outcome| {
            let (timing, admitted) = server.admit(call, outcome);
            let result = admitted.and_then(|()| work(&server)).map_err(Errno::from);
            server.answered(
                call,
                timing,
                result.as_ref().err().map_or(0, |e| e.code()),
                None,
            );
            answer(result);
        };
        submit(&self.server, call, run);
    }

    fn file(&self, handle: FileHandle) -> Option<Arc<OpenFile>> {
        let files = self
            .handles
            .files
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        files.get(&handle.0).cloned()
    }
}

/// Submit `run`, which gets its call back when it is due.
fn submit(
    server: &Server,
    call: Call,
    run: impl FnOnce(&Call, crate::delay::Outcome) + Send + 'static,
) {
    let call = Arc::new(call);
    let kept = Arc::clone(&call);
    server.submit(&call, Box::new(move |outcome| run(&kept, outcome)));
}

impl Filesystem for EmulatedFs {
    fn init(&mut self, _request: &Request, config: &mut KernelConfig) -> io::Result<()> {
        // Both fail only for 0.
        let _ = config.set_max_background(MAX_BACKGROUND);
        let _ = config.set_congestion_threshold(MAX_BACKGROUND);
        let mut wanted = InitFlags::FUSE_ASYNC_DIO | InitFlags::FUSE_PARALLEL_DIROPS;
        if self.options.page_cache {
            wanted |= InitFlags::FUSE_AUTO_INVAL_DATA;
        } else {
            wanted |= InitFlags::FUSE_DIRECT_IO_ALLOW_MMAP;
        }
        for flag in wanted.iter() {
            // An older kernel does without: shared mappings fail there, nothing else changes.
            let _ = config.add_capabilities(flag);
        }
        if let Some(bytes) = self.options.max_readahead_bytes {
            // Out of range: the nearest that the kernel takes.
            if let Err(nearest) = config.set_max_readahead(bytes) {
                let _ = config.set_max_readahead(nearest);
            }
        }
        Ok(())
    }

    fn lookup(&self, _request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let ttl = self.options.ttl.0;
        let name = name.to_owned();
        let asked = name.clone();
        self.metadata(
            "lookup",
            parent.0,
            Some(&asked),
            move |server| {
                let bump = server.bump(|| server.tree.child_path(parent.0, &name).map(Arc::from));
                let found = server
                    .tree
                    .lookup(parent.0, &name, |_| u32::from(bump.inode))?;
                Ok(entry_attributes(&found, bump))
            },
            move |result| match result {
                Ok(attributes) => reply.entry(&ttl, &attributes, GENERATION),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn forget(&self, _request: &Request, node: INodeNo, lookups: u64) {
        self.server.tree.forget(node.0, lookups);
    }

    fn getattr(
        &self,
        _request: &Request,
        node: INodeNo,
        _handle: Option<FileHandle>,
        reply: ReplyAttr,
    ) {
        let ttl = self.options.ttl.0;
        // An open file that was removed at the source still has its attributes.
        let open = _handle.and_then(|handle| self.file(handle));
        self.metadata(
            "getattr",
            node.0,
            None,
            move |server| {
                let metadata = match open {
                    Some(open) => open.file.metadata()?,
                    None => server.tree.metadata(node.0)?,
                };
                let bump = server.bump(|| server.tree.path(node.0));
                // The root's number is fixed by the protocol, but what it shows need not be.
                let shown = if node.0 == ROOT {
                    metadata.ino()
                } else {
                    node.0
                };
                Ok(attributes(shown, &metadata, bump))
            },
            move |result| match result {
                Ok(attributes) => reply.attr(&ttl, &attributes),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn readlink(&self, _request: &Request, node: INodeNo, reply: ReplyData) {
        self.metadata(
            "readlink",
            node.0,
            None,
            move |server| server.tree.read_link(node.0),
            move |result| match result {
                Ok(target) => reply.data(target.as_bytes()),
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn open(&self, _request: &Request, node: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if flags.0 & libc::O_ACCMODE != libc::O_RDONLY {
            return reply.error(Errno::EROFS);
        }
        let handles = Arc::clone(&self.handles);
        let cache = if self.options.page_cache {
            FopenFlags::FOPEN_KEEP_CACHE
        } else {
            FopenFlags::FOPEN_DIRECT_IO
        };
        self.metadata(
            "open",
            node.0,
            None,
            move |server| {
                let path = server.tree.path(node.0)?;
                Ok(Arc::new(OpenFile {
                    file: server.tree.open_file(node.0)?,
                    path,
                }))
            },
            move |result| match result {
                Ok(open) => {
                    let handle = handles.next.fetch_add(1, Ordering::Relaxed);
                    handles
                        .files
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(handle, open);
                    reply.opened(FileHandle(handle), cache);
                }
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn read(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        offset: u64,
        size: u32,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(open) = self.file(handle) else {
            return reply.error(Errno::EBADF);
        };
        let size = size.min(LONGEST_READ);
        let call = self
            .server
            .call(OpClass::Read, "read", size, || Ok(Arc::clone(&open.path)));
        let server = Arc::clone(&self.server);
        submit(&self.server, call, move |call, outcome| {
            let (timing, admitted) = server.admit(call, outcome);
            let asked = call.action.limit(size as usize);
            with_buffer(asked, |buffer| {
                let result = admitted.and_then(|()| {
                    let bump = server.bump(|| Ok(Arc::clone(&open.path)));
                    read_bytes(&open.file, offset, buffer, bump)
                });
                let (errno, returned) = match &result {
                    Ok(n) => (0, *n),
                    Err(error) => (error.raw_os_error().unwrap_or(libc::EIO), 0),
                };
                server.answered(call, timing, errno, Some((offset, returned)));
                match result {
                    Ok(n) => reply.data(&buffer[..n]),
                    Err(error) => reply.error(Errno::from(error)),
                }
            });
        });
    }

    fn flush(&self, _r: &Request, _n: INodeNo, _h: FileHandle, _o: LockOwner, reply: ReplyEmpty) {
        // Nothing is ever written; the kernel asks once and no more.
        reply.error(Errno::ENOSYS);
    }

    fn release(
        &self,
        _request: &Request,
        _node: INodeNo,
        handle: FileHandle,
        _flags: OpenFlags,
        _owner: Option<LockOwner>,
        _flush: bool,
        reply: ReplyEmpty,
    ) {
        self.handles
            .files
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&handle.0);
        reply.ok();
    }

    fn opendir(&self, _request: &Request, node: INodeNo, _flags: OpenFlags, reply: ReplyOpen) {
        let handles = Arc::clone(&self.handles);
        self.metadata(
            "open",
            node.0,
            None,
            move |server| server.tree.open_folder(node.0),
            move |result| match result {
                Ok(dir) => {
                    let stream = Arc::new(Mutex::new(FolderStream::new(dir)));
                    let handle = handles.next.fetch_add(1, Ordering::Relaxed);
                    handles
                        .folders
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .insert(handle, stream);
                    reply.opened(FileHandle(handle), FopenFlags::empty());
                }
                Err(errno) => reply.error(errno),
            },
        );
    }

    fn readdir(
        &self,
        _request: &Request,
        node: INodeNo,
        handle: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let folders = self
            .handles
            .folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = folders.get(&handle.0).cloned() else {
            return reply.error(Errno::EBADF);
        };
        drop(folders);
        self.metadata(
            "readdir",
            node.0,
            None,
            move |_| {
                let mut reply = reply;
                let mut stream = stream.lock().unwrap_or_else(PoisonError::into_inner);
                let filled = stream.fill(offset, |inode, next, kind, name| {
                    reply.add(INodeNo(inode), next, kind, name)
                });
                Ok((reply, filled))
            },
            |result| match result {
                Ok((reply, Ok(()))) => reply.ok(),
                Ok((reply, Err(error))) => reply.error(Errno::from(error)),
                // The reply went with the work that was not run, and said EIO when dropped.
                Err(_) => {}
            },
        );
    }

    fn releasedir(
        &self,
        _r: &Request,
        _n: INodeNo,
        handle: FileHandle,
        _f: OpenFlags,
        reply: ReplyEmpty,
    ) {
        self.handles
            .folders
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&handle.0);
        reply.ok();
    }

    fn statfs(&self, _request: &Request, _node: INodeNo, reply: ReplyStatfs) {
        match rustix::fs::fstatvfs(self.server.tree.root()) {
            Ok(s) => {
                let narrow = |wide: u64| u32::try_from(wide).unwrap_or(u32::MAX);
                let (block, fragment, name) =
                    (narrow(s.f_bsize), narrow(s.f_frsize), narrow(s.f_namemax));
                reply.statfs(
                    s.f_blocks, s.f_bfree, s.f_bavail, s.f_files, s.f_ffree, block, name, fragment,
                );
            }
            Err(error) => reply.error(Errno::from(io::Error::from(error))),
        }
    }

    // ENOSYS tells the kernel to answer "not supported" itself from then on.
    fn getxattr(&self, _r: &Request, _node: INodeNo, _name: &OsStr, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }

    fn listxattr(&self, _r: &Request, _node: INodeNo, _size: u32, reply: ReplyXattr) {
        reply.error(Errno::ENOSYS);
    }
}

/// Read until `buffer` is full or the file ends, as its attributes show it.
fn read_bytes(file: &File, offset: u64, buffer: &mut [u8], bump: Bump) -> io::Result<usize> {
    let mut wanted = buffer.len();
    if bump.size < 0 {
        let end = file.metadata()?.size().saturating_add_signed(bump.size);
        wanted = wanted.min(usize::try_from(end.saturating_sub(offset)).unwrap_or(usize::MAX));
    }
    let mut filled = 0;
    while filled < wanted {
        match file.read_at(&mut buffer[filled..wanted], offset + filled as u64) {
            Ok(0) => break,
            Ok(n) => filled += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(filled)
}
