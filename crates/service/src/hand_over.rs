//! A reply with bytes that are on their way to the device.

use std::io::{self, IoSlice, Write};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};

use crate::peers::Handed;

/// How long the bytes stay unwritten for a client that does not take them: others may wait for
/// the blocks.
const PATIENCE: Duration = Duration::from_millis(2);

/// Sends the reply and the bytes behind it, and writes them to the device: once the client has
/// them, or before, if it takes its time.
pub(crate) fn hand_over(stream: &UnixStream, reply: &[u8], handed: &Handed) -> io::Result<()> {
    let mut slices = vec![IoSlice::new(reply)];
    slices.extend(handed.slices());
    let mut rest = &mut slices[..];
    let promptly = send_promptly(stream, &mut rest);
    if promptly.is_ok() && !rest.is_empty() {
        handed.land();
        while !rest.is_empty() {
            match (&*stream).write_vectored(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => IoSlice::advance_slices(&mut rest, sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }
    handed.land();
    promptly
}

/// Sends as much as the client takes without a pause.
fn send_promptly(stream: &UnixStream, rest: &mut &mut [IoSlice<'_>]) -> io::Result<()> {
    let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
    while !rest.is_empty() {
        match sendmsg(stream, rest, &mut SendAncillaryBuffer::default(), flags) {
            Ok(sent) => IoSlice::advance_slices(rest, sent),
            Err(Errno::AGAIN) if !takes_more(stream)? => return Ok(()),
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

fn takes_more(stream: &UnixStream) -> io::Result<bool> {
    let mut fds = [PollFd::new(stream, PollFlags::OUT)];
    let limit = Timespec::try_from(PATIENCE).ok();
    match poll(&mut fds, limit.as_ref()) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
