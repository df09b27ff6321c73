//! A connection in a program that may close descriptors which it did not open.

use std::ops::Deref;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

/// A stream whose descriptor the program around may have closed, and have given to another file: then
/// it is neither used nor closed.
pub(crate) struct OwnStream {
    stream: Arc<UnixStream>,
    inode: Option<u64>,
}

impl OwnStream {
    pub(crate) fn new(stream: UnixStream) -> Self {
        Self {
            inode: inode_of(&stream),
            stream: Arc::new(stream),
        }
    }

    /// False if the descriptor is not this stream's any more.
    pub(crate) fn is_intact(&self) -> bool {
        self.inode.is_some() && inode_of(&self.stream) == self.inode
    }
}

impl Deref for OwnStream {
    type Target = UnixStream;

    fn deref(&self) -> &UnixStream {
        &self.stream
    }
}

impl Drop for OwnStream {
    fn drop(&mut self) {
        if !self.is_intact() {
            // One owner is left for good, so that nobody closes it.
            std::mem::forget(self.stream.clone());
        }
    }
}

fn inode_of(stream: &UnixStream) -> Option<u64> {
    let found = rustix::fs::fstat(stream).ok()?;
    let is_socket = rustix::fs::FileType::from_raw_mode(found.st_mode).is_socket();
    is_socket.then_some(found.st_ino)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    use super::*;

    #[test]
    #[expect(unsafe_code, reason = "only so can a number be another's")]
    fn a_descriptor_that_became_anothers_is_left_alone() {
        let (stream, _other) = UnixStream::pair().unwrap();
        let own = OwnStream::new(stream);
        assert!(own.is_intact());
        let file = File::open("/dev/null").unwrap();
        // As a program does that closes all and opens its own.
        // SAFETY: the number is open, and whoever thinks that it owns it is under test.
        let mut taken = unsafe { OwnedFd::from_raw_fd(own.as_raw_fd()) };
        rustix::io::dup2(&file, &mut taken).unwrap();
        assert!(!own.is_intact());
        drop(own);
        assert!(File::from(taken).metadata().is_ok(), "it is still open");
    }
}
