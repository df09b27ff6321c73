//! The two halves of a proved link.

use std::fmt;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use forebay_wire::{FrameHeader, HEADER_BYTES, peer_header};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;

use crate::LinkError;
use crate::sealed::{Keys, Opening, Sealing};

/// A payload buffer that grew past this is given back.
const KEPT_BYTES: usize = 64 << 10;

/// Splits a socket, which carries sealed records where there are `keys`. Reads come back every
/// quarter of `silence`, writes fail after twice that time in which not a byte was taken.
pub(crate) fn split(
    stream: TcpStream,
    keys: Option<Keys>,
    silence: Duration,
) -> Result<(LinkReader, LinkWriter), LinkError> {
    let tick = (silence / 4).max(Duration::from_millis(1));
    stream.set_read_timeout(Some(tick))?;
    stream.set_write_timeout(Some(silence * 2))?;
    let reader = LinkReader {
        stream: stream.try_clone()?,
        opening: keys.clone().map(Opening::new),
        payload: Vec::new(),
    };
    let shutdown = stream.try_clone()?;
    let sealing = keys.map(Sealing::new);
    let writer = LinkWriter {
        is_encrypted: sealing.is_some(),
        writing: Mutex::new(Outlet { stream, sealing }),
        shutdown,
    };
    Ok((reader, writer))
}

/// What arrives.
pub struct LinkReader {
    stream: TcpStream,
    opening: Option<Opening>,
    payload: Vec<u8>,
}

impl LinkReader {
    /// The next frame: its kind and payload; `None` if the other side ended the link between two.
    /// `idle` is asked, whenever nothing came for a while, whether to wait on.
    ///
    /// # Errors
    /// [`LinkError`]; the link is of no use any more.
    pub fn next(
        &mut self,
        mut idle: impl FnMut() -> Result<(), LinkError>,
    ) -> Result<Option<(u8, &[u8])>, LinkError> {
        let mut header = [0; HEADER_BYTES];
        if !self.fill(&mut header, &mut idle, true)? {
            return Ok(None);
        }
        let FrameHeader { payload_len, kind } = peer_header(header)?;
        if self.payload.capacity() > KEPT_BYTES && payload_len <= KEPT_BYTES {
            self.payload = Vec::new();
        }
        let mut payload = std::mem::take(&mut self.payload);
        payload.resize(payload_len, 0);
        self.fill(&mut payload, &mut idle, false)?;
        self.payload = payload;
        Ok(Some((kind, &self.payload)))
    }

    /// Fills `out` with the bytes that follow a frame.
    ///
    /// # Errors
    /// [`LinkError`]; the link is of no use any more.
    pub fn body(
        &mut self,
        out: &mut [u8],
        mut idle: impl FnMut() -> Result<(), LinkError>,
    ) -> Result<(), LinkError> {
        self.fill(out, &mut idle, false).map(|_| ())
    }

    /// False if the stream ended before the first byte and `may_end` says that it may.
    fn fill(
        &mut self,
        out: &mut [u8],
        idle: &mut impl FnMut() -> Result<(), LinkError>,
        may_end: bool,
    ) -> Result<bool, LinkError> {
        let mut filled = 0;
        while filled < out.len() {
            let left = &mut out[filled..];
            let read = match &mut self.opening {
                Some(opening) => opening.read(&mut self.stream, left),
                None => self.stream.read(left),
            };
            match read {
                Ok(0) if filled == 0 && may_end => return Ok(false),
                Ok(0) => return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into()),
                Ok(read) => filled += read,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => idle()?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(true)
    }
}

impl fmt::Debug for LinkReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkReader").finish_non_exhaustive()
    }
}

/// The way out of a link.
struct Outlet {
    stream: TcpStream,
    sealing: Option<Sealing>,
}

impl Outlet {
    fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        match &mut self.sealing {
            Some(sealing) => sealing.send(&mut self.stream, frame),
            None => self.stream.write_all(frame),
        }
    }

    fn send_file(&mut self, frame: &[u8], file: &File, offset: u64, len: u64) -> io::Result<()> {
        match &mut self.sealing {
            Some(sealing) => {
                sealing.send(&mut self.stream, frame)?;
                sealing.send_file(&mut self.stream, file, offset, len)
            }
            None => send_file(&self.stream, frame, file, offset, len),
        }
    }
}

/// What is sent. Whole frames, one at a time.
pub struct LinkWriter {
    writing: Mutex<Outlet>,
    /// The same socket, to end it while somebody writes.
    shutdown: TcpStream,
    is_encrypted: bool,
}

impl LinkWriter {
    /// Sends a frame.
    ///
    /// # Errors
    /// The system's; the link is closed.
    pub fn send(&self, frame: &[u8]) -> io::Result<()> {
        let mut outlet = self.lock();
        self.closing(outlet.send(frame))
    }

    /// Sends a frame if that needs no wait; false while another is being sent, or what was sent
    /// before fills the socket. For frames that are much smaller than a socket's buffer.
    ///
    /// # Errors
    /// The system's; the link is closed.
    pub fn try_send(&self, frame: &[u8]) -> io::Result<bool> {
        match self.writing.try_lock() {
            Ok(mut outlet) => {
                let takes_more = self.closing(takes_more(&outlet.stream))?;
                if takes_more {
                    self.closing(outlet.send(frame))?;
                }
                Ok(takes_more)
            }
            Err(TryLockError::WouldBlock) => Ok(false),
            Err(TryLockError::Poisoned(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    /// Sends a frame and the `len` bytes of `file` from `offset`, which the kernel takes from its
    /// page cache, unless the link is encrypted.
    ///
    /// # Errors
    /// The system's; the link is closed.
    pub fn send_file(&self, frame: &[u8], file: &File, offset: u64, len: u64) -> io::Result<()> {
        let mut outlet = self.lock();
        self.closing(outlet.send_file(frame, file, offset, len))
    }

    /// True if what is sent is encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.is_encrypted
    }

    /// Ends the link; both sides notice.
    pub fn close(&self) {
        let _ = self.shutdown.shutdown(Shutdown::Both);
    }

    fn lock(&self) -> MutexGuard<'_, Outlet> {
        self.writing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A part of a frame may have been sent, so no later one could be understood.
    fn closing<T>(&self, sent: io::Result<T>) -> io::Result<T> {
        sent.inspect_err(|_| self.close())
    }
}

impl fmt::Debug for LinkWriter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LinkWriter").finish_non_exhaustive()
    }
}

/// True while a third of the socket's buffer is free, at least.
fn takes_more(stream: &TcpStream) -> io::Result<bool> {
    let mut fds = [PollFd::new(stream, PollFlags::OUT)];
    match poll(&mut fds, Some(&Timespec::default())) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

fn send_file(
    stream: &TcpStream,
    mut frame: &[u8],
    file: &File,
    offset: u64,
    len: u64,
) -> io::Result<()> {
    while !frame.is_empty() {
        // More follows: header and first bytes share a packet.
        match rustix::net::send(stream, frame, SendFlags::MORE | SendFlags::NOSIGNAL) {
            Ok(sent) => frame = &frame[sent..],
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let (mut at, end) = (offset, offset + len);
    while at < end {
        let left = usize::try_from(end - at).unwrap_or(usize::MAX);
        match rustix::fs::sendfile(stream, file, Some(&mut at), left) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[test]
    fn what_is_tried_waits_neither_for_the_socket_nor_for_another() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let here = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (mut there, _) = listener.accept().unwrap();
        let (_reader, writer) = split(here, None, Duration::from_secs(60)).unwrap();
        let frame = [7; 1000];
        let mut sent = 0;
        while writer.try_send(&frame).unwrap() {
            sent += frame.len();
        }
        let mut taken = vec![0; sent];
        there.read_exact(&mut taken).unwrap();
        assert!(taken.iter().all(|byte| *byte == 7));
        let busy = writer.lock();
        assert!(!writer.try_send(&frame).unwrap(), "another is being sent");
        drop(busy);
        // The room of what was read comes back when the other side has said so.
        while !writer.try_send(&frame).unwrap() {
            std::thread::yield_now();
        }
    }
}
